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
//!
//! Or calibrated as the paper does, from response times at a few thread counts on the storage itself: μ of responses of reads and of writes
//! apart ([`service_of_line`]), w_r / w_w of responses of both together. What is measured takes the place of what the machines alone
//! give.

use traces::results::isolation::IsolationProfile;
use traces::spec::{Settings, SpecError, TimesAt, Tunable, Unit};

use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

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
        Tunable::new(
            "read_responses",
            Unit::TimesAt(1),
            "none",
            "mean responses of reads alone by threads, of which their service time is made",
        )
        .within(1, u64::MAX),
        Tunable::new(
            "write_responses",
            Unit::TimesAt(1),
            "none",
            "mean responses of writes alone by threads, of which their service time is made",
        )
        .within(1, u64::MAX),
        Tunable::new(
            "mixed_responses",
            Unit::TimesAt(2),
            "none",
            "mean responses of reads and writes by threads that read and threads that write, of which the weights are made",
        )
        .within(1, u64::MAX),
    ],
    needs_traces: false,
    build: |settings: &Settings| {
        let service = |service: &str, responses: &str| {
            let given = Some(settings.nanos(service).as_ns() as f64 / 1e9).filter(|seconds| *seconds > 0.0);
            let points = settings.times_at(responses, 1);
            let refused = |expected: String| SpecError::Value {
                part: ENTRY.name.to_owned(),
                name: responses.to_owned(),
                value: settings.word(responses).to_owned(),
                expected,
            };
            match (given, points.is_empty()) {
                (Some(_), false) => Err(refused(format!("taken beside {service}: give one of them"))),
                (given, true) => Ok(given),
                (None, false) => {
                    let grows = "responses of threads that wait for one another, which are longer the more there are";
                    service_of_responses(&points).map(Some).ok_or_else(|| refused(grows.to_owned()))
                }
            }
        };
        Ok(Method::Predictor(Box::new(QpnClosed {
            given: [service("read_service", "read_responses")?, service("write_service", "write_responses")?],
            weighed: settings.times_at("mixed_responses", 2).iter().map(Weighed::of_responses).collect(),
        })))
    },
};

/// Clients that never think keep the device busy for this share of the time and more.
const BUSY_MIN: f64 = 0.9;

struct QpnClosed {
    /// Service times of reads and writes, seconds.
    given: [Option<f64>; 2],
    /// Weights on the storage itself.
    weighed: Vec<Weighed>,
}

/// A weight at one ratio of threads.
#[derive(Clone, Copy)]
struct Weighed {
    /// Logarithm of t_r / t_w.
    log_threads: f64,
    /// Logarithm of w_r / w_w.
    log_weight: f64,
}

impl Weighed {
    fn of_responses(point: &TimesAt) -> Weighed {
        let ratio = |of: [f64; 2]| libm::log(of[0] / of[1]);
        let log_threads = ratio([0, 1].map(|kind| point.counts[kind] as f64));
        Weighed { log_threads, log_weight: log_threads - ratio([0, 1].map(|kind| point.times[kind].as_ns() as f64)) }
    }
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

/// Seconds that `kind` takes by least squares over the machines if the other kind takes `given`; as long where no machine does it.
fn rest(clients: &[Clients], kind: usize, given: f64) -> f64 {
    let (mut along, mut spread) = (0.0, 0.0);
    for client in clients {
        let reads = client.share_of_reads();
        let share = if kind == 0 { reads } else { 1.0 - reads };
        along += share * (1.0 / client.all() - (1.0 - share) * given);
        spread += share * share;
    }
    if spread > 0.0 { along / spread } else { given }
}

/// Seconds, of the least-squares line through mean responses at thread counts; of one thread count the line through the origin. Nothing if
/// responses do not grow with threads, or for so little that no service time is left.
fn service_of_responses(points: &[TimesAt]) -> Option<f64> {
    let count = points.len() as f64;
    let of = |point: &TimesAt| [point.counts[0] as f64, point.times[0].as_ns() as f64 / 1e9];
    let mean = |axis: usize| points.iter().map(|point| of(point)[axis]).sum::<f64>() / count;
    let (threads, response) = (mean(0), mean(1));
    let sum = |other: usize| -> f64 {
        let means = [threads, response];
        points.iter().map(|point| (of(point)[0] - threads) * (of(point)[other] - means[other])).sum()
    };
    let spread = sum(0);
    let slope = if spread > 0.0 { sum(1) / spread } else { response / threads };
    let service = service_of_line(slope, response - slope * threads);
    (slope > 0.0 && service > 0.0).then_some(service)
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
    fn predict(&self, Isolated { profiles: alone, .. }: Isolated<'_>) -> Result<Consolidation, PredictError> {
        let clients = alone.iter().map(Clients::of).collect::<Result<Vec<Clients>, PredictError>>()?;
        let service = self.service(&clients)?;
        let threads = [0, 1].map(|kind| clients.iter().map(|clients| clients.threads[kind]).sum::<f64>());
        let reads = match threads {
            [_, 0.0] => 1.0,
            [0.0, _] => 0.0,
            [reads, writes] => {
                let weight = self.weight(&clients, libm::log(reads / writes));
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
        let service = match self.given {
            [None, None] => fitted,
            [Some(reads), None] => [reads, rest(clients, 1, reads)],
            [None, Some(writes)] => [rest(clients, 0, writes), writes],
            [Some(reads), Some(writes)] => [reads, writes],
        };
        if service.iter().all(|seconds| *seconds > 0.0) {
            return Ok(service);
        }
        Err(PredictError::DoesNotHold(format!(
            "service times come out as {:.3} ms for reads and {:.3} ms for writes: one mean for all reads and one for all writes does not \
             describe what was measured; give others as read_responses and write_responses, or as read_service and write_service",
            service[0] * 1e3,
            service[1] * 1e3
        )))
    }

    /// w_r / w_w at a ratio of threads, of which `log_threads` is the logarithm.
    fn weight(&self, clients: &[Clients], log_threads: f64) -> f64 {
        let both = clients.iter().filter(|clients| clients.threads.iter().all(|threads| *threads > 0.0));
        let own = |clients: &Clients| {
            let log = |of: [f64; 2]| libm::log(of[0] / of[1]);
            Weighed { log_threads: log(clients.threads), log_weight: log(clients.rates) }
        };
        let points = if self.weighed.is_empty() { both.map(own).collect() } else { self.weighed.clone() };
        let count = points.len() as f64;
        if points.is_empty() {
            // Nobody does both: the scheduler takes them as they come, in proportion to what waits.
            return libm::exp(log_threads);
        }
        let mean = |of: fn(&Weighed) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_threads, mean_weight) = (mean(|point| point.log_threads), mean(|point| point.log_weight));
        let apart = |point: &Weighed| point.log_threads - mean_threads;
        let spread: f64 = points.iter().map(|point| apart(point) * apart(point)).sum();
        let along: f64 = points.iter().map(|point| apart(point) * (point.log_weight - mean_weight)).sum();
        let slope = if spread > 1e-6 { along / spread } else { 0.0 };
        libm::exp(mean_weight + slope * (log_threads - mean_threads))
    }
}
