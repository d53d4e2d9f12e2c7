//! Rooms: the names by which a router pairs the two halves of a request, of which it sends one to prefill's front end and one to decode's.
//! Nothing is accepted by a room: what is computed is what decode asks for. Prefill's half waits until decode has the first token.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::ApiError;
use super::request::{Bootstrap, CompletionRequest};

/// How long prefill's half waits for decode's, and how long one that came first is remembered; as long as in SGLang.
pub(crate) const LIFE: Duration = Duration::from_secs(120);
/// How long a name may take to be looked up; one that takes longer names nobody.
const LONGEST_LOOKUP: Duration = Duration::from_secs(3);

/// What is known of a room.
#[derive(Debug)]
enum Half {
    /// Prefill's half waits.
    Waits(oneshot::Sender<()>),
    /// Decode's half came first, at this time.
    Served(Instant),
}

/// The rooms of which one half is there.
#[derive(Debug)]
pub struct Pairing {
    most: usize,
    life: Duration,
    rooms: Mutex<BTreeMap<u64, Half>>,
}

/// Takes a room out when its wait is over, however that ends.
struct Waiting<'a>(&'a Pairing, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut rooms = self.0.rooms();
        // A later half may wait under the same name by now.
        if matches!(rooms.get(&self.1), Some(Half::Waits(word)) if word.is_closed()) {
            rooms.remove(&self.1);
        }
    }
}

impl Pairing {
    /// Nobody waits yet; at most `most` rooms are kept.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, life: LIFE, rooms: Mutex::default() })
    }

    /// Waits until decode has the first token of the request's other half, or that has ended.
    pub(crate) async fn wait(&self, request: &CompletionRequest) -> Result<(), ApiError> {
        let missing =
            "bootstrap_room is missing: this is a prefill side, and answers what a decode side asks for";
        let room = request.bootstrap.room.ok_or_else(|| ApiError::invalid("bootstrap_room", missing))?;
        let Some(served) = self.enter(room)? else { return Ok(()) };
        let _waiting = Waiting(self, room);
        let seconds = self.life.as_secs();
        match timeout(self.life, served).await {
            // The sender goes with the word, or with the program.
            Ok(_) => Ok(()),
            Err(_) => Err(ApiError::NoDecode { room, seconds }),
        }
    }

    /// Takes prefill's half in; none if decode's was here before.
    fn enter(&self, room: u64) -> Result<Option<oneshot::Receiver<()>>, ApiError> {
        let mut rooms = self.rooms();
        match rooms.remove(&room) {
            Some(Half::Served(_)) => return Ok(None),
            Some(waits @ Half::Waits(_)) => {
                rooms.insert(room, waits);
                return Err(ApiError::RoomTaken { room });
            }
            None => {}
        }
        self.make_room(&mut rooms);
        if rooms.len() >= self.most {
            return Err(ApiError::QueueFull { limit: self.most });
        }
        let (word, served) = oneshot::channel();
        rooms.insert(room, Half::Waits(word));
        Ok(Some(served))
    }

    /// Notes that decode has the first token of a room's request, or that this has ended.
    pub fn served(&self, room: u64) {
        let mut rooms = self.rooms();
        match rooms.remove(&room) {
            Some(Half::Waits(word)) => {
                // Whoever waited may just have left.
                word.send(()).ok();
            }
            Some(Half::Served(_)) | None => {
                self.make_room(&mut rooms);
                if rooms.len() < self.most {
                    rooms.insert(room, Half::Served(Instant::now()));
                }
            }
        }
    }

    /// Forgets the halves that nobody has come for: those whose time is over, and the oldest rather than to turn away one that waits.
    fn make_room(&self, rooms: &mut BTreeMap<u64, Half>) {
        if rooms.len() < self.most {
            return;
        }
        rooms.retain(|_, half| match half {
            Half::Waits(_) => true,
            Half::Served(since) => since.elapsed() < self.life,
        });
        let served = rooms.iter().filter_map(|(room, half)| match half {
            Half::Waits(_) => None,
            Half::Served(since) => Some((*since, *room)),
        });
        if let Some((_, oldest)) = served.min().filter(|_| rooms.len() >= self.most) {
            rooms.remove(&oldest);
        }
    }

    fn rooms(&self) -> MutexGuard<'_, BTreeMap<u64, Half>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of a request that names the prefill side at `prefill`, or none.
///
/// # Errors
/// 400 for another prefill side: a decode deployment is tied to one.
pub(crate) async fn check(bootstrap: &Bootstrap, prefill: SocketAddr) -> Result<Option<u64>, ApiError> {
    let other = |param, what: String| {
        Err(ApiError::invalid(
            param,
            format!("{what}, but this deployment decodes for {prefill}: ask another, or leave it out"),
        ))
    };
    if let Some(port) = bootstrap.port.filter(|port| *port != prefill.port()) {
        return other("bootstrap_port", format!("bootstrap_port is {port}"));
    }
    match &bootstrap.host {
        Some(host) if !names(host, prefill).await => {
            other("bootstrap_host", format!("bootstrap_host is {host:?}"))
        }
        Some(_) | None => Ok(bootstrap.room),
    }
}

async fn names(host: &str, prefill: SocketAddr) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address == prefill.ip(),
        Err(_) => match timeout(LONGEST_LOOKUP, tokio::net::lookup_host((host, prefill.port()))).await {
            Ok(Ok(mut found)) => found.any(|address| address.ip() == prefill.ip()),
            Ok(Err(_)) | Err(_) => false,
        },
    }
}

/// What prefill's half of a request is answered: a completion without text, since the text is decode's.
pub(crate) fn answer(model: &str, stream: bool) -> Response {
    let (body, kind) = match stream {
        true => ("data: [DONE]\n\n".to_owned(), "text/event-stream"),
        false => {
            let choice = json!({"index": 0, "text": "", "logprobs": null, "finish_reason": "length"});
            let body = json!({"object": "text_completion", "model": model, "choices": [choice]});
            (body.to_string(), "application/json")
        }
    };
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(room: Option<u64>) -> CompletionRequest {
        let body = json!({"prompt": "a", "bootstrap_room": room});
        CompletionRequest::parse(body.to_string().as_bytes(), "m").unwrap()
    }

    #[tokio::test]
    async fn pairing_answers_whichever_half_comes_first() {
        let pairing = Pairing::new(4);
        pairing.served(7);
        assert_eq!(pairing.wait(&request(Some(7))).await, Ok(()));
        let (request, pair) = (request(Some(8)), Arc::clone(&pairing));
        let waits = tokio::spawn(async move { pair.wait(&request).await });
        while pairing.rooms().is_empty() {
            tokio::task::yield_now().await;
        }
        pairing.served(8);
        assert_eq!(waits.await.unwrap(), Ok(()));
        assert!(pairing.rooms().is_empty());
    }

    #[tokio::test]
    async fn pairing_refuses_a_room_that_waits_and_too_many() {
        let pairing = Pairing { most: 1, life: Duration::from_millis(1), rooms: Mutex::default() };
        let _waits = pairing.enter(1).unwrap();
        assert_eq!(pairing.wait(&request(Some(1))).await, Err(ApiError::RoomTaken { room: 1 }));
        assert_eq!(pairing.wait(&request(Some(2))).await, Err(ApiError::QueueFull { limit: 1 }));
        assert_eq!(
            pairing.wait(&request(None)).await.unwrap_err().body()["error"]["param"],
            "bootstrap_room"
        );
        pairing.rooms().clear();
        let late = pairing.wait(&request(Some(3))).await;
        assert_eq!(late, Err(ApiError::NoDecode { room: 3, seconds: 0 }));
        assert!(pairing.rooms().is_empty());
    }

    #[tokio::test]
    async fn pairing_takes_requests_for_its_own_prefill_alone() {
        let prefill = SocketAddr::from(([127, 0, 0, 1], 8998));
        let named = |host: &str, port| Bootstrap { host: Some(host.into()), port: Some(port), room: Some(5) };
        assert_eq!(check(&named("127.0.0.1", 8998), prefill).await, Ok(Some(5)));
        assert_eq!(check(&Bootstrap::default(), prefill).await, Ok(None));
        assert!(check(&named("127.0.0.1", 8999), prefill).await.is_err());
        assert!(check(&named("10.0.0.1", 8998), prefill).await.is_err());
    }
}
