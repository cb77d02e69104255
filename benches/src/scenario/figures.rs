//! The figures of a scenario: integers, the same on every host.

use replay::Metrics;
use replay::metrics::{Class, ClassMetrics};

/// A figure of a replay.
#[derive(Debug)]
pub struct Figure {
    /// Its name in scenarios, with its unit unless it is a count.
    pub name: &'static str,
    /// Its unit in results for trackers.
    pub unit: &'static str,
    /// Whether less is better, whatever the scenario is about.
    pub smaller_is_better: bool,
    of: fn(&Seen) -> u64,
}

/// The measurements of all VMs, or of one of them, over a span in nanoseconds.
struct Seen {
    read: ClassMetrics,
    write: ClassMetrics,
    span_ns: u64,
}

/// Every figure. A mean is rounded down; without a request it is 0, like a percentile.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "requests",
        unit: "requests",
        smaller_is_better: false,
        of: |seen| seen.read.response.count() + seen.write.response.count(),
    },
    Figure {
        name: "bytes",
        unit: "bytes",
        smaller_is_better: false,
        of: |seen| seen.read.bytes.saturating_add(seen.write.bytes),
    },
    Figure {
        name: "device_requests",
        unit: "requests",
        smaller_is_better: false,
        of: |seen| seen.read.device.count + seen.write.device.count,
    },
    Figure { name: "span_ns", unit: "ns", smaller_is_better: true, of: |seen| seen.span_ns },
    Figure { name: "read_response_mean_ns", unit: "ns", smaller_is_better: true, of: |seen| mean(&seen.read) },
    Figure { name: "read_response_p99_ns", unit: "ns", smaller_is_better: true, of: |seen| p99(&seen.read) },
    Figure { name: "write_response_mean_ns", unit: "ns", smaller_is_better: true, of: |seen| mean(&seen.write) },
    Figure { name: "write_response_p99_ns", unit: "ns", smaller_is_better: true, of: |seen| p99(&seen.write) },
    Figure {
        name: "seek_sectors",
        unit: "sectors",
        smaller_is_better: true,
        of: |seen| u64::try_from(seen.read.seek_sectors + seen.write.seek_sectors).unwrap_or(u64::MAX),
    },
];

fn mean(class: &ClassMetrics) -> u64 {
    match class.response.count() {
        0 => 0,
        count => u64::try_from(class.response.sum_ns() / u128::from(count)).unwrap_or(u64::MAX),
    }
}

fn p99(class: &ClassMetrics) -> u64 {
    class.response.percentile_ns(9_900).unwrap_or(0)
}

/// A figure with its values.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The figure's name, behind that of a VM and a dot if it is of one VM.
    pub name: String,
    /// What it is.
    pub figure: &'static Figure,
    /// Its value for each seed of the scenario.
    pub by_seed: Vec<u64>,
}

impl Measured {
    /// The mean over the seeds.
    pub fn mean(&self) -> f64 {
        self.sum() as f64 / self.by_seed.len().max(1) as f64
    }

    /// The sum over the seeds.
    pub fn sum(&self) -> u128 {
        self.by_seed.iter().map(|&value| u128::from(value)).sum()
    }
}

/// The names of all figures of a scenario with these VMs: each figure, and each of each VM if there are several.
pub fn names(vms: &[String]) -> Vec<String> {
    let of_vm = |vm: &String| FIGURES.iter().map(move |figure| format!("{vm}.{}", figure.name)).collect::<Vec<_>>();
    let of_all = FIGURES.iter().map(|figure| figure.name.to_owned());
    of_all.chain(several(vms).iter().flat_map(of_vm)).collect()
}

/// All figures of replays of these VMs, one for each seed.
pub fn measured(replays: &[Metrics], vms: &[String]) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    let mut add = |prefix: &str, seen: &[Seen]| {
        all.extend(FIGURES.iter().map(|figure| Measured {
            name: format!("{prefix}{}", figure.name),
            figure,
            by_seed: seen.iter().map(figure.of).collect(),
        }));
    };
    add("", &replays.iter().map(of_all).collect::<Vec<_>>());
    for (vm, name) in several(vms).iter().enumerate() {
        add(&format!("{name}."), &replays.iter().map(|metrics| of_vm(metrics, vm)).collect::<Vec<_>>());
    }
    all
}

/// The VMs if there are several. One has no figures beside those of the whole.
fn several(vms: &[String]) -> &[String] {
    if vms.len() > 1 { vms } else { &[] }
}

fn of_all(metrics: &Metrics) -> Seen {
    let [read, write] = [Class::Read, Class::Write].map(|class| metrics.total(class));
    Seen { read, write, span_ns: metrics.span().as_ns() }
}

fn of_vm(metrics: &Metrics, vm: usize) -> Seen {
    let [read, write] = [Class::Read, Class::Write].map(|class| metrics.vm(vm, class).cloned().unwrap_or_default());
    Seen { read, write, span_ns: metrics.active_span().as_ns() }
}
