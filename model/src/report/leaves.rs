//! What changed inside of a value: the smallest parts of its `Debug` text that differ, with the way to each.

use super::story::Change;

/// Characters that the value before may have where it is of another kind than the value now.
const MOST_BEFORE: usize = 40;

/// A change as the changes of the parts that differ. Where the parts are not the same ones, the whole is what changed.
pub(crate) fn leaves(change: &Change) -> Vec<Change> {
    let (Some(from), Some(to)) = (&change.from, &change.to) else { return vec![change.clone()] };
    let mut parts = Vec::new();
    descend(&change.field, from, to, &mut parts);
    parts
}

fn descend(way: &str, from: &str, to: &str, parts: &mut Vec<Change>) {
    if from == to {
        return;
    }
    match (Tree::of(from), Tree::of(to)) {
        (Some(old), Some(new)) if old.is_like(&new) => {
            for (index, (before, now)) in old.parts.iter().zip(&new.parts).enumerate() {
                descend(&new.way(way, index), before.value, now.value, parts);
            }
        }
        (old, _) => {
            let from = match old.filter(|_| from.chars().count() > MOST_BEFORE) {
                Some(old) => format!("{}…", old.head),
                None => from.to_owned(),
            };
            parts.push(Change { field: way.to_owned(), from: Some(from), to: Some(to.to_owned()) });
        }
    }
}

/// What opens a list of parts, and what closes it.
const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// A struct, a variant or a list in its `Debug` text.
struct Tree<'a> {
    /// What is before the parts, the bracket included.
    head: &'a str,
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    /// The field; none in a tuple or a list.
    name: Option<&'a str>,
    value: &'a str,
}

impl<'a> Tree<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let opens = text.find(['(', '[', '{'])?;
        let (head, rest) = text.split_at(opens + 1);
        let (_, closes) = BRACKETS.into_iter().find(|(opening, _)| head.ends_with(*opening))?;
        let parts = top_level(rest.strip_suffix(closes)?.trim()).into_iter().map(Part::of).collect();
        Some(Self { head, parts })
    }

    /// Whether the parts are the same ones. A set or a map has none that could be told apart.
    fn is_like(&self, other: &Self) -> bool {
        let names =
            |tree: &Self| tree.parts.iter().map(|part| part.name.map(str::to_owned)).collect::<Vec<_>>();
        let is_struct = !self.head.ends_with('{') || self.parts.iter().all(|part| part.name.is_some());
        self.head == other.head && is_struct && names(self) == names(other)
    }

    /// The way to a part of what `way` leads to.
    fn way(&self, way: &str, index: usize) -> String {
        match self.parts[index].name {
            Some(name) => format!("{way} {}", name.replace('_', " ")),
            None if self.parts.len() == 1 && self.head.ends_with('(') => way.to_owned(),
            None => format!("{way}[{index}]"),
        }
    }
}

impl<'a> Part<'a> {
    fn of(text: &'a str) -> Self {
        let is_name = |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        match text.split_once(": ").filter(|(name, _)| is_name(name)) {
            Some((name, value)) => Self { name: Some(name), value },
            None => Self { name: None, value: text },
        }
    }
}

/// The parts of a list that are separated by commas outside of brackets and strings.
pub(crate) fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped) = (0_i32, false, false);
    let separates = |letter: char| {
        let is_text = quoted;
        quoted ^= letter == '"' && !escaped;
        escaped = is_text && letter == '\\' && !escaped;
        if is_text {
            return false;
        }
        depth += i32::from(matches!(letter, '(' | '[' | '{')) - i32::from(matches!(letter, ')' | ']' | '}'));
        depth == 0 && letter == ','
    };
    list.split(separates).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::leaves;
    use crate::report::Change;

    fn told(from: &str, to: &str) -> Vec<String> {
        let change =
            Change { field: "state".to_owned(), from: Some(from.to_owned()), to: Some(to.to_owned()) };
        let text = |part: Change| {
            format!("{} {} → {}", part.field, part.from.unwrap_or_default(), part.to.unwrap_or_default())
        };
        leaves(&change).into_iter().map(text).collect()
    }

    #[test]
    fn leaves_are_the_parts_that_differ() {
        let from = "Around([Seen { offer: None, is_over: false }, Seen { offer: Some(3), is_over: false }])";
        let to = "Around([Seen { offer: None, is_over: true }, Seen { offer: Some(4), is_over: false }])";
        assert_eq!(told(from, to), ["state[0] is over false → true", "state[1] offer 3 → 4"]);
        assert_eq!(told("(1, \"a, (b\")", "(1, \"a, (c\")"), ["state[1] \"a, (b\" → \"a, (c\""]);
    }

    #[test]
    fn leaves_that_are_not_the_same_ones_change_as_a_whole() {
        assert_eq!(told("[1]", "[1, 2]"), ["state [1] → [1, 2]"]);
        assert_eq!(told("{(1, 1)}", "{(1, 2)}"), ["state {(1, 1)} → {(1, 2)}"]);
        assert_eq!(told("{1: 2}", "{3: 2}"), ["state {1: 2} → {3: 2}"]);
        assert_eq!(told("Some(1)", "None"), ["state Some(1) → None"]);
        let long = format!("Offering {{ name: [{}] }}", "1, ".repeat(40));
        assert_eq!(told(&long, "Naming { common: 1 }"), ["state Offering {… → Naming { common: 1 }"]);
    }
}
