//! What kind of result a stored one is, and its report.

use anyhow::Result;
use report::Page;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::page;
use crate::arguments::{MISSES, TOP};
use crate::document::Document;
use crate::{capture, place, predict, reproduce, serve, stat, tune, validate};

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
    Kind { name: "capture lab", keys: &["accelerator", "runs"], page: |value| document(value, capture::lab::document) },
    Kind { name: "compare", keys: &["runs"], page: |value| Ok(page(&serde_json::from_value(value)?)) },
    Kind { name: "place", keys: &["luns"], page: |value| document(value, place::tables::document) },
    Kind { name: "predict", keys: &["pairs", "alone"], page: |value| document(value, predict::tables::document) },
    Kind {
        name: "stat",
        keys: &["stages"],
        page: |value| document(value, |figures| stat::tables::document(figures, stat::tables::FOR_REPORTS, TOP)),
    },
    Kind {
        name: "stat",
        keys: &["busiest"],
        page: |value| document(value, |figures| stat::histograms::document(figures, TOP)),
    },
    Kind { name: "stat", keys: &["catalog", "partitions"], page: |value| document(value, stat::catalog::document) },
    Kind {
        name: "reproduce",
        keys: &["paper"],
        page: |value| Ok(reproduce::render::document(&serde_json::from_value(value)?)?.page()),
    },
    Kind { name: "serve", keys: &["lateness"], page: |value| document(value, serve::tables::document) },
    Kind { name: "tune", keys: &["searched", "verdict"], page: |value| document(value, tune::tables::document) },
    Kind {
        name: "validate closed",
        keys: &["all", "streams"],
        page: |value| document(value, validate::closed::tables::document),
    },
    Kind {
        name: "validate consolidation",
        keys: &["summary", "truth"],
        page: |value| document(value, validate::errors_tables::document),
    },
    Kind {
        name: "validate cross",
        keys: &["cases", "left_out"],
        page: |value| document(value, validate::cross::tables::document),
    },
    Kind {
        name: "validate decisions",
        keys: &["misses"],
        page: |value| document(value, |agreement| validate::decisions::document(agreement, MISSES)),
    },
    Kind { name: "validate decisions", keys: &["unfinished"], page: |value| document(value, validate::free::document) },
    Kind { name: "validate drive", keys: &["empirical"], page: |value| document(value, validate::drive::document) },
    Kind {
        name: "validate guest",
        keys: &["accelerator", "baseline"],
        page: |value| document(value, validate::guest::tables::document),
    },
    Kind {
        name: "validate scheduler",
        keys: &["sequences"],
        page: |value| document(value, validate::scheduler::document),
    },
];

/// The page of a stored result, of which `of` makes the document.
fn document<T: DeserializeOwned>(value: Value, of: impl Fn(&T) -> Document) -> Result<Page> {
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
