//! A connected stream socket of either kind: to a Unix socket and to a TCP connection the fabric does the same things.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{SendFlags, Shutdown};

use super::frame::TICK;
use crate::group::Stream;
use crate::socket::WRITE_SLICE;

/// A connection. Reads wait for a tick at most, and writes for a slice of their deadline.
#[derive(Debug)]
pub(super) struct Socket(pub(super) OwnedFd);

impl Socket {
    /// Takes a fresh connection over, and sets what makes it prompt and has it notice an end that is unreachable.
    pub(super) fn of(stream: impl Stream + Into<OwnedFd>) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.prepare()?;
        let socket = Self(stream.into());
        socket.set_timeouts(TICK, WRITE_SLICE)?;
        Ok(socket)
    }

    pub(super) fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(read))?;
        Ok(sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(write))?)
    }

    /// Ends both directions; what was sent still arrives.
    pub(super) fn end(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.0, Shutdown::Both)?)
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn socket_over_tcp_is_prompt_and_asks_whether_its_peer_lives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::of(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        assert!(sockopt::tcp_nodelay(&socket.0).unwrap());
        assert!(sockopt::socket_keepalive(&socket.0).unwrap());
        assert!(sockopt::tcp_keepidle(&socket.0).unwrap() < Duration::from_secs(10));
        assert_ne!(sockopt::tcp_user_timeout(&socket.0).unwrap(), 0, "unanswered bytes end the connection");
    }
}
