//! The VMs of Kim et al. 2015 with their workloads on one disk. Each has a partition of 100 GB and 1 GB of memory.

use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::ReproduceError;
use replay::engine::Engine;
use replay::observer::Observer;
use replay::stack::StackSpec;
use workloads::guest::files::BLOCK;
use workloads::guest::journal::Journal;
use workloads::guest::memory::MemorySettings;
use workloads::guest::{Event, Files};
use workloads::programs;
use workloads::{Guest, Guests, Until};

/// A VM's partition: 100 GB, binary.
const PARTITION: Sectors = Sectors::new(100 << 21);

/// Pages of the page cache: the part of a VM's memory of 1 GB that kernel and programs leave.
const CACHE_PAGES: u32 = 800 << 8;

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
    /// Seed of the workloads.
    pub seed: u64,
}

impl Scenario {
    /// VMs with the same workload on the paper's disk.
    pub fn of(vms: usize, workload: &str, stack: &'static str, seed: u64) -> Scenario {
        Scenario { workloads: vec![workload.to_owned(); vms], stack, drive: "sata-500", time: None, seed }
    }
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
    /// By VM: the last time of each event of its program, in seconds.
    pub events: Vec<Vec<Option<f64>>>,
}

impl Outcome {
    /// Bandwidth of all VMs together, MB (10^6 bytes) per second.
    pub fn megabytes_a_second(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / 1e6 / self.seconds
    }

    /// Jain's index of the bytes that each VM was served in the run.
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.bytes.iter().map(|&bytes| bytes as f64).sum();
        let squares: f64 = self.bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
        sum * sum / (self.bytes.len() as f64 * squares)
    }
}

#[derive(Default)]
struct Watch {
    bytes: Vec<u64>,
    series: Vec<Vec<u64>>,
    slowest_read: Vec<Nanos>,
}

impl Observer for Watch {
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let vm = usize::from(request.vm.0);
        if vm >= self.bytes.len() {
            self.bytes.resize(vm + 1, 0);
            self.series.resize(vm + 1, Vec::new());
            self.slowest_read.resize(vm + 1, Nanos::ZERO);
        }
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
        let memory = Some(MemorySettings { pages: CACHE_PAGES, ..MemorySettings::default() });
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
    let layer = ended.host.layers().last().map(replay::stack::Layer::counts).unwrap_or_default();
    let finished = ended.outcome.finished.since(Timestamp::ZERO).as_s_f64();
    let at = |vm: usize, event: u32| {
        ended.source.occurred(vm, Event(event)).map(|(_, time)| time.since(Timestamp::ZERO).as_s_f64())
    };
    let of_vm = |vm: usize| (0..events as u32).map(|event| at(vm, event)).collect();
    Ok(Outcome {
        seconds: finished,
        events: (0..scenario.workloads.len()).map(of_vm).collect(),
        bytes: ended.observer.bytes,
        series: ended.observer.series,
        slowest_read_ms: ended.observer.slowest_read.iter().map(|span| span.as_ms_f64()).collect(),
        switches: layer.switches,
        seek_sectors: layer.seek_sectors,
    })
}
