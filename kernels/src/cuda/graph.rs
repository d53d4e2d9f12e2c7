//! Graphs: a sequence of operations and collectives that is captured once and replayed with one call; and fences.
//!
//! A graph names its buffers, not their content: a replay computes with what they hold then. So what differs from one step
//! to the next (tokens, positions, page lists) is [overwritten](crate::Device::overwrite) in place before each replay.

use std::time::Duration;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaGraph};

use super::device::{Cuda, CudaError, refused};
use super::lane::Captured;
use crate::group::{Captures, GroupTrouble};

/// What was captured. It keeps its buffers; drop it before the communicators whose collectives it has are finished.
pub struct Graph {
    graph: CudaGraph,
    // After the graph, which uses the buffers.
    captured: Captured,
}

// SAFETY: the driver binds a graph to no thread; it only must not be used by two at a time, and `Graph` is not `Sync`.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("captured", &self.captured).finish_non_exhaustive()
    }
}

/// A place in a device's queue, and when the device came to it.
#[derive(Debug)]
pub struct Fence(CudaEvent);

impl Cuda {
    /// Captures what `record` asks of the device, without running it. Uploads, downloads and waits are refused meanwhile.
    ///
    /// # Errors
    /// What `record` ends with, or what the driver has against the capture.
    pub fn capture<E: From<CudaError>>(
        &mut self,
        record: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<Graph, E> {
        self.begin_capture()?;
        let recorded = record(self);
        let graph = self.end_capture();
        recorded?;
        Ok(graph?)
    }

    /// Enqueues everything that a graph has.
    ///
    /// # Errors
    /// If a communicator of it was aborted or has failed, or the driver refuses.
    pub fn replay(&mut self, graph: &Graph) -> Result<(), CudaError> {
        self.refuse_in_capture("replay a graph")?;
        let collectives = &graph.captured.collectives;
        // Held until the launch is made, so that no watchdog aborts a communicator between its check and its use.
        let held = collectives.iter().map(|one| one.watch.hold()).collect::<Result<Vec<_>, _>>()?;
        graph.graph.launch().map_err(refused("launch a graph"))?;
        drop(held);
        collectives.iter().for_each(|one| one.watch.note_entered(one.count));
        Ok(())
    }

    /// A fence behind all that the device has been asked so far.
    ///
    /// # Errors
    /// If the driver makes none.
    pub fn fence(&self) -> Result<Fence, CudaError> {
        self.refuse_in_capture("set a fence")?;
        let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
        self.stream().record_event(timed).map(Fence).map_err(refused("set a fence"))
    }

    /// Moves a fence behind all that the device has been asked so far.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn renew(&self, fence: &mut Fence) -> Result<(), CudaError> {
        self.refuse_in_capture("set a fence")?;
        fence.0.record(self.stream()).map_err(refused("set a fence"))
    }
}

impl Captures for Cuda {
    type Graph = Graph;

    fn begin_capture(&mut self) -> Result<(), CudaError> {
        // Other threads may do what this one must not: NCCL's own set up what its first collectives need.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.refuse_in_capture("capture a graph")?;
        self.stream().begin_capture(mode).map_err(refused("begin to capture a graph"))?;
        self.lane.open();
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Graph, CudaError> {
        let graph = self.stream().end_capture(CUgraphInstantiate_flags(0));
        let captured = self.lane.close();
        let graph = graph.map_err(refused("capture a graph"))?.filter(|_| !captured.is_empty());
        Ok(Graph { graph: graph.ok_or(CudaError::EmptyGraph)?, captured })
    }

    fn replay(&mut self, graph: &Graph) -> Result<(), GroupTrouble> {
        match Self::replay(self, graph) {
            Ok(()) => Ok(()),
            Err(CudaError::Group(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Fence {
    /// Whether the device has come to it; does not wait.
    ///
    /// # Errors
    /// What the device failed with.
    pub fn reached(&self) -> Result<bool, CudaError> {
        self.0.try_is_complete().map_err(refused("run what was enqueued"))
    }

    /// How long the device took from another fence to this one, by its own clock; `None` until it has come to both. Does not wait.
    ///
    /// # Errors
    /// What the device failed with, or that the fences are of two devices.
    pub fn since(&self, earlier: &Self) -> Result<Option<Duration>, CudaError> {
        if !(earlier.reached()? && self.reached()?) {
            return Ok(None);
        }
        let millis = earlier.0.elapsed_ms(&self.0).map_err(refused("time what it ran"))?;
        Ok(Some(Duration::try_from_secs_f32(millis / 1e3).unwrap_or_default()))
    }
}
