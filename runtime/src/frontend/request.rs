//! The body of `POST /v1/completions`, read and checked field by field. Pure; what needs the model is checked in `routes`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::unsupported;

/// `max_tokens` when the client names none, as OpenAI has it.
pub const DEFAULT_MAX_TOKENS: u32 = 16;

/// A prompt as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// A well-formed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionRequest {
    pub(crate) prompt: Prompt,
    pub(crate) max_tokens: u32,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) ignore_eos: bool,
    /// Temperature in thousandths.
    pub(crate) temperature_milli: u32,
    /// One is drawn where none is given.
    pub(crate) seed: Option<u64>,
    pub(crate) bootstrap: Bootstrap,
}

/// Where a router has a request prefilled, as in SGLang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bootstrap {
    /// The host of the prefill side's bootstrap server.
    pub(crate) host: Option<String>,
    /// Its port.
    pub(crate) port: Option<u16>,
    /// The name by which the request's two halves are paired.
    pub(crate) room: Option<u64>,
}

impl CompletionRequest {
    /// Reads a body that asks for the model `served`, or names none.
    ///
    /// # Errors
    /// The refusal that names the first field that is not taken. Unknown fields are taken.
    pub(crate) fn parse(body: &[u8], served: &str) -> Result<Self, ApiError> {
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| ApiError::BadJson { reason: error.to_string() })?;
        check_model(&fields, served)?;
        unsupported::check(&fields)?;
        let stream = flag(&fields, "stream")?;
        Ok(Self {
            prompt: prompt(&fields)?,
            max_tokens: max_tokens(&fields)?,
            stream,
            include_usage: include_usage(&fields, stream)?,
            ignore_eos: flag(&fields, "ignore_eos")?,
            temperature_milli: temperature_milli(&fields)?,
            seed: seed(&fields)?,
            bootstrap: Bootstrap {
                host: field(&fields, "bootstrap_host", "a host name or address")?,
                port: field(&fields, "bootstrap_port", "a port")?,
                room: field(&fields, "bootstrap_room", "a whole number below 2^64")?,
            },
        })
    }
}

/// The value of a field that is there and not null.
pub(super) fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn field<T: DeserializeOwned>(
    fields: &Map<String, Value>,
    name: &'static str,
    expected: &str,
) -> Result<Option<T>, ApiError> {
    let Some(value) = given(fields, name) else { return Ok(None) };
    let parsed = serde_json::from_value(value.clone());
    parsed.map(Some).map_err(|_| ApiError::invalid(name, format!("{name} must be {expected}")))
}

fn flag(fields: &Map<String, Value>, name: &'static str) -> Result<bool, ApiError> {
    Ok(field(fields, name, "true or false")?.unwrap_or(false))
}

fn check_model(fields: &Map<String, Value>, served: &str) -> Result<(), ApiError> {
    let asked: Option<String> = field(fields, "model", "a string")?;
    match asked.filter(|asked| asked != served) {
        Some(asked) => Err(ApiError::UnknownModel { asked, served: served.into() }),
        None => Ok(()),
    }
}

fn max_tokens(fields: &Map<String, Value>) -> Result<u32, ApiError> {
    let expected = "a whole number, 1 or more";
    match field(fields, "max_tokens", expected)?.unwrap_or(DEFAULT_MAX_TOKENS) {
        0 => Err(ApiError::invalid("max_tokens", format!("max_tokens must be {expected}"))),
        count => Ok(count),
    }
}

/// OpenAI's 0 to 2. Without one the likeliest token is taken, as at 0: what is not asked to be random is not.
fn temperature_milli(fields: &Map<String, Value>) -> Result<u32, ApiError> {
    let expected = "a number from 0 to 2";
    let temperature: f64 = field(fields, "temperature", expected)?.unwrap_or(0.0);
    if !(0.0..=2.0).contains(&temperature) {
        return Err(ApiError::invalid("temperature", format!("temperature must be {expected}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2000")]
    let milli = (temperature * 1000.0).round() as u32;
    if milli > 0 {
        unsupported::check_drawn(fields)?;
    }
    Ok(milli)
}

fn seed(fields: &Map<String, Value>) -> Result<Option<u64>, ApiError> {
    let Some(value) = given(fields, "seed") else { return Ok(None) };
    let seed = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
    seed.map(Some).ok_or_else(|| ApiError::invalid("seed", "seed must be a whole number of 64 bits"))
}

fn include_usage(fields: &Map<String, Value>, stream: bool) -> Result<bool, ApiError> {
    let options: Option<Map<String, Value>> = field(fields, "stream_options", "an object")?;
    let Some(options) = options else { return Ok(false) };
    if !stream {
        return Err(ApiError::invalid(
            "stream_options",
            "stream_options is only taken together with stream: true",
        ));
    }
    if given(&options, "continuous_usage_stats").is_some_and(|value| value != false) {
        return Err(unsupported::refusal("stream_options.continuous_usage_stats"));
    }
    flag(&options, "include_usage")
}

fn prompt(fields: &Map<String, Value>) -> Result<Prompt, ApiError> {
    let wrong = || ApiError::invalid("prompt", "prompt must be one string or one array of token ids");
    let prompt = match given(fields, "prompt") {
        Some(Value::Array(prompts)) => match prompts.as_slice() {
            [only @ (Value::String(_) | Value::Array(_))] => only,
            [Value::String(_) | Value::Array(_), ..] => {
                return Err(ApiError::invalid("prompt", "send one prompt per request"));
            }
            _ => return tokens(prompts).ok_or_else(wrong),
        },
        Some(other) => other,
        None => return Err(ApiError::invalid("prompt", "prompt is missing")),
    };
    match prompt {
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(ids) => tokens(ids).ok_or_else(wrong),
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::Object(_) => Err(wrong()),
    }
}

fn tokens(ids: &[Value]) -> Option<Prompt> {
    let ids = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
    ids.collect::<Option<Vec<u32>>>().map(Prompt::Tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{hash_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(body: &Value) -> Result<CompletionRequest, ApiError> {
        CompletionRequest::parse(body.to_string().as_bytes(), "kjv-1m")
    }

    fn param(body: &Value) -> String {
        let error = parse(body).unwrap_err();
        error.body()["error"]["param"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn request_defaults_are_openais() {
        let request = parse(&json!({"prompt": "a"})).unwrap();
        let expected = CompletionRequest {
            prompt: Prompt::Text("a".into()),
            max_tokens: 16,
            stream: false,
            include_usage: false,
            ignore_eos: false,
            temperature_milli: 0,
            seed: None,
            bootstrap: Bootstrap::default(),
        };
        assert_eq!(request, expected);
        let null = json!({"model": null, "prompt": "a", "max_tokens": null, "stream": null, "stop": null});
        assert_eq!(parse(&null).unwrap(), expected);
    }

    #[test]
    fn request_prompts_come_as_text_or_tokens() {
        for text in [json!("a"), json!(["a"])] {
            assert_eq!(parse(&json!({"prompt": text})).unwrap().prompt, Prompt::Text("a".into()));
        }
        for ids in [json!([1, 2]), json!([[1, 2]])] {
            assert_eq!(parse(&json!({"prompt": ids})).unwrap().prompt, Prompt::Tokens(vec![1, 2]));
        }
        assert_eq!(parse(&json!({"prompt": []})).unwrap().prompt, Prompt::Tokens(vec![]));
    }

    #[test]
    fn request_wrong_fields_are_named() {
        for prompt in [
            json!(["a", "b"]),
            json!([1, "b"]),
            json!([-1]),
            json!([1.5]),
            json!({}),
            json!(4),
            json!([[1], [2]]),
        ] {
            assert_eq!(param(&json!({"prompt": prompt})), "prompt", "{prompt}");
        }
        assert_eq!(param(&json!({})), "prompt");
        for count in [json!(0), json!(-1), json!("4"), json!(1.5)] {
            assert_eq!(param(&json!({"prompt": "a", "max_tokens": count})), "max_tokens");
        }
        assert_eq!(param(&json!({"prompt": "a", "stream": 1})), "stream");
        assert_eq!(param(&json!({"prompt": "a", "model": "gpt"})), "model");
        assert_eq!(param(&json!({"prompt": "a", "stream_options": {}})), "stream_options");
    }

    #[test]
    fn request_usage_is_asked_for_in_stream_options() {
        let body =
            json!({"prompt": "a", "stream": true, "stream_options": {"include_usage": true}, "who": "knows"});
        assert!(parse(&body).unwrap().include_usage);
        let continuous =
            json!({"prompt": "a", "stream": true, "stream_options": {"continuous_usage_stats": true}});
        assert_eq!(param(&continuous), "stream_options.continuous_usage_stats");
    }

    #[test]
    fn request_temperature_is_in_thousandths() {
        let milli = |temperature: f64| {
            parse(&json!({"prompt": "a", "temperature": temperature})).map(|r| r.temperature_milli)
        };
        let given = [0.0, 0.0004, 0.7, 1.0, 1.9996, 2.0];
        assert_eq!(given.map(|temperature| milli(temperature).unwrap()), [0, 0, 700, 1000, 2000, 2000]);
        for temperature in [json!(-0.1), json!(2.1), json!("warm")] {
            assert_eq!(param(&json!({"prompt": "a", "temperature": temperature})), "temperature");
        }
    }

    #[test]
    fn request_seeds_are_whole_numbers() {
        let seed = |seed: Value| parse(&json!({"prompt": "a", "seed": seed})).unwrap().seed;
        assert_eq!(
            [json!(4), json!(-1), json!(u64::MAX), Value::Null].map(seed),
            [Some(4), Some(u64::MAX), Some(u64::MAX), None]
        );
        assert_eq!(param(&json!({"prompt": "a", "seed": 0.5})), "seed");
    }

    /// What narrows a draw is not served, and said so; the likeliest token is the same with it.
    #[test]
    fn request_draws_are_from_the_whole_vocabulary() {
        for name in ["top_p", "top_k", "min_p"] {
            assert!(parse(&json!({"prompt": "a", name: 0.5})).is_ok());
            assert_eq!(param(&json!({"prompt": "a", "temperature": 0.7, name: 0.5})), name);
        }
        let neutral = json!({"prompt": "a", "temperature": 0.7, "top_p": 1, "top_k": -1, "min_p": 0});
        assert!(parse(&neutral).is_ok());
    }

    /// Any JSON, a few levels deep.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// A body whose known fields hold anything.
    fn bodies() -> impl Strategy<Value = Value> {
        let known = [
            "prompt",
            "max_tokens",
            "stream",
            "stream_options",
            "ignore_eos",
            "model",
            "temperature",
            "seed",
            "top_p",
            "n",
            "stop",
        ];
        let field = (proptest::sample::select(known.to_vec()), values());
        vec(field, 0..6)
            .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    proptest! {
        #[test]
        fn request_bodies_of_any_json_are_taken_or_refused_by_name(body in bodies()) {
            if let Err(error) = parse(&body) {
                let error = error.body()["error"].clone();
                prop_assert!(error["param"].is_string() && error["message"] != "", "{}", error);
            }
        }

        #[test]
        fn request_bodies_of_any_bytes_are_refused(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(CompletionRequest::parse(&bytes, "kjv-1m").is_err());
        }
    }

    #[test]
    fn request_bodies_that_nest_deeply_are_refused() {
        let deep = format!("{{\"prompt\": {}", "[".repeat(1 << 20));
        assert!(matches!(CompletionRequest::parse(deep.as_bytes(), "kjv-1m"), Err(ApiError::BadJson { .. })));
    }
}
