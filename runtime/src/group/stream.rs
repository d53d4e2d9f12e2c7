//! What the mesh needs of a stream socket, of either kind.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

/// Silence of a connection after which the kernel asks whether the other end is there, and the interval at which it asks again.
const PROBE: Duration = Duration::from_secs(1);
/// Questions without an answer after which a connection is at its end: with `PROBE` less than any collective waits.
const PROBES: u32 = 3;
/// Milliseconds that bytes, or a question, may go unanswered: less than a collective waits for a peer.
const UNACKNOWLEDGED_MS: u32 = 4000;

/// A connected socket.
pub trait Stream: Read + Write + Debug + Send + Sized + 'static {
    /// Sets what this kind of socket needs to be prompt and to notice that the other end is unreachable.
    ///
    /// # Errors
    /// The system's reason; so for all that follow.
    fn prepare(&self) -> io::Result<()>;
    /// Another handle to the same socket.
    fn duplicate(&self) -> io::Result<Self>;
    /// Whether calls return rather than wait.
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    /// Longest wait of a write.
    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()>;
    /// Ends both directions; what was sent still arrives.
    fn end(&self) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn duplicate(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Self::set_nonblocking(self, nonblocking)
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        Self::set_write_timeout(self, Some(timeout))
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

impl Stream for TcpStream {
    fn prepare(&self) -> io::Result<()> {
        self.set_nodelay(true)?;
        sockopt::set_socket_keepalive(self, true)?;
        sockopt::set_tcp_keepidle(self, PROBE)?;
        sockopt::set_tcp_keepintvl(self, PROBE)?;
        sockopt::set_tcp_keepcnt(self, PROBES)?;
        Ok(sockopt::set_tcp_user_timeout(self, UNACKNOWLEDGED_MS)?)
    }

    fn duplicate(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Self::set_nonblocking(self, nonblocking)
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        Self::set_write_timeout(self, Some(timeout))
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}
