//! A group's communicator: collectives of the ranks' buffers, enqueued on the stream of a [`Cuda`].
//!
//! ```text
//! rank's thread:  join ─▶ all_reduce ─▶ ... ─▶ wait ─▶ all_reduce ─▶ ... ─▶ finish
//!                              │                 │ too long: Stuck, names the collective
//! watchdog:                 entered              └──▶ abort ◀── or from here, when the rank's thread cannot
//! ```
//!
//! A collective returns at once; a peer that does not enter it makes the stream hang, and nothing but an abort frees it.
//! So everything that waits has a deadline, and [`Watch`] lets any other thread abort. cudarc's own communicator can do none
//! of this, and is bound to its thread.

mod error;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaEvent, DriverError};
use cudarc::nccl::sys::{self, ncclDataType_t, ncclRedOp_t, ncclResult_t};

use super::available::collectives_available;
use super::device::{Cuda, CudaBuffer};
use super::lane::Lane;
use super::nccl::{self, Answer, Handle, Held, Raw, Trouble};
use crate::call::Buffer;
use crate::element::Element;
use crate::group::Reduction;

pub use error::{CommunicatorError, Member};

/// How long a communicator that is dropped may take to abort.
const DROP_PATIENCE: Duration = Duration::from_secs(2);
/// Polls that only let other threads run, before polls that sleep.
const EAGER_POLLS: u32 = 200;
/// Between polls that sleep.
const POLL_PAUSE: Duration = Duration::from_micros(50);

/// The name by which the ranks of a group find each other. One rank makes it; it must live until all have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub [u8; 128]);

impl GroupId {
    /// A fresh one.
    ///
    /// # Errors
    /// If NCCL is missing, or has no network interface to listen on.
    pub fn new() -> Result<Self, CommunicatorError> {
        collectives_available()?;
        let nobody = Member { rank: 0, size: 0 };
        nccl::unique_id().map(Self).map_err(|trouble| trouble.during(nobody, "name a group", 0))
    }
}

/// A rank's end of a communicator. It enters collectives from one thread; a [`Watch`] of it may be anywhere.
#[derive(Debug)]
pub struct Communicator {
    watch: Watch,
    lane: Arc<Lane>,
    /// Shared with the graphs that have collectives of it.
    graphs: Arc<()>,
    /// Collectives that are known to have ended.
    ended: u64,
    /// How long NCCL may be in progress with what does not wait for peers.
    patience: Duration,
}

/// What a watchdog sees of a communicator, and how it ends it.
#[derive(Clone, Debug)]
pub struct Watch {
    member: Member,
    handle: Arc<Handle>,
    entered: Arc<AtomicU64>,
}

impl Communicator {
    /// Joins a group, with a device that no other rank uses; returns when all ranks have joined.
    ///
    /// # Errors
    /// [`CommunicatorError::Late`] if they have not within `patience`, which also bounds later calls that set something up.
    pub fn join(
        cuda: &Cuda,
        id: &GroupId,
        member: Member,
        patience: Duration,
    ) -> Result<Self, CommunicatorError> {
        const ACTION: &str = "join the group";
        collectives_available()?;
        let (rank, size) = (c_int::try_from(member.rank), c_int::try_from(member.size));
        let (Ok(rank), Ok(size), true) = (rank, size, member.rank < member.size) else {
            return Err(CommunicatorError::Member { member });
        };
        let lane = Arc::clone(&cuda.lane);
        lane.stream.context().bind_to_thread().map_err(driver(member, "choose the device"))?;
        let handle = Handle::join(&id.0, rank, size).map_err(|trouble| trouble.during(member, ACTION, 0))?;
        let watch = Watch { member, handle: Arc::new(handle), entered: Arc::default() };
        let joined = Self { watch, lane, graphs: Arc::default(), ended: 0, patience };
        joined.settle(Answer::InProgress, ACTION, patience)?;
        Ok(joined)
    }

    /// Combines a buffer with those of all ranks, element by element, in place: enqueued behind what the device has been
    /// asked before. How many collectives have been entered with it; one that is captured is entered by each replay.
    ///
    /// # Errors
    /// If NCCL refuses it. That a peer does not enter it shows in [`wait`](Self::wait).
    pub fn all_reduce(
        &mut self,
        reduction: Reduction,
        buffer: &mut CudaBuffer,
    ) -> Result<u64, CommunicatorError> {
        let (element, count) = (data_type(buffer.element()), length(buffer));
        let operation = match reduction {
            Reduction::Min => ncclRedOp_t::ncclMin,
            Reduction::Sum => ncclRedOp_t::ncclSum,
        };
        self.enter("all-reduce", buffer, |memory, handle, stream| {
            // SAFETY: the communicator is alive, and `memory` is a buffer of `count` elements that lives until the stream
            // is done with it, since it is freed in the stream's order.
            unsafe { sys::ncclAllReduce(memory, memory, count, element, operation, handle, stream) }
        })
    }

    /// Gives every rank the content of `root`'s buffer: enqueued, like [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// Likewise.
    pub fn broadcast(&mut self, root: usize, buffer: &mut CudaBuffer) -> Result<u64, CommunicatorError> {
        let (element, count) = (data_type(buffer.element()), length(buffer));
        // A root that is no rank is refused by NCCL.
        let root = c_int::try_from(root).unwrap_or(c_int::MAX);
        self.enter("broadcast", buffer, |memory, handle, stream| {
            // SAFETY: as in `all_reduce`.
            unsafe { sys::ncclBroadcast(memory, memory, count, element, root, handle, stream) }
        })
    }

    /// Waits until all that was enqueued on the device, collectives and the rest, has ended.
    ///
    /// # Errors
    /// [`CommunicatorError::Stuck`] if it has not within `deadline`; [`CommunicatorError::Aborted`] if a watchdog lost
    /// patience; what NCCL or the device failed with.
    pub fn wait(&mut self, deadline: Duration) -> Result<(), CommunicatorError> {
        let Watch { member, .. } = self.watch;
        let mark = self.lane.stream.record_event(None).map_err(driver(member, "mark the stream"))?;
        let last = self.watch.entered();
        if poll(deadline, || self.reached(&mark, last))? {
            return Ok(());
        }
        let first = last.min(self.ended + 1);
        Err(CommunicatorError::Stuck { member, first, last, waited: deadline })
    }

    /// Whether the stream has come to a mark, which so many collectives were entered before; does not wait.
    pub(super) fn reached(&mut self, mark: &CudaEvent, entered: u64) -> Result<bool, CommunicatorError> {
        let Watch { member, .. } = self.watch;
        let reached = mark.try_is_complete().map_err(driver(member, "run what was enqueued"))?;
        // An abort lets the stream go on, so the question comes after the stream's end.
        self.check()?;
        if reached {
            self.ended = self.ended.max(entered);
        }
        Ok(reached)
    }

    /// Whether nothing has failed so far.
    ///
    /// # Errors
    /// What NCCL failed with, or that it was aborted.
    pub fn check(&self) -> Result<(), CommunicatorError> {
        self.watch.check()
    }

    /// Another end of it, for a thread that watches over this one.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Leaves the group in order: waits until every collective has ended, and frees what NCCL holds.
    ///
    /// # Errors
    /// If one does not end within `deadline`, or a graph is left that has one; the communicator is aborted then.
    pub fn finish(mut self, deadline: Duration) -> Result<(), CommunicatorError> {
        const ACTION: &str = "leave the group";
        let graphs = Arc::strong_count(&self.graphs) - 1;
        if graphs > 0 {
            return Err(CommunicatorError::Graphs { member: self.watch.member, graphs });
        }
        self.wait(deadline)?;
        // SAFETY: the communicator is alive while the handle's lock is held.
        let answer = self.watch.handle.call(|handle| unsafe { sys::ncclCommFinalize(handle) });
        let answer = answer.map_err(|trouble| self.watch.because(trouble, ACTION))?;
        self.settle(answer, ACTION, deadline)?;
        let taken = self.watch.handle.take(deadline).map_err(|()| self.watch.hangs(deadline))?;
        taken.map_or(Ok(()), Raw::destroy).map_err(|trouble| self.watch.because(trouble, ACTION))
    }

    fn enter(
        &mut self,
        action: &'static str,
        buffer: &mut CudaBuffer,
        call: impl FnOnce(*mut c_void, sys::ncclComm_t, sys::cudaStream_t) -> ncclResult_t,
    ) -> Result<u64, CommunicatorError> {
        let member = self.watch.member;
        let collective = self.watch.entered() + 1;
        let stream = &self.lane.stream;
        if !buffer.is_of(stream) {
            return Err(CommunicatorError::Foreign { member, collective });
        }
        stream.context().bind_to_thread().map_err(driver(member, "choose the device"))?;
        self.lane.keep(buffer.memory());
        let (address, enqueued) = buffer.address(stream);
        let pointer = stream.cu_stream().cast();
        let answer = self.watch.handle.call(|handle| call(address as *mut c_void, handle, pointer));
        let answer = answer.map_err(|trouble| self.watch.because(trouble, action))?;
        if !self.lane.keep_collective(&self.watch, &self.graphs) {
            self.watch.note_entered(1);
        }
        self.settle(answer, action, self.patience)?;
        drop(enqueued);
        Ok(self.watch.entered())
    }

    /// Waits until NCCL is no longer in progress with what it was just asked.
    fn settle(
        &self,
        answer: Answer,
        action: &'static str,
        deadline: Duration,
    ) -> Result<(), CommunicatorError> {
        let Watch { member, ref handle, .. } = self.watch;
        if answer == Answer::Done {
            return Ok(());
        }
        let done = poll(deadline, || match handle.state() {
            Ok(answer) => Ok(answer == Answer::Done),
            Err(trouble) => Err(self.watch.because(trouble, action)),
        })?;
        if done { Ok(()) } else { Err(CommunicatorError::Late { member, action, waited: deadline }) }
    }
}

/// Aborts what was not finished: a peer may hang in it.
impl Drop for Communicator {
    fn drop(&mut self) {
        // There is nobody left to tell that it does not end.
        self.watch.abort(DROP_PATIENCE).ok();
    }
}

impl Watch {
    /// The rank.
    #[must_use]
    pub fn member(&self) -> Member {
        self.member
    }

    /// Collectives entered so far.
    #[must_use]
    pub fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }

    /// Whether nothing has failed so far.
    ///
    /// # Errors
    /// What NCCL failed with, or that it was aborted.
    pub fn check(&self) -> Result<(), CommunicatorError> {
        self.handle.state().map(drop).map_err(|trouble| self.because(trouble, "go on"))
    }

    /// Ends the communicator: what hangs in a collective of it goes on, with void results. Peers are not told.
    ///
    /// # Errors
    /// [`CommunicatorError::AbortHangs`] if NCCL does not do it within `deadline`.
    pub fn abort(&self, deadline: Duration) -> Result<(), CommunicatorError> {
        let start = Instant::now();
        let Some(raw) = self.handle.take(deadline).map_err(|()| self.hangs(deadline))? else {
            return Ok(());
        };
        let (sender, receiver) = mpsc::channel();
        // A thread of its own, since NCCL's abort may hang itself; it is left behind then.
        let aborting = thread::Builder::new().name("nccl-abort".to_owned());
        let spawned = aborting.spawn(move || sender.send(raw.abort()));
        let left = deadline.saturating_sub(start.elapsed());
        match spawned.ok().and_then(|_| receiver.recv_timeout(left).ok()) {
            Some(result) => result.map_err(|trouble| self.because(trouble, "abort")),
            None => Err(self.hangs(deadline)),
        }
    }

    /// Keeps it from being aborted, for as long as it takes to enqueue a graph with its collectives.
    pub(super) fn hold(&self) -> Result<Held<'_>, CommunicatorError> {
        self.check()?;
        self.handle.hold().map_err(|trouble| self.because(trouble, "replay a graph"))
    }

    pub(super) fn note_entered(&self, collectives: u64) {
        self.entered.fetch_add(collectives, Ordering::Relaxed);
    }

    pub(super) fn is_of_the_same_communicator_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    fn because(&self, trouble: Trouble, action: &'static str) -> CommunicatorError {
        trouble.during(self.member, action, self.entered())
    }

    fn hangs(&self, waited: Duration) -> CommunicatorError {
        CommunicatorError::AbortHangs { member: self.member, waited }
    }
}

/// Asks until the answer is yes, or `deadline` is over.
pub(super) fn poll<E>(deadline: Duration, mut done: impl FnMut() -> Result<bool, E>) -> Result<bool, E> {
    let start = Instant::now();
    for polls in 0u32.. {
        if done()? {
            return Ok(true);
        }
        if start.elapsed() > deadline {
            break;
        }
        if polls < EAGER_POLLS { thread::yield_now() } else { thread::sleep(POLL_PAUSE) }
    }
    Ok(false)
}

fn data_type(element: Element) -> ncclDataType_t {
    match element {
        Element::Bf16 => ncclDataType_t::ncclBfloat16,
        Element::F16 => ncclDataType_t::ncclFloat16,
        Element::F32 => ncclDataType_t::ncclFloat32,
        Element::U32 => ncclDataType_t::ncclUint32,
        Element::U64 => ncclDataType_t::ncclUint64,
    }
}

fn length(buffer: &CudaBuffer) -> usize {
    // Memory of a device that this process addresses.
    usize::try_from(buffer.len()).unwrap_or(usize::MAX)
}

fn driver(member: Member, action: &'static str) -> impl Fn(DriverError) -> CommunicatorError {
    move |cause| CommunicatorError::Driver { member, action, cause }
}
