//! What `iocast convert --align` found.

use serde::{Deserialize, Serialize};

/// Two records of one run on one clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignmentFigures {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Requests of the reference that move data.
    pub reference_requests: u64,
    /// Requests of the input that move data.
    pub input_requests: u64,
    /// Requests that are in both.
    pub matched: u64,
    /// Of these, those whose address, length and operation occur once on both sides: they make the clock.
    pub matched_uniquely: u64,
    /// In the reference only.
    pub unmatched_reference: u64,
    /// In the input only.
    pub unmatched_input: u64,
    /// The most matches that follow one another without anything between on either side.
    pub longest_run: u64,
    /// Added to the input's times at `offset_at_input_ns`.
    pub offset_ns: i64,
    /// A time on the input's clock.
    pub offset_at_input_ns: u64,
    /// How much faster the reference's clock runs, parts per 10⁹.
    pub drift_ppb: f64,
    /// How far issues are from each other after that, without sign: median.
    pub residual_p50_ns: u64,
    /// The same, 95th percentile.
    pub residual_p95_ns: u64,
    /// The same, largest.
    pub residual_max_ns: u64,
    /// The offset that issues alone give.
    pub issue_offset_ns: i64,
    /// The offset that completions alone give; differs by the time between the two places, there and back.
    pub completion_offset_ns: Option<i64>,
    /// Matches whose time on one side lies within their time on the other, as it must if the clock is right.
    pub nested: u64,
}
