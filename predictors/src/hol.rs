//! Head-of-line priority of reads over writes, as a fixed point.
//!
//! The model is one server. Reads have non-preemptive priority and come from closed populations: VM i has N_i readers
//! with a think time of Z_i. Writes come in batches of X at Poisson times. Their rate is that alone, since no process
//! waits for them.
//!
//! - Reads: R_i = S_i + Σ_j ((Q_j - U_j) S_j + U_j r_j) + ρ_w r_w. Q_j = X_j R_j are the reads at the device, and U_j =
//!   X_j S_j is the read in service, both as a new read of VM i finds them. Its own class counts with N_i - 1 of N_i
//!   (Schweitzer 1979). r is the mean residual service time E(S²) / 2E(S), and X_i = N_i / (Z_i + R_i).
//! - Writes: R_w = S_w + W with W = Σ_j ((Q_j - U_j) S_j + U_j r_j) + ρ_w r_w + Σ_j λ_j W_j S_j + m S_w + ρ_r W. A
//!   write waits for the reads and writes that its batch finds, which are the mean numbers, since batches come at
//!   Poisson times. It also waits for the m = (E(X²) - E(X)) / 2E(X) writes of its own batch before it, and for reads
//!   that come while it waits. With reads at Poisson times this is Cobham's formula (1954) for batches.
//!
//! N_i is the number of streams that read, or of outstanding reads if that is larger. Z_i then follows from the rate
//! alone. Each forecast response time is that alone, multiplied by the ratio of the model together to the model alone.
//!
//! The model holds while the device is idle part of the time. Above a utilisation of 0.95 the predictor refuses the
//! forecast. In a simulation of the same VMs with few readers, reads are within 8 % and writes come out up to a fifth
//! too long (`tests/head_of_line.rs`).

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
    baseline: false,
    build: |_: &Settings| Ok(Method::Predictor(Box::new(HeadOfLine))),
};

/// Above this utilisation of the device the predictor refuses a forecast.
const UTILISATION_MAX: f64 = 0.95;
/// Most steps of the fixed-point iteration.
const STEPS_MAX: usize = 10_000;
/// The fixed point is found if no response time changes by more than this share in a step.
const CHANGE_MAX: f64 = 1e-10;

struct HeadOfLine;

/// The requests of a VM as input of the model; times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// Number of readers.
    pub readers: f64,
    /// Mean think time of a reader.
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

/// The result of the model for a VM; times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solved {
    /// Reads per second.
    pub read_rate: f64,
    /// Response time of reads.
    pub read_response: f64,
    /// Response time of writes.
    pub write_response: f64,
}

/// Solves the fixed point for VMs that share a server.
///
/// # Errors
/// The utilisation, if it is too high.
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
                // With means, more reads could be in service than at the device, which is impossible.
                let there = rate * response[other] * others;
                let served = (rate * class.read_service[0] * others).min(there);
                next += (there - served) * class.read_service[0] + served * residual(class.read_service);
            }
            change = change.max((next / response[index] - 1.0).abs());
            response[index] = (response[index] + next) / 2.0;
        }
        if change < CHANGE_MAX {
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
    // With a = `found` and y = Σ λ W S: W (1 - ρ_r) = a + y + m S, and so y (1 - ρ_r - ρ_w) = ρ_w a + Σ λ S m S.
    let found = found_reading + found_writing;
    let mates_first: f64 = classes.iter().map(|class| class.write_rate * class.write_service[0] * mates(class)).sum();
    let writes_first = (writes * found + mates_first) / (1.0 - reads - writes);
    let solved = |((class, rate), response): ((&Class, f64), f64)| {
        let wait = (found + writes_first + mates(class)) / (1.0 - reads);
        Solved { read_rate: rate, read_response: response, write_response: class.write_service[0] + wait }
    };
    Ok(classes.iter().zip(rates).zip(response).map(solved).collect())
}

/// Service time of the writes that precede a write in its batch.
fn mates(class: &Class) -> f64 {
    let [mean, square] = class.batch;
    if mean > 0.0 { (square - mean) / (2.0 * mean) * class.write_service[0] } else { 0.0 }
}

impl Predictor for HeadOfLine {
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let classes = alone.iter().map(class).collect::<Result<Vec<Class>, PredictError>>()?;
        let writes = alone.iter().any(|profile| profile.writes.iops > 0.0);
        let waits = if writes { "with reads first, writes would wait" } else { "reads would wait" };
        let refused = |demand: String| {
            move |utilisation: f64| {
                PredictError::DoesNotHold(format!(
                    "hol holds up to a utilisation of {UTILISATION_MAX}, and {demand} {utilisation:.2} of the \
                     device's time: {waits} without end"
                ))
            }
        };
        let together = solve(&classes).map_err(refused("the VMs together need".to_owned()))?;
        let mut vms = Vec::new();
        for ((profile, class), together) in alone.iter().zip(&classes).zip(together) {
            let by_itself = solve(&[*class]).map_err(refused(format!("{} alone needs", profile.vm)))?[0];
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

/// The input of the model from a profile.
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
                    "{name} have a mean service time of {mean} ns and a mean square of {square} ns², which is \
                     impossible"
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
