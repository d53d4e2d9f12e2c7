//! One prompt: its request, its text line by line as it comes, and the client that leaves midway.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::DemoError;
use super::client::{ClientError, Completion};
use crate::supervisor::tell;

/// Tokens asked for.
const MAX_TOKENS: u32 = 48;

/// Characters after which a line is printed at the next space.
const LINE_CHARACTERS: usize = 64;

/// One of the demonstration's clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) number: usize,
    pub(super) prompt: &'static str,
    pub(super) leaves_after: Option<usize>,
}

/// What a client got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) tokens: usize,
    pub(super) seconds: f32,
}

impl Listener {
    /// Sends the prompt and prints what comes.
    pub(super) async fn listen(self) -> Result<Heard, DemoError> {
        let (number, prompt) = (self.number, self.prompt);
        self.receive().await.map_err(|source| DemoError::Stream { number, prompt, source })
    }

    async fn receive(self) -> Result<Heard, ClientError> {
        let started = Instant::now();
        let fields = json!({"prompt": self.prompt, "max_tokens": MAX_TOKENS, "stream": true, "stream_options": {"include_usage": true}});
        let mut completion = Completion::request(self.address, &fields).await?;
        let mut lines = Lines { number: self.number, line: self.prompt.to_owned() };
        let mut tokens = 0;
        while self.leaves_after != Some(tokens) {
            let Some(event) = completion.next().await? else { break };
            match usage(&event) {
                Some(total) => tokens = total,
                None => tokens += 1,
            }
            lines.push(text(&event));
        }
        lines.flush();
        self.part(tokens)?;
        Ok(Heard { tokens, seconds: started.elapsed().as_secs_f32() })
    }

    fn part(&self, tokens: usize) -> Result<(), ClientError> {
        match self.leaves_after {
            Some(count) if count == tokens => {
                tell(&format!("[{}] (the client closes its connection after {count} tokens)", self.number))
            }
            None if tokens > 0 => tell(&format!("[{}] (complete: {tokens} tokens)", self.number)),
            None | Some(_) => return Err(ClientError::EndedEarly),
        }
        Ok(())
    }
}

fn text(event: &Value) -> &str {
    event["choices"][0]["text"].as_str().unwrap_or_default()
}

/// The number of tokens that the stream's last event tells.
fn usage(event: &Value) -> Option<usize> {
    event["usage"]["completion_tokens"].as_u64().and_then(|count| usize::try_from(count).ok())
}

/// Text on its way to whole lines under the client's number.
struct Lines {
    number: usize,
    line: String,
}

impl Lines {
    fn push(&mut self, text: &str) {
        for character in text.chars() {
            let full = self.line.chars().count() >= LINE_CHARACTERS && character == ' ';
            if full || character == '\n' {
                self.flush();
            } else {
                self.line.push(character);
            }
        }
    }

    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            tell(&format!("[{}] {line}", self.number));
        }
    }
}
