//! Fields of the OpenAI and engine dialects that would change the answer and are not served: refused by name unless they
//! hold the value that changes nothing. What narrows a draw (`top_p` and the like) has no effect on the likeliest token.

use serde_json::{Map, Value};

use super::error::ApiError;
use super::request::given;

/// The value under which a field changes nothing.
#[derive(Clone, Copy, Debug)]
enum Neutral {
    Empty,
    False,
    Number(f64),
    OnlyNull,
}

impl Neutral {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Empty => is_empty(value),
            Self::False => value == false,
            Self::Number(number) => value.as_f64() == Some(number),
            Self::OnlyNull => false,
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Null | Value::Number(_) => false,
    }
}

const FIELDS: [(&str, Neutral); 16] = [
    ("best_of", Neutral::Number(1.0)),
    ("echo", Neutral::False),
    ("frequency_penalty", Neutral::Number(0.0)),
    ("guided_json", Neutral::OnlyNull),
    ("guided_regex", Neutral::OnlyNull),
    ("logit_bias", Neutral::Empty),
    ("logprobs", Neutral::OnlyNull),
    ("min_tokens", Neutral::Number(0.0)),
    ("n", Neutral::Number(1.0)),
    ("presence_penalty", Neutral::Number(0.0)),
    ("prompt_logprobs", Neutral::OnlyNull),
    ("repetition_penalty", Neutral::Number(1.0)),
    ("response_format", Neutral::OnlyNull),
    ("stop", Neutral::Empty),
    ("stop_token_ids", Neutral::Empty),
    ("suffix", Neutral::Empty),
];

/// What would narrow a draw.
const NARROWING: [(&str, Neutral); 3] =
    [("min_p", Neutral::Number(0.0)), ("top_k", Neutral::Number(-1.0)), ("top_p", Neutral::Number(1.0))];

/// Refuses the first field that is set to what is not served.
///
/// # Errors
/// [`ApiError::Invalid`] with the field's name.
pub(super) fn check(fields: &Map<String, Value>) -> Result<(), ApiError> {
    check_all(&FIELDS, fields)
}

/// Refuses the first field that would narrow a draw.
///
/// # Errors
/// [`ApiError::Invalid`] with the field's name.
pub(super) fn check_drawn(fields: &Map<String, Value>) -> Result<(), ApiError> {
    check_all(&NARROWING, fields)
}

fn check_all(refused: &[(&'static str, Neutral)], fields: &Map<String, Value>) -> Result<(), ApiError> {
    let set = |&(name, neutral): &(&'static str, Neutral)| {
        given(fields, name).is_some_and(|value| !neutral.holds(value)).then_some(name)
    };
    refused.iter().find_map(set).map_or(Ok(()), |name| Err(refusal(name)))
}

/// The refusal of a field that is not served.
pub(super) fn refusal(param: &'static str) -> ApiError {
    ApiError::invalid(param, format!("{param} is not supported yet: leave it out"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(body: Value) -> Result<(), String> {
        let Value::Object(fields) = body else { return Err("no object".into()) };
        check(&fields).map_err(|error| error.to_string())
    }

    #[test]
    fn unsupported_fields_are_refused_by_name() {
        for (name, _) in FIELDS {
            let error = checked(json!({name: 7})).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn unsupported_fields_may_hold_what_changes_nothing() {
        let neutral = json!({
            "best_of": 1, "echo": false, "frequency_penalty": 0, "logit_bias": {}, "logprobs": null, "n": 1,
            "presence_penalty": 0.0, "repetition_penalty": 1.0, "stop": [], "suffix": "", "user": "me",
        });
        assert_eq!(checked(neutral), Ok(()));
    }
}
