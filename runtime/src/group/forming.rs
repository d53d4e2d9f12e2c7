//! How the processes of a group find each other and make sure that they are one group.
//!
//! Each rank listens on a socket of its own and connects to every lower rank; both ends of each
//! connection say hello and compare. One loop drives all of it and waits for no peer (but a second at
//! most for a TCP connection), so no rank waits for another in a circle. A rank that sees a difference goes on meeting the others for a
//! moment, so that they see it too, and only then fails.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{GroupError, Setting};
use super::stream::Stream;
use super::tcp::ADDRESS_BYTES;
use super::transport::Transport;
use crate::socket::{Doorway, after, is_transient, is_unreachable};

const MAGIC: [u8; 4] = *b"LSgr";
const VERSION: u32 = 2;
const HELLO_BYTES: usize = 60 + ADDRESS_BYTES;

/// How long a rank that has seen a difference still meets others.
const DIFFERENCE_GRACE: Duration = Duration::from_secs(1);

/// The pause between two looks at sockets that had nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// What one process says to form a group; all but the rank is the same on every rank.
#[derive(Clone, Debug)]
pub struct Forming {
    /// Directory of what processes of one machine meet at; a socket's path in it must fit a Unix socket address (107 bytes).
    pub dir: PathBuf,
    /// Name of the communicator, for instance `control` or `device`.
    pub name: String,
    /// This process's rank, below `size`.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Epoch of the group.
    pub epoch: u64,
    /// Hash of the group's configuration.
    pub fingerprint: [u8; 32],
    /// Longest payload, bytes; a longer one is an error before it is read.
    pub payload_limit: usize,
    /// How long the forming may take.
    pub deadline: Duration,
}

/// Where ranks meet: how one listens, and how it finds the others.
pub(super) trait Ground {
    /// What connects two ranks.
    type Stream: Stream;

    /// The transport that the group is formed for.
    fn transport(&self) -> Transport;

    /// Where others find this rank, for its hello; zeros if they know.
    fn address(&self) -> [u8; ADDRESS_BYTES];

    /// The next waiting connection, if there is one.
    fn accept(&mut self) -> io::Result<Option<Self::Stream>>;

    /// Connects to a lower rank; `NotFound` as long as it is not known where that one is.
    fn connect(&mut self, rank: usize) -> io::Result<Self::Stream>;

    /// Takes note that `rank` was met, which said where it is found.
    fn met(&mut self, rank: usize, address: &[u8; ADDRESS_BYTES], streams: &[Option<Self::Stream>]);

    /// Takes in what rank 0 says of the others.
    fn listen_to(&mut self, leader: &Self::Stream);
}

/// Socket files in a directory of one machine.
pub(super) struct Files<'a> {
    forming: &'a Forming,
    transport: Transport,
    doorway: Doorway,
}

impl<'a> Files<'a> {
    pub(super) fn open(forming: &'a Forming, transport: Transport) -> Result<Self, GroupError> {
        forming.check()?;
        let doorway = Doorway::open(&forming.path(forming.rank))
            .map_err(|error| GroupError::io("listening for the other ranks", &error))?;
        Ok(Self { forming, transport, doorway })
    }
}

impl Ground for Files<'_> {
    type Stream = UnixStream;

    fn transport(&self) -> Transport {
        self.transport
    }

    fn address(&self) -> [u8; ADDRESS_BYTES] {
        [0; ADDRESS_BYTES]
    }

    fn accept(&mut self) -> io::Result<Option<UnixStream>> {
        self.doorway.accept()
    }

    fn connect(&mut self, rank: usize) -> io::Result<UnixStream> {
        UnixStream::connect(self.forming.path(rank))
    }

    fn met(&mut self, _: usize, _: &[u8; ADDRESS_BYTES], _: &[Option<UnixStream>]) {}

    fn listen_to(&mut self, _: &UnixStream) {}
}

/// The connected streams by rank, `None` at this rank's own place.
pub(super) fn meet<G: Ground>(forming: &Forming, ground: G) -> Result<Vec<Option<G::Stream>>, GroupError> {
    forming.check()?;
    Meeting {
        forming,
        ground,
        met: (0..forming.size).map(|_| None).collect(),
        newcomers: Vec::new(),
        difference: None,
    }
    .run()
}

impl Forming {
    /// Whether there can be such a rank.
    pub(super) fn check(&self) -> Result<(), GroupError> {
        if self.rank >= self.size || u32::try_from(self.size).is_err() {
            return Err(GroupError::Misuse("a rank must be below the group's size, and the size below 2^32"));
        }
        Ok(())
    }

    fn path(&self, rank: usize) -> PathBuf {
        self.dir.join(format!("{}.{rank}.sock", self.name))
    }

    fn hello(&self, ground: &impl Ground) -> Hello {
        Hello {
            version: VERSION,
            // Both were checked to fit.
            rank: u32::try_from(self.rank).unwrap_or(u32::MAX),
            size: u32::try_from(self.size).unwrap_or(u32::MAX),
            epoch: self.epoch,
            fingerprint: self.fingerprint,
            transport: ground.transport().code(),
            address: ground.address(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hello {
    version: u32,
    rank: u32,
    size: u32,
    epoch: u64,
    fingerprint: [u8; 32],
    transport: u8,
    address: [u8; ADDRESS_BYTES],
}

impl Hello {
    fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.fingerprint);
        bytes[56] = self.transport;
        bytes[60..].copy_from_slice(&self.address);
        bytes
    }

    fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (fingerprint, rest) = rest.split_first_chunk()?;
        let ([transport, ..], rest) = rest.split_first_chunk::<4>()?;
        (*magic == MAGIC).then_some(Self {
            version: u32::from_le_bytes(*version),
            rank: u32::from_le_bytes(*rank),
            size: u32::from_le_bytes(*size),
            epoch: u64::from_le_bytes(*epoch),
            fingerprint: *fingerprint,
            transport: *transport,
            address: *rest.first_chunk()?,
        })
    }

    /// The first setting in which `theirs` differs, in words: (setting, ours, theirs).
    fn difference(&self, theirs: &Self) -> Option<(Setting, String, String)> {
        let pair = |setting, ours: &dyn ToString, theirs: &dyn ToString| {
            Some((setting, ours.to_string(), theirs.to_string()))
        };
        if self.version != theirs.version {
            return pair(Setting::Version, &self.version, &theirs.version);
        }
        if self.transport != theirs.transport {
            return pair(Setting::Transport, &self.transport, &theirs.transport);
        }
        if self.size != theirs.size {
            return pair(Setting::Size, &self.size, &theirs.size);
        }
        if self.epoch != theirs.epoch {
            return pair(Setting::Epoch, &self.epoch, &theirs.epoch);
        }
        if self.fingerprint != theirs.fingerprint {
            let hex = |bytes: &[u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            return pair(Setting::Fingerprint, &hex(&self.fingerprint), &hex(&theirs.fingerprint));
        }
        None
    }
}

/// A connection whose other end has not said hello yet.
struct Newcomer<S> {
    stream: S,
    /// The rank at whose socket it was made; `None` for one that came to ours.
    expected: Option<usize>,
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

enum Progress {
    Hello([u8; HELLO_BYTES]),
    Left,
    Waiting,
}

impl<S: Stream> Newcomer<S> {
    /// Says hello on a fresh stream, whose empty buffer takes it whole.
    fn greet(mut stream: S, expected: Option<usize>, hello: &Hello) -> io::Result<Self> {
        stream.prepare()?;
        stream.set_nonblocking(true)?;
        stream.write_all(&hello.encode())?;
        Ok(Self { stream, expected, bytes: [0; HELLO_BYTES], filled: 0 })
    }

    fn progress(&mut self) -> Progress {
        match self.stream.read(&mut self.bytes[self.filled..]) {
            Ok(0) => Progress::Left,
            Ok(read) if self.filled + read == HELLO_BYTES => Progress::Hello(self.bytes),
            Ok(read) => {
                self.filled += read;
                Progress::Waiting
            }
            Err(error) if is_transient(error.kind()) => Progress::Waiting,
            Err(_) => Progress::Left,
        }
    }
}

struct Meeting<'a, G: Ground> {
    forming: &'a Forming,
    ground: G,
    met: Vec<Option<G::Stream>>,
    newcomers: Vec<Newcomer<G::Stream>>,
    difference: Option<(GroupError, Instant)>,
}

impl<G: Ground> Meeting<'_, G> {
    fn run(mut self) -> Result<Vec<Option<G::Stream>>, GroupError> {
        let until = after(self.forming.deadline);
        while let Some(rank) = self.absent() {
            self.connect_down()?;
            self.accept_up()?;
            self.hear_newcomers();
            if let (Some(Some(leader)), 1..) = (self.met.first(), self.forming.rank) {
                self.ground.listen_to(leader);
            }
            self.check_time(rank, until)?;
            thread::sleep(PAUSE);
        }
        self.difference.map_or(Ok(self.met), |(error, _)| Err(error))
    }

    fn absent(&self) -> Option<usize> {
        (0..self.met.len()).find(|&rank| rank != self.forming.rank && self.met[rank].is_none())
    }

    fn check_time(&self, absent: usize, until: Instant) -> Result<(), GroupError> {
        let now = Instant::now();
        if let Some((error, since)) = &self.difference
            && (now >= until || now.duration_since(*since) >= DIFFERENCE_GRACE)
        {
            return Err(error.clone());
        }
        if now < until {
            return Ok(());
        }
        Err(GroupError::Missing { rank: absent, waited: self.forming.deadline, last: None })
    }

    fn connect_down(&mut self) -> Result<(), GroupError> {
        for rank in 0..self.forming.rank {
            let trying = self.newcomers.iter().any(|newcomer| newcomer.expected == Some(rank));
            if trying || self.met[rank].is_some() {
                continue;
            }
            match self.ground.connect(rank) {
                Ok(stream) => self.greet(stream, Some(rank)),
                Err(error) if is_not_up_yet(error.kind()) => {}
                Err(error) => return Err(GroupError::io("connecting to a lower rank", &error)),
            }
        }
        Ok(())
    }

    fn accept_up(&mut self) -> Result<(), GroupError> {
        let failed = |error| GroupError::io("accepting a higher rank", &error);
        while let Some(stream) = self.ground.accept().map_err(failed)? {
            self.greet(stream, None);
        }
        Ok(())
    }

    fn greet(&mut self, stream: G::Stream, expected: Option<usize>) {
        // One that is gone before it heard our hello is as if it never came.
        self.newcomers.extend(Newcomer::greet(stream, expected, &self.forming.hello(&self.ground)));
    }

    fn hear_newcomers(&mut self) {
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.progress() {
                Progress::Hello(bytes) => self.admit(newcomer, &bytes),
                Progress::Left => {}
                Progress::Waiting => self.newcomers.push(newcomer),
            }
        }
    }

    fn admit(&mut self, newcomer: Newcomer<G::Stream>, bytes: &[u8; HELLO_BYTES]) {
        let Some(theirs) = Hello::decode(bytes) else {
            if let Some(rank) = newcomer.expected {
                self.note(GroupError::Malformed { rank });
            }
            return;
        };
        let rank = usize::try_from(theirs.rank).unwrap_or(usize::MAX);
        let address = theirs.address;
        if let Some((setting, ours, theirs)) = self.forming.hello(&self.ground).difference(&theirs) {
            self.note(GroupError::Differs { rank, setting, ours, theirs });
        }
        self.seat(newcomer, rank, &address);
    }

    /// Gives the newcomer its place; one whose place is wrong or taken is noted.
    fn seat(&mut self, newcomer: Newcomer<G::Stream>, rank: usize, address: &[u8; ADDRESS_BYTES]) {
        match newcomer.expected {
            Some(expected) if expected != rank => self.note(GroupError::Differs {
                rank: expected,
                setting: Setting::Rank,
                ours: expected.to_string(),
                theirs: rank.to_string(),
            }),
            None if rank <= self.forming.rank => self.note(GroupError::Duplicate { rank }),
            Some(_) | None => {}
        }
        match self.met.get_mut(newcomer.expected.unwrap_or(rank)) {
            Some(place @ None) => {
                *place = Some(newcomer.stream);
                self.ground.met(rank, address, &self.met);
            }
            Some(Some(_)) => self.note(GroupError::Duplicate { rank }),
            // Its size differs, or it could not have this rank; that has been noted.
            None => {}
        }
    }

    fn note(&mut self, error: GroupError) {
        self.difference.get_or_insert((error, Instant::now()));
    }
}

fn is_not_up_yet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
        || is_transient(kind)
        || is_unreachable(kind)
}
