//! The VMs of Kim et al. 2015 with their workloads on one disk. Each has a partition of 100 GB and 1 GB of memory.

use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::ReproduceError;
use replay::engine::Engine;
use replay::observer::Observer;
use replay::stack::{Layer, StackSpec};
use traces::results::RuleFigures;
use workloads::guest::files::BLOCK;
use workloads::guest::journal::Journal;
use workloads::guest::memory::MemorySettings;
use workloads::guest::{Event, Files};
use workloads::programs;
use workloads::{Guest, Guests, Until};

/// A VM's partition: 100 GB, binary.
const PARTITION: Sectors = Sectors::new(100 << 21);

/// Length of the intervals of the bandwidth over time.
pub const INTERVAL: Nanos = Nanos::from_ms(250);

/// Workloads with their stack and drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The workload of each VM.
    pub workloads: Vec<String>,
    /// A stack by name.
    pub stack: &'static str,
    /// The drive.
    pub drive: &'static str,
    /// Length of the run, if the workloads do not end.
    pub time: Option<Nanos>,
    /// Pages of each VM's page cache.
    pub cache_pages: u32,
    /// Seed of the workloads.
    pub seed: u64,
}

/// The measured quantities of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The time at which the last process ended, or the length of the run, in seconds.
    pub seconds: f64,
    /// Bytes moved to and from each VM.
    pub bytes: Vec<u64>,
    /// Bytes of each VM in each interval.
    pub series: Vec<Vec<u64>>,
    /// The longest response of a read of each VM, in ms.
    pub slowest_read_ms: Vec<f64>,
    /// Context switches: requests to the disk from another VM than the one before.
    pub switches: u64,
    /// Sum of seek distances, in sectors.
    pub seek_sectors: u128,
    /// By VM: the first and the last time of each event of its program, in seconds.
    pub events: Vec<Vec<Option<[f64; 2]>>>,
    /// What each rule of the scheduler above the disk sent.
    pub rules: Vec<RuleFigures>,
    /// The time of each VM's last completion, in seconds.
    pub ended: Vec<f64>,
}

impl Outcome {
    /// Bandwidth of all VMs together, MB (10^6 bytes) per second.
    pub fn megabytes_a_second(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / 1e6 / self.seconds
    }

    /// The bandwidth of each VM until its last completion, MB (10^6 bytes) per second.
    pub fn bandwidths(&self) -> Vec<f64> {
        self.bytes.iter().zip(&self.ended).map(|(&bytes, ended)| bytes as f64 / 1e6 / ended).collect()
    }

    /// The sum of the VMs' bandwidths, each until its own last completion, as the paper adds them up.
    pub fn sum_of_bandwidths(&self) -> f64 {
        self.bandwidths().iter().sum()
    }

    /// The bytes of each VM in each whole window of a number of intervals.
    pub fn windows(&self, intervals: usize) -> Vec<Vec<f64>> {
        let longest = self.series.iter().map(Vec::len).max().unwrap_or(0);
        let of = |series: &Vec<u64>, window: usize| {
            let from = (window * intervals).min(series.len());
            series[from..(from + intervals).min(series.len())].iter().sum::<u64>() as f64
        };
        (0..longest / intervals).map(|window| self.series.iter().map(|series| of(series, window)).collect()).collect()
    }
}

/// Jain's index of shares: 1 if all are equal, 1/n if one of n has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[derive(Default)]
struct Watch {
    bytes: Vec<u64>,
    series: Vec<Vec<u64>>,
    slowest_read: Vec<Nanos>,
    last: Vec<Timestamp>,
}

impl Observer for Watch {
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let vm = usize::from(request.vm.0);
        if vm >= self.bytes.len() {
            self.bytes.resize(vm + 1, 0);
            self.series.resize(vm + 1, Vec::new());
            self.slowest_read.resize(vm + 1, Nanos::ZERO);
            self.last.resize(vm + 1, Timestamp::ZERO);
        }
        self.last[vm] = now;
        let bytes = request.sectors().bytes();
        self.bytes[vm] += bytes;
        let interval = (now.as_ns() / INTERVAL.as_ns()) as usize;
        let series = &mut self.series[vm];
        if interval >= series.len() {
            series.resize(interval + 1, 0);
        }
        series[interval] += bytes;
        if request.operation == Operation::Read {
            self.slowest_read[vm] = self.slowest_read[vm].max(now.since(request.arrival));
        }
    }
}

/// Runs the scenario.
///
/// # Errors
/// An invalid part.
pub fn run(scenario: &Scenario) -> Result<Outcome, ReproduceError> {
    let drive = drive_models::build(&scenario.drive.parse()?)?.drive;
    // On a smaller drive the partitions are equal parts of it.
    let part = drive.capacity().count() / scenario.workloads.len() as u64 / BLOCK.count() * BLOCK.count();
    let partition = PARTITION.min(Sectors::new(part));
    let stack = StackSpec::of(scenario.stack)?;
    let mut guests = Vec::new();
    let mut events = 0;
    for (vm, workload) in scenario.workloads.iter().enumerate() {
        let mut files = Files::new(partition);
        let journal = Some(Journal::new(&mut files)?);
        let workload = programs::build(&workload.parse()?)?;
        events = events.max(workload.events().len());
        let programs = workload.processes(&mut files, scenario.seed.wrapping_add((vm as u64) << 32))?;
        let memory = Some(MemorySettings { pages: scenario.cache_pages, ..MemorySettings::default() });
        guests.push(Guest {
            name: format!("vm{vm}"),
            place: Lba::new(partition.count() * vm as u64),
            files,
            journal,
            memory,
            programs,
        });
    }
    let until = Until { requests: None, time: scenario.time.map(|time| Timestamp::ZERO + time) };
    let ended = Engine::on(Guests::new(guests, until), stack.build(drive), Watch::default()).run()?;
    let layer = ended.host.layers().last();
    let rules = stack.layers.last().map(|layer| schedulers::registry::find(&layer.scheduler.name)).transpose()?;
    let sent = layer.into_iter().flat_map(Layer::schedulers).map(|scheduler| scheduler.sent_by_rule());
    let rules = replay::figures::rules(rules.map_or(&[], |entry| entry.rules), sent);
    let layer = layer.map(Layer::counts).unwrap_or_default();
    let seconds = |time: Timestamp| time.since(Timestamp::ZERO).as_s_f64();
    let at = |vm: usize, event: u32| {
        let occurrences = ended.source.occurred(vm, Event(event))?;
        Some([occurrences.first, occurrences.last].map(seconds))
    };
    let of_vm = |vm: usize| (0..events as u32).map(|event| at(vm, event)).collect();
    Ok(Outcome {
        seconds: seconds(ended.outcome.finished),
        ended: ended.observer.last.iter().copied().map(seconds).collect(),
        events: (0..scenario.workloads.len()).map(of_vm).collect(),
        bytes: ended.observer.bytes,
        series: ended.observer.series,
        slowest_read_ms: ended.observer.slowest_read.iter().map(|span| span.as_ms_f64()).collect(),
        rules,
        switches: layer.switches,
        seek_sectors: layer.seek_sectors,
    })
}
