//! `iocast diff`: what changed between two results of one subcommand on the same traces.

mod result;
mod tables;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use serde::Serialize;
use traces::results::SCHEMA_VERSION;

use crate::arguments::Diff;
use crate::error::{LimitsBroken, UsageError};
use crate::output;
use crate::output_format::OutputFormat;
use result::{Leaf, StoredResult};
use threshold::Thresholds;

/// What changed between two results.
#[derive(Debug, Serialize)]
pub struct Difference {
    schema_version: u32,
    /// The subcommand whose results they are.
    of: &'static str,
    old: String,
    new: String,
    /// How many figures are the same.
    same: u64,
    /// Those that differ, in the order of the old result, and those that one of them lacks.
    changed: Vec<Changed>,
    /// Runs, VMs, cells and the like that the new result lacks, and those that the old one lacks.
    missing: Vec<String>,
    added: Vec<String>,
    /// Options and settings that differ.
    settings: Vec<Changed>,
    /// How many figures changed by more than they may, and runs and the like with such figures that are missing.
    past_threshold: u64,
}

/// A figure or a setting that differs.
#[derive(Debug, Serialize)]
pub struct Changed {
    key: String,
    old: Side,
    new: Side,
    /// The change as a share of the old value; `None` where there is none.
    change: Option<f64>,
    past_threshold: bool,
}

/// One result's value of a figure.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Side {
    Number(f64),
    Text(String),
    /// The result has no such figure, or the figure has no value.
    Absent,
}

pub fn run(arguments: &Diff) -> Result<()> {
    let thresholds = Thresholds::new(arguments.threshold.as_deref())?;
    let [old, new] = [&arguments.old, &arguments.new].map(|path| StoredResult::read(path));
    let (old, new) = (old?, new?);
    let [old_name, new_name] = [&arguments.old, &arguments.new].map(|path| path.display().to_string());
    comparable(&old, &new, [&old_name, &new_name])?;
    let mut difference = Difference {
        schema_version: SCHEMA_VERSION,
        of: old.kind,
        old: old_name,
        new: new_name,
        same: 0,
        changed: Vec::new(),
        missing: only_in(&old, &new),
        added: only_in(&new, &old),
        settings: settings(&old, &new),
        past_threshold: 0,
    };
    let keys: Vec<&str> = old.figures.iter().chain(&new.figures).map(|(key, _)| key.as_str()).collect();
    if let [first, ..] = thresholds.idle(&keys)[..] {
        bail!(UsageError(format!(
            "--threshold: `{first}` fits no figure of these results, such as {}",
            keys.first().copied().unwrap_or("none, since they have none")
        )));
    }
    difference.add_figures(&old, &new, &thresholds);
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&difference)?,
        format => output::print(&tables::render(&difference, format, arguments.details))?,
    }
    match difference.past_threshold {
        0 => Ok(()),
        1 => Err(LimitsBroken("1 figure is missing or changed by more than its threshold".to_owned()).into()),
        several => {
            Err(LimitsBroken(format!("{several} figures are missing or changed by more than their thresholds")).into())
        }
    }
}

/// Refuses results that say nothing about each other.
fn comparable(old: &StoredResult, new: &StoredResult, names: [&str; 2]) -> Result<()> {
    let [old_name, new_name] = names;
    ensure!(
        old.kind == new.kind,
        UsageError(format!("{old_name} is a result of {}, {new_name} of {}", old.kind, new.kind))
    );
    let paper = |result: &StoredResult| result.figures.iter().find(|(key, _)| key == "paper").cloned();
    ensure!(paper(old) == paper(new), UsageError(format!("{old_name} and {new_name} reproduce different papers")));
    let of = |traces: &BTreeMap<String, (String, String)>| traces.keys().cloned().collect::<Vec<_>>().join(", ");
    for (vm, (checksum, path)) in &old.traces {
        let Some((other, other_path)) = new.traces.get(vm) else { continue };
        ensure!(
            checksum == other,
            UsageError(format!(
                "the results are of other traces: {vm} is {path} (SHA-256 {}…) in {old_name}, and {other_path} ({}…) in \
                 {new_name}",
                &checksum[..checksum.len().min(8)],
                &other[..other.len().min(8)]
            ))
        );
    }
    ensure!(
        old.traces.keys().eq(new.traces.keys()),
        UsageError(format!(
            "the results are of other VMs: {} in {old_name}, {} in {new_name}",
            of(&old.traces),
            of(&new.traces)
        ))
    );
    Ok(())
}

/// The objects of lists that only `this` has; not those within another one.
fn only_in(this: &StoredResult, other: &StoredResult) -> Vec<String> {
    let others: BTreeSet<&String> = other.elements.iter().collect();
    let mut only: Vec<String> = Vec::new();
    for key in this.elements.iter().filter(|key| !others.contains(key)) {
        if !is_within(key, &only) {
            only.push(key.clone());
        }
    }
    only
}

fn is_within(key: &str, elements: &[String]) -> bool {
    elements.iter().any(|element| key.starts_with(element.as_str()))
}

/// The options and settings that differ.
fn settings(old: &StoredResult, new: &StoredResult) -> Vec<Changed> {
    let keys = old.settings.keys().chain(new.settings.keys().filter(|key| !old.settings.contains_key(*key)));
    let only = [only_in(old, new), only_in(new, old)].concat();
    let both = keys.filter(|key| !is_within(key, &only));
    let differing = both.filter(|key| old.settings.get(*key) != new.settings.get(*key));
    let changed = |key: &String| {
        let [old, new] = [old, new].map(|result| side(result.settings.get(key)));
        Changed { key: key.clone(), old, new, change: None, past_threshold: false }
    };
    differing.map(changed).collect()
}

impl Difference {
    fn add_figures(&mut self, old: &StoredResult, new: &StoredResult, thresholds: &Thresholds) {
        let by_key = |result: &StoredResult| result.figures.iter().cloned().collect::<BTreeMap<String, Leaf>>();
        let (olds, news) = (by_key(old), by_key(new));
        let mut missing = BTreeSet::new();
        for (key, leaf) in &old.figures {
            match self.missing.iter().find(|element| key.starts_with(element.as_str())) {
                None => self.add(key, Some(leaf), news.get(key), thresholds),
                Some(element) if thresholds.of(key).is_bound() => _ = missing.insert(element.clone()),
                Some(_) => {}
            }
        }
        self.past_threshold += missing.len() as u64;
        for (key, leaf) in new.figures.iter().filter(|(key, _)| !olds.contains_key(key)) {
            if !is_within(key, &self.added) {
                self.add(key, None, Some(leaf), thresholds);
            }
        }
    }

    fn add(&mut self, key: &str, old: Option<&Leaf>, new: Option<&Leaf>, thresholds: &Thresholds) {
        if old == new {
            self.same += 1;
            return;
        }
        let change = match (old, new) {
            (Some(&Leaf::Number(old)), Some(&Leaf::Number(new))) if old != 0.0 => Some((new - old) / old.abs()),
            _ => None,
        };
        let most = thresholds.of(key);
        // A new figure, as of one more scheduler, worsens nothing.
        let past_threshold = old.is_some()
            && match (old, new, change) {
                (_, _, Some(change)) => most.is_exceeded_by(change),
                (Some(&Leaf::Number(zero)), Some(&Leaf::Number(new)), None) => {
                    most.is_exceeded_by(if new > zero { f64::INFINITY } else { f64::NEG_INFINITY })
                }
                // Sentences may be worded anew.
                (Some(Leaf::List(_)), Some(_), None) => false,
                _ => most.is_bound(),
            };
        self.past_threshold += u64::from(past_threshold);
        let key = key.to_owned();
        self.changed.push(Changed { key, old: side(old), new: side(new), change, past_threshold });
    }
}

fn side(leaf: Option<&Leaf>) -> Side {
    match leaf {
        None | Some(Leaf::Absent) => Side::Absent,
        Some(Leaf::Number(number)) => Side::Number(*number),
        Some(Leaf::Text(text) | Leaf::List(text)) => Side::Text(text.clone()),
    }
}
