//! Drawings in the programs that they are made for: the page of `lockstep-check explore` and the formats of `explain`, opened in a
//! headless Chromium. Needs `chromium` and `chromedriver`, and once pip, for Mermaid.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod checker;
mod driver;
mod page;
mod readers;
