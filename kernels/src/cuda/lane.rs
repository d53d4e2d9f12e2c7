//! The one stream of a [`Cuda`](super::Cuda), and what is being captured on it.
//!
//! Operations and collectives are enqueued here. While a graph is captured they go into the graph instead, and the lane
//! remembers what the graph will touch: its buffers, which must outlive it, and the communicators that it enters.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaSlice, CudaStream};

use super::communicator::Watch;

/// A stream, and the capture on it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Arc<CudaStream>,
    captured: Mutex<Option<Captured>>,
}

/// What a graph touches.
#[derive(Debug, Default)]
pub(super) struct Captured {
    pub(super) buffers: Vec<Arc<CudaSlice<u8>>>,
    pub(super) collectives: Vec<Collectives>,
}

/// A graph's collectives of one communicator.
#[derive(Debug)]
pub(super) struct Collectives {
    pub(super) watch: Watch,
    pub(super) count: u64,
    /// Shared with the communicator, which is not to be destroyed while a graph has it.
    _graphs: Arc<()>,
}

impl Captured {
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}

impl Lane {
    pub(super) fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, captured: Mutex::new(None) }
    }

    /// Starts to remember.
    pub(super) fn open(&self) {
        self.replace(Some(Captured::default()));
    }

    /// What was remembered; nothing is from now on.
    pub(super) fn close(&self) -> Captured {
        self.replace(None).unwrap_or_default()
    }

    pub(super) fn is_capturing(&self) -> bool {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Remembers a buffer, if a graph is being captured.
    pub(super) fn keep(&self, buffer: &Arc<CudaSlice<u8>>) {
        if let Some(captured) = &mut *self.captured.lock().unwrap_or_else(PoisonError::into_inner) {
            captured.buffers.push(Arc::clone(buffer));
        }
    }

    /// Remembers a collective; whether a graph is being captured, so that it is entered later.
    pub(super) fn keep_collective(&self, watch: &Watch, graphs: &Arc<()>) -> bool {
        let mut held = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(captured) = &mut *held else {
            return false;
        };
        let same = |one: &&mut Collectives| one.watch.is_of_the_same_communicator_as(watch);
        match captured.collectives.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => captured.collectives.push(Collectives {
                watch: watch.clone(),
                count: 1,
                _graphs: Arc::clone(graphs),
            }),
        }
        true
    }

    fn replace(&self, captured: Option<Captured>) -> Option<Captured> {
        std::mem::replace(&mut *self.captured.lock().unwrap_or_else(PoisonError::into_inner), captured)
    }
}
