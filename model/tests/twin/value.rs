//! Values of TLA+, as TLC prints them in a dump.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A value. Functions on 1 to n are sequences, as for TLC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Flag(bool),
    Number(u64),
    Text(String),
    Sequence(Vec<Value>),
    Set(BTreeSet<Value>),
    Record(BTreeMap<String, Value>),
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn record<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::Sequence(items.into_iter().collect())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        match self {
            Self::Flag(flag) => write!(formatter, "{}", if *flag { "TRUE" } else { "FALSE" }),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write!(formatter, "\"{text}\""),
            Self::Sequence(items) => {
                write!(formatter, "<<{}>>", joined(&mut items.iter().map(ToString::to_string)))
            }
            Self::Set(items) => {
                write!(formatter, "{{{}}}", joined(&mut items.iter().map(ToString::to_string)))
            }
            Self::Record(fields) => {
                let mut fields = fields.iter().map(|(name, value)| format!("{name} |-> {value}"));
                write!(formatter, "[{}]", joined(&mut fields))
            }
        }
    }
}

/// The states of a dump, each a record of the variables.
pub(crate) fn states(dump: &str) -> Result<Vec<Value>, String> {
    let mut reader = Reader(dump);
    let mut states = Vec::new();
    while reader.eats("State ") {
        reader.number()?;
        reader.expect(":")?;
        let mut variables = BTreeMap::new();
        while reader.eats("/\\") {
            let name = reader.word()?;
            reader.expect("=")?;
            variables.insert(name, reader.value()?);
        }
        states.push(Value::Record(variables));
    }
    if reader.0.is_empty() { Ok(states) } else { Err(reader.surprise("a state")) }
}

/// What is left to read; never starts with a blank.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn surprise(&self, wanted: &str) -> String {
        let near: String = self.0.chars().take(60).collect();
        format!("expected {wanted} at `{near}`")
    }

    fn eats(&mut self, token: &str) -> bool {
        let rest = self.0.strip_prefix(token);
        rest.inspect(|rest| self.0 = rest.trim_start()).is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eats(token) { Ok(()) } else { Err(self.surprise(token)) }
    }

    fn span(&mut self, belongs: fn(char) -> bool, wanted: &str) -> Result<String, String> {
        let end = self.0.find(|next| !belongs(next)).unwrap_or(self.0.len());
        if end == 0 {
            return Err(self.surprise(wanted));
        }
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.trim_start();
        Ok(word.to_owned())
    }

    fn word(&mut self) -> Result<String, String> {
        self.span(|next| next.is_ascii_alphanumeric() || next == '_', "a name")
    }

    fn number(&mut self) -> Result<u64, String> {
        let digits = self.span(|next| next.is_ascii_digit(), "a number")?;
        digits.parse().map_err(|_| self.surprise("a smaller number before"))
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.eats("<<") {
            return Ok(Value::Sequence(self.list(">>", Self::value)?));
        }
        if self.eats("{") {
            return Ok(Value::Set(self.list("}", Self::value)?.into_iter().collect()));
        }
        if self.eats("[") {
            return Ok(Value::Record(self.list("]", Self::mapping)?.into_iter().collect()));
        }
        if self.eats("\"") {
            let text = self.span(|next| next != '"', "a text")?;
            return self.expect("\"").map(|()| Value::Text(text));
        }
        if self.eats("TRUE") || self.0.starts_with("FALSE") {
            return Ok(Value::Flag(!self.eats("FALSE")));
        }
        let first = self.number()?;
        if !self.eats("..") {
            return Ok(Value::Number(first));
        }
        Ok(Value::Set((first..=self.number()?).map(Value::Number).collect()))
    }

    fn mapping(&mut self) -> Result<(String, Value), String> {
        let name = self.word()?;
        self.expect("|->")?;
        Ok((name, self.value()?))
    }

    fn list<T>(&mut self, close: &str, item: fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.eats(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}
