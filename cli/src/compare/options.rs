//! The options of a comparison as its result states them: every one that applied, with its value.

use std::collections::BTreeMap;

use replay::Limits;
use replay::sources::{Pacing, TimeWindow};

use super::Setup;
use super::load::Load;
use crate::arguments::{MapArgument, Reading, Replaying, Until};

/// The options of the one stage there is without a stack.
const OF_ONE_STAGE: &[&str] = &["max_segments", "depth", "write_depth", "look_ahead", "merge", "max_request_sectors"];

/// The options that only traces have.
const OF_TRACES: &[&str] = &["pacing", "map", "arrivals", "from", "lenient"];

/// The options of a replay of traces through one stage, and their values.
pub fn of_replay(
    pacing: Pacing,
    map: MapArgument,
    reading: &Reading,
    window: TimeWindow,
    limits: Limits,
    max_queue: u32,
) -> BTreeMap<String, String> {
    let pacing = match pacing {
        Pacing::Recorded => "recorded".to_owned(),
        Pacing::Scaled(f) => format!("scaled={}/{}", f.numerator, f.denominator),
        Pacing::Asap(outstanding) => format!("asap={outstanding}"),
        Pacing::Closed => "closed".to_owned(),
    };
    let or_all = |value: Option<String>| value.unwrap_or_else(|| "all".to_owned());
    [
        ("pacing", pacing),
        ("map", map.to_string()),
        ("max_segments", limits.max_segments.to_string()),
        ("arrivals", format!("{:?}", reading.at).to_lowercase()),
        ("from", window.from.to_string()),
        ("to", or_all(window.to.map(|to| to.to_string()))),
        ("limit", or_all(window.limit.map(|limit| limit.to_string()))),
        ("lenient", reading.lenient.to_string()),
        ("depth", limits.depth.to_string()),
        ("write_depth", limits.write_depth.min(limits.depth).to_string()),
        ("look_ahead", u8::from(limits.look_ahead).to_string()),
        ("merge", if limits.merge { "on" } else { "off" }.to_owned()),
        ("max_request_sectors", limits.max_sectors.to_string()),
        ("max_queue", max_queue.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// For how long VMs are measured, as a result states it.
pub fn measured_until(until: Until) -> String {
    match until {
        Until::First => "the first VM has no more arrivals",
        Until::Last => "the last VM has no more arrivals",
    }
    .to_owned()
}

/// Every option that applied, with its value; of one that differs between drives, the values in the order of the drives.
pub(super) fn of_all(setups: &[Setup<'_>]) -> BTreeMap<String, String> {
    let each: Vec<BTreeMap<String, String>> = setups.iter().map(Setup::effective_options).collect();
    let mut options = each[0].clone();
    for (name, value) in &mut options {
        if each.iter().any(|other| other[name] != *value) {
            *value = each.iter().map(|of| of[name].as_str()).collect::<Vec<&str>>().join(" / ");
        }
    }
    options
}

impl Setup<'_> {
    /// Every option that applied to the replays on this drive, with its value.
    fn effective_options(&self) -> BTreeMap<String, String> {
        let Replaying { stage, reading, pacing, map, .. } = &self.arguments.replaying;
        let mut options = of_replay(*pacing, *map, reading, self.window, self.limits, stage.max_queue);
        let seed = "none: arrivals are the trace's; a drive that draws times has a seed of its own";
        options.insert("seed".to_owned(), seed.to_owned());
        if self.arguments.replaying.per_vm || self.arguments.stack.watches_shares() {
            options.insert("vms_measured_until".to_owned(), measured_until(self.arguments.replaying.until));
        }
        if !self.arguments.stack.stacks.is_empty() {
            // Each layer of a stack has its own.
            options.retain(|name, _| !OF_ONE_STAGE.contains(&name.as_str()));
            options.insert("interval".to_owned(), self.arguments.stack.interval.to_string());
        }
        if let Load::Generated(_) = self.load {
            options.retain(|name, _| !OF_TRACES.contains(&name.as_str()));
            options.insert("seed".to_owned(), self.arguments.generated.seed.to_string());
        }
        options
    }
}
