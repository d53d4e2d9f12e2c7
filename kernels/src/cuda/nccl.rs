//! NCCL's handle of a communicator, and its calls. Non-blocking: a call may answer that it is in progress.
//!
//! NCCL lets one thread at a time call a communicator, and any thread abort it. A lock serialises all of them; it is never
//! held while something is waited for, so that an abort gets in.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{self, ncclResult_t};

/// `NCCL_API_MAGIC` of nccl.h.
const MAGIC: u32 = 0xcafe_beef;
/// The version of the header that cudarc's structure is from; a library reads as much of it as it knows.
const HEADER_VERSION: u32 = 23_000;
/// `NCCL_CONFIG_UNDEF_INT`.
const UNDEFINED: c_int = c_int::MIN;

/// What a call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    InProgress,
}

/// Why a call was not made, or what NCCL has against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The communicator was aborted or finished.
    Gone,
    /// NCCL's code and, if it has one, its explanation.
    Refused(String),
}

/// A communicator's handle, until it is taken to be aborted or destroyed.
#[derive(Debug)]
pub(super) struct Handle(Mutex<Option<Raw>>);

/// NCCL's pointer.
#[derive(Debug)]
pub(super) struct Raw(sys::ncclComm_t);

// SAFETY: NCCL binds a communicator to a device, not to a thread; calls are serialised by the lock that holds the pointer.
unsafe impl Send for Raw {}

/// A communicator that nobody takes meanwhile.
#[derive(Debug)]
pub(super) struct Held<'a>(#[expect(dead_code, reason = "it is held")] MutexGuard<'a, Option<Raw>>);

/// A fresh group's id.
pub(super) fn unique_id() -> Result<[u8; 128], Trouble> {
    let mut id = sys::ncclUniqueId { internal: [0; 128] };
    // SAFETY: the library is present, as its user has checked, and writes into `id` alone.
    judge(unsafe { sys::ncclGetUniqueId(&raw mut id) }, ptr::null_mut())?;
    Ok(id.internal.map(|character| character.to_ne_bytes()[0]))
}

impl Handle {
    /// Starts to join a group, with the device of the context that is current. The group may not be there yet.
    pub(super) fn join(id: &[u8; 128], rank: c_int, size: c_int) -> Result<Self, Trouble> {
        let id = sys::ncclUniqueId { internal: id.map(|byte| c_char::from_ne_bytes([byte])) };
        let mut configuration = non_blocking();
        let mut handle = ptr::null_mut();
        // SAFETY: the library is present, as its user has checked; the pointers are of values that outlive the call.
        let result =
            unsafe { sys::ncclCommInitRankConfig(&raw mut handle, size, id, rank, &raw mut configuration) };
        judge(result, handle)?;
        Ok(Self(Mutex::new(Some(Raw(handle)))))
    }

    /// Makes a call.
    pub(super) fn call(&self, call: impl FnOnce(sys::ncclComm_t) -> ncclResult_t) -> Result<Answer, Trouble> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let raw = held.as_ref().ok_or(Trouble::Gone)?;
        judge(call(raw.0), raw.0)
    }

    /// Whether all calls before are done, or what has failed since the last question.
    pub(super) fn state(&self) -> Result<Answer, Trouble> {
        let mut state = ncclResult_t::ncclSuccess;
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let raw = held.as_ref().ok_or(Trouble::Gone)?;
        // SAFETY: the communicator is alive, since nobody has taken it, and the answer goes into `state`.
        judge(unsafe { sys::ncclCommGetAsyncError(raw.0, &raw mut state) }, raw.0)?;
        judge(state, raw.0)
    }

    /// Keeps others from taking or calling it.
    pub(super) fn hold(&self) -> Result<Held<'_>, Trouble> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() { Ok(Held(held)) } else { Err(Trouble::Gone) }
    }

    /// Takes the communicator from everybody else; `Ok(None)` if it is gone, an error if another call keeps it too long.
    pub(super) fn take(&self, patience: Duration) -> Result<Option<Raw>, ()> {
        let start = Instant::now();
        loop {
            if let Ok(mut held) = self.0.try_lock() {
                return Ok(held.take());
            }
            if start.elapsed() > patience {
                return Err(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Raw {
    /// Ends its collectives, wherever they are, and frees it. May take long, or for ever.
    pub(super) fn abort(self) -> Result<(), Trouble> {
        // SAFETY: the pointer is NCCL's, and nobody else has it any more.
        judge(unsafe { sys::ncclCommAbort(self.0) }, ptr::null_mut()).map(drop)
    }

    /// Frees it, after it has been finalised.
    pub(super) fn destroy(self) -> Result<(), Trouble> {
        // SAFETY: as in `abort`.
        judge(unsafe { sys::ncclCommDestroy(self.0) }, ptr::null_mut()).map(drop)
    }
}

/// `NCCL_CONFIG_INITIALIZER`, with `blocking = 0`.
fn non_blocking() -> sys::ncclConfig_t {
    sys::ncclConfig_t {
        size: size_of::<sys::ncclConfig_t>(),
        magic: MAGIC,
        version: HEADER_VERSION,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}

fn judge(result: ncclResult_t, handle: sys::ncclComm_t) -> Result<Answer, Trouble> {
    use ncclResult_t::{
        ncclInProgress, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage, ncclNumResults,
        ncclRemoteError, ncclSuccess, ncclSystemError, ncclTimeout, ncclUnhandledCudaError,
    };
    match result {
        ncclSuccess => Ok(Answer::Done),
        ncclInProgress => Ok(Answer::InProgress),
        ncclUnhandledCudaError
        | ncclSystemError
        | ncclInternalError
        | ncclInvalidArgument
        | ncclInvalidUsage
        | ncclRemoteError
        | ncclTimeout
        | ncclNumResults => Err(Trouble::Refused(format!("{result:?}{}", explanation(handle)))),
    }
}

/// NCCL's words for its last error, after a colon; empty if it has none.
fn explanation(handle: sys::ncclComm_t) -> String {
    // SAFETY: NCCL takes null, and answers null or a string that lives until its next call, which the lock excludes.
    let words = unsafe { sys::ncclGetLastError(handle).as_ref().map(|first| CStr::from_ptr(first)) };
    let words = words.map(CStr::to_string_lossy).unwrap_or_default();
    if words.trim().is_empty() { String::new() } else { format!(": {}", words.trim()) }
}
