//! Greedy choice: the last step of a forward pass, one row of logits in, one token out.

/// The token that greedy decoding takes, and how clear the choice was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token with the highest logit; the lowest token wins a tie.
    pub token: u32,
    /// Highest logit minus second-highest, at least 0. An engine whose arithmetic differs by less must choose alike.
    pub margin: f32,
}

impl Choice {
    /// The choice from one row of logits; `None` if the row is empty or holds a value that is not finite.
    #[must_use]
    pub fn of(logits: &[f32]) -> Option<Self> {
        let mut best = (0, f32::NEG_INFINITY);
        let mut second = f32::NEG_INFINITY;
        for (token, &logit) in (0u32..).zip(logits) {
            if !logit.is_finite() {
                return None;
            }
            if logit > best.1 {
                second = best.1;
                best = (token, logit);
            } else if logit > second {
                second = logit;
            }
        }
        let (token, highest) = best;
        (!logits.is_empty()).then_some(Self { token, margin: highest - second })
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;

    #[test]
    fn greedy_lowest_token_wins_a_tie() {
        assert_eq!(Choice::of(&[1.0, 3.0, 2.0, 3.0]), Some(Choice { token: 1, margin: 0.0 }));
    }

    #[test]
    fn greedy_margin_is_best_minus_second_in_either_order() {
        let margin = |logits: &[f32]| Choice::of(logits).map(|choice| choice.margin);
        assert_eq!(margin(&[-4.0, -1.0, -2.5]), Some(1.5));
        assert_eq!(margin(&[-1.0, -4.0, -2.5]), Some(1.5));
    }

    #[test]
    fn greedy_value_that_is_not_finite_is_no_choice() {
        assert_eq!(Choice::of(&[1.0, f32::NAN, 2.0]), None);
        assert_eq!(Choice::of(&[f32::INFINITY, 1.0]), None);
        assert_eq!(Choice::of(&[]), None);
    }
}
