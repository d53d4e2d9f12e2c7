//! A way between two ends that is not always open.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::{Deployment, reserved_port};

/// How late an answer is that is late.
const LATE: Duration = Duration::from_millis(1200);

/// What a relay does with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Nobody listens, and what was passed on is cut.
    Gone,
    /// It is passed on, a second late.
    Late,
    /// It is answered with something else.
    Nonsense,
    /// It is passed on.
    Passing,
    /// It is passed on if it registers a rank, and cut if it looks for one.
    Registering,
    /// It is passed on, with another port in the answer for the one that is meant.
    Astray { meant: u16, told: u16 },
}

/// Stands between a client and a server.
pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where it passes on to.
    pub(crate) server: SocketAddr,
    door: Arc<Mutex<Door>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _ports: Vec<OwnedFd>,
}

struct Door {
    mood: Mood,
    listener: Option<TcpListener>,
    passed: Vec<TcpStream>,
}

impl Door {
    fn turn(&mut self, address: SocketAddr, mood: Mood) {
        if mood == Mood::Gone {
            self.listener = None;
            self.passed.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        } else {
            self.listener.get_or_insert_with(|| listen(address));
        }
        self.mood = mood;
    }

    fn look(&mut self, server: SocketAddr) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            self.passed.extend(stream.try_clone());
            let mood = self.mood.clone();
            thread::spawn(move || drop(relay(&mood, stream, server)));
        }
    }
}

impl Relay {
    /// To a server that is still to come, and whose port is kept for it.
    pub(crate) fn start(mood: Mood) -> Self {
        let (port, server) = reserved_port();
        let mut relay = Self::to(server, mood);
        relay._ports.push(port);
        relay
    }

    pub(crate) fn to(server: SocketAddr, mood: Mood) -> Self {
        let (port, address) = reserved_port();
        let door = Door { mood: Mood::Gone, listener: None, passed: Vec::new() };
        let (door, ended) = (Arc::new(Mutex::new(door)), Arc::new(AtomicBool::new(false)));
        let (stood, end) = (Arc::clone(&door), Arc::clone(&ended));
        let stand = move || {
            while !end.load(Ordering::SeqCst) {
                stood.lock().unwrap().look(server);
                thread::sleep(Duration::from_millis(2));
            }
        };
        let thread = Some(thread::spawn(stand));
        let relay = Self { address, server, door, ended, thread, _ports: vec![port] };
        relay.turn(mood);
        relay
    }

    /// At once.
    pub(crate) fn turn(&self, mood: Mood) {
        self.door.lock().unwrap().turn(self.address, mood);
    }

    /// Flags with which a deployment's ranks reach its bootstrap server through the relay.
    pub(crate) fn flags(&self) -> String {
        let (relay, port) = (self.address, self.server.port());
        format!("--fabric tcp --bootstrap-port {port} --bootstrap-server {relay}")
    }

    /// A deployment whose ranks do.
    pub(crate) fn deployment(&self, arguments: &str) -> Deployment {
        Deployment::start(&format!("{} {arguments}", self.flags()))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn listen(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn relay(mood: &Mood, mut stream: TcpStream, server: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    match mood {
        Mood::Gone => {}
        Mood::Registering if !registers(&stream)? => {}
        Mood::Nonsense => {
            let _asked = stream.read(&mut [0; 4096])?;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"rank_ip")?;
        }
        Mood::Late | Mood::Passing | Mood::Registering | Mood::Astray { .. } => {
            if *mood == Mood::Late {
                thread::sleep(LATE);
            }
            let mut upstream = TcpStream::connect(server)?;
            let (mut from, mut to) = (stream.try_clone()?, upstream.try_clone()?);
            thread::spawn(move || {
                drop(io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Write));
            });
            match mood {
                // Head and body may come apart; neither does by itself.
                Mood::Astray { meant, told } => {
                    let (meant, told, mut part) = (meant.to_string(), told.to_string(), vec![0; 4096]);
                    loop {
                        let length = upstream.read(&mut part)?;
                        if length == 0 {
                            break;
                        }
                        let text = String::from_utf8_lossy(&part[..length]);
                        stream.write_all(text.replace(&meant, &told).as_bytes())?;
                    }
                }
                Mood::Gone | Mood::Late | Mood::Nonsense | Mood::Passing | Mood::Registering => {
                    io::copy(&mut upstream, &mut stream)?;
                }
            }
            stream.shutdown(Shutdown::Both)?;
        }
    }
    Ok(())
}

/// Whether a request is a `PUT`.
fn registers(stream: &TcpStream) -> io::Result<bool> {
    let mut begins = [0; 1];
    stream.peek(&mut begins)?;
    Ok(begins == *b"P")
}
