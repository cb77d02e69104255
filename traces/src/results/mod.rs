//! The schemas of stored results. Units are in the names; times are nanoseconds.
//!
//! Means and variances come from integer sums, so that they are the same bytes on every machine.

pub mod alignment;
pub mod calibration;
pub mod catalog;
pub mod closed;
pub mod cross;
pub mod decisions;
pub mod drive;
pub mod engines;
pub mod free_run;
pub mod guest;
pub mod histograms;
pub mod history;
pub mod isolation;
pub mod lab;
pub mod live;
pub mod placement;
pub mod prediction;
pub mod reproduction;
pub mod requests;
pub mod serving;
pub mod solved_net;
pub mod stack;
pub mod statistics;
pub mod wire;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::trace::{Clock, Layer, Losses, TraceMeta};
use crate::units::Nanos;

pub use history::History;
pub use live::LiveFigures;
pub use stack::{Fairness, LayerFigures, StackFigures};
pub use statistics::SpanFigures;

/// The version of every schema in this module.
pub const SCHEMA_VERSION: u32 = 1;

/// The percentiles that are reported, in hundredths of a percent, with their names.
pub const PERCENTILES: [(u32, &str); 6] =
    [(5_000, "p50"), (9_000, "p90"), (9_500, "p95"), (9_900, "p99"), (9_990, "p99.9"), (9_999, "p99.99")];

/// Whether this number of `samples` supports a percentile of [`PERCENTILES`]: whether the largest of them exceeds it
/// with a probability of 95 % (Wilks 1941: 1 - p^n). p99 needs 299 samples, p99.9 2,995, p99.99 29,956.
pub fn supports_percentile(samples: u64, name: &str) -> bool {
    let share = PERCENTILES.iter().find(|(_, known)| *known == name).map_or(1.0, |(of, _)| f64::from(*of) / 1e4);
    share.powf(samples as f64) <= 0.05
}

/// What `iocast compare` and `iocast replay` store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was compared on what.
    pub provenance: Provenance,
    /// The scheduler that ratios refer to, if it was among them.
    pub baseline: Option<String>,
    /// One replay per scheduler, in the order asked for.
    pub runs: Vec<Run>,
}

/// Everything that is needed to get the same numbers again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Program and version.
    pub program: String,
    /// The traces, one per VM.
    pub traces: Vec<TraceProvenance>,
    /// The generated workloads, one per VM, in place of traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadProvenance>,
    /// The drives that were replayed on.
    pub drives: Vec<Part>,
    /// Every option of the replay that has an effect on its result, by name.
    pub options: BTreeMap<String, String>,
    /// Warnings that hold for all runs.
    pub warnings: Vec<String>,
}

/// Where the requests of one VM came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceProvenance {
    /// The VM's name.
    pub vm: String,
    /// The file as it was named ([`crate::origin::without_folders`]).
    pub path: String,
    /// SHA-256 of the file, or of a capture's files one after another.
    pub sha256: String,
    /// The format it was read as.
    pub format: String,
    /// Where it was taken.
    pub layer: Layer,
    /// Its clock.
    pub clock: Clock,
    /// How its addresses were brought onto the drive.
    pub addresses: String,
    /// Requests replayed.
    pub requests: u64,
    /// What was lost or skipped.
    pub losses: Losses,
    /// Who made the trace, with what, where.
    pub made: BTreeMap<String, String>,
}

impl TraceProvenance {
    /// Of so many requests of which no more is known than their trace's `meta`: no name, no file, nothing lost,
    /// addresses as recorded.
    pub fn of(meta: &TraceMeta, requests: u64) -> TraceProvenance {
        TraceProvenance {
            vm: String::new(),
            path: String::new(),
            sha256: String::new(),
            format: meta.format.clone(),
            layer: meta.layer,
            clock: meta.clock.clone(),
            addresses: "as recorded".to_owned(),
            requests,
            losses: Losses::default(),
            made: meta.provenance.clone(),
        }
    }
}

/// What made the requests of one VM, if it was no trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadProvenance {
    /// The VM's name.
    pub vm: String,
    /// The workload or description as it was named, and the program with all its tunables.
    pub workload: Part,
    /// How many times it ran side by side.
    pub copies: u64,
    /// Where on the drive the VM's disk begins.
    pub place_sector: u64,
    /// Size of the disk.
    pub capacity_sectors: u64,
    /// Bytes of the page cache, 0 for none.
    pub cache_bytes: u64,
    /// Whether its file system kept a journal.
    pub journal: bool,
    /// The seed of this VM, which that of the run gives.
    pub seed: u64,
    /// SHA-256 of the files that say what it does, by path ([`crate::origin::without_folders`]): a description, a job
    /// file.
    pub sha256: BTreeMap<String, String>,
}

/// A scheduler, drive or workload with all its tunables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The name it was asked for by.
    pub name: String,
    /// What it is built on: a drive's model, a workload's program, or the scheduler itself.
    pub model: String,
    /// Every tunable, as one would write it.
    pub settings: BTreeMap<String, String>,
}

/// Whether a run's figures may be compared with others'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// They may.
    Comparable,
    /// The drive could not sustain the open loop.
    Overloaded {
        /// How that showed.
        reason: String,
        /// What to do instead.
        remedy: String,
    },
}

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scheduler.
    pub scheduler: Part,
    /// The name of the drive, among [`Provenance::drives`].
    pub drive: String,
    /// Whether the figures may be compared.
    #[serde(flatten)]
    pub status: Status,
    /// All service times over the span of the arrivals; absent where arrivals follow completions,
    /// and if all arrived at once.
    pub offered_load: Option<f64>,
    /// From the first arrival to the last completion.
    pub span_ns: Nanos,
    /// Reads.
    pub read: ClassFigures,
    /// Writes.
    pub write: ClassFigures,
    /// Reads and writes.
    pub all: ClassFigures,
    /// Flushes and discards.
    pub other: ClassFigures,
    /// Queues, over all classes.
    pub queue: QueueFigures,
    /// The rules of the scheduler, in the order in which it tries them; none if it has only one. With a stack, those of
    /// the layer whose scheduler is compared, and else of the last layer.
    #[serde(default)]
    pub rules: Vec<RuleFigures>,
    /// The same per VM, if asked for.
    pub vms: Vec<VmFigures>,
    /// The layers that the requests went through, if there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackFigures>,
    /// The commits of journals, if the replay made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_commits: Option<JournalCommits>,
    /// How a replay on a real device kept its times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveFigures>,
    /// What happened over time, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Ratios to the baseline, if both are comparable.
    pub ratio: Option<Ratio>,
    /// Anything a reader of the figures should know.
    pub notes: Vec<String>,
}

/// The commits of journals in a closed replay, which differ from the recorded ones: on another drive more or fewer
/// processes share one. All other requests of a trace are replayed once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalCommits {
    /// Commits in the part of the trace that was read.
    pub recorded: u64,
    /// Of these, commits that were not made.
    pub left_out: u64,
    /// Commits that were made once more.
    pub repeated: u64,
    /// The requests of those that were left out.
    pub requests_left_out: u64,
    /// The requests of those that were repeated.
    pub requests_repeated: u64,
}

impl JournalCommits {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: JournalCommits) -> JournalCommits {
        JournalCommits {
            recorded: self.recorded + other.recorded,
            left_out: self.left_out + other.left_out,
            repeated: self.repeated + other.repeated,
            requests_left_out: self.requests_left_out + other.requests_left_out,
            requests_repeated: self.requests_repeated + other.requests_repeated,
        }
    }
}

/// How many requests a rule of a scheduler has sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleFigures {
    /// Its name, as `iocast list schedulers` explains it.
    pub name: String,
    /// Requests that it has sent; 0 if it never ran.
    pub requests: u64,
    /// Its share of the requests that the scheduler has sent; absent if there are none.
    pub share: Option<f64>,
}

/// One VM's share of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmFigures {
    /// The VM's name.
    pub vm: String,
    /// The time that the figures are over, from the first arrival of the run: until the first VM had no more arrivals,
    /// or the whole run.
    pub span_ns: Nanos,
    /// When the VM's last request completed, from the first arrival of the run.
    pub end_ns: Nanos,
    /// Reads.
    pub read: ClassFigures,
    /// Writes.
    pub write: ClassFigures,
    /// Reads and writes.
    pub all: ClassFigures,
    /// Flushes and discards.
    pub other: ClassFigures,
}

/// What was measured of one class of requests. An *arrival* is a request as the workload sent it, a
/// *device request* one as the drive served it, after merging and splitting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassFigures {
    /// Arrivals completed.
    pub requests: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Requests that the drive served.
    pub device_requests: u64,
    /// Device time, D2C, per device request.
    pub device_time: Moments,
    /// From leaving the scheduler to completion, per device request: Geist's service time. Differs
    /// from device time by the look-ahead.
    pub dispatch_to_completion: Moments,
    /// Response time, Q2C, per arrival.
    pub response_time: Moments,
    /// Percentiles of the response time in ns, by name, to three significant digits.
    pub response_percentiles_ns: BTreeMap<String, u64>,
    /// Arrivals completed per second of the time that the figures are over.
    pub iops: f64,
    /// Bytes per second of that time.
    pub bytes_per_s: f64,
    /// Sectors per millisecond of that time.
    pub sectors_per_ms: f64,
    /// Mean distance the head moved per device request, hits counted as zero.
    pub seek_distance_mean_sectors: Option<f64>,
    /// Share of device requests served from the drive's cache.
    pub cache_hit_share: Option<f64>,
}

/// Mean and variance of a span of time, from integer sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Mean; absent if there was nothing to measure.
    pub mean_ns: Option<f64>,
    /// Variance over all of them (not an estimate from a sample).
    pub variance_ns2: Option<f64>,
    /// Least.
    pub min_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
}

/// Queue lengths over the time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueFigures {
    /// Arrivals outstanding, waiting or in service: mean over time.
    pub outstanding_mean: f64,
    /// The most at any time.
    pub outstanding_max: u64,
    /// Requests waiting in the scheduler: mean over time.
    pub waiting_mean: f64,
    /// The most at any time.
    pub waiting_max: u64,
    /// Share of the time during which the drive had something to do.
    pub drive_utilisation: f64,
    /// Arrivals merged into a request that was waiting.
    pub merged: u64,
    /// Requests that left the scheduler.
    #[serde(default)]
    pub dispatches: u64,
    /// Of these, requests that left while another one waited, so that the scheduler had a choice.
    #[serde(default)]
    pub choices: u64,
}

/// A run's figures over the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of mean response time, reads and writes: below 1 is better.
    pub response_time_mean: Option<f64>,
    /// Of the 99th percentile of it.
    pub response_time_p99: Option<f64>,
    /// Of bytes per second: above 1 is better.
    pub throughput: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_samples_beyond_it() {
        for (name, needed) in [("p50", 5), ("p90", 29), ("p99", 299), ("p99.9", 2_995), ("p99.99", 29_956)] {
            assert!(supports_percentile(needed, name), "{name}");
            assert!(!supports_percentile(needed - 1, name), "{name}");
        }
        assert!(!supports_percentile(u64::MAX, "p7"));
    }
}
