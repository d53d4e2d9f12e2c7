//! The part of JSON Schema that the certificate's schema uses. A keyword that is not known here is a fault, so that nothing is skipped.

use serde_json::Value;

/// Words that say nothing of a value.
const ANNOTATIONS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// What is wrong with `value` under `schema`, one line a fault.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check((schema, schema), value, "", &mut faults);
    faults
}

/// Checks under `schema`, the second of the pair; the first is the root, to which references lead.
fn check((root, schema): (&Value, &Value), value: &Value, at: &str, faults: &mut Vec<String>) {
    for (keyword, said) in schema.as_object().unwrap() {
        let met = match keyword.as_str() {
            "$ref" => {
                let target = root.pointer(said.as_str().unwrap().trim_start_matches('#')).unwrap();
                check((root, target), value, at, faults);
                true
            }
            "type" => types(said).iter().any(|name| is_of(value, name)),
            "const" => value == said,
            "enum" => said.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= said.as_f64().unwrap()),
            "oneOf" => one_of(root, said, value),
            "required" => {
                said.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, schema) in said.as_object().unwrap() {
                    value
                        .get(name)
                        .into_iter()
                        .for_each(|value| check((root, schema), value, &format!("{at}/{name}"), faults));
                }
                true
            }
            "additionalProperties" => {
                assert_eq!(*said, Value::Bool(false));
                value
                    .as_object()
                    .is_none_or(|fields| fields.keys().all(|name| schema["properties"].get(name).is_some()))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.for_each(|(index, item)| check((root, said), item, &format!("{at}/{index}"), faults));
                true
            }
            annotation => ANNOTATIONS.contains(&annotation),
        };
        if !met {
            faults.push(format!("{at}: {keyword} {said} is not met by {value}"));
        }
    }
}

fn one_of(root: &Value, schemas: &Value, value: &Value) -> bool {
    let meets = |schema: &&Value| {
        let mut faults = Vec::new();
        check((root, schema), value, "", &mut faults);
        faults.is_empty()
    };
    schemas.as_array().unwrap().iter().filter(meets).count() == 1
}

fn types(said: &Value) -> Vec<&str> {
    let listed = said.as_array().into_iter().flatten().chain(Some(said));
    listed.filter_map(Value::as_str).collect()
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => false,
    }
}
