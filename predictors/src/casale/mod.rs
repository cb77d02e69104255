//! Casale, Kraft, Krishnamurthy 2011, "A Model of Storage I/O Performance Interference in Virtualized Systems": machines
//! together, from rates, response times and arrival-queue lengths of each alone.

pub mod published;
pub mod refined;

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::{Settings, SpecError, Tunable, Unit};

use crate::predictor::PredictError;

/// Which A is meant: the paper says "requests in the queue on arrival".
const FOUND: Tunable = Tunable::new(
    "found",
    Unit::Choice(&["total", "own"]),
    "total",
    "what a request finds: all, or those of its own type",
);
const MAX_CONN: Tunable =
    Tunable::new("max_conn", Unit::Count, "32", "requests that the storage takes at once").within(1, 65_536);
const MAX_WRITE_CONN: Tunable =
    Tunable::new("max_write_conn", Unit::Count, "16", "how many of them may be writes").within(0, 65_536);

/// Equations (5) and (6): response times.
#[derive(Clone, Copy, Debug)]
struct Responses {
    /// Requests found are those of the own type.
    own: bool,
    /// max_write_conn / max_conn.
    write_share: f64,
}

impl Responses {
    fn of(settings: &Settings) -> Result<Responses, SpecError> {
        let (most, writes) = (settings.count("max_conn"), settings.count("max_write_conn"));
        if writes > most {
            return Err(SpecError::Value {
                part: "casale".to_owned(),
                name: "max_write_conn".to_owned(),
                value: writes.to_string(),
                expected: format!("at most max_conn, which is {most}: writes are some of all"),
            });
        }
        Ok(Responses { own: settings.word("found") == "own", write_share: writes as f64 / most as f64 })
    }

    /// S·A: the time in which the device serves what a request of this type finds. S is C / (1 + A).
    fn work_found(&self, profile: &IsolationProfile, reads: bool) -> Result<f64, PredictError> {
        let operation = if reads { &profile.reads } else { &profile.writes };
        if operation.iops <= 0.0 {
            return Ok(0.0);
        }
        let (found, field) = match (self.own, reads) {
            (false, _) => (operation.found_total, "found_total"),
            (true, true) => (operation.found_reads, "found_reads"),
            (true, false) => (operation.found_writes, "found_writes"),
        };
        let name = if reads { "reads" } else { "writes" };
        let missing = |field: &str| PredictError::profile(profile, format!("Casale's formulas need {field} of {name}"));
        let found = found.ok_or_else(|| missing(field))?;
        let response = operation.response_ns.ok_or_else(|| missing("response_ns"))?;
        Ok(response / (1.0 + found) * found)
    }

    /// What a machine adds to the response time of every other.
    fn interference(&self, profile: &IsolationProfile) -> Result<f64, PredictError> {
        Ok(self.work_found(profile, true)? + self.write_share * self.work_found(profile, false)?)
    }

    /// Responses of reads and of writes of machine `index`: its own alone, and what all others add. For two machines this is the
    /// paper's; a third adds as the second does, since each is served between.
    fn together(&self, alone: &[IsolationProfile], index: usize) -> Result<[Option<f64>; 2], PredictError> {
        let mut added = 0.0;
        for (_, other) in alone.iter().enumerate().filter(|(other, _)| *other != index) {
            added += self.interference(other)?;
        }
        let of = |operation: &IsolatedOperation| {
            operation.response_ns.filter(|_| operation.iops > 0.0).map(|own| own + added)
        };
        Ok([of(&alone[index].reads), of(&alone[index].writes)])
    }
}

/// T: all requests of a machine per second.
fn rate(profile: &IsolationProfile) -> f64 {
    profile.reads.iops + profile.writes.iops
}
