//! Forecast of the number of states from the levels seen so far.
//!
//! The share of the newest level in all states seen falls as a search goes on. Where growth is logistic it falls along a straight line
//! in the number of states seen, and is zero where that number is the total. So the line through the levels is extended to zero.

/// States seen before which levels say nothing.
const FEWEST_STATES: u64 = 500;
/// Levels seen before which they say nothing.
const FEWEST_LEVELS: usize = 8;
/// Levels count from when this share of the states seen was reached: the first ones say nothing about the last.
const FROM_SHARE: f64 = 0.1;

/// How far off a forecast may be, by the share of it that was seen: for three in four of all beginnings of the recorded runs the number of
/// states lay within this factor.
const FACTORS: [(f64, f64); 3] = [(0.8, 2.0), (0.4, 6.0), (0.0, 9.0)];

/// A forecast of the number of distinct states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The states that were seen: there are at least these.
    pub seen: u64,
    /// The likely number.
    pub states: u64,
    /// By which factor it may be wrong, both ways.
    pub factor: f64,
}

impl Forecast {
    /// The least number that is likely.
    #[must_use]
    pub fn least(&self) -> u64 {
        rounded(real(self.states) / self.factor).max(self.seen)
    }

    /// The greatest number that is likely.
    #[must_use]
    pub fn most(&self) -> u64 {
        rounded(real(self.states) * self.factor)
    }
}

/// The forecast from the sizes of the levels that are complete; `None` while they are few, or while growth does not slow down.
#[must_use]
pub fn forecast(levels: &[u64]) -> Option<Forecast> {
    let seen: u64 = levels.iter().sum();
    if levels.len() < FEWEST_LEVELS || seen < FEWEST_STATES {
        return None;
    }
    let states = rounded(zero_of_line(&points(levels, seen))?).max(seen);
    let share = real(seen) / real(states);
    let (_, factor) = FACTORS.into_iter().find(|(from, _)| share >= *from)?;
    Some(Forecast { seen, states, factor })
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

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn real(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; too large is as large as can be"
)]
fn rounded(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of logistic growth to about `total` states.
    fn logistic(total: f64, rate: f64) -> Vec<u64> {
        let mut seen = 1.0;
        let mut levels = vec![1];
        while seen < total * 0.999 {
            let level = rounded(rate * seen * (1.0 - seen / total)).max(1);
            seen += real(level);
            levels.push(level);
        }
        levels
    }

    #[test]
    fn forecast_extends_logistic_growth() {
        let levels = logistic(1_000_000.0, 0.5);
        let early: Vec<u64> = levels.iter().copied().take_while_sum(300_000).collect();
        let forecast = forecast(&early).unwrap();
        assert!((500_000..2_000_000).contains(&forecast.states), "{forecast:?}");
        assert!(forecast.least() <= 1_000_000 && forecast.most() >= 1_000_000, "{forecast:?}");
    }

    #[test]
    fn forecast_says_nothing_of_free_growth_or_of_little() {
        let doubling: Vec<u64> = (0..20).map(|level| 1 << level).collect();
        assert_eq!(forecast(&doubling).filter(|forecast| forecast.states < forecast.seen), None);
        assert_eq!(forecast(&[1, 2, 3]), None);
        let faster: Vec<u64> = (1..12u32).map(|level| 1 << (level * level / 3)).collect();
        assert_eq!(forecast(&faster), None);
    }

    trait TakeWhileSum: Iterator<Item = u64> + Sized {
        fn take_while_sum(self, most: u64) -> impl Iterator<Item = u64> {
            self.scan(0, |sum, level| {
                *sum += level;
                Some((*sum, level))
            })
            .take_while(move |(sum, _)| *sum <= most)
            .map(|(_, level)| level)
        }
    }

    impl<I: Iterator<Item = u64>> TakeWhileSum for I {}
}
