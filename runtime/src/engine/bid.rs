//! Bids: how a row's token is chosen where the ranks share the vocabulary.
//!
//! A bid is 64 bits that order as tokens are preferred: the least has the highest value and, among equal ones, the lowest token. Each rank
//! bids for the best token of its part, and the group's choice is the least bid: one reduction, and the same token on every rank. The
//! kernels' bids (`choice.cu`) are the same bits.

use super::draw::Draw;

/// The bid of a row with a value that is not finite: it wins every minimum.
const NOT_FINITE: u64 = 0;
/// The bid for no token.
const NO_BID: u64 = u64::MAX;

/// The best bid for the tokens from `first_token` on, of which these are the logits: for one that is drawn, or for the likeliest.
pub(super) fn best(logits: &[f32], first_token: u32, draw: Option<Draw>) -> u64 {
    let tokens = (first_token..).zip(logits);
    match draw {
        Some(draw) => least(tokens.map(|(token, logit)| of(draw.noisy(token, *logit), token))),
        None => least(tokens.map(|(token, logit)| of(*logit, token))),
    }
}

/// The token that a bid is for; `None` if a value was not finite, or there was none.
pub(super) fn token(bid: u64) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the token")]
    (![NOT_FINITE, NO_BID].contains(&bid)).then_some(bid as u32)
}

fn least(bids: impl Iterator<Item = u64>) -> u64 {
    bids.fold(NO_BID, u64::min)
}

fn of(value: f32, token: u32) -> u64 {
    if !value.is_finite() {
        return NOT_FINITE;
    }
    // Adding zero makes -0 the 0 that it equals.
    let bits = (value + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending) << 32 | u64::from(token)
}

#[cfg(test)]
mod tests {
    use super::{best, of, token};
    use crate::engine::{Choice, Draw};

    #[test]
    fn bid_orders_as_tokens_are_preferred() {
        let falling = [f32::MAX, 3.5, 1e-40, 0.0, -1e-40, -2.0, f32::MIN];
        let bids = falling.map(|value| of(value, 7));
        assert!(bids.is_sorted_by(|left, right| left < right), "{bids:?}");
        assert_eq!(of(-0.0, 7), of(0.0, 7));
        assert!(of(1.0, 6) < of(1.0, 7), "the lowest token wins a tie");
    }

    #[test]
    fn bid_of_parts_is_that_of_the_whole() {
        let logits: Vec<f32> = (0_u16..90).map(|token| f32::from(token * 37 % 61) - 30.0).collect();
        for draw in [None, Draw::new(3, 800, 5)] {
            let whole = best(&logits, 0, draw);
            let (left, right) = logits.split_at(31);
            assert_eq!(best(left, 0, draw).min(best(right, 31, draw)), whole);
        }
        assert_eq!(token(best(&logits, 0, None)), Choice::of(&logits).map(|choice| choice.token));
    }

    #[test]
    fn bid_of_what_is_not_finite_wins_and_is_no_token() {
        let poisoned = best(&[1.0, f32::NAN, 9.0], 4, None);
        assert_eq!(poisoned.min(best(&[100.0], 0, None)), poisoned);
        assert_eq!(token(poisoned), None);
        assert_eq!(token(best(&[f32::NEG_INFINITY], 0, None)), None);
        assert_eq!(token(best(&[], 0, None)), None);
    }
}
