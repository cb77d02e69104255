//! Records every request of a replay with its times, as a capture does: at the tap between VMs and stack, or at the
//! drive.

use replay::{Observer, Served};
use traces::results::TraceProvenance;
use traces::{Layer, Observed, Record, Request, RequestId, Sectors, Timestamp, TraceMeta};

use super::Ran;
use crate::isolated_trace::IsolatedTraceBuilder;
use crate::profile::Measure;

/// Observes a replay and keeps the records of each VM.
pub struct Tap {
    /// Whether it records at the drive, below all layers.
    at_drive: bool,
    /// By id: the outstanding requests with their arrival times.
    arrived: Vec<Option<(Timestamp, Request)>>,
    /// By VM: its records in order of completion.
    records: Vec<Vec<Record>>,
}

impl Tap {
    /// A tap above the stack for `vms` VMs, numbered from 0.
    pub fn new(vms: usize) -> Tap {
        Tap { at_drive: false, arrived: Vec::new(), records: vec![Vec::new(); vms] }
    }

    /// A tap at the drive. Its records last from the issue to the drive to the completion.
    pub fn at_drive(vms: usize) -> Tap {
        Tap { at_drive: true, ..Tap::new(vms) }
    }

    /// The records of all VMs that arrived from `from` on and before `to`: VM by VM, in order of completion.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> Vec<Record> {
        let within = |record: &&Record| (from..to).contains(&record.request.arrival);
        self.records.iter().flatten().filter(within).copied().collect()
    }

    fn add(&mut self, mut request: Request, came: Timestamp, completed: Option<Timestamp>) {
        request.arrival = came;
        let observed = Observed { issued: Some(came), completed, ..Observed::default() };
        self.records[usize::from(request.vm.0)].push(Record { request, observed });
    }

    /// The time of the last arrival of the VM that stops first. Until then all VMs send requests.
    pub fn until(&self) -> Timestamp {
        let last = |records: &Vec<Record>| records.iter().map(|record| record.request.arrival).max();
        self.records.iter().filter_map(last).min().unwrap_or_default()
    }

    /// The profile and trace of each VM under its name in `names`, from the arrivals from `from` on and before `to`.
    /// `capacity` is the drive capacity.
    pub fn ran(
        mut self,
        names: impl Iterator<Item = String>,
        from: Timestamp,
        to: Timestamp,
        capacity: Sectors,
    ) -> Vec<Ran> {
        let outstanding: Vec<(Timestamp, Request)> = self.arrived.drain(..).flatten().collect();
        outstanding.into_iter().for_each(|(came, request)| self.add(request, came, None));
        let vms = self.records.into_iter().zip(names);
        vms.map(|(records, name)| measure(records, &name, from..to, capacity)).collect()
    }
}

fn measure(mut records: Vec<Record>, name: &str, window: std::ops::Range<Timestamp>, capacity: Sectors) -> Ran {
    records.retain(|record| record.request.arrival < window.end);
    records.sort_by_key(|record| record.request.arrival);
    // A capture that ends at `window.end` does not contain later completions.
    for record in &mut records {
        record.observed.completed = record.observed.completed.filter(|completed| *completed < window.end);
    }
    let meta = TraceMeta::new("replay", Layer::Wire, "simulated");
    let mut measure = Measure::new(&meta);
    let mut builder = IsolatedTraceBuilder::new(Sectors::ZERO, Some(capacity));
    let (before, records) = records.split_at(records.partition_point(|record| record.request.arrival < window.start));
    before.iter().for_each(|record| builder.before(record));
    for record in records {
        measure.record(record);
        builder.record(record);
    }
    let of = TraceProvenance::of(&meta, records.len() as u64);
    let provenance = TraceProvenance { vm: name.to_owned(), addresses: "the drive's".to_owned(), ..of };
    let (profile, _) = measure.finish(name, "", provenance, &meta);
    Ran { profile, trace: builder.finish() }
}

impl Observer for Tap {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.at_drive {
            return;
        }
        if id.index() >= self.arrived.len() {
            self.arrived.resize(id.index() + 1, None);
        }
        self.arrived[id.index()] = Some((now, *request));
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if let Some((came, _)) = self.arrived.get_mut(id.index()).and_then(Option::take) {
            self.add(*request, came, Some(now));
        }
    }

    fn served(&mut self, served: &Served) {
        if self.at_drive {
            self.add(served.request, served.issued, Some(served.finished));
        }
    }
}
