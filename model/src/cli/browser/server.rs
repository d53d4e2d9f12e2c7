//! A server for a browser on this machine: GET alone, one request a connection, each with a deadline.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::explore::message_of;

/// Connections at a time: more than one page opens.
const MOST_CONNECTIONS: usize = 32;
/// Bytes of a request: a path of ten thousand steps fits.
const MOST_BYTES: usize = 64 << 10;
/// Time for a request to arrive, and for its answer to be taken.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time until the next try, when the system refuses a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status with its reason.
    pub(super) status: &'static str,
    /// Type of the body.
    pub(super) content: &'static str,
    /// The body.
    pub(super) body: String,
}

impl Answer {
    /// A few words instead of what was asked for.
    fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, content: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    fn text(&self) -> String {
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
             style-src 'unsafe-inline'; connect-src 'self'; img-src data:\r\n\r\n{}",
            self.status,
            self.content,
            self.body.len(),
            self.body
        )
    }
}

/// Listens on this machine alone; port 0 is any free one.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Answers what `listener` gets with `answer`, which takes the target of a GET, until the process ends.
pub(crate) fn serve(listener: &TcpListener, answer: &(impl Fn(&str) -> Answer + Sync)) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(PAUSE);
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                let busy =
                    Answer::refusal("503 Service Unavailable", "too many connections; close some pages");
                close(stream, &busy);
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let slot = Slot(&open);
            scope.spawn(move || {
                let _slot = slot;
                converse(stream, answer);
            });
        }
    });
}

/// A connection's place among those that are open.
struct Slot<'a>(&'a AtomicUsize);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer; a model that panics is a finding, and not the end of the page.
fn answered(target: &str, answer: &impl Fn(&str) -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(|| answer(target))).unwrap_or_else(|panic| {
        let why = format!("the model panics: {}", message_of(&*panic));
        Answer::refusal("500 Internal Server Error", &why)
    })
}

fn converse(mut stream: TcpStream, answer: &impl Fn(&str) -> Answer) {
    let told = match head(&mut stream) {
        Ok(Some(head)) => target(&head).map_or_else(|refusal| refusal, |target| answered(target, answer)),
        Ok(None) => {
            let why = "the request is longer than any that this page makes";
            Answer::refusal("431 Request Header Fields Too Large", why)
        }
        // A browser opens connections ahead of need, and drops them.
        Err(_) => return,
    };
    close(stream, &told);
}

/// The head of a request; `None` if it does not end within [`MOST_BYTES`].
fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let start = Instant::now();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() >= MOST_BYTES {
            return Ok(None);
        }
        let left = DEADLINE.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut chunk)?;
        if read == 0 || start.elapsed() > DEADLINE {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..read]);
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The target of a GET that was meant for this server.
fn target(head: &str) -> Result<&str, Answer> {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next());
    if method != Some("GET") {
        return Err(Answer::refusal("405 Method Not Allowed", "only GET is answered"));
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let field = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    };
    // A page from elsewhere whose name was made to lead here must not read the answers.
    if !field("host").is_some_and(is_local) {
        return Err(Answer::refusal(
            "403 Forbidden",
            "open this page as http://127.0.0.1 or http://localhost",
        ));
    }
    let target = target.ok_or_else(|| Answer::refusal("400 Bad Request", "this is no request"))?;
    // Nor may it have this machine explore for it. The page itself stays open for links.
    let elsewhere = field("sec-fetch-site").is_some_and(|site| ["cross-site", "same-site"].contains(&site));
    if elsewhere && target != "/" {
        return Err(Answer::refusal(
            "403 Forbidden",
            "another site's page asks for this; open the page itself",
        ));
    }
    Ok(target)
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

/// Sends the answer; that the browser is gone is nobody's trouble.
fn close(mut stream: TcpStream, answer: &Answer) {
    let _gone = stream
        .set_write_timeout(Some(DEADLINE))
        .and_then(|()| stream.write_all(answer.text().as_bytes()))
        .and_then(|()| stream.shutdown(Shutdown::Write));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> &'static str {
        target(head).map_or_else(|refusal| refusal.status, |_| "200")
    }

    #[test]
    fn server_answers_this_machine_alone() {
        assert_eq!(target("GET /a?b=c HTTP/1.1\r\nhost: localhost:1\r\n\r\n").ok(), Some("/a?b=c"));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"), "200");
        assert_eq!(status("GET / HTTP/1.1\r\nHost: elsewhere.example:8080\r\n\r\n"), "403 Forbidden");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "403 Forbidden");
        let from = |path: &str, site: &str| {
            status(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\n\r\n"))
        };
        assert_eq!((from("/", "cross-site"), from("/api/runs", "same-origin")), ("200", "200"));
        assert_eq!(from("/api/runs", "cross-site"), "403 Forbidden");
        assert_eq!(status("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status("GET\r\nHost: localhost\r\n\r\n"), "400 Bad Request");
    }

    #[test]
    fn server_survives_a_model_that_panics() {
        let answer = answered("/", &|_: &str| panic!("as a model may"));
        assert_eq!(answer.status, "500 Internal Server Error");
        assert!(answer.body.contains("the model panics: as a model may"), "{}", answer.body);
        let open = AtomicUsize::new(1);
        drop(Slot(&open));
        assert_eq!(open.into_inner(), 0);
    }
}
