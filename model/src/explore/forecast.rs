//! Forecast of the number of states from the levels seen so far.
//!
//! The share of the newest level in all states seen falls as a search goes on. Where growth is logistic it falls along a straight line
//! in the number of states seen, and is zero where that number is the total. So the line through the levels is extended to zero. How far
//! that is from the truth shows in searches that came to their end: `runs::Levels` knows those.

/// States seen before which levels say nothing.
const FEWEST_STATES: u64 = 500;
/// Levels seen before which they say nothing.
const FEWEST_LEVELS: usize = 8;
/// Levels count from when this share of the states seen was reached: the first ones say nothing about the last.
const FROM_SHARE: f64 = 0.1;

/// The number of states at which growth would end, from the sizes of the levels that are complete; `None` while they are few, or while
/// growth does not slow down.
#[must_use]
pub fn forecast(levels: &[u64]) -> Option<u64> {
    let seen: u64 = levels.iter().sum();
    if levels.len() < FEWEST_LEVELS || seen < FEWEST_STATES {
        return None;
    }
    Some(rounded(zero_of_line(&points(levels, seen))?).max(seen))
}

/// A level: the states seen with it, its share in them, and its weight.
type Point = (f64, f64, f64);

fn points(levels: &[u64], seen: u64) -> Vec<Point> {
    let mut sum = 0;
    let mut point = |level: &u64| {
        sum += level;
        (real(sum), real(*level) / real(sum), real(*level))
    };
    let all: Vec<Point> = levels.iter().map(&mut point).collect();
    all.into_iter().filter(|(sum, ..)| *sum >= FROM_SHARE * real(seen)).collect()
}

/// Where the line of least weighted squares through the points is zero, if it falls.
fn zero_of_line(points: &[Point]) -> Option<f64> {
    let weight: f64 = points.iter().map(|(.., weight)| weight).sum();
    let mean_x = points.iter().map(|(x, _, weight)| x * weight).sum::<f64>() / weight;
    let mean_y = points.iter().map(|(_, y, weight)| y * weight).sum::<f64>() / weight;
    let spread: f64 = points.iter().map(|(x, _, weight)| weight * (x - mean_x).powi(2)).sum();
    let slope =
        points.iter().map(|(x, y, weight)| weight * (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    (slope < 0.0).then(|| mean_x - mean_y / slope)
}

/// A count as an estimate reckons with it.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(crate) const fn real(number: u64) -> f64 {
    number as f64
}

/// An estimate as a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; too large is as large as can be"
)]
pub(crate) fn rounded(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of logistic growth to about `total` states, as far as `most` of them are seen.
    fn logistic(total: f64, most: f64) -> Vec<u64> {
        let mut seen = 1.0;
        let mut levels = vec![1];
        while seen < most {
            let level = rounded(0.5 * seen * (1.0 - seen / total)).max(1);
            seen += real(level);
            levels.push(level);
        }
        levels
    }

    #[test]
    fn forecast_extends_logistic_growth() {
        let states = forecast(&logistic(1_000_000.0, 300_000.0)).unwrap();
        assert!((500_000..2_000_000).contains(&states), "{states}");
    }

    #[test]
    fn forecast_says_nothing_of_free_growth_or_of_little() {
        assert_eq!(forecast(&[1, 2, 3]), None);
        let faster: Vec<u64> = (1..12u32).map(|level| 1 << (level * level / 3)).collect();
        assert_eq!(forecast(&faster), None);
    }
}
