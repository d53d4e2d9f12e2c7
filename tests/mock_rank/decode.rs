//! The mock decode leader: each request repeats its prompt, is retracted once after five tokens, and stops at a full stop.
//!
//! A prompt that begins with `!` asks for a misdeed; see [`Request::misdeed`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use lockstep_runtime::wire::{self, Leg, Outcome, RankToFront, WireError};
use lockstep_spec::ids::{Attempt, Epoch, Generation, RequestId, SlotIndex};
use lockstep_spec::poll::Reason;

use crate::rank::{Rank, fatal};

/// Tokens after which a request is retracted and asks for a second leg.
const RETRACTED_AFTER: u32 = 5;

struct Request {
    prompt_tokens: usize,
    max_tokens: u32,
    ignore_eos: bool,
    leg: Leg,
    prompt: Option<Vec<u32>>,
    begun_at: u32,
    sent: u32,
    due: Instant,
}

#[derive(Default)]
pub(crate) struct Decode {
    requests: BTreeMap<u64, Request>,
    /// Requests that have failed, and may come once more.
    failed: BTreeSet<u64>,
}

impl Decode {
    pub(crate) fn open(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn submit(&mut self, submitted: wire::Request, rank: &mut Rank) -> Result<(), WireError> {
        assert!(rank.is_decode_leader(), "only the decode leader is given requests");
        let wire::Request {
            id: RequestId(request), prompt_tokens, max_tokens, generated, ignore_eos, ..
        } = submitted;
        let slots = u64::from(rank.plan.slots);
        let leg = Leg {
            epoch: Epoch(rank.plan.epoch),
            slot: SlotIndex(u32::try_from(request % slots).unwrap()),
            generation: Generation(2 * (request / slots) + u64::from(self.failed.contains(&request))),
            attempt: Attempt(0),
        };
        rank.sender.send(&RankToFront::LegWanted { request, leg, generated })?;
        let entry = Request {
            prompt_tokens: usize::try_from(prompt_tokens).unwrap(),
            max_tokens,
            ignore_eos,
            leg,
            prompt: None,
            begun_at: generated,
            sent: generated,
            due: Instant::now(),
        };
        self.requests.insert(request, entry);
        Ok(())
    }

    pub(crate) fn abort(&mut self, request: u64, rank: &mut Rank) -> Result<(), WireError> {
        match self.requests.remove(&request) {
            Some(_) => rank.sender.send(&RankToFront::Ended { request, outcome: Outcome::Aborted }),
            None => Ok(()),
        }
    }

    pub(crate) fn step(&mut self, rank: &mut Rank) -> Result<(), WireError> {
        let mut ended = Vec::new();
        for (&number, request) in &mut self.requests {
            if request.is_ready(rank) && request.due <= Instant::now() && request.token(number, rank)? {
                ended.push(number);
            }
        }
        ended.iter().for_each(|number| drop(self.requests.remove(number)));
        self.failed.extend(ended);
        Ok(())
    }
}

impl Request {
    /// Whether its KV is there, which must be of the prompt and of every token sent so far.
    fn is_ready(&mut self, rank: &Rank) -> bool {
        if self.prompt.is_some() {
            return true;
        }
        let Ok(bytes) = std::fs::read(rank.kv(self.leg)) else { return false };
        let tokens: Vec<u32> = serde_json::from_slice(&bytes).unwrap();
        let (prompt, generated) = tokens.split_at(self.prompt_tokens);
        let expected: Vec<u32> = (0..self.sent).map(|index| repeated(prompt, index)).collect();
        assert_eq!(generated, expected, "the leg covers what was generated");
        self.prompt = Some(prompt.to_vec());
        true
    }

    /// Sends the next token; `true` at the end.
    fn token(&mut self, request: u64, rank: &mut Rank) -> Result<bool, WireError> {
        let Some(prompt) = self.prompt.clone() else { return Ok(false) };
        let text: String = prompt.iter().filter_map(|&token| char::from_u32(token)).collect();
        self.due = Instant::now() + Duration::from_millis(if text.starts_with("!slow") { 100 } else { 4 });
        if self.sent == 2 && self.misdeed(request, &text, rank)? {
            return Ok(true);
        }
        let (index, token) = (self.sent, repeated(&prompt, self.sent));
        self.sent += 1;
        rank.forwards += 1;
        let stops = token == u32::from(b'.') && !self.ignore_eos;
        let outcome = if stops {
            Some(Outcome::Stop)
        } else {
            (self.sent == self.max_tokens).then_some(Outcome::Length)
        };
        // Both ways of telling the end are the wire's: with the last token, and after it.
        let (with, after) = if request.is_multiple_of(2) { (outcome, None) } else { (None, outcome) };
        let ends = with.is_some() || after.is_some();
        rank.sender.send(&RankToFront::Token { request, index, token, ended: with })?;
        if let Some(outcome) = after {
            rank.sender.send(&RankToFront::Ended { request, outcome })?;
        }
        if !ends && self.sent == RETRACTED_AFTER {
            self.retract(request, rank)?;
        }
        Ok(ends)
    }

    fn retract(&mut self, request: u64, rank: &mut Rank) -> Result<(), WireError> {
        self.prompt = None;
        self.leg.attempt.0 += 1;
        rank.sender.send(&RankToFront::LegWanted { request, leg: self.leg, generated: self.sent })
    }

    /// Does what the prompt asks for after two tokens; `true` when that ends the request.
    fn misdeed(&self, request: u64, text: &str, rank: &mut Rank) -> Result<bool, WireError> {
        match text {
            "!fail" => {
                let outcome = Outcome::Failed(Reason::TransferFailed);
                rank.sender.send(&RankToFront::Ended { request, outcome })?;
                return Ok(true);
            }
            "!stumble" if self.begun_at == 0 => {
                let outcome = Outcome::Failed(Reason::Corrupt);
                rank.sender.send(&RankToFront::Ended { request, outcome })?;
                return Ok(true);
            }
            "!fatal" => {
                rank.sender.send(&fatal("the device is gone", None))?;
                std::process::exit(3);
            }
            "!skip" => rank.sender.send(&RankToFront::Token { request, index: 3, token: 0, ended: None })?,
            "!vocabulary" => {
                rank.sender.send(&RankToFront::Token { request, index: 2, token: 256, ended: None })?
            }
            "!stall" => rank.stalls = true,
            "!crash" => std::process::abort(),
            // Long enough to fail a test that waits for it to end by itself, short enough to leave nothing for ever.
            "!hang" => std::thread::sleep(Duration::from_secs(60)),
            _ => {}
        }
        Ok(false)
    }
}

fn repeated(prompt: &[u32], index: u32) -> u32 {
    prompt[usize::try_from(index).unwrap() % prompt.len()]
}
