//! Casale, Kraft, Krishnamurthy 2011, "A Model of Storage I/O Performance Interference in Virtualized Systems".
//!
//! The formulas forecast VMs together from rates, response times and arrival-queue lengths of each VM alone.
//! `published` has them as in the paper, `refined` with two changes; this module has their common part, the response
//! times. The formulas leave out seeks between VMs, and VMs that send fewer requests because their response times grow.

pub mod published;
pub mod refined;

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::{Settings, SpecError, Tunable, Unit};

use crate::predictor::PredictError;

/// The meaning of A, which the paper leaves open: it says "requests in the queue on arrival".
const FOUND: Tunable = Tunable::new(
    "found",
    Unit::Choice(&["total", "own"]),
    "total",
    "requests that count as found on arrival: all, or those of the own type",
);
const MAX_CONN: Tunable =
    Tunable::new("max_conn", Unit::Count, "32", "most requests that the storage serves at once").within(1, 65_536);
const MAX_WRITE_CONN: Tunable =
    Tunable::new("max_write_conn", Unit::Count, "16", "most writes among them").within(0, 65_536);

/// Equations (5) and (6): response times.
#[derive(Clone, Copy, Debug)]
struct Responses {
    /// Whether only requests of the own type count as found on arrival.
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
                expected: format!("at most max_conn, which is {most}, because it includes writes"),
            });
        }
        Ok(Responses { own: settings.word("found") == "own", write_share: writes as f64 / most as f64 })
    }

    /// S·A: the service time of all requests that a request of this type finds. S is C / (1 + A).
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

    /// The time that a VM adds to the response times of every other VM.
    fn interference(&self, profile: &IsolationProfile) -> Result<f64, PredictError> {
        Ok(self.work_found(profile, true)? + self.write_share * self.work_found(profile, false)?)
    }

    /// Response times of reads and of writes of the VM `index`: its own alone, and the interference of all others. For
    /// two VMs this is the paper's formula. A third VM adds its interference as the second does, since the device
    /// serves its requests in between, too.
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

/// T: all requests of a VM per second.
fn rate(profile: &IsolationProfile) -> f64 {
    profile.reads.iops + profile.writes.iops
}
