//! Reads before writes, head of line, as a fixed point.
//!
//! One server. Reads have non-preemptive priority and come from closed populations: machine i has N_i readers that think for Z_i
//! between two reads. Writes come in batches of X at Poisson times, at the rate they have alone, since nobody waits for them. Then
//!
//! - reads: R_i = S_i + Σ_j ((Q_j - U_j) S_j + U_j r_j) + ρ_w r_w, with Q_j = X_j R_j the reads at the device and U_j = X_j S_j the
//!   one in service, both as a new read of machine i finds them (its own class with N_i - 1 of N_i: Schweitzer 1979), r the mean
//!   residual E(S²) / 2E(S), and X_i = N_i / (Z_i + R_i);
//! - writes: R_w = S_w + W with W = Σ_j ((Q_j - U_j) S_j + U_j r_j) + ρ_w r_w + Σ_j λ_j W_j S_j + m S_w + ρ_r W: the reads and writes
//!   that are there (batches come at Poisson times and find the mean), the m = (E(X²) - E(X)) / 2E(X) of its own batch that go
//!   before it, and the reads that come while it waits. With reads at Poisson times this is Cobham's formula (1954) for batches.
//!
//! N_i are the streams that read, or what reads have under way if that is more; Z_i is what then gives the rate alone. Each response is
//! the one alone times what the model makes of it: the model together by the model alone. It holds while reads and writes
//! together leave some of the device; near saturation writes wait for ever, and the forecast is refused. Against a simulation of
//! the same machines with few readers, reads are within 8 % and writes come out up to a fifth too long (`tests/head_of_line.rs`).

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::spec::Settings;

use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "hol",
    summary: "fixed point of closed readers with priority over batched writes; refused near saturation",
    origin: "Cobham 1954 (priorities), Schweitzer 1979 (closed populations), batches M^X",
    tunables: &[],
    needs_traces: false,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(HeadOfLine))),
};

/// The device may be asked for so much of its time.
const UTILISATION_MAX: f64 = 0.95;
const STEPS_MAX: usize = 10_000;
/// Of a response, relative: the fixed point is found.
const CLOSE_ENOUGH: f64 = 1e-10;

struct HeadOfLine;

/// A machine's requests as the model has them; seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// Reads: how many readers, and how long each thinks.
    pub readers: f64,
    /// Mean time between a read's completion and the reader's next.
    pub think: f64,
    /// Mean service time of a read and its mean square.
    pub read_service: [f64; 2],
    /// Writes per second.
    pub write_rate: f64,
    /// Mean service time of a write and its mean square.
    pub write_service: [f64; 2],
    /// Mean number of writes in a batch and its mean square; 1 and 1 for single writes.
    pub batch: [f64; 2],
}

/// What the model makes of a machine; seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solved {
    /// Reads per second.
    pub read_rate: f64,
    /// Response time of reads.
    pub read_response: f64,
    /// Response time of writes.
    pub write_response: f64,
}

/// The fixed point for machines that share a server; or how much of its time they ask for, if that is too much.
///
/// # Errors
/// The utilisation.
pub fn solve(classes: &[Class]) -> Result<Vec<Solved>, f64> {
    let residual = |[mean, square]: [f64; 2]| if mean > 0.0 { square / (2.0 * mean) } else { 0.0 };
    let writes: f64 = classes.iter().map(|class| class.write_rate * class.write_service[0]).sum();
    let found_writing: f64 = classes.iter().map(|class| class.write_rate * class.write_service[1] / 2.0).sum();
    if writes >= UTILISATION_MAX {
        return Err(writes);
    }
    let mut response: Vec<f64> = classes.iter().map(|class| class.read_service[0]).collect();
    let rate =
        |class: &Class, response: f64| if class.readers > 0.0 { class.readers / (class.think + response) } else { 0.0 };
    for _ in 0..STEPS_MAX {
        let mut change: f64 = 0.0;
        for index in 0..classes.len() {
            if classes[index].readers <= 0.0 {
                continue;
            }
            let mut next = classes[index].read_service[0] + found_writing;
            for (other, class) in classes.iter().enumerate() {
                let rate = rate(class, response[other]);
                let others = if other == index { (class.readers - 1.0) / class.readers } else { 1.0 };
                // A mean may say that more are served than are there, which cannot be.
                let there = rate * response[other] * others;
                let served = (rate * class.read_service[0] * others).min(there);
                next += (there - served) * class.read_service[0] + served * residual(class.read_service);
            }
            change = change.max((next / response[index] - 1.0).abs());
            response[index] = (response[index] + next) / 2.0;
        }
        if change < CLOSE_ENOUGH {
            break;
        }
    }
    let rates: Vec<f64> = classes.iter().zip(&response).map(|(class, response)| rate(class, *response)).collect();
    let reads: f64 = classes.iter().zip(&rates).map(|(class, rate)| rate * class.read_service[0]).sum();
    if reads + writes > UTILISATION_MAX {
        return Err(reads + writes);
    }
    let found_reading: f64 = classes
        .iter()
        .zip(rates.iter().zip(&response))
        .map(|(class, (rate, response))| {
            let served = rate * class.read_service[0];
            (rate * response - served).max(0.0) * class.read_service[0] + served * residual(class.read_service)
        })
        .sum();
    // With a = what is found and y = Σ λ W S: W (1 - ρ_r) = a + y + m S, and so y (1 - ρ_r - ρ_w) = ρ_w a + Σ λ S m S.
    let found = found_reading + found_writing;
    let mates_first: f64 = classes.iter().map(|class| class.write_rate * class.write_service[0] * mates(class)).sum();
    let writes_first = (writes * found + mates_first) / (1.0 - reads - writes);
    let solved = |((class, rate), response): ((&Class, f64), f64)| {
        let wait = (found + writes_first + mates(class)) / (1.0 - reads);
        Solved { read_rate: rate, read_response: response, write_response: class.write_service[0] + wait }
    };
    Ok(classes.iter().zip(rates).zip(response).map(solved).collect())
}

/// How long the writes of its batch that go before a write take.
fn mates(class: &Class) -> f64 {
    let [mean, square] = class.batch;
    if mean > 0.0 { (square - mean) / (2.0 * mean) * class.write_service[0] } else { 0.0 }
}

impl Predictor for HeadOfLine {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let classes = alone.iter().map(class).collect::<Result<Vec<Class>, PredictError>>()?;
        let writes = alone.iter().any(|profile| profile.writes.iops > 0.0);
        let waits = if writes { "with reads first, writes would wait" } else { "reads would wait" };
        let refused = |who: String| {
            move |utilisation: f64| {
                PredictError::DoesNotHold(format!(
                    "hol holds up to a utilisation of {UTILISATION_MAX}, and {who} for {utilisation:.2} of the device's time: \
                     {waits} without end"
                ))
            }
        };
        let together = solve(&classes).map_err(refused("together the machines ask".to_owned()))?;
        let mut vms = Vec::new();
        for ((profile, class), together) in alone.iter().zip(&classes).zip(together) {
            let by_itself = solve(&[*class]).map_err(refused(format!("{} alone asks", profile.vm)))?[0];
            let grown = |operation: &IsolatedOperation, together: f64, alone: f64| {
                operation.response_ns.filter(|_| operation.iops > 0.0 && alone > 0.0).map(|own| own * together / alone)
            };
            let reads = &profile.reads;
            vms.push(VmForecast {
                reads: OperationForecast::of_means(
                    (reads.iops > 0.0).then(|| reads.iops * together.read_rate / by_itself.read_rate),
                    grown(reads, together.read_response, by_itself.read_response),
                ),
                writes: OperationForecast::of_means(
                    (profile.writes.iops > 0.0).then_some(profile.writes.iops),
                    grown(&profile.writes, together.write_response, by_itself.write_response),
                ),
            });
        }
        Ok(Consolidation { vms, ..Consolidation::default() })
    }
}

/// What the model takes of a profile.
fn class(profile: &IsolationProfile) -> Result<Class, PredictError> {
    let service = |operation: &IsolatedOperation, name: &str| {
        if operation.iops <= 0.0 {
            return Ok([0.0, 0.0]);
        }
        let missing =
            || PredictError::profile(profile, format!("hol needs service_ns and service_square_ns2 of {name}"));
        let mean = operation.service_ns.ok_or_else(missing)?;
        let square = operation.service_square_ns2.ok_or_else(missing)?;
        if mean <= 0.0 || square < mean * mean * (1.0 - 1e-9) {
            return Err(PredictError::profile(
                profile,
                format!(
                    "{name} have a mean service time of {mean} ns and a mean square of {square} ns², which cannot be"
                ),
            ));
        }
        Ok([mean / 1e9, square / 1e18])
    };
    let (reads, writes) = (&profile.reads, &profile.writes);
    let streams = profile.streams.iter().filter(|stream| stream.reads * 100 >= reads.requests).count() as f64;
    let response = reads.response_ns.unwrap_or(0.0) / 1e9;
    let readers = if reads.iops > 0.0 { streams.max(libm::ceil(reads.iops * response)).max(1.0) } else { 0.0 };
    Ok(Class {
        readers,
        think: if reads.iops > 0.0 { (readers / reads.iops - response).max(0.0) } else { 0.0 },
        read_service: service(reads, "reads")?,
        write_rate: writes.iops,
        write_service: service(writes, "writes")?,
        batch: writes.batches.map_or([1.0, 1.0], |batches| [batches.mean, batches.mean_square]),
    })
}
