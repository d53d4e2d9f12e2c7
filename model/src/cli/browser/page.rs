//! The page: its sources joined to one HTML file that loads nothing, and the counterexample that a stand-alone one carries.

use crate::explain::Trace;
use crate::report::diverged;
use serde_json::{Value, json};

/// Where the page holds its counterexample; `null` asks the server.
const EMBEDDED: &str = "null/* the counterexample of a stand-alone page */";

/// The page, in pieces.
const PIECES: [&str; 11] = [
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/style.css"),
    "</style>\n",
    include_str!("page/body.html"),
    "<script>\n\"use strict\";\n",
    include_str!("page/place.js"),
    include_str!("page/view.js"),
    include_str!("page/draw.js"),
    include_str!("page/main.js"),
    "</script>\n",
];

/// The page that asks the server.
pub(super) fn page() -> String {
    PIECES.concat()
}

/// The page of a counterexample, which needs no server.
///
/// # Errors
/// `serde_json`'s; none that a trace causes.
pub(crate) fn stand_alone(trace: &Trace) -> serde_json::Result<String> {
    // Inside a script, `<` could end it.
    let text = recorded(trace)?.to_string().replace('<', "\\u003c");
    Ok(page().replacen(EMBEDDED, &text, 1))
}

/// A counterexample as the page takes it: the trace file, and the guards that diverged.
pub(super) fn recorded(trace: &Trace) -> serde_json::Result<Value> {
    let file: Value = serde_json::from_str(&trace.to_json()?)?;
    Ok(json!({ "trace": file, "diverged": diverged(&trace.story) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_loads_nothing() {
        let page = page();
        assert_eq!(page.matches(EMBEDDED).count(), 1);
        for loads in ["src=", "href=\"http", "@import", "url(", "import("] {
            assert!(!page.contains(loads), "{loads}");
        }
    }
}
