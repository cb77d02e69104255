//! What a tuning stores (`tune.json`). Ratios are to the scheduler as given; times are nanoseconds.

use serde::{Deserialize, Serialize};

use crate::sweep::sensitivity::{Better, Sensitivity};

/// The result.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tuning {
    /// [`traces::results::SCHEMA_VERSION`].
    pub schema_version: u32,
    pub program: String,
    pub settings: Settings,
    /// The tunables that are searched, with their values.
    pub searched: Vec<Searched>,
    pub tuned_on: Vec<Used>,
    pub held_out: Vec<Used>,
    pub rounds: Vec<Round>,
    /// The scheduler to set; missing if nothing is better than the scheduler as given.
    pub best: Option<String>,
    /// What it gains where it was chosen: a flattering figure.
    pub on_tuned: Option<Gain>,
    /// What it gains on traces that no candidate has seen; missing if nothing could be compared there.
    pub on_held_out: Option<Gain>,
    pub verdict: Verdict,
    pub limits: Vec<Limit>,
    /// What each tunable matters, by the first round.
    pub sensitivity: Option<Sensitivity>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    pub scheduler: String,
    pub drive: String,
    /// The figure that should get better.
    pub goal: String,
    pub better: Better,
    pub pacing: String,
    pub map: String,
    pub depth: Option<u32>,
    pub seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Searched {
    pub tunable: String,
    pub values: Vec<String>,
}

/// A trace, or the part of it that is used.
#[derive(Debug, Serialize, Deserialize)]
pub struct Used {
    pub trace: String,
    pub start_ns: u64,
    /// Missing if it is the end of the trace.
    pub end_ns: Option<u64>,
}

/// A round: all its candidates on one window of each trace.
#[derive(Debug, Serialize, Deserialize)]
pub struct Round {
    /// Its folder, below that of the tuning.
    pub folder: String,
    /// A window is this part of a trace (9: a ninth), or longer where that has too few requests.
    pub parts: u64,
    pub windows: u64,
    pub failed_tasks: u64,
    pub overloaded_tasks: u64,
    /// The best first.
    pub candidates: Vec<Ranked>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Ranked {
    pub scheduler: String,
    /// The goal's geometric mean ratio over the windows.
    pub ratio: f64,
    /// The same of each limit's figure.
    pub limit_ratios: Vec<Option<f64>>,
    pub is_within_limits: bool,
    /// Windows in which it failed or was overloaded, where the scheduler as given was not.
    pub windows_missing: u64,
}

/// What the best gains.
#[derive(Debug, Serialize, Deserialize)]
pub struct Gain {
    pub windows: u64,
    /// Geometric mean over the windows.
    pub ratio: f64,
    /// From, to: the 90 % interval of the mean, by a bootstrap over the windows. Missing of a single window.
    pub interval90: Option<[f64; 2]>,
}

/// What held-out traces say of the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No candidate is better within the limits.
    NothingBetter,
    /// It is better there: the whole interval is.
    Proven,
    /// The interval holds a ratio of 1, there are too few windows, or the best fails or is overloaded in some.
    NotProven,
    /// It is worse there: the whole interval is.
    Worse,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Limit {
    pub figure: String,
    /// The least or most that the ratio may be.
    pub allowed_ratio: f64,
    /// The ratio in the last round; missing if no window there has the figure.
    pub on_tuned: Option<f64>,
    /// The same on held-out traces.
    pub on_held_out: Option<f64>,
    /// Whether it holds on held-out traces; missing if it could not be judged there, or nothing is better.
    pub holds: Option<bool>,
}
