//! Prefill as a real process that is killed: this test binary runs itself again as the prefill
//! rank.

use lockstep_spec::ids::Attempt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::support::{Heard, LEG, RETRY, Room, WAIT, decode, grant, next, on_each_fabric, prefill};
use crate::fabric::{Address, FabricError, Leg, LegFailure, PrefillInbound};

const ADDRESS: &str = "LOCKSTEP_TEST_FABRIC_ADDRESS";
/// Whether pages are to go through shared memory.
const SHARES: &str = "LOCKSTEP_TEST_FABRIC_SHARES";

/// The body of the prefill process: no test of its own, and nothing at all unless started below.
/// It writes one page of each leg that is listed, and never a row.
#[test]
fn process_prefill() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let shares = std::env::var(SHARES).is_ok();
    let file = if shares { Address::Shm } else { Address::Unix };
    let address = address.parse().map_or_else(|_| file(address.into()), Address::Tcp);
    let (prefill, lists) = prefill(&address);
    println!("listening");
    while let Ok(inbound) = lists.recv_timeout(WAIT * 2) {
        if let PrefillInbound::List { leg, pages, .. } = inbound {
            prefill.to(0).unwrap().write_page(leg, 0, pages[0], vec![7; 100]).unwrap();
        }
    }
}

struct Prefill(Child);

impl Prefill {
    fn start(address: &Address) -> Self {
        let module = module_path!().split_once("::").unwrap().1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{module}::process_prefill"), "--exact", "--nocapture"])
            .env(ADDRESS, address.to_string())
            .envs(matches!(address, Address::Shm(_)).then_some((SHARES, "")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening")));
        thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Prefill {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn process_killed_fails_its_legs_and_its_successor_is_found(room: &Room) {
    let mut first = Prefill::start(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    assert_eq!(next(&heard), Heard::Page(LEG, 0, 40, vec![7; 100]));
    first.kill();
    if let Address::Shm(path) | Address::Unix(path) = &room.address {
        assert!(path.exists(), "a killed process leaves its socket file");
    }
    let why = FabricError::Closed;
    assert_eq!(next(&heard), Heard::LegFailed(LEG, LegFailure::Disconnected(why.clone())));
    assert_eq!(next(&heard), Heard::PeerGone(why));
    let _second = Prefill::start(&room.address);
    let again = Leg { attempt: Attempt(2), ..LEG };
    grant(&decode, &heard, again, &[41]);
    assert_eq!(next(&heard), Heard::Page(again, 0, 41, vec![7; 100]));
}

on_each_fabric! {
    process_killed_fails_its_legs_and_its_successor_is_found,
}
