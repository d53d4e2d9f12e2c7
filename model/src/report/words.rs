//! Styled words, and their wrapping into lines of a given width.

use anstyle::{AnsiColor, Style};

/// Fields, rules and step numbers.
pub(super) const FAINT: Style = Style::new().dimmed();
/// Titles and new values.
pub(super) const STRONG: Style = Style::new().bold();
/// Actions.
pub(super) const ACTION: Style = AnsiColor::Cyan.on_default();
/// Point of no return and cycles.
pub(super) const TURN: Style = AnsiColor::Yellow.on_default().bold();
/// Faults.
pub(super) const FAULT: Style = AnsiColor::Red.on_default().bold();
/// What is as it should be.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Everything else.
pub(super) const PLAIN: Style = Style::new();

/// Words without spaces, each in a style.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Vec<(Style, String)>);

impl Words {
    /// `text`, split at its spaces.
    pub(super) fn new(style: Style, text: &str) -> Self {
        Self(text.split_whitespace().map(|word| (style, word.to_owned())).collect())
    }

    /// These words and then `text`.
    pub(super) fn and(mut self, style: Style, text: &str) -> Self {
        self.0.extend(Self::new(style, text).0);
        self
    }

    /// Number of characters in one line.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, word)| word.chars().count() + 1).sum::<usize>().saturating_sub(1)
    }

    /// The words in lines of at most `width` characters; longer words are cut.
    pub(super) fn wrap(&self, width: usize) -> Vec<Self> {
        let mut lines: Vec<Self> = Vec::new();
        for (style, word) in &self.0 {
            for piece in cut(word, width.max(1)) {
                let fits = |line: &&mut Self| line.width() + 1 + piece.chars().count() <= width;
                match lines.last_mut().filter(fits) {
                    Some(line) => line.0.push((*style, piece)),
                    None => lines.push(Self(vec![(*style, piece)])),
                }
            }
        }
        lines
    }

    /// One line, filled with spaces up to `width`.
    pub(super) fn paint(&self, width: usize) -> String {
        let words: Vec<String> = self.0.iter().map(|(style, word)| paint(*style, word)).collect();
        format!("{}{}", words.join(" "), " ".repeat(width.saturating_sub(self.width())))
    }
}

/// `text` in a style.
pub(super) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

fn cut(word: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters.chunks(width).map(|piece| piece.iter().collect()).collect()
}
