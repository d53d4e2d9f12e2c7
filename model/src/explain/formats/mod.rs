//! Drawings of a trace, one file a format.
//!
//! Reading order: `mermaid` (the smallest), `chrome`, `itf`, `shiviz`, `rust_test`, `svg` on its `canvas`.

mod canvas;
mod chrome;
mod itf;
mod mermaid;
mod rust_test;
mod shiviz;
mod svg;

use super::trace::Trace;
use crate::report::{Drawing, draw};
use crate::runs::{Exit, Failure};

/// How a trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum Format {
    /// Trace events, for Chrome's tracing page and Perfetto
    Chrome,
    /// Informal Trace Format, for viewers and tools of TLA+ and Quint
    Itf,
    /// The trace file itself
    Json,
    /// A Mermaid sequence diagram
    Mermaid,
    /// A log with vector clocks, for ShiViz
    Shiviz,
    /// Swim lanes as a stand-alone SVG
    Svg,
    /// A Rust test that takes the path again
    Test,
    /// A table on the terminal
    Text,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 8] =
        [Self::Chrome, Self::Itf, Self::Json, Self::Mermaid, Self::Shiviz, Self::Svg, Self::Test, Self::Text];
}

/// Why `trace` has no such form, where it has none: a test that could not find its run would not be one.
#[must_use]
pub fn refusal(trace: &Trace, format: Format) -> Option<Failure> {
    let refused = format == Format::Test && !rust_test::is_known(trace);
    refused.then(|| {
        let run = &trace.run;
        let text = format!(
            "`{run}` is no run of lockstep, so a test would not find it: take the steps again with --replay FILE of the program that has it"
        );
        Failure::new(Exit::Usage, text)
    })
}

/// Draws `trace`; `drawing` matters to [`Format::Text`] alone, which has ANSI styles.
///
/// # Errors
/// None that the types allow; the signature is `serde_json`'s.
pub fn render(trace: &Trace, format: Format, drawing: Drawing) -> serde_json::Result<String> {
    match format {
        Format::Chrome => chrome::chrome(trace),
        Format::Itf => itf::itf(trace),
        Format::Json => trace.to_json(),
        Format::Mermaid => Ok(mermaid::mermaid(trace)),
        Format::Shiviz => shiviz::shiviz(trace),
        Format::Svg => Ok(svg::svg(trace)),
        Format::Test => Ok(rust_test::rust_test(trace)),
        Format::Text => Ok(draw(&trace.story, (&trace.property, &trace.sentence), drawing)),
    }
}
