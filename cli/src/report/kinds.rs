//! What kind of result a stored one is, and its report.

use anyhow::Result;
use report::Page;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::page;
use crate::told::Told;
use crate::{capture, place, predict, reproduce, serve, stat, validate};

/// Processes, cgroups and VMs of a trace that a report shows, as `stat` does unless told otherwise.
const TOP: usize = 10;
/// Decisions that differ that a report shows, as `validate decisions` does unless told otherwise.
const MISSES: usize = 20;

/// Results of one kind.
pub struct Kind {
    /// The subcommand.
    pub name: &'static str,
    /// Keys that together only its results have.
    keys: &'static [&'static str],
    /// The report of one.
    page: fn(Value) -> Result<Page>,
}

/// All kinds; the first whose keys are there is the kind of a result.
pub const KINDS: &[Kind] = &[
    Kind { name: "capture lab", keys: &["accelerator", "runs"], page: |value| told(value, capture::lab::told) },
    Kind { name: "compare", keys: &["runs"], page: |value| Ok(page(&serde_json::from_value(value)?)) },
    Kind { name: "place", keys: &["luns"], page: |value| told(value, place::tables::told) },
    Kind { name: "predict", keys: &["pairs", "alone"], page: |value| told(value, predict::tables::told) },
    Kind {
        name: "stat",
        keys: &["stages"],
        page: |value| told(value, |figures| stat::tables::told(figures, stat::tables::FOR_REPORTS, TOP)),
    },
    Kind {
        name: "stat",
        keys: &["busiest"],
        page: |value| told(value, |figures| stat::histograms::told(figures, TOP)),
    },
    Kind {
        name: "reproduce",
        keys: &["paper"],
        page: |value| Ok(reproduce::render::told(&serde_json::from_value(value)?)?.page()),
    },
    Kind { name: "serve", keys: &["lateness"], page: |value| told(value, serve::tables::told) },
    Kind {
        name: "validate closed",
        keys: &["all", "streams"],
        page: |value| told(value, validate::closed::tables::told),
    },
    Kind {
        name: "validate consolidation",
        keys: &["summary", "truth"],
        page: |value| told(value, validate::errors_tables::told),
    },
    Kind {
        name: "validate decisions",
        keys: &["misses"],
        page: |value| told(value, |agreement| validate::decisions::told(agreement, MISSES)),
    },
    Kind { name: "validate decisions", keys: &["unfinished"], page: |value| told(value, validate::free::told) },
    Kind { name: "validate drive", keys: &["empirical"], page: |value| told(value, validate::drive::told) },
    Kind {
        name: "validate guest",
        keys: &["accelerator", "baseline"],
        page: |value| told(value, validate::guest::tables::told),
    },
    Kind { name: "validate scheduler", keys: &["sequences"], page: |value| told(value, validate::scheduler::told) },
];

/// The page of a stored result that is told as `of` says.
fn told<T: DeserializeOwned>(value: Value, of: impl Fn(&T) -> Told) -> Result<Page> {
    Ok(of(&serde_json::from_value(value)?).page())
}

/// The kind of this result, if it is known by its keys.
pub fn kind_of(value: &Value) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.keys.iter().all(|key| value.get(key).is_some()))
}

impl Kind {
    /// The report of a result of this kind.
    ///
    /// # Errors
    /// A value of another form; a picture that cannot be drawn.
    pub fn page(&self, value: Value) -> Result<Page> {
        (self.page)(value)
    }
}
