//! The way out: deliveries become text, text becomes a completion, in one body or as server-sent events.

use std::convert::Infallible;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::error::ApiError;
use super::journal::{Delivery, End, FinishReason};
use super::live::LiveRequest;
use super::text::{Detokenizer, TextError};

/// Everything that the answer to one request is made from.
pub(crate) struct Answer {
    live: LiveRequest,
    detokenizer: Box<dyn Detokenizer>,
    model: String,
    created: u64,
    prompt_tokens: usize,
    completion_tokens: usize,
}

/// A delivery as the client sees it.
struct Piece {
    text: String,
    finish: Option<FinishReason>,
}

impl Answer {
    pub(crate) fn new(
        live: LiveRequest,
        detokenizer: Box<dyn Detokenizer>,
        model: String,
        prompt_tokens: usize,
    ) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { live, detokenizer, model, created, prompt_tokens, completion_tokens: 0 }
    }

    /// Waits for the end and gives the whole completion.
    pub(crate) async fn whole(mut self) -> Result<Value, ApiError> {
        let mut text = String::new();
        loop {
            let piece = self.piece().await?;
            text.push_str(&piece.text);
            if piece.finish.is_some() {
                let choice = choice(&text, piece.finish);
                return Ok(self.completion(&[choice], self.usage()));
            }
        }
    }

    /// A response that sends each token when it comes.
    pub(crate) fn streamed(self, include_usage: bool) -> Response {
        let events = stream::unfold(Stage::Open(Box::new(self)), move |stage| stage.next(include_usage));
        let mut response = Body::from_stream(events).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    async fn piece(&mut self) -> Result<Piece, ApiError> {
        let Delivery { token, end } = self.live.next().await;
        let mut text = token.map_or(Ok(String::new()), |token| self.push(token)).map_err(failed)?;
        let finish = match end {
            None => None,
            Some(End::Finished(reason)) => {
                text.push_str(&self.detokenizer.finish());
                Some(reason)
            }
            Some(End::Failed(reason) | End::Lost(reason)) => return Err(ApiError::Failed { reason }),
        };
        Ok(Piece { text, finish })
    }

    fn push(&mut self, token: u32) -> Result<String, TextError> {
        self.completion_tokens += 1;
        self.detokenizer.push(token)
    }

    fn completion(&self, choices: &[Value], usage: Value) -> Value {
        let id = format!("cmpl-{:x}-{}", self.created, self.live.request());
        let (created, model) = (self.created, self.model.as_str());
        json!({"id": id, "object": "text_completion", "created": created, "model": model, "choices": choices, "usage": usage})
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.completion_tokens);
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }

    fn chunk(&self, piece: &Piece) -> String {
        event(&self.completion(&[choice(&piece.text, piece.finish)], Value::Null))
    }

    fn last_events(&self, include_usage: bool) -> String {
        let usage = include_usage.then(|| event(&self.completion(&[], self.usage())));
        usage.unwrap_or_default() + "data: [DONE]\n\n"
    }
}

/// Where a stream of events is.
enum Stage {
    Open(Box<Answer>),
    Closed,
}

impl Stage {
    async fn next(self, include_usage: bool) -> Option<(Result<String, Infallible>, Self)> {
        let Self::Open(mut answer) = self else { return None };
        let (events, stage) = match answer.piece().await {
            Ok(piece) if piece.finish.is_some() => {
                (answer.chunk(&piece) + &answer.last_events(include_usage), Self::Closed)
            }
            Ok(piece) => (answer.chunk(&piece), Self::Open(answer)),
            Err(error) => (event(&error.body()), Self::Closed),
        };
        Some((Ok(events), stage))
    }
}

fn choice(text: &str, finish: Option<FinishReason>) -> Value {
    json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish.map(FinishReason::name)})
}

fn event(body: &Value) -> String {
    format!("data: {body}\n\n")
}

fn failed(error: TextError) -> ApiError {
    ApiError::Failed { reason: error.to_string() }
}
