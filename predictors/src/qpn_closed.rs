//! The queueing Petri net of Noorshams, Rostami, Kounev, Reussner 2014 in closed form.
//!
//! In the net, clients of reads and writes wait for one storage. Its scheduler picks reads with weight w_r and writes
//! with weight w_w. Clients without think time always wait. With p = w_r / (w_r + w_w) and mean service times μ, a
//! cycle serves p reads and 1 - p writes: X_r = p / (p μ_r + (1 - p) μ_w) and X_w = (1 - p) / (the same). The response
//! time of a client is ρ = t / X, where t is the number of threads of its type. The means do not depend on the
//! distribution of service times.
//!
//! The same equations calibrate the model from the VMs alone: t = X ρ (Little's law), and w_r / w_w = (t_r / ρ_r) /
//! (t_w / ρ_w) = X_r / X_w of each VM. μ_r and μ_w follow from p_i μ_r + (1 - p_i) μ_w = 1 / X_i over the VMs, unless
//! they are given. The paper fits w_r / w_w as a function of t_r / t_w. Here that function is the straight line through
//! the logarithms of the VMs' own ratios, or their mean if their thread ratios do not differ.
//!
//! The model can also be calibrated as in the paper, from response times at a few thread counts on the storage itself.
//! Then μ follows from response times of reads and of writes apart ([`service_of_line`]), and w_r / w_w from those of
//! both together. These measurements replace the calibration from the VMs alone.
//!
//! The model leaves out think times, so the predictor refuses VMs whose device is idle for more than 10 % of the time.

use queueing::exact::closed_form::throughput;
use traces::results::isolation::IsolationProfile;
use traces::spec::{Settings, SpecError, TimesAt, Tunable, Unit};

use crate::predictor::{
    Consolidation, Entry, Isolated, Method, OperationForecast, PredictError, Predictor, VmForecast,
};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "qpn-closed",
    summary: "weighted reads and writes of clients that never think; refused if the device is idle at times",
    origin: "Noorshams et al. 2014, queueing Petri net, closed form",
    tunables: &[
        Tunable::new("read_service", Unit::Time, "0ns", "mean service time of a read; 0 to fit it on the VMs alone"),
        Tunable::new("write_service", Unit::Time, "0ns", "mean service time of a write; 0 to fit it on the VMs alone"),
        Tunable::new(
            "read_responses",
            Unit::TimesAt(1),
            "none",
            "mean response times of reads alone by threads; they give the service time of reads",
        )
        .within(1, u64::MAX),
        Tunable::new(
            "write_responses",
            Unit::TimesAt(1),
            "none",
            "mean response times of writes alone by threads; they give the service time of writes",
        )
        .within(1, u64::MAX),
        Tunable::new(
            "mixed_responses",
            Unit::TimesAt(2),
            "none",
            "mean response times of reads and writes by reading and writing threads; they give the weights",
        )
        .within(1, u64::MAX),
    ],
    needs_traces: false,
    baseline: false,
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
                (Some(_), false) => Err(refused(format!("not given beside {service}: give one of them"))),
                (given, true) => Ok(given),
                (None, false) => {
                    let grows =
                        "response times of threads that wait for one another, which grow with the number of threads";
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

/// Clients that never think keep the device busy for at least this share of the time.
const BUSY_MIN: f64 = 0.9;

struct QpnClosed {
    /// Given service times of reads and writes, seconds.
    given: [Option<f64>; 2],
    /// Weights measured on the storage itself; empty to take them from the VMs alone.
    weighed: Vec<Weighed>,
}

/// A weight ratio at one thread ratio.
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

/// Mean service time by the paper's calibration. Response times of t = 10, 20, … 100 threads lie on `slope`·t +
/// `intercept`. The service time is that response time at 25 threads, divided by 25: a response is then 25 services.
pub fn service_of_line(slope: f64, intercept: f64) -> f64 {
    (25.0 * slope + intercept) / 25.0
}

/// Service time of `kind`, seconds, by least squares over the VMs if the other kind takes `given`. Without a VM that
/// has requests of the kind it is `given`, too.
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

/// Service time, seconds, from the least-squares line through mean response times at thread counts. With one thread
/// count the line goes through the origin. `None` if response times do not grow with threads, or if the service time is
/// not positive.
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

/// Rates and threads of the reads and writes of a VM alone.
struct Clients {
    rates: [f64; 2],
    threads: [f64; 2],
}

impl Clients {
    fn of(profile: &IsolationProfile) -> Result<Clients, PredictError> {
        if let Some(busy) = profile.busy_share.filter(|busy| *busy < BUSY_MIN) {
            return Err(PredictError::DoesNotHold(format!(
                "qpn-closed models clients that never think, and with {} alone the device is idle for {:.0} % of the \
                 time",
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
            format!("a read takes {read_ms:.3} ms and a write {write_ms:.3} ms; {:.0} % are reads", 100.0 * reads);
        Ok(Consolidation { vms: clients.iter().map(of).collect(), notes: vec![note], ..Consolidation::default() })
    }
}

impl QpnClosed {
    /// μ_r and μ_w, seconds: as given, or by least squares over the VMs.
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
        // VMs with the same mix determine the cycle but not its parts. Both operations then get the same service time.
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
            "service times come out as {:.3} ms for reads and {:.3} ms for writes: one mean for all reads and one for \
             all writes does not describe the profiles; give other service times with read_responses and write_responses, \
             or with read_service and write_service",
            service[0] * 1e3,
            service[1] * 1e3
        )))
    }

    /// w_r / w_w at the thread ratio whose logarithm is `log_threads`.
    fn weight(&self, clients: &[Clients], log_threads: f64) -> f64 {
        let both = clients.iter().filter(|clients| clients.threads.iter().all(|threads| *threads > 0.0));
        let own = |clients: &Clients| {
            let log = |of: [f64; 2]| libm::log(of[0] / of[1]);
            Weighed { log_threads: log(clients.threads), log_weight: log(clients.rates) }
        };
        let points = if self.weighed.is_empty() { both.map(own).collect() } else { self.weighed.clone() };
        let count = points.len() as f64;
        if points.is_empty() {
            // No VM has both reads and writes: the scheduler serves them in proportion to the waiting requests.
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
