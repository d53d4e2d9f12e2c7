//! The two users of the server, and servers that are late, talk nonsense, are down, or come back knowing nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{PAGE_SIZE, Server, rank};
use crate::bootstrap::{BootstrapError, RankFinder, Registrar, Registration, Wanted};
use crate::fabric::{Address, FabricError, Finder};
use crate::socket::reserved_port;

const WAIT: Duration = Duration::from_secs(5);
const WANTED: Wanted = Wanted { rank: 0, size: 1, page_size: PAGE_SIZE, epoch: Some(1) };

fn find(finder: &mut RankFinder) -> Result<Address, FabricError> {
    finder.find(&mut || Ok(()))
}

fn refused(finder: &mut RankFinder) -> String {
    match find(finder) {
        Err(FabricError::Unfound(why)) => why,
        other => panic!("found: {other:?}"),
    }
}

fn at(port: u16) -> Address {
    Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn wait_until_found(finder: &mut RankFinder, address: &Address) {
    let until = Instant::now() + 2 * WAIT;
    while find(finder).as_ref() != Ok(address) {
        assert!(Instant::now() < until, "{:?}", find(finder));
        thread::sleep(Duration::from_millis(20));
    }
}

fn register(server: SocketAddr, registration: Registration) -> Registrar {
    Registrar::start(server, registration, |_| {}).unwrap()
}

#[test]
fn finder_says_where_the_rank_is_now() {
    let server = Server::start();
    let mut finder = RankFinder::new(server.address, WANTED).unwrap();
    assert!(refused(&mut finder).contains("503"), "nobody is registered");
    let first = register(server.address, rank(0, 1, 70));
    wait_until_found(&mut finder, &at(70));
    drop(first);
    let _second = register(server.address, rank(0, 1, 71));
    wait_until_found(&mut finder, &at(71));
    server.raise_epoch();
    assert!(refused(&mut finder).contains("503"), "the old epoch's registration is void");
}

#[test]
fn finder_refuses_a_group_of_another_shape_or_epoch() {
    let server = Server::start();
    let _registrar = register(server.address, rank(0, 1, 70));
    wait_until_found(&mut RankFinder::new(server.address, WANTED).unwrap(), &at(70));
    for (wanted, words) in [
        (Wanted { size: 2, ..WANTED }, "attn_tp_size is 1, but this rank's is 2"),
        (Wanted { page_size: 1, ..WANTED }, "page_size is 16, but this rank's is 1"),
        (Wanted { epoch: Some(9), ..WANTED }, "epoch is 1, but this rank's is 9"),
    ] {
        let why = refused(&mut RankFinder::new(server.address, wanted).unwrap());
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn registrar_comes_back_to_a_server_that_was_started_anew() {
    let (_port, address) = reserved_port();
    let (sender, failures) = channel::<BootstrapError>();
    let registration = Registration { epoch: Some(1), ..rank(0, 1, 70) };
    let _registrar = Registrar::start(address, registration, move |why| drop(sender.send(why))).unwrap();
    let why = failures.recv_timeout(WAIT).unwrap().to_string();
    assert!(why.contains("can not be reached"), "{why}");
    let mut finder = RankFinder::new(address, WANTED).unwrap();
    let first = Server::start_at(address);
    wait_until_found(&mut finder, &at(70));
    drop(first);
    let _second = Server::start_at(address);
    wait_until_found(&mut finder, &at(70));
}

/// Answers every caller with the same bytes, or with none at all.
fn mock_server(answer: Option<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            match &answer {
                Some(answer) => {
                    drop(stream.read(&mut [0; 4096]));
                    // A client that has read enough closes.
                    drop(stream.write_all(answer));
                }
                None => silent.push(stream),
            }
        }
    });
    address
}

fn http(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn finder_says_why_an_answer_is_of_no_use() {
    let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'7'; 1 << 20]].concat();
    for (answer, words) in [
        (vec![0xa5; 4096], "does not speak HTTP"),
        (Vec::new(), "does not speak HTTP, or broke off"),
        (http("<html>"), "answers what can not be read"),
        (http("{\"attn_tp_size\": -1}"), "answers what can not be read"),
        (http(&"[".repeat(10_000)), "answers what can not be read"),
        (endless, "length limit exceeded"),
    ] {
        let server = mock_server(Some(answer));
        let why = refused(&mut RankFinder::new(server, WANTED).unwrap());
        assert!(why.contains(words) && why.contains(&server.to_string()), "{why}");
    }
}

#[test]
fn finder_gives_a_silent_server_up_when_it_is_told_to() {
    let server = mock_server(None);
    let mut finder = RankFinder::new(server, WANTED).unwrap();
    let begun = Instant::now();
    let mut ticks = 0;
    let mut tick = || {
        ticks += 1;
        if ticks < 5 { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
    };
    assert!(finder.find(&mut tick).is_err());
    assert_eq!(ticks, 5);
    assert!(begun.elapsed() < Duration::from_secs(3), "not bound to the deadline of an answer");
}
