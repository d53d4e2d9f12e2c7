//! How a decode rank looks for its peer: when it asks, what becomes of the hellos that wait, and what an address that misleads costs.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::support::{CALLER, Heard, LEG, LIMITS, Room, WAIT, next, on_each_fabric, prefill};
use crate::fabric::{Address, DecodeFabric, DecodeInbound, FabricError, Finder, Retry};

const RETRY: Retry =
    Retry { first: Duration::from_millis(40), interval: Duration::from_millis(160), count: 5 };

/// Longer than the interval: a search that takes its time is no connection that lasted.
const LATE: Duration = Duration::from_millis(200);

/// A mock of a finder: it is told what to answer, one answer a search, and keeps the last.
struct Mock {
    answers: Vec<Result<Address, FabricError>>,
    /// How long the first search takes.
    late: Duration,
    /// When it was asked.
    asked: Sender<Instant>,
}

impl Finder for Mock {
    fn find(&mut self, tick: &mut dyn FnMut() -> io::Result<()>) -> Result<Address, FabricError> {
        let _gone = self.asked.send(Instant::now());
        thread::sleep(std::mem::take(&mut self.late));
        if self.answers.is_empty() {
            return loop {
                thread::sleep(Duration::from_millis(10));
                if let Err(error) = tick() {
                    break Err(FabricError::Unfound(error.to_string()));
                }
            };
        }
        if self.answers.len() == 1 { self.answers[0].clone() } else { self.answers.remove(0) }
    }
}

type Searches = Receiver<Instant>;

fn decode(answers: Vec<Result<Address, FabricError>>) -> (DecodeFabric, Receiver<Heard>, Searches) {
    let ((sender, heard), (asked, searches)) = (channel(), channel());
    let sink = move |inbound: DecodeInbound<'_>| drop(sender.send(inbound.into()));
    let fabric =
        DecodeFabric::connect(Mock { answers, late: LATE, asked }, CALLER, RETRY, LIMITS, sink).unwrap();
    (fabric, heard, searches)
}

fn unfound() -> FabricError {
    FabricError::Unfound("nobody knows".into())
}

#[test]
fn finding_slows_down_to_its_interval_and_the_hello_hears_why_it_failed() {
    let (decode, heard, searches) = decode(vec![Err(unfound())]);
    let begun = Instant::now();
    decode.hello(LEG).unwrap();
    assert_eq!(next(&heard), Heard::HandshakeFailed(LEG, unfound()));
    assert!(begun.elapsed() >= RETRY.interval * RETRY.count);
    let times: Vec<Instant> = searches.try_iter().collect();
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, least) in pauses.iter().zip([200, 80, 160, 160, 160, 160]) {
        // A clock's tick may be noticed late, and the next one on time.
        assert!(*pause + RETRY.first / 4 >= Duration::from_millis(least), "{pauses:?}");
    }
    assert!(times.len() <= 7, "{pauses:?}");
}

#[test]
fn finding_that_hangs_fails_its_hellos_and_stops_nobody() {
    let (decode, heard, _searches) = decode(Vec::new());
    decode.hello(LEG).unwrap();
    assert!(matches!(next(&heard), Heard::HandshakeFailed(LEG, _)));
    let begun = Instant::now();
    drop(decode);
    assert!(begun.elapsed() < WAIT);
}

fn finding_goes_on_after_an_address_that_misled(room: &Room) {
    let elsewhere = Address::Unix("/nowhere/at/all".into());
    let (decode, heard, searches) = decode(vec![Err(unfound()), Ok(elsewhere), Ok(room.address.clone())]);
    let (_prefill, _lists) = prefill(&room.address);
    decode.hello(LEG).unwrap();
    assert_eq!(next(&heard), Heard::HandshakeReady(LEG));
    assert_eq!(searches.try_iter().count(), 3, "it asks again once the second answer has misled");
}

on_each_fabric! {
    finding_goes_on_after_an_address_that_misled,
}
