//! A device: memory for buffers, and an order in which it runs calls. Implemented by the CPU and by CUDA.

use std::error::Error;

use crate::call::{Buffer, Call, CallError};
use crate::element::{Element, Plain, bytes_of};
use crate::operations::Operation;

/// Every byte of a buffer that nothing has written.
pub(crate) const UNWRITTEN: u8 = 0xFF;

/// Runs operations, one after another in the order they are given.
pub trait Device {
    /// Its memory.
    type Buffer: Buffer;
    /// Why it refuses, or fails.
    type Error: From<CallError> + Error + Send + Sync + 'static;

    /// A buffer with the given content, little-endian elements.
    ///
    /// # Errors
    /// If the bytes are not whole elements, or there is no memory.
    fn upload_bytes(&mut self, element: Element, bytes: &[u8]) -> Result<Self::Buffer, Self::Error>;

    /// A buffer of `length` elements that nothing has written: all ones, a NaN in every floating-point type.
    ///
    /// # Errors
    /// If there is no memory.
    fn unwritten(&mut self, element: Element, length: u64) -> Result<Self::Buffer, Self::Error>;

    /// Makes a buffer hold `length` elements of unknown content. Takes memory only if it never had room for as many.
    ///
    /// # Errors
    /// If there is no memory.
    fn resize(&mut self, buffer: &mut Self::Buffer, length: u64) -> Result<(), Self::Error>;

    /// Replaces a buffer's content, behind what the device has been asked before.
    ///
    /// # Errors
    /// If the bytes are not as many, or of another type.
    fn overwrite_bytes(
        &mut self,
        buffer: &mut Self::Buffer,
        element: Element,
        bytes: &[u8],
    ) -> Result<(), Self::Error>;

    /// Bytes for which there is room, where that is less than the host's memory.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// The content of a buffer, once every operation before has run.
    ///
    /// # Errors
    /// If an operation before failed.
    fn download_bytes(&mut self, buffer: &Self::Buffer) -> Result<Vec<u8>, Self::Error>;

    /// Runs a call, now or later but in order.
    ///
    /// # Errors
    /// If the device refuses it.
    fn launch(&mut self, call: Call<'_, Self::Buffer>) -> Result<(), Self::Error>;

    /// Runs an operation.
    ///
    /// # Errors
    /// If its arguments do not fit one another, or the device refuses it.
    fn run<'a>(&mut self, operation: impl Operation<'a, Self::Buffer>) -> Result<(), Self::Error>
    where
        Self::Buffer: 'a,
    {
        let call = operation.call()?;
        self.launch(call)
    }

    /// A buffer of values.
    ///
    /// # Errors
    /// If there is no memory.
    fn upload<T: Plain>(&mut self, values: &[T]) -> Result<Self::Buffer, Self::Error> {
        self.upload_bytes(T::ELEMENT, &bytes_of(values))
    }

    /// Replaces a buffer's values, likewise.
    ///
    /// # Errors
    /// As [`overwrite_bytes`](Self::overwrite_bytes).
    fn overwrite<T: Plain>(&mut self, buffer: &mut Self::Buffer, values: &[T]) -> Result<(), Self::Error> {
        self.overwrite_bytes(buffer, T::ELEMENT, &bytes_of(values))
    }

    /// The values of a buffer, once every operation before has run.
    ///
    /// # Errors
    /// If the buffer has elements of another type, or an operation before failed.
    fn download<T: Plain>(&mut self, buffer: &Self::Buffer) -> Result<Vec<T>, Self::Error> {
        if buffer.element() != T::ELEMENT {
            return Err(CallError::OTHER_VALUES.into());
        }
        Ok(T::all_of(&self.download_bytes(buffer)?))
    }
}
