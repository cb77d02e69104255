//! The queueing Petri net of Noorshams, Rostami, Kounev, Reussner 2014 in closed form.
//!
//! In their net clients of reads and writes wait for one storage; its scheduler picks reads with weight w_r and writes with w_w. Clients
//! that do not think are always waiting, so with p = w_r / (w_r + w_w) and mean service times μ a cycle serves p reads and 1 - p
//! writes: X_r = p / (p μ_r + (1 - p) μ_w), X_w = (1 - p) / (the same), and a client's response is ρ = t / X, with t the threads
//! of its type. The shape of the service times does not matter for the means.
//!
//! Calibrated backwards by the same equations: t = X ρ (Little's law), w_r / w_w = (t_r / ρ_r) / (t_w / ρ_w) = X_r / X_w of each
//! machine alone, and μ_r, μ_w from p_i μ_r + (1 - p_i) μ_w = 1 / X_i over the machines, unless they are given. The paper fits w_r / w_w
//! as a function of t_r / t_w: here the straight line through the logarithms of the machines' own, or their mean where they do
//! not differ.

use traces::results::isolation::IsolationProfile;
use traces::spec::{Settings, Tunable, Unit};

use crate::predictor::{Consolidation, OperationForecast, PredictError, Predictor, VmForecast};
use crate::registry::Entry;
use crate::twin::Recording;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "qpn-closed",
    summary: "weighted reads and writes of clients that never think; refused where the device is idle at times",
    origin: "Noorshams et al. 2014, queueing Petri net, closed form",
    tunables: &[
        Tunable::new(
            "read_service",
            Unit::Time,
            "0ns",
            "mean service time of a read; 0 for what the machines alone give",
        ),
        Tunable::new(
            "write_service",
            Unit::Time,
            "0ns",
            "mean service time of a write; 0 for what the machines alone give",
        ),
    ],
    build: |settings: &Settings| {
        let given = |name: &str| Some(settings.nanos(name).as_ns() as f64 / 1e9).filter(|seconds| *seconds > 0.0);
        Ok(Box::new(QpnClosed { given: [given("read_service"), given("write_service")] }))
    },
};

/// Clients that never think keep the device busy for this share of the time and more.
const BUSY_MIN: f64 = 0.9;

struct QpnClosed {
    /// Seconds.
    given: [Option<f64>; 2],
}

/// Throughput of reads and writes, per second, at a scheduler that serves a read with probability `reads`; service times in
/// seconds.
pub fn throughput(reads: f64, service: [f64; 2]) -> [f64; 2] {
    let cycle = reads * service[0] + (1.0 - reads) * service[1];
    [reads / cycle, (1.0 - reads) / cycle]
}

/// Mean service time of the paper's calibration: responses of t = 10, 20, … 100 threads lie on `slope`·t + `intercept`, and the mean
/// is read off at 25 threads: a response is then 25 services.
pub fn service_of_line(slope: f64, intercept: f64) -> f64 {
    (25.0 * slope + intercept) / 25.0
}

/// A machine alone: rates and threads of reads and writes.
struct Clients {
    rates: [f64; 2],
    threads: [f64; 2],
}

impl Clients {
    fn of(profile: &IsolationProfile) -> Result<Clients, PredictError> {
        if let Some(busy) = profile.busy_share.filter(|busy| *busy < BUSY_MIN) {
            return Err(PredictError::DoesNotHold(format!(
                "qpn-closed is of clients that never think, and alone the device of {} is idle for {:.0} % of the time",
                profile.vm,
                100.0 * (1.0 - busy)
            )));
        }
        let rates = [profile.reads.iops, profile.writes.iops];
        let responses =
            [profile.reads.response_ns, profile.writes.response_ns].map(|response| response.unwrap_or(0.0) / 1e9);
        Ok(Clients { rates, threads: [rates[0] * responses[0], rates[1] * responses[1]] })
    }

    fn all(&self) -> f64 {
        self.rates[0] + self.rates[1]
    }

    fn share_of_reads(&self) -> f64 {
        self.rates[0] / self.all()
    }
}

impl Predictor for QpnClosed {
    fn predict(&self, alone: &[IsolationProfile], _: &[Recording]) -> Result<Consolidation, PredictError> {
        let clients = alone.iter().map(Clients::of).collect::<Result<Vec<Clients>, PredictError>>()?;
        let service = self.service(&clients)?;
        let threads = [0, 1].map(|kind| clients.iter().map(|clients| clients.threads[kind]).sum::<f64>());
        let reads = match threads {
            [_, 0.0] => 1.0,
            [0.0, _] => 0.0,
            [reads, writes] => {
                let weight = weight(&clients, libm::log(reads / writes));
                weight / (1.0 + weight)
            }
        };
        let rates = throughput(reads, service);
        let of = |clients: &Clients| {
            let of_kind = |kind: usize| {
                let any = clients.threads[kind] > 0.0;
                OperationForecast::of_means(
                    any.then(|| rates[kind] * clients.threads[kind] / threads[kind]),
                    any.then(|| threads[kind] / rates[kind] * 1e9),
                )
            };
            VmForecast { reads: of_kind(0), writes: of_kind(1) }
        };
        let [read_ms, write_ms] = service.map(|seconds| seconds * 1e3);
        let note =
            format!("a read takes {read_ms:.3} ms and a write {write_ms:.3} ms, of {:.0} % reads", 100.0 * reads);
        Ok(Consolidation { vms: clients.iter().map(of).collect(), notes: vec![note], ..Consolidation::default() })
    }
}

impl QpnClosed {
    /// μ_r and μ_w: given, or least squares over the machines.
    fn service(&self, clients: &[Clients]) -> Result<[f64; 2], PredictError> {
        let mut normal = [[0.0; 3]; 2];
        for client in clients {
            let shares = [client.share_of_reads(), 1.0 - client.share_of_reads()];
            for (row, share) in normal.iter_mut().zip(shares) {
                row[0] += share * shares[0];
                row[1] += share * shares[1];
                row[2] += share / client.all();
            }
        }
        let [[a, b, c], [_, d, e]] = normal;
        let determinant = a * d - b * b;
        // Machines with the same mix tell the cycle and not its parts; then both take as long.
        let same_mix = determinant < 1e-6 * (a + d) * (a + d);
        let alike = (c + e) / (a + 2.0 * b + d);
        let fitted =
            if same_mix { [alike, alike] } else { [(c * d - b * e) / determinant, (a * e - b * c) / determinant] };
        let service = [0, 1].map(|kind| self.given[kind].unwrap_or(fitted[kind]));
        if service.iter().all(|seconds| *seconds > 0.0) {
            return Ok(service);
        }
        Err(PredictError::DoesNotHold(format!(
            "the machines alone lead to service times of {:.3} ms for reads and {:.3} ms for writes: one mean for all their reads and \
             one for all their writes does not describe them; give read_service and write_service",
            service[0] * 1e3,
            service[1] * 1e3
        )))
    }
}

/// w_r / w_w at a ratio of threads, of which `log_threads` is the logarithm.
fn weight(clients: &[Clients], log_threads: f64) -> f64 {
    let both = clients.iter().filter(|clients| clients.threads.iter().all(|threads| *threads > 0.0));
    let points: Vec<[f64; 2]> = both
        .map(|clients| {
            let log = |of: [f64; 2]| libm::log(of[0] / of[1]);
            [log(clients.threads), log(clients.rates)]
        })
        .collect();
    let count = points.len() as f64;
    if points.is_empty() {
        // Nobody does both: the scheduler takes them as they come, in proportion to what waits.
        return libm::exp(log_threads);
    }
    let mean = |axis: usize| points.iter().map(|point| point[axis]).sum::<f64>() / count;
    let (mean_threads, mean_weight) = (mean(0), mean(1));
    let spread: f64 = points.iter().map(|point| (point[0] - mean_threads) * (point[0] - mean_threads)).sum();
    let along: f64 = points.iter().map(|point| (point[0] - mean_threads) * (point[1] - mean_weight)).sum();
    let slope = if spread > 1e-6 { along / spread } else { 0.0 };
    libm::exp(mean_weight + slope * (log_threads - mean_threads))
}
