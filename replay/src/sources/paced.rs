//! The source of one replay that can be reported on: traces in one of four pacings.

use std::str::FromStr;

use traces::quantity::Fraction;
use traces::results::JournalCommits;
use traces::spec::did_you_mean;

use super::closed::BUFFERED_MAX;
use super::{Asap, Closed, MergedTraces, Open, TraceRead};
use crate::source::Source;

/// When the requests of traces arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// At the recorded times.
    Recorded,
    /// At the recorded times, multiplied.
    Scaled(Fraction),
    /// As fast as possible, with this number outstanding.
    Asap(u32),
    /// Each stream after its completions and then its recorded think times.
    Closed,
}

impl Pacing {
    /// Whether requests arrive at times of the trace, however long the drive takes.
    pub fn is_open(self) -> bool {
        matches!(self, Pacing::Recorded | Pacing::Scaled(_))
    }
}

/// Why a text names no pacing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PacingError(String);

/// Outstanding requests of `asap` without a number.
const ASAP_OUTSTANDING: u32 = 32;

impl FromStr for Pacing {
    type Err = PacingError;

    fn from_str(text: &str) -> Result<Pacing, PacingError> {
        let unknown = || {
            let (word, forms) = match text.split_once('=') {
                Some((word, _)) => (word, &["scaled=F", "asap=N"][..]),
                None => (text, &["recorded", "scaled=F", "asap", "closed"][..]),
            };
            let hint = did_you_mean(word, forms.iter().copied());
            PacingError(format!("expected recorded, scaled=F, asap, asap=N or closed{hint}"))
        };
        match text.split_once('=') {
            None if text == "recorded" => Ok(Pacing::Recorded),
            None if text == "closed" => Ok(Pacing::Closed),
            None if text == "asap" => Ok(Pacing::Asap(ASAP_OUTSTANDING)),
            Some(("asap", n)) => n.parse().ok().filter(|&n| n > 0).map(Pacing::Asap).ok_or_else(unknown),
            Some(("scaled", factor)) => {
                factor.parse().map(Pacing::Scaled).map_err(|error| PacingError(format!("{error}")))
            }
            _ => Err(unknown()),
        }
    }
}

/// A source that can be replayed and reported on.
pub trait ReplaySource: Source {
    /// The traces that are replayed, if any are.
    fn traces(&self) -> Option<&MergedTraces>;

    /// What was read of each trace; nothing if no traces are replayed.
    fn read(&self) -> Vec<TraceRead> {
        self.traces().map(MergedTraces::read).unwrap_or_default()
    }

    /// The commits of journals, if the source makes them.
    fn journal_commits(&self) -> Option<JournalCommits> {
        None
    }

    /// Notes for the reader of the figures. `held_back`: whether the bound on outstanding arrivals held some back.
    fn notes(&self, _held_back: bool) -> Vec<String> {
        Vec::new()
    }
}

/// The source that replays `traces` in `pacing`.
pub fn paced(traces: MergedTraces, pacing: Pacing) -> Box<dyn ReplaySource> {
    match pacing {
        Pacing::Recorded => Box::new(Open::recorded(traces)),
        Pacing::Scaled(factor) => Box::new(Open::scaled(traces, factor)),
        Pacing::Asap(outstanding) => Box::new(Asap::new(traces, outstanding)),
        Pacing::Closed => Box::new(Closed::new(traces)),
    }
}

impl ReplaySource for Open {
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Open::traces(self))
    }
}

impl ReplaySource for Asap {
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Asap::traces(self))
    }
}

impl ReplaySource for Closed {
    fn traces(&self) -> Option<&MergedTraces> {
        Some(Closed::traces(self))
    }

    fn journal_commits(&self) -> Option<JournalCommits> {
        Some(Closed::journal_commits(self)).filter(|commits| commits.recorded > 0)
    }

    fn notes(&self, held_back: bool) -> Vec<String> {
        let (late, (incomplete, requests)) = (if held_back { 0 } else { self.late() }, self.incomplete());
        let mut notes = Vec::new();
        if late > 0 {
            notes.push(format!(
                "{late} arrivals came later than their think time, because their stream was more than {BUFFERED_MAX} \
                 requests away from the others in the trace"
            ));
        }
        let commits = Closed::journal_commits(self);
        if (commits.requests_left_out + commits.requests_repeated) * 100 > requests {
            notes.push(format!(
                "of {} commits of journals {} were left out and {} repeated ({} requests fewer and {} more), since more \
                 or fewer processes share one on this drive",
                commits.recorded,
                commits.left_out,
                commits.repeated,
                commits.requests_left_out,
                commits.requests_repeated
            ));
        }
        for trace in self.held_back_writers() {
            notes.push(format!(
                "{trace}: writes of the page cache were outstanding nearly all the time. The drive held the programs \
                 back that wrote; what they would write on a faster one is not in the trace"
            ));
        }
        for early in self.used_up_early() {
            notes.push(format!(
                "{}: the first of its processes had sent all its requests after {:.1} s, {:.1} arrivals a second. Until \
                 {:.1} s timers and slower processes went on, so rates over the whole replay are below those of this VM \
                 here",
                early.trace,
                early.after.as_s_f64(),
                early.arrivals_per_s,
                early.replayed.as_s_f64()
            ));
        }
        // A few are always outstanding when a capture ends.
        if incomplete * 100 > requests {
            notes.push(format!(
                "{incomplete} of {requests} requests have no completion time, so that no arrival waits for them and \
                 this replay is more open than closed"
            ));
        }
        notes
    }
}
