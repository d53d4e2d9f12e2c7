//! Processes of `device-rank`.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use lockstep_tests::server::output;
use lockstep_tests::standin::Standin;

pub(crate) fn cache() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The stand-ins, built once.
pub(crate) fn standin() -> &'static Standin {
    static STANDIN: OnceLock<Standin> = OnceLock::new();
    STANDIN.get_or_init(|| Standin::whole(cache()))
}

pub(crate) fn device_rank(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device-rank"));
    command.args(words);
    command
}

/// Exit code, answer and errors of a `device-rank` with one device.
pub(crate) fn run(words: &[&str]) -> (i32, String, String) {
    output(standin().lend(&mut device_rank(words), 1))
}
