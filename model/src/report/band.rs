//! Collectives drawn across the columns of the ranks that meet in them: joined where they match, broken where they do not.

use anstyle::Style;

use super::story::Scene;
use super::words::{FAULT, GOOD, paint};
use crate::explore::{Collective, Happening};

/// What one lane contributes to the band of a step.
#[derive(Clone, Debug, PartialEq)]
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
        let label = self.label(width);
        let room = width - label.chars().count();
        let lead = room.min(2);
        paint(self.style(), &format!("{}{label}{}", stroke.repeat(lead), stroke.repeat(room - lead)))
    }

    /// Number of characters of the collective with a space on both sides.
    pub(super) fn width(&self) -> usize {
        self.collective.to_string().chars().count() + 2
    }

    /// The collective in at most `width` characters. Its shape is kept whole, since that may be all in which two entries differ.
    fn label(&self, width: usize) -> String {
        let whole = format!(" {} ", self.collective);
        if whole.chars().count() <= width {
            return whole;
        }
        let name = self.collective.site.chars();
        let shape = self.collective.shape.map_or_else(String::new, |shape| format!("[{shape}]"));
        let room = width.saturating_sub(shape.chars().count() + 1);
        format!("{}…{shape}", name.take(room).collect::<String>()).chars().take(width).collect()
    }

    /// The line through the lanes between two that meet.
    fn thread(&self, width: usize) -> String {
        paint(self.style(), &if self.matches { "─" } else { "┄" }.repeat(width))
    }

    /// What is drawn between this lane and the next.
    fn joint(&self, next: &Self) -> String {
        if self.matches && next.matches { paint(self.style(), "━━") } else { paint(FAULT, "╳╳") }
    }

    /// In words, for a drawing without columns.
    pub(super) fn told(&self) -> (Style, String) {
        let verb = if self.matches { "completes" } else { "does not match" };
        (self.style(), format!("━━ {} {verb}", self.collective))
    }
}

/// The bands of one step across columns of `widths`, two characters apart. Lanes that are not neighbours are joined by a thin line through
/// those between.
pub(super) fn across(bands: &[Option<Band>], widths: &[usize]) -> String {
    let mut line = String::new();
    for (number, (band, width)) in bands.iter().zip(widths).enumerate() {
        let thread = thread(bands, number);
        let through = |width: usize| thread.map_or_else(|| " ".repeat(width), |band| band.thread(width));
        line += &band.as_ref().map_or_else(|| through(*width), |band| band.paint(*width));
        line += &match (band, bands.get(number + 1)) {
            (_, None) => String::new(),
            (Some(band), Some(Some(next))) => band.joint(next),
            (Some(_), Some(None)) => through(2),
            // Where lanes do not meet, the cross is before the one that is in something else.
            (None, Some(Some(next))) if thread.is_some() && !next.matches => paint(FAULT, "╳╳"),
            (None, Some(_)) => through(2),
        };
    }
    line
}

/// The band that goes on through the lane `number`, to the next one that is in a collective.
fn thread(bands: &[Option<Band>], number: usize) -> Option<&Band> {
    bands.get(number + 1..)?.iter().flatten().next()?;
    bands[..=number].iter().flatten().next_back()
}
