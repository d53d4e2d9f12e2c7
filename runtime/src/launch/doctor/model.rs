//! The model: whether it is there, loads, suits the groups' size, and what is proved of these.

use std::fs;
use std::path::Path;

use super::finding::{Finding, size};
use crate::engine::{Config, Llama};
use crate::launch::cli::GroupFlags;
use crate::launch::model::Model;
use crate::launch::{Parts, classes};
use crate::proved;

/// Weights up to this size are loaded to see whether they can be.
const LOADED: u64 = 1 << 30;
/// Group sizes that are tried.
const SIZES: std::ops::RangeInclusive<usize> = 1..=16;
/// Bytes of a key's or value's element, at most.
const ELEMENT: u64 = 4;

/// Memory that one group needs at least, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) weights: u64,
    pub(super) pages: u64,
}

/// Looks at the model and the groups; the memory that one of them needs, if there is a model.
pub(super) fn examine(flags: &GroupFlags, parts: &Parts) -> (Vec<Finding>, Option<Needs>) {
    let mut findings = vec![checked_flags(flags), proof(flags)];
    let model = match Model::find(flags.model.as_deref()) {
        Ok(model) => model,
        Err(error) => {
            findings.push(Finding::missing("model", error));
            return (findings, None);
        }
    };
    let directory = &model.directory;
    findings.push(Finding::good("model", directory.display()));
    findings.push(Finding::judged("tokenizer", (parts.codec)(directory).map(|_| "loads")));
    let config = match Config::load(directory) {
        Ok(config) => config,
        Err(error) => {
            findings.push(Finding::missing("configuration", error));
            return (findings, None);
        }
    };
    findings.push(group_size(&config, flags.sizes().largest() as usize));
    let bytes = weight_bytes(directory);
    findings.push(weights(directory, bytes));
    let needs = Needs { weights: bytes, pages: page_bytes(&config, flags) };
    (findings, Some(needs))
}

fn checked_flags(flags: &GroupFlags) -> Finding {
    Finding::judged("flags", flags.check().map(|()| "fit together"))
}

fn proof(flags: &GroupFlags) -> Finding {
    let required = classes(flags).iter().try_for_each(proved::require);
    match (required, flags.unchecked) {
        (Ok(()), _) => {
            Finding::good("proof", "the protocol that this program executes is proved for these groups")
        }
        (Err(reason), true) => Finding::note("proof", reason, "--unchecked starts all the same"),
        (Err(reason), false) => Finding::missing("proof", reason),
    }
}

fn group_size(config: &Config, tp: usize) -> Finding {
    let fits = |size: &usize| config.shard(0, *size).is_ok();
    let sizes: Vec<String> = SIZES.filter(fits).map(|size| size.to_string()).collect();
    let suits = format!("--tp may be {}", sizes.join(", "));
    let shard = config.shard(0, tp);
    Finding::judged("group size", shard.map(|_| &suits).map_err(|error| format!("{error}: {suits}")))
}

fn weights(directory: &Path, bytes: u64) -> Finding {
    if bytes > LOADED {
        let advice = "they are loaded when the ranks start, and take their time";
        return Finding::note("weights", format!("{}, not tried", size(bytes)), advice);
    }
    let loaded = Llama::load(directory, 0, 1);
    Finding::judged("weights", loaded.map(|_| format!("{}, which load", size(bytes))))
}

fn weight_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let weights = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "safetensors"));
    weights.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Of all ranks of a group.
fn page_bytes(config: &Config, flags: &GroupFlags) -> u64 {
    let position = [2, config.layers as u64, config.kv_heads as u64, config.head_dim as u64, ELEMENT];
    let positions = u64::from(flags.pages).saturating_mul(flags.page_size.into());
    position.into_iter().fold(positions, u64::saturating_mul)
}
