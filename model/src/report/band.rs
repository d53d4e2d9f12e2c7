//! Collectives drawn across the columns of the ranks that meet in them: joined where they match, broken where they do not.

use anstyle::Style;

use super::story::Scene;
use super::words::{FAULT, GOOD, paint};
use crate::explore::{Collective, Happening};

/// What one lane contributes to the band of a step.
#[derive(Clone, Debug)]
pub(super) struct Band {
    collective: Collective,
    matches: bool,
}

impl Band {
    /// The bands of a step, by lane; empty if no collective ends in it.
    pub(super) fn of(scene: &Scene) -> Vec<Option<Self>> {
        let band = |what: &Happening| match what {
            Happening::Complete { collective } => {
                Some(Self { collective: collective.clone(), matches: true })
            }
            Happening::Mismatch { collective } => {
                Some(Self { collective: collective.clone(), matches: false })
            }
            Happening::Begin
            | Happening::Decide { .. }
            | Happening::End
            | Happening::Enter { .. }
            | Happening::Fact { .. }
            | Happening::Retire { .. }
            | Happening::Step { .. }
            | Happening::Turn => None,
        };
        let on = |lane: usize| {
            scene
                .events
                .iter()
                .filter(move |event| event.lane == Some(lane))
                .find_map(|event| band(&event.what))
        };
        let bands: Vec<Option<Self>> = (0..scene.lanes.len()).map(on).collect();
        if bands.iter().any(Option::is_some) { bands } else { Vec::new() }
    }

    fn style(&self) -> Style {
        if self.matches { GOOD } else { FAULT }
    }

    /// What is drawn in a column of `width`.
    fn paint(&self, width: usize) -> String {
        let stroke = if self.matches { "━" } else { "╌" };
        let label: String = format!(" {} ", self.collective).chars().take(width).collect();
        let room = width - label.chars().count();
        let lead = room.min(2);
        paint(self.style(), &format!("{}{label}{}", stroke.repeat(lead), stroke.repeat(room - lead)))
    }

    /// What is drawn between this lane and the next.
    fn joint(&self, next: Option<&Self>) -> String {
        match next {
            Some(next) if self.matches && next.matches => paint(self.style(), "━━"),
            Some(_) => paint(FAULT, "╳╳"),
            None => "  ".to_owned(),
        }
    }

    /// In words, for a drawing without columns.
    pub(super) fn told(&self) -> (Style, String) {
        let verb = if self.matches { "completes" } else { "does not match" };
        (self.style(), format!("━━ {} {verb}", self.collective))
    }
}

/// The bands of one step across columns of `widths`, two characters apart.
pub(super) fn across(bands: &[Option<Band>], widths: &[usize]) -> String {
    let mut line = String::new();
    for (number, (band, width)) in bands.iter().zip(widths).enumerate() {
        let next = bands.get(number + 1);
        line += &band.as_ref().map_or_else(|| " ".repeat(*width), |band| band.paint(*width));
        line += &match (band, next) {
            (_, None) => String::new(),
            (Some(band), Some(next)) => band.joint(next.as_ref()),
            (None, Some(_)) => "  ".to_owned(),
        };
    }
    line
}
