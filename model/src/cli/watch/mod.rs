//! Looking on while a run goes: how much memory is left, and what a person sees meanwhile.
//!
//! The explorer calls [`Watch`] between two blocks of its frontier; it reads the machine and the terminal, which the explorer does not.

mod memory;
mod meter;
mod stop;

pub(crate) use memory::{Bytes, Machine, MemoryLimit};
pub(crate) use meter::Display;
pub(crate) use stop::Stop;

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::explore::{Observer, Pulse, Unknown};
use crate::report::grouped;
use crate::screen::tell;

use memory::Memory;
use meter::{Meter, Reading};

/// Time between two looks at the machine's memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks on while one run goes.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: Option<MemoryLimit>,
    recorded: Option<u64>,
    stop: Stop,
    looked: Mutex<Looked>,
}

#[derive(Debug)]
struct Looked {
    meter: Meter,
    next: Duration,
    /// Whether it was told that memory is near its end.
    warned: bool,
    first: Option<u64>,
    resident: Option<u64>,
}

impl Watch {
    /// A watch over the run called `name`, of which so many states are recorded.
    pub(crate) fn new(
        name: &str,
        recorded: Option<u64>,
        limit: Option<MemoryLimit>,
        display: Display,
    ) -> Self {
        let meter = Meter::new(name, display);
        let looked = Looked { meter, next: Duration::ZERO, warned: false, first: None, resident: None };
        Self { limit, recorded, stop: Stop::default(), looked: Mutex::new(looked) }
    }

    /// The watch that ends the run when `stop` asks for it.
    pub(crate) fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Takes away what is drawn on the terminal.
    pub(crate) fn clear(&self) {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).meter.clear();
    }

    /// Bytes by which the process grew while the run went, as far as was seen.
    pub(crate) fn grown(&self) -> Option<u64> {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        Some(looked.resident?.saturating_sub(looked.first?))
    }

    fn look(&self, looked: &mut Looked, pulse: &Pulse<'_>) -> ControlFlow<Unknown> {
        looked.next = pulse.elapsed + LOOK_EVERY;
        let Some(limit) = &self.limit else { return ControlFlow::Continue(()) };
        let Some(memory) = limit.machine.memory() else { return ControlFlow::Continue(()) };
        looked.first.get_or_insert(memory.resident);
        looked.resident = Some(memory.resident);
        if limit.is_spent(&memory, pulse.ahead) {
            return ControlFlow::Break(Unknown::Memory);
        }
        if !looked.warned && limit.is_near(&memory, pulse.ahead) {
            looked.warned = true;
            looked.meter.clear();
            tell(format_args!("{}", warning(&memory, pulse.ahead, limit)));
        }
        ControlFlow::Continue(())
    }
}

/// That memory will end, before it does.
fn warning(memory: &Memory, ahead: u64, limit: &MemoryLimit) -> String {
    let [taken, end] =
        [memory.resident.saturating_add(ahead), limit.end(memory)].map(|bytes| grouped(bytes >> 20));
    format!("memory: {taken} MiB of {end} MiB; the run stops politely at {end} MiB")
}

impl Observer for Watch {
    fn observe(&self, pulse: &Pulse<'_>) -> ControlFlow<Unknown> {
        if self.stop.is_asked() {
            return ControlFlow::Break(Unknown::Stopped);
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if pulse.elapsed >= looked.next {
            self.look(&mut looked, pulse)?;
        }
        let resident = looked.resident;
        looked.meter.show(&Reading { pulse, resident, recorded: self.recorded });
        ControlFlow::Continue(())
    }
}
