//! Machines played together.

pub(crate) mod meter;
mod progress;
mod source;
mod vm;

use std::cell::Cell;
use std::ops::Range;

use drive_models::array::Contents;
use replay::stack::{Layer, LayerConfig};
use replay::{Engine, Limits, Stack};
use schedulers::Scheduler;
use traces::{Nanos, Request, Timestamp, VmId};

use super::device::policy::{DispatchOrder, scheduler, shipped};
use super::workload::Workload;
use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{PredictError, VmForecast};
use crate::twin::device::FittedDevice;
use crate::twin::device::durable_first::DurableFirst;
use crate::twin::simulation::meter::{Measured, Meter, forecast};
use crate::twin::simulation::progress::Progress;
use crate::twin::simulation::source::VmSource;
use crate::twin::simulation::vm::VmExcerpt;
use crate::twin::workload::dependencies::{After, Dependency};
use crate::twin::workload::journal_waits::JournalWaits;

/// Of the time that is played, this share is left out at the beginning: queues fill first.
const LEFT_OUT: u64 = 10;
/// An excerpt is not shorter than this, if the recording is not.
const EXCERPT: Nanos = Nanos::from_s(5);
/// The most excerpts.
const EXCERPTS: u64 = 16;
/// An excerpt is so many times as long as the longest mean response.
const WAITS: f64 = 20.0;
/// No machine comes further in it than so many times as far as it came alone.
const FURTHEST: u64 = 2;

/// All of a recording, however long, as far as that tells more.
pub(crate) const ALL: Nanos = Nanos::from_ns(u64::MAX);
/// More requests tell no more: the excerpts are shorter then, from all over the recordings all the same.
const TELLING: u64 = 100_000;

/// The device, and who is played on it.
pub(crate) struct Run<'a> {
    pub(crate) fitted: &'a FittedDevice,
    pub(crate) order: DispatchOrder,
    pub(crate) seed: u64,
    /// Which of the recordings.
    pub(crate) vms: Range<usize>,
    /// No more is played than so long in all.
    pub(crate) most: Nanos,
}

/// A recording from a time on to another, with the first request behind it, since a play ends when a machine has nothing more to send: what
/// waited for something before that comes when it came.
struct Excerpt {
    requests: Range<usize>,
    dependencies: Vec<Dependency>,
    ends: Vec<Option<u32>>,
    journal_waits: JournalWaits,
}

fn excerpt(trace: &IsolatedTrace, vm: &Workload, from: Timestamp, to: Timestamp) -> Excerpt {
    let before = |time: Timestamp| trace.requests.partition_point(|request| request.arrival < time);
    let (first, last) = (before(from), (before(to) + 1).min(trace.len()));
    let within = |leader: u32| (leader as usize).checked_sub(first).map(|leader| leader as u32);
    let dependency = |(index, dependency): (usize, &Dependency)| {
        let start = || Dependency {
            after: After::Start,
            think_time: trace.requests[first + index].arrival.saturating_since(from),
        };
        let after = match dependency.after {
            After::Start => None,
            After::Arrival(leader) => within(leader).map(After::Arrival),
            After::Completion(leader) => within(leader).map(After::Completion),
            After::Batch(first) => within(first).map(After::Batch),
        };
        after.map_or_else(start, |after| Dependency { after, think_time: dependency.think_time })
    };
    Excerpt {
        requests: first..last,
        dependencies: vm.dependencies[first..last].iter().enumerate().map(dependency).collect(),
        ends: vm.ends[first..last].iter().map(|end| end.and_then(within)).collect(),
        journal_waits: vm.journal_waits.within(first..last),
    }
}

/// What each machine got in all excerpts, which are together as long as the longest recording, or as the table says, and begin at even
/// distances of it. Together machines come less far than they came alone, and find less in a cache that they have filled: in each excerpt
/// caches are as full as they were where the machines have come in those before.
pub(crate) fn simulate(
    traces: &[IsolatedTrace],
    vms: &[Workload],
    run: &Run<'_>,
) -> Result<Vec<VmForecast>, PredictError> {
    let (traces, vms) = (&traces[run.vms.clone()], &vms[run.vms.clone()]);
    let span = traces.iter().map(IsolatedTrace::span).max().unwrap_or_default().saturating_since(Timestamp::ZERO);
    let simulation = Simulation { traces, vms, run, span };
    let most = telling(span, traces.iter().map(IsolatedTrace::len).sum()).min(run.most);
    simulation.all(most)
}

/// How long a part of recordings of so many requests tells all.
fn telling(span: Nanos, requests: usize) -> Nanos {
    let part = TELLING as f64 / requests.max(1) as f64;
    span.min(Nanos::from_ns((span.as_ns() as f64 * part) as u64))
}

/// The longest mean response; nanoseconds.
fn longest(got: &[VmForecast]) -> f64 {
    let responses = got.iter().flat_map(|vm| [vm.reads.response_ns, vm.writes.response_ns]).flatten();
    responses.fold(0.0, f64::max)
}

/// Machines that are played.
struct Simulation<'a> {
    traces: &'a [IsolatedTrace],
    vms: &'a [Workload],
    run: &'a Run<'a>,
    /// Of the longest recording.
    span: Nanos,
}

impl Simulation<'_> {
    /// What each got in excerpts of no more than `in_all` together. Queues need time to grow: excerpts are so long that a request waits
    /// only a small part of one.
    fn all(&self, in_all: Nanos) -> Result<Vec<VmForecast>, PredictError> {
        let mut excerpts = (in_all.as_ns() / EXCERPT.as_ns()).clamp(1, EXCERPTS);
        loop {
            let got = self.excerpts(in_all, excerpts)?;
            let enough = (in_all.as_ns() as f64 / (WAITS * longest(&got)).max(1.0)) as u64;
            if enough >= excerpts || excerpts == 1 {
                return Ok(got);
            }
            excerpts = enough.max(1);
        }
    }

    /// What each got in so many excerpts, which are so long together.
    fn excerpts(&self, in_all: Nanos, excerpts: u64) -> Result<Vec<VmForecast>, PredictError> {
        let apart = Nanos::from_ns(self.span.as_ns() / excerpts);
        let length = apart.min(Nanos::from_ns(in_all.as_ns() / excerpts));
        let mut got = vec![Measured::default(); self.traces.len()];
        let mut simulated = Nanos::ZERO;
        let mut filling = self.run.fitted.filling(self.traces);
        let mut progresses: Vec<Progress<'_>> = self.traces.iter().map(Progress::of).collect();
        let alone = progresses.len() < 2;
        for nth in 0..excerpts {
            let start = Timestamp::ZERO + Nanos::from_ns(apart.as_ns() * nth);
            let full_as: Vec<Timestamp> =
                progresses.iter().map(|progress| if alone { start } else { progress.at(start) }).collect();
            let contents = filling.as_mut().map(|filling| filling.at(&full_as, start));
            let (vms, time) = self.one(start, length, &full_as, contents)?;
            simulated += time;
            // Of what was too short to be measured nothing is known.
            let times = if time > Nanos::ZERO { apart.as_s_f64() / time.as_s_f64() } else { 0.0 };
            progresses.iter_mut().zip(&vms).for_each(|(progress, got)| progress.go_on(got, times));
            for (all, of_excerpt) in got.iter_mut().zip(&vms) {
                all.iter_mut().zip(of_excerpt).for_each(|(all, of_excerpt)| all.merge(of_excerpt));
            }
        }
        if simulated == Nanos::ZERO {
            let what = "a recording is too short to be played against the others".to_owned();
            return Err(PredictError::DoesNotHold(what));
        }
        Ok(got.iter().map(|got| forecast(got, simulated)).collect())
    }

    /// What each machine got from some time of the recordings on, with its cache as at another, and how long that was measured.
    fn one(
        &self,
        start: Timestamp,
        length: Nanos,
        full_as: &[Timestamp],
        contents: Option<Contents>,
    ) -> Result<(Vec<Measured>, Nanos), PredictError> {
        let from = Timestamp::ZERO + Nanos::from_ns(length.as_ns() / LEFT_OUT);
        let until = Cell::new(Timestamp::ZERO + length);
        let each = || self.traces.iter().zip(self.vms);
        let to = start.saturating_add(Nanos::from_ns(length.as_ns().saturating_mul(FURTHEST)));
        let excerpts: Vec<Excerpt> = each().map(|(trace, vm)| excerpt(trace, vm, start, to)).collect();
        let inputs: Vec<VmExcerpt<'_>> = each()
            .zip(&excerpts)
            .map(|((trace, vm), excerpt)| VmExcerpt {
                requests: &trace.requests[excerpt.requests.clone()],
                dependencies: &excerpt.dependencies,
                ends: &excerpt.ends,
                journal_waits: &excerpt.journal_waits,
                coalesced: if self.run.fitted.is_disk() { vm.coalesced } else { 0.0 },
                background: vm.background,
            })
            .collect();
        let source = VmSource::new(&inputs, &until, self.run.seed);
        let meter = Meter::new(self.traces.len(), self.run.fitted.delay(), from, &until);
        let stack = stack(self.vms, self.run, full_as, contents)?;
        let ended = Engine::on(source, stack, meter).run();
        let ended = ended.map_err(|error| PredictError::DoesNotHold(error.to_string()))?;
        Ok((ended.observer.vms, until.get().saturating_since(from)))
    }
}

/// A stage for each machine above one for the device.
fn stack(
    vms: &[Workload],
    run: &Run<'_>,
    full_as: &[Timestamp],
    contents: Option<Contents>,
) -> Result<Stack, PredictError> {
    let &Run { fitted, order: DispatchOrder { policy, durable_first }, seed, .. } = run;
    let passage = LayerConfig { per_vm: true, delay_up: fitted.delay(), ..LayerConfig::default() };
    let mut guests = Layer::new(Box::new(|| shipped("fifo")), passage);
    for (number, vm) in vms.iter().enumerate() {
        guests = guests.with_stage(VmId(number as u16), scheduler(vm.scheduler)?, vm.limits);
    }
    // Checked once here: layers build it themselves.
    scheduler(&policy.scheduler())?;
    let at_device = move || -> Box<dyn Scheduler> {
        let order = scheduler(&policy.scheduler()).expect("it was built just before");
        if durable_first { Box::new(DurableFirst::of(order)) } else { order }
    };
    // Machines' own stages have split what is too long; the device splits nothing.
    let limits = Limits { merge: false, depth: fitted.depth(), max_sectors: Request::SECTORS_MAX, ..Limits::default() };
    let shared = LayerConfig { limits, ..LayerConfig::default() };
    let drive = fitted.drive(run.vms.clone(), full_as, contents, seed);
    Ok(Stack::new(vec![guests, Layer::new(Box::new(at_device), shared)], drive))
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Operation};

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::twin::workload::{background, infer};

    #[test]
    fn of_many_requests_a_part_is_played() {
        let span = Nanos::from_s(300);
        assert_eq!(telling(span, 100_000), span);
        assert_eq!(telling(span, 400_000), Nanos::from_s(75));
        assert_eq!(telling(span, 0), span);
    }

    /// A process that reads for 2 ms every 5 ms, and one that writes what nobody waits for, `at_once` of these going at once and each
    /// for 4 ms: the others wait.
    fn traced(at_once: u64) -> IsolatedTrace {
        let request = |stream: u32, at_us: u64, issued_us: u64, took_us: u64, sync: bool| {
            let operation = if sync { Operation::Read } else { Operation::Write };
            let sent = TracedRequest::sent(operation, stream, at_us, issued_us - at_us + took_us);
            let issued = Timestamp::from_ns(issued_us * 1000);
            TracedRequest { issued, lba: Lba::new(issued_us / 1000 * 64), sync, ..sent }
        };
        let mut requests: Vec<TracedRequest> = (0..800).map(|n| request(1, n * 7000, n * 7000, 2000, true)).collect();
        for burst in 0..50 {
            let at = burst * 100_000 + 333;
            requests.extend(
                (0..12).map(|nth| request(2, at + nth, (at + nth).max(at + nth / at_once * 4000), 4000, false)),
            );
        }
        requests.sort_by_key(|request| (request.arrival, request.issued));
        IsolatedTrace { requests, ..IsolatedTrace::default() }
    }

    #[test]
    fn how_many_writes_go_at_once_shows_in_those_that_waited() {
        for at_once in [1, 2, 4] {
            assert_eq!(u64::from(background(&traced(at_once))), at_once);
        }
        let mut free = traced(2);
        free.requests.iter_mut().for_each(|request| request.issued = request.arrival);
        assert_eq!(background(&free), u32::MAX);
    }

    #[test]
    fn no_more_is_played_than_is_asked_for() {
        use crate::twin::device::concurrent;
        use crate::twin::device::policy::Policy;

        // It reads at the beginning only.
        let mut trace = traced(2);
        trace.requests.retain(|request| {
            request.operation == Operation::Write || request.arrival < Timestamp::from_ns(1_400_000_000)
        });
        let vms = [infer(&trace)];
        let traces = [trace];
        let fitted = FittedDevice::Concurrent(concurrent::fit(&traces, traces::Sectors::new(1 << 30)).unwrap());
        let reads = |most: Nanos| {
            let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
            let run = Run { fitted: &fitted, order, seed: 1, vms: 0..1, most };
            simulate(&traces, &vms, &run).unwrap()[0].reads.iops.unwrap()
        };
        assert!(reads(Nanos::from_s(2)) > 2.0 * reads(ALL), "{} {}", reads(Nanos::from_s(2)), reads(ALL));
        assert_eq!(reads(Nanos::from_s(60)), reads(ALL));
    }

    #[test]
    fn what_was_one_request_at_the_device_stays_one() {
        use crate::twin::device;
        use crate::twin::device::policy::Policy;

        // One after another, far from one another: short reads of 5 to 9 ms, and every second of 4,096 sectors, which takes 16 ms more.
        let mut at = 0;
        let read = |n: u64| {
            let (sectors, longer) = if n.is_multiple_of(2) { (4096, 16_000) } else { (8, 0) };
            let took = 5000 + n * 7919 % 4000 + longer;
            let lba = Lba::new(n * 104_729 % 10_000 * 10_000);
            let sent = TracedRequest { lba, sectors, ..TracedRequest::sent(Operation::Read, 1, at, took) };
            at += took + 3000;
            sent
        };
        let traces = [IsolatedTrace { requests: (0..2000).map(read).collect(), ..IsolatedTrace::default() }];
        let vms = [infer(&traces[0])];
        let fitted = FittedDevice::Disk(device::fit_disk(&traces).unwrap());
        let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
        let run = Run { fitted: &fitted, order, seed: 1, vms: 0..1, most: ALL };
        let simulated = simulate(&traces, &vms, &run).unwrap()[0].reads;
        assert!((simulated.response_ns.unwrap() / 15e6 - 1.0).abs() < 0.03, "{simulated:?}");
    }

    #[test]
    fn who_pauses_ends_nobodys_play() {
        use crate::twin::device::concurrent;
        use crate::twin::device::policy::Policy;

        // One reads all the time, and one for 300 ms every 10 s: in most excerpts it has nothing more to send for longer than they last.
        let reads = |every_us: u64, when: fn(u64) -> bool| {
            let times = (0..60_000_000 / every_us).map(|n| n * every_us).filter(|at| when(*at));
            let read = |at: u64| TracedRequest {
                lba: Lba::new(at / 1000 * 64),
                ..TracedRequest::sent(Operation::Read, 1, at, 2000)
            };
            IsolatedTrace { requests: times.map(read).collect(), ..IsolatedTrace::default() }
        };
        let traces = [reads(7000, |_| true), reads(5000, |at| at % 10_000_000 < 300_000)];
        let vms = [infer(&traces[0]), infer(&traces[1])];
        let fitted = FittedDevice::Concurrent(concurrent::fit(&traces, traces::Sectors::new(1 << 30)).unwrap());
        let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
        let run = Run { fitted: &fitted, order, seed: 1, vms: 0..2, most: ALL };
        let simulation = Simulation { traces: &traces, vms: &vms, run: &run, span: Nanos::from_s(60) };
        let start = Timestamp::from_ns(20_000_000_000);
        let (_, measured) = simulation.one(start, Nanos::from_s(4), &[start; 2], None).unwrap();
        assert_eq!(measured, Nanos::from_ms(3600));
    }

    #[test]
    fn an_excerpt_begins_as_it_was_recorded_and_goes_on_by_its_causes() {
        let trace = traced(2);
        let vm = infer(&trace);
        let from = Timestamp::from_ns(2_000_100_000);
        let to = from + Nanos::from_s(2);
        let excerpt = excerpt(&trace, &vm, from, to);
        let Range { start: first, end: last } = excerpt.requests;
        let arrived = |index: usize| trace.requests[index].arrival;
        assert!(first > 0 && arrived(first) >= from && arrived(first - 1) < from);
        assert!(arrived(last - 2) < to && arrived(last - 1) >= to);
        assert_eq!((excerpt.dependencies.len(), excerpt.ends.len()), (last - first, last - first));
        let requests = &trace.requests[first..last];
        let mut cut_off = 0;
        for (request, dependency) in requests.iter().zip(&excerpt.dependencies) {
            let at = match dependency.after {
                After::Start => from,
                After::Arrival(leader) => requests[leader as usize].arrival,
                After::Completion(leader) => requests[leader as usize].completed,
                After::Batch(_) => continue,
            };
            cut_off += u32::from(dependency.after == After::Start);
            assert_eq!(at + dependency.think_time, request.arrival);
        }
        assert!((1..=3).contains(&cut_off), "{cut_off}");
    }
}
