//! The sample computation as a graph, and what a capture refuses.

use lockstep_kernels::Device;
use lockstep_kernels::cuda::{Cuda, CudaBuffer, CudaError, Graph};
use lockstep_tests::sample::{INDICES, Outcome, Sample};
use serde_json::{Value, json};

/// Captures, replays, overwrites, replays; what came of each, and of what is refused.
pub(crate) fn run(cuda: &mut Cuda) -> Result<Value, CudaError> {
    let mut sample = Sample::upload(cuda, INDICES[0])?;
    let graph = cuda.capture(|cuda| sample.run(cuda))?;
    let captured = sample.outputs.outcome(cuda)?;
    cuda.replay(&graph)?;
    let replayed = sample.outputs.outcome(cuda)?;
    cuda.overwrite(&mut sample.indices, &INDICES[1])?;
    cuda.replay(&graph)?;
    let overwritten = sample.outputs.outcome(cuda)?;
    let refused = refused(cuda, &mut sample, &graph)?;
    let raw = cuda.capture(|cuda| synchronise(cuda)).err().map(|error| error.to_string());
    cuda.replay(&graph)?;
    let after_refusals = sample.outputs.outcome(cuda)?;
    let empty = cuda.capture(|_| Ok::<(), CudaError>(())).err().map(|error| error.to_string());
    Ok(json!({
        "captured": captured,
        "replayed": replayed,
        "overwritten": overwritten,
        "refused": refused,
        "raw": raw,
        "after_refusals": after_refusals,
        "empty": empty,
        "buffers_dropped": buffers_dropped(cuda)?,
    }))
}

/// The outcome of a graph whose inputs nobody else has any more.
fn buffers_dropped(cuda: &mut Cuda) -> Result<Outcome, CudaError> {
    let (graph, outputs) = {
        let mut sample = Sample::upload(cuda, INDICES[1])?;
        let graph = cuda.capture(|cuda| sample.run(cuda))?;
        (graph, sample.outputs)
    };
    cuda.replay(&graph)?;
    outputs.outcome(cuda)
}

/// What is refused while a graph is captured.
fn refused(
    cuda: &mut Cuda,
    sample: &mut Sample<CudaBuffer>,
    graph: &Graph,
) -> Result<Vec<String>, CudaError> {
    let mut refused = Vec::new();
    cuda.capture(|cuda| {
        let errors = [
            cuda.upload(&[0u32]).err(),
            cuda.download::<u32>(&sample.indices).err(),
            cuda.overwrite(&mut sample.indices, &INDICES[0]).err(),
            cuda.fence().err(),
            cuda.capture(|_| Ok::<(), CudaError>(())).err(),
            cuda.replay(graph).err(),
        ];
        refused.extend(errors.into_iter().flatten().map(|error| error.to_string()));
        sample.run(cuda)
    })?;
    Ok(refused)
}

/// What no capture allows, asked of the driver itself.
fn synchronise(cuda: &Cuda) -> Result<(), CudaError> {
    cuda.stream().synchronize().map_err(|cause| CudaError::Driver { action: "wait", cause })
}
