//! Lines for the operator. A closed standard stream is no reason to fail: there is nobody left to tell.

use std::io::Write;

/// Writes one line to standard error, whole.
pub fn say(line: &str) {
    std::io::stderr().lock().write_all(format!("{line}\n").as_bytes()).ok();
}

/// Writes one line to standard output, whole and at once.
pub fn tell(line: &str) {
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush()).ok();
}
