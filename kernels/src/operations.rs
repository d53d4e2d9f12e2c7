//! The operations of a forward pass, each a plain structure of its buffers and sizes that becomes a checked call.
//!
//! Reading order is that of a forward pass: [`rows`], [`matmul`], [`paged`], [`attention`], [`choice`]. Activations are
//! `f32`; a weight's or cache's type picks the entry point. Sizes are numbers of elements, all buffers are dense.

pub mod attention;
pub mod choice;
pub mod matmul;
pub mod paged;
pub mod rows;

use crate::call::{Buffer, Call, CallError};

/// What a device can be asked to do.
pub trait Operation<'a, B: Buffer> {
    /// The call of the kernel that does it, with its arguments checked.
    ///
    /// # Errors
    /// If a buffer's type or length does not fit the sizes, a size is 0, or no launch covers them.
    fn call(self) -> Result<Call<'a, B>, CallError>;
}
