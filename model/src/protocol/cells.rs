//! Drawing of any value that can be debugged, field by field, so that a counterexample shows which field a step changed.

use std::fmt::Debug;

use crate::report::top_level;

/// The fields of a struct with their values, as its derived `Debug` writes them; any other value as one cell, `state`.
pub fn cells(value: &impl Debug) -> Vec<(String, String)> {
    let text = format!("{value:?}");
    let fields = text.split_once(" { ").and_then(|(_, fields)| fields.strip_suffix(" }"));
    let cells = fields.and_then(|fields| top_level(fields).into_iter().map(field).collect());
    cells.unwrap_or_else(|| vec![("state".to_owned(), text)])
}

fn field(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(": ")?;
    Some((name.replace('_', " "), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::cells;

    #[derive(Debug)]
    #[expect(dead_code, reason = "read by Debug alone")]
    struct Rank {
        queue: Vec<(u8, bool)>,
        last_vote: Option<u64>,
    }

    #[test]
    fn cells_of_a_struct_are_its_fields() {
        let rank = Rank { queue: vec![(1, true), (2, false)], last_vote: Some(3) };
        let expected = [("queue", "[(1, true), (2, false)]"), ("last vote", "Some(3)")];
        assert_eq!(cells(&rank), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn cells_of_anything_else_are_one() {
        assert_eq!(cells(&Some(7)), [("state".to_owned(), "Some(7)".to_owned())]);
        assert_eq!(cells(&"a { b }"), [("state".to_owned(), "\"a { b }\"".to_owned())]);
    }
}
