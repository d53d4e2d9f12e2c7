//! One rank's process: its start, its output under its name, its end.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::say;
use crate::wire::RankName;

/// Longest line of a rank's output that is passed on in one piece, in bytes.
const OUTPUT_LINE_BYTES: usize = 8 * 1024;

/// Longest wait for the rest of the output of a process that has ended: what it started itself may hold the pipe.
const OUTPUT_DEADLINE: Duration = Duration::from_millis(500);

/// How a rank's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As the system says of a child.
    Child { pid: u32, status: Option<ExitStatus> },
    /// Out of sight: all that is known of another's child is that its line has ended.
    Unlinked,
}

impl Exit {
    /// Whether it is fine for one that was asked to leave.
    pub(crate) fn is_clean(&self) -> bool {
        match self {
            Self::Child { status, .. } => status.is_some_and(|status| status.success()),
            Self::Unlinked => true,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self::Child { pid, status } = self else {
            return formatter.write_str("closed its line to the front end");
        };
        match (status.and_then(|status| status.code()), status.and_then(|status| status.signal())) {
            (Some(code), _) => write!(formatter, "(pid {pid}) exited with code {code}"),
            (None, Some(signal)) => write!(formatter, "(pid {pid}) was killed by signal {signal}"),
            (None, None) => write!(formatter, "(pid {pid}) ended in an unknown way"),
        }
    }
}

/// A started rank, not yet waited for.
#[derive(Debug)]
pub(crate) struct RankProcess {
    pub(crate) name: RankName,
    pub(crate) pid: u32,
    /// Notified once, it kills the process.
    pub(crate) kill: Arc<Notify>,
    child: Child,
}

impl RankProcess {
    /// Starts `program` with `arguments` as this rank.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn start(name: RankName, program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C is the front end's to handle: it asks the ranks to leave.
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { name, pid, kill: Arc::new(Notify::new()), child })
    }

    /// Passes its output on, and waits for its end.
    pub(crate) async fn run(mut self) -> Exit {
        let output = relay(self.name, self.child.stdout.take());
        let errors = relay(self.name, self.child.stderr.take());
        let relays = async { tokio::join!(output, errors) };
        tokio::pin!(relays);
        let mut open = true;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status,
                () = self.kill.notified() => { self.child.start_kill().ok(); }
                _ = relays.as_mut(), if open => open = false,
            }
        };
        if open {
            timeout(OUTPUT_DEADLINE, relays).await.ok();
        }
        Exit::Child { pid: self.pid, status: status.ok() }
    }
}

/// Whether the process is stopped by a signal (`T` in its `stat`). One that a debugger holds between two steps (`t`) is not: whoever traces a
/// rank makes it slow.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, which comes before the state, may itself hold spaces and parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

async fn relay(name: RankName, source: Option<impl AsyncRead + Unpin>) {
    let Some(mut source) = source else { return };
    let mut pending = Vec::with_capacity(OUTPUT_LINE_BYTES);
    while source.read_buf(&mut pending).await.is_ok_and(|length| length > 0) {
        pass_on_lines(name, &mut pending);
    }
    if !pending.is_empty() {
        say_as(name, &pending);
    }
}

fn pass_on_lines(name: RankName, pending: &mut Vec<u8>) {
    while let Some(end) = pending.iter().position(|&byte| byte == b'\n') {
        say_as(name, &pending[..end]);
        pending.drain(..=end);
    }
    if pending.len() >= OUTPUT_LINE_BYTES {
        say_as(name, pending);
        pending.clear();
    }
}

fn say_as(name: RankName, line: &[u8]) {
    say(&format!("[{} {}] {}", name.role, name.rank, String::from_utf8_lossy(line)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Role;
    use rustix::process::{Pid, Signal, kill_process};

    const NAME: RankName = RankName { role: Role::Decode, rank: 1 };

    async fn exit_of(script: &str) -> Exit {
        let arguments = [OsString::from("-c"), script.into()];
        RankProcess::start(NAME, Path::new("/bin/sh"), &arguments).unwrap().run().await
    }

    #[tokio::test]
    async fn process_end_is_told_by_code_or_signal() {
        assert!(exit_of("exit 0").await.is_clean());
        let failed = exit_of("exit 3").await;
        assert!(!failed.is_clean());
        assert!(failed.to_string().ends_with("exited with code 3"), "{failed}");
        let killed = exit_of("kill -9 $$").await;
        assert!(killed.to_string().ends_with("was killed by signal 9"), "{killed}");
    }

    #[tokio::test]
    async fn process_is_killed_on_notice() {
        let arguments = [OsString::from("60")];
        let process = RankProcess::start(NAME, Path::new("/bin/sleep"), &arguments).unwrap();
        process.kill.notify_one();
        let exit = timeout(Duration::from_secs(5), process.run()).await.unwrap();
        assert!(exit.to_string().ends_with("was killed by signal 9"), "{exit}");
    }

    #[tokio::test]
    async fn process_that_is_stopped_is_told_from_one_that_sleeps() {
        let arguments = [OsString::from("60")];
        let process = RankProcess::start(NAME, Path::new("/bin/sleep"), &arguments).unwrap();
        let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
        assert!(!is_stopped(process.pid));
        kill_process(pid, Signal::STOP).unwrap();
        let stops = async {
            while !is_stopped(process.pid) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(5), stops).await.unwrap();
        process.kill.notify_one();
        process.run().await;
    }

    #[tokio::test]
    async fn process_end_does_not_wait_for_a_held_pipe() {
        let exit = timeout(Duration::from_secs(5), exit_of("sleep 30 & exit 0")).await.unwrap();
        assert!(exit.is_clean());
    }
}
