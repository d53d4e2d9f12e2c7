//! The next tokens, over a vocabulary that the ranks share out; and the ranks' minimum.
//!
//! A token's bid is 64 bits that order as tokens are preferred, so that bids combine by the minimum by which votes do. Between devices that
//! is the communicator's ([`Reduction::Min`](crate::Reduction)); [`VoteMin`] is for ranks whose words lie in one device's memory, as in tests.

use super::Operation;
use super::rows::a_block_a_row;
use crate::call::{Buffer, Call, CallError, count, product};
use crate::element::Element;
use crate::kernel::Kernel;
use crate::launch::{Launch, LaunchError, WARP};

/// The token that [`ChosenTokens`] gives for a row with a logit that is not finite.
pub const NOT_FINITE: u32 = u32::MAX;

const TOKEN_THREADS: u32 = 256;
/// Rows of threads that share the ranks of one tile; more ranks are walked in strides.
const VOTE_MIN_MAX_ROWS: u32 = 8;

/// The bid for each row's highest logit; the lowest token wins a tie.
#[derive(Debug)]
pub struct Argmax<'a, B> {
    /// `[rows]`.
    pub bids: &'a mut B,
    /// `[rows, width]`: this rank's part of the vocabulary.
    pub logits: &'a B,
    /// Number of rows.
    pub rows: u32,
    /// Tokens of the part.
    pub width: u32,
    /// The first of them.
    pub first_token: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for Argmax<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        check_tokens(self.width, self.first_token)?;
        Call::of(Kernel::Argmax, None::<&B>)?
            .write(self.bids, self.rows.into())
            .read(self.logits, product(&[self.rows, self.width]))
            .sizes([self.width])
            .number(self.first_token)
            .launch(a_block_a_row(self.rows.into(), self.width))
    }
}

/// The bid for a token that is drawn with the chance that the softmax of `logits / temperature` gives it; at a temperature of 0, the bid
/// of [`Argmax`].
///
/// The draw is a function of the row's seed and logits, not of how the vocabulary is shared out.
#[derive(Debug)]
pub struct Sample<'a, B> {
    /// `[rows]`.
    pub bids: &'a mut B,
    /// `[rows, width]`: this rank's part of the vocabulary.
    pub logits: &'a B,
    /// `[rows]`: fresh ones for every position, the same on every rank.
    pub seeds: &'a B,
    /// `[rows]`: what is not above 0 stands for 0.
    pub temperatures: &'a B,
    /// Tokens of the part.
    pub width: u32,
    /// The first of them.
    pub first_token: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for Sample<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        check_tokens(self.width, self.first_token)?;
        let rows = self.seeds.len();
        Call::of(Kernel::Sample, None::<&B>)?
            .write(self.bids, rows)
            .read(self.logits, rows.saturating_mul(self.width.into()))
            .read(self.seeds, rows)
            .read(self.temperatures, rows)
            .sizes([self.width])
            .number(self.first_token)
            .launch(a_block_a_row(rows, self.width))
    }
}

/// The tokens of combined bids; [`NOT_FINITE`] where a logit was not.
#[derive(Debug)]
pub struct ChosenTokens<'a, B> {
    /// `[rows]`.
    pub tokens: &'a mut B,
    /// `[rows]`.
    pub bids: &'a B,
    /// Number of rows.
    pub rows: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for ChosenTokens<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        Call::of(Kernel::ChosenTokens, None::<&B>)?
            .write(self.tokens, self.rows.into())
            .read(self.bids, self.rows.into())
            .sizes([self.rows])
            .launch(a_thread_a_row(self.rows))
    }
}

/// `tokens[row] = chosen[follows[row]]`: rows that go on from what was chosen, without a way by the host.
#[derive(Debug)]
pub struct FollowTokens<'a, B> {
    /// `[rows]`.
    pub tokens: &'a mut B,
    /// `[choices]`.
    pub chosen: &'a B,
    /// `[rows]`: a choice each; a row whose number is beyond them keeps its token.
    pub follows: &'a B,
}

impl<'a, B: Buffer> Operation<'a, B> for FollowTokens<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let [rows, choices] = [self.follows, self.chosen].map(count);
        Call::of(Kernel::FollowTokens, None::<&B>)?
            .write(self.tokens, rows.into())
            .read(self.chosen, choices.into())
            .read(self.follows, rows.into())
            .sizes([rows])
            .sizes([choices])
            .launch(a_thread_a_row(rows))
    }
}

/// `output[element] = min over ranks of votes[rank, element]`.
#[derive(Debug)]
pub struct VoteMin<'a, B> {
    /// `[width]`.
    pub output: &'a mut B,
    /// `[ranks, width]`.
    pub votes: &'a B,
    /// Ranks of the group.
    pub ranks: u32,
    /// Elements of one rank's row.
    pub width: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for VoteMin<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        // A block for each tile of a warp's width, with a row of threads for each rank up to a limit.
        let threads = [WARP, self.ranks.min(VOTE_MIN_MAX_ROWS)];
        let shared = product(&threads) * Element::U64.bytes();
        Call::of(Kernel::VoteMin, None::<&B>)?
            .write(self.output, self.width.into())
            .read(self.votes, product(&[self.ranks, self.width]))
            .sizes([self.ranks])
            .sizes([self.width])
            .launch(Launch::new([self.width.div_ceil(WARP).into(), 1], threads, shared))
    }
}

fn a_thread_a_row(rows: u32) -> Result<Launch, LaunchError> {
    Launch::new([rows.div_ceil(TOKEN_THREADS).into(), 1], [TOKEN_THREADS, 1], 0)
}

/// Refuses tokens beyond 32 bits, and the one that means something else.
fn check_tokens(width: u32, first_token: u32) -> Result<(), CallError> {
    match first_token.checked_add(width) {
        Some(_) => Ok(()),
        None => Err(CallError::Value { reason: "the part of the vocabulary must end below 2^32" }),
    }
}
