//! TLC's configurations, read for Rust's side: the `.cfg` file is the one place that states a run's size.

use crate::tlc::modules;
use lockstep_model::decode::setting::{Breakage, DecodeSetting, RequestKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A configuration of `spec/tla`.
pub(crate) struct Configuration {
    pub(crate) setting: DecodeSetting,
    /// None for all.
    pub(crate) variants: Vec<String>,
}

impl Configuration {
    /// The configuration of this name.
    pub(crate) fn read(name: &str) -> Self {
        let path = modules().join(format!("{name}.cfg"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let constants: BTreeMap<&str, &str> = text.lines().filter_map(constant).collect();
        let number = |name: &str| constants[name].parse::<u32>().expect("a number");
        let overlap = number("FlightLimit") == 2;
        let mut setting = DecodeSetting::new(1, number("SlotCount"), number("PageCount"), overlap);
        Arc::make_mut(&mut setting.configuration).page_size = number("PageSize");
        setting.host(number("HostCount"));
        setting.kinds = kinds(constants["Kinds"]);
        setting.aborts = constants["Aborts"] == "TRUE";
        setting.breakage = breakage(constants["Breakage"]);
        let variants = constants["Variants"].strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let names = variants.into_iter().flat_map(|names| names.split(", "));
        Self { setting, variants: names.map(|name| name.trim_matches('"').to_owned()).collect() }
    }
}

/// Name and value of a line that gives a constant.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ").or_else(|| line.split_once(" <- "))?;
    Some((name.trim(), value.trim()))
}

fn breakage(word: &str) -> &'static [Breakage] {
    match word {
        "\"nothing\"" => &[],
        "\"handshake\"" => &[Breakage::Handshake],
        "\"transfer\"" => &[Breakage::Transfer],
        "\"deadline\"" => &[Breakage::Deadline],
        _ => panic!("no breakage {word}"),
    }
}

/// The sequences of kinds of `Rules.tla`.
fn kinds(name: &str) -> Vec<RequestKind> {
    let kind = |most, stop_at| RequestKind { prompt: 1, most, stop_at };
    match name {
        "Growing" => vec![kind(3, None)],
        "LongShort" => vec![kind(4, None), kind(2, None)],
        "Short" => vec![kind(2, None)],
        "Stopping" => vec![kind(3, Some(1)), kind(2, None)],
        _ => panic!("no kinds {name}"),
    }
}
