//! The `lockstep` program around a mock rank: real processes, sockets and HTTP, and a "model" that repeats its prompt.
//!
//! Only for tests. `MOCK_LOG` names a file for what the ranks are told; `MOCK_MILLIS` shortens the supervisor's deadlines. A file
//! `hold` in the model's directory keeps ranks from getting ready, a file `refuse` makes them fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on ends here")]

mod bytes;
mod decode;
mod peers;
mod rank;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockstep_runtime::frontend::{TextCodec, TextError};
use lockstep_runtime::launch::{Parts, run};
use lockstep_runtime::proved::Class;
use lockstep_runtime::supervisor::Limits;

fn main() -> ExitCode {
    run(&Parts { rank: rank::run, enlisted: rank::run_enlisted, codec, statement, limits: limits() })
}

fn codec(_model: &Path) -> Result<Arc<dyn TextCodec>, TextError> {
    Ok(Arc::new(bytes::Bytes))
}

fn statement(class: &Class) -> String {
    format!(
        "proved for {} in {} mode at {} ranks: nothing, this is a mock",
        class.role,
        class.mode.name(),
        class.ranks
    )
}

fn limits() -> Limits {
    let Some(millis) = std::env::var("MOCK_MILLIS").ok().and_then(|text| text.parse().ok()) else {
        return Limits::default();
    };
    let short = Duration::from_millis(millis);
    Limits {
        start: Duration::from_secs(10),
        grace: short,
        leave: short,
        silence: short,
        stall: short / 2,
        ..Limits::default()
    }
}
