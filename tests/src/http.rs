//! An HTTP client that does one request a connection and hides nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::PATIENCE;

/// The text of a POST to `/v1/completions`.
#[must_use]
pub fn post(content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// A body for `/v1/completions`.
#[must_use]
pub fn completion(prompt: &str, max_tokens: u32, stream: bool) -> Value {
    json!({"prompt": prompt, "max_tokens": max_tokens, "stream": stream})
}

/// Sends a request to `address` and leaves its answer unread.
///
/// # Panics
/// If nobody listens.
#[must_use]
pub fn send(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The head, in lower case.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Reads an answer to its end.
    ///
    /// # Panics
    /// If it is none, or breaks off.
    pub fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        let mut body = String::new();
        reader.read_to_string(&mut body).unwrap();
        Self { status, headers, body }
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The `error` of the body.
    #[must_use]
    pub fn error(&self) -> Value {
        self.json()["error"].clone()
    }

    /// The text of a completion.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn text(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.body);
        text_of(&self.body)
    }
}

/// Server-sent events; the framing around their lines does not matter here.
#[derive(Debug)]
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// Reads the head of a streamed answer.
    ///
    /// # Panics
    /// If it is not one.
    pub fn open(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        assert_eq!(status, 200, "{headers}");
        assert!(headers.contains("content-type: text/event-stream"), "{headers}");
        Self(reader)
    }

    /// Waits for all events that are left.
    #[must_use]
    pub fn rest(self) -> Vec<String> {
        self.collect()
    }

    /// Waits for the end, which must be an error, and gives its message.
    ///
    /// # Panics
    /// If the last event is no error.
    #[must_use]
    pub fn error(self) -> String {
        let last = self.rest().pop().unwrap_or_else(|| panic!("the stream ended without a word"));
        let event: Value = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {last}"));
        event["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {last}")).to_owned()
    }
}

impl Iterator for Events {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            if let Some(data) = line.trim_end().strip_prefix("data: ") {
                return Some(data.to_owned());
            }
            line.clear();
        }
        None
    }
}

/// The text of an event or a body.
///
/// # Panics
/// If it is not JSON.
#[must_use]
pub fn text_of(event: &str) -> String {
    let event: Value = serde_json::from_str(event).unwrap();
    event["choices"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        assert!(
            reader.read_line(&mut headers).unwrap() > 0,
            "the connection closed within the head: {headers}"
        );
    }
    (headers[9..12].parse().unwrap(), headers.to_ascii_lowercase())
}
