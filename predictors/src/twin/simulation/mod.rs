//! Simulates VMs together, or one alone, on a fitted device.
//!
//! The simulation is the closed replay of the traces: each request arrives one think time after what it waits for
//! (`excerpt`, `source`, `vm`). The requests pass a [`replay::Stack`]: a stage for each VM with the limits of its own queue, above
//! a stage for the device with the inferred dispatch order. The fitted device is the drive below. `meter` measures
//! response times and throughput.
//!
//! A VM's load changes in the course of its trace, and VMs together progress less far than each alone. So the
//! simulation takes several excerpts from all over the traces, each much longer than the mean response time.
//! `progress` follows how far each VM has come, because its cache hits depend on that.

mod excerpt;
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
use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::predictor::{PredictError, VmForecast};
use crate::twin::device::FittedDevice;
use crate::twin::device::durable_first::DurableFirst;
use crate::twin::simulation::excerpt::{closed, within};
use crate::twin::simulation::meter::{Measured, Meter, forecast};
use crate::twin::simulation::progress::Progress;
use crate::twin::simulation::source::VmSource;
use crate::twin::simulation::vm::SimulatedVm;

/// One part in this many of an excerpt, at its beginning, is not measured: queues fill first. Set by judgement; not
/// varied.
const WARM_UP_ONE_IN: u64 = 10;
/// Shortest excerpt, unless the trace is shorter. Set by judgement; not varied.
const EXCERPT_LENGTH_MIN: Nanos = Nanos::from_s(5);
/// The most excerpts. Set by judgement; not varied.
const EXCERPTS_MAX: u64 = 16;
/// Shortest excerpt in multiples of the longest mean response time, so that a request waits for a small part of an
/// excerpt only. Set by judgement; not varied.
const EXCERPT_MEAN_RESPONSES_MIN: f64 = 20.0;
/// How far a VM may come in an excerpt, in percent of how far it came alone. An excerpt takes that much of its trace.
/// Chosen on train and validation of the lab suite: with 200 no mean error changes.
const EXCERPT_PROGRESS_MAX_PERCENT: u64 = 125;
/// The most requests of the traces that are simulated; more are expected to add nothing to the forecast. The excerpts
/// of longer traces are shorter, but still come from all over them. Set by judgement; not varied.
const SIMULATED_REQUESTS_MAX: usize = 100_000;

/// No limit to the simulated time except [`SIMULATED_REQUESTS_MAX`].
pub(crate) const UNLIMITED: Nanos = Nanos::from_ns(u64::MAX);

/// The simulated setup: the device and the VMs on it.
pub(crate) struct Run<'a> {
    /// The device. Further devices are simulated beside it, each by itself, with one VM only. Their read caches fill as
    /// that of the first does.
    pub(crate) fits: &'a [FittedDevice],
    pub(crate) order: DispatchOrder,
    pub(crate) seed: u64,
    /// Which of the traces.
    pub(crate) vms: Range<usize>,
    /// The most simulated time of all excerpts together.
    pub(crate) duration_max: Nanos,
}

/// For each device of `run`, the figures of each VM in all excerpts.
///
/// The excerpts begin at even distances of the longest trace. Together they are as long as it, unless
/// [`SIMULATED_REQUESTS_MAX`] or [`Run::duration_max`] allow less. VMs progress less far together than alone, and find
/// less in a cache that they fill. So each excerpt begins with caches filled as far as the VMs have come in those
/// before.
pub(crate) fn simulate(
    traces: &[IsolatedTrace],
    vms: &[Workload],
    run: &Run<'_>,
) -> Result<Vec<Vec<VmForecast>>, PredictError> {
    let (traces, vms) = (&traces[run.vms.clone()], &vms[run.vms.clone()]);
    let span = traces.iter().map(IsolatedTrace::span).max().unwrap_or_default().saturating_since(Timestamp::ZERO);
    let simulation = Simulation { traces, vms, run, span };
    let duration = informative_span(span, traces.iter().map(IsolatedTrace::len).sum()).min(run.duration_max);
    simulation.simulate(duration)
}

/// The part of `span`, in which there are that many requests, that holds [`SIMULATED_REQUESTS_MAX`] of them.
fn informative_span(span: Nanos, requests: usize) -> Nanos {
    let part = SIMULATED_REQUESTS_MAX as f64 / requests.max(1) as f64;
    span.min(Nanos::from_ns((span.as_ns() as f64 * part) as u64))
}

/// The longest mean response time of reads or writes of any VM, ns.
fn longest_response_ns(forecasts: &[VmForecast]) -> f64 {
    let responses = forecasts.iter().flat_map(|vm| [vm.reads.response_ns, vm.writes.response_ns]).flatten();
    responses.fold(0.0, f64::max)
}

/// The VMs that are simulated.
struct Simulation<'a> {
    traces: &'a [IsolatedTrace],
    vms: &'a [Workload],
    run: &'a Run<'a>,
    /// Span of the longest trace.
    span: Nanos,
}

impl Simulation<'_> {
    /// For each device, the figures of each VM in excerpts that are `duration` long together. Queues need time to grow,
    /// so there are fewer and longer excerpts until each is [`EXCERPT_MEAN_RESPONSES_MIN`] mean response times long.
    fn simulate(&self, duration: Nanos) -> Result<Vec<Vec<VmForecast>>, PredictError> {
        let fits = self.run.fits;
        let excerpts = (duration.as_ns() / EXCERPT_LENGTH_MIN.as_ns()).clamp(1, EXCERPTS_MAX);
        let first = self.simulate_excerpts(fits, duration, excerpts)?;
        let each = fits.iter().zip(first);
        each.map(|(fitted, forecasts)| self.lengthen(fitted, forecasts, duration, excerpts)).collect()
    }

    /// The figures of each VM on one device in excerpts that are long enough, from its `forecasts` with this number of
    /// `excerpts`.
    fn lengthen(
        &self,
        fitted: &FittedDevice,
        mut forecasts: Vec<VmForecast>,
        duration: Nanos,
        mut excerpts: u64,
    ) -> Result<Vec<VmForecast>, PredictError> {
        loop {
            let shortest = (EXCERPT_MEAN_RESPONSES_MIN * longest_response_ns(&forecasts)).max(1.0);
            let most = (duration.as_ns() as f64 / shortest) as u64;
            if most >= excerpts || excerpts == 1 {
                return Ok(forecasts);
            }
            excerpts = most.max(1);
            forecasts = self.simulate_excerpts(std::slice::from_ref(fitted), duration, excerpts)?.remove(0);
        }
    }

    /// For each of `fits`, the figures of each VM in this number of `excerpts`, which are `duration` long together.
    fn simulate_excerpts(
        &self,
        fits: &[FittedDevice],
        duration: Nanos,
        excerpts: u64,
    ) -> Result<Vec<Vec<VmForecast>>, PredictError> {
        let apart = Nanos::from_ns(self.span.as_ns() / excerpts);
        let length = apart.min(Nanos::from_ns(duration.as_ns() / excerpts));
        let mut sums = vec![(vec![Measured::default(); self.traces.len()], Nanos::ZERO); fits.len()];
        let mut filling = fits.first().and_then(|fitted| fitted.filling(self.traces));
        let mut progresses: Vec<Progress<'_>> = self.traces.iter().map(Progress::of).collect();
        let alone = progresses.len() < 2;
        debug_assert!(alone || fits.len() == 1, "VMs progress on each device differently");
        for nth in 0..excerpts {
            let start = Timestamp::ZERO + Nanos::from_ns(apart.as_ns() * nth);
            let filled_to: Vec<Timestamp> =
                progresses.iter().map(|progress| if alone { start } else { progress.position(start) }).collect();
            let contents = filling.as_mut().map(|filling| filling.at(&filled_to, start));
            let contents = std::iter::repeat_n(contents, fits.len());
            for ((fitted, contents), (sum, simulated)) in fits.iter().zip(contents).zip(&mut sums) {
                let (vms, time) = self.simulate_excerpt(fitted, start, length, &filled_to, contents)?;
                *simulated += time;
                // An excerpt too short to be measured gives no progress.
                let times = if time > Nanos::ZERO { apart.as_s_f64() / time.as_s_f64() } else { 0.0 };
                progresses.iter_mut().zip(&vms).for_each(|(progress, measured)| progress.advance(measured, times));
                for (all, of_excerpt) in sum.iter_mut().zip(&vms) {
                    all.iter_mut().zip(of_excerpt).for_each(|(all, of_excerpt)| all.merge(of_excerpt));
                }
            }
        }
        if sums.iter().any(|(_, simulated)| *simulated == Nanos::ZERO) {
            let what = "a trace is too short to be simulated together with the others; give a longer one".to_owned();
            return Err(PredictError::DoesNotHold(what));
        }
        let of_device = |(sum, simulated): &(Vec<Measured>, Nanos)| {
            sum.iter().map(|measured| forecast(measured, *simulated)).collect()
        };
        Ok(sums.iter().map(of_device).collect())
    }

    /// The figures of each VM in the excerpt from `start` on, and for how long it was measured. Caches are as full as
    /// at `filled_to` of each VM's trace.
    fn simulate_excerpt(
        &self,
        fitted: &FittedDevice,
        start: Timestamp,
        length: Nanos,
        filled_to: &[Timestamp],
        contents: Option<Contents>,
    ) -> Result<(Vec<Measured>, Nanos), PredictError> {
        let from = start.saturating_add(Nanos::from_ns(length.as_ns() / WARM_UP_ONE_IN));
        let until = Cell::new(start.saturating_add(length));
        let taken = length.as_ns().saturating_mul(EXCERPT_PROGRESS_MAX_PERCENT) / 100;
        let to = start.saturating_add(Nanos::from_ns(taken));
        let parts: Vec<&[TracedRequest]> = self.traces.iter().map(|trace| within(trace, start, to)).collect();
        let vms = self.vms.iter().zip(&parts).map(|(vm, part)| {
            // A device that serves several at once reports each completion by itself.
            let coalesced_share = if fitted.is_disk() { vm.coalesced_share } else { 0.0 };
            let mut simulated = SimulatedVm::new(vm, part, start);
            simulated.coalesced_share = coalesced_share;
            simulated
        });
        let source = VmSource::new(closed(&parts, self.vms, start), vms.collect(), &until, self.run.seed);
        let meter = Meter::new(self.traces.len(), fitted.delay(), from, &until);
        let stack = stack(self.vms, self.run, fitted, filled_to, contents)?;
        let ended = Engine::on(source, stack, meter).run();
        let ended = ended.map_err(|error| PredictError::DoesNotHold(error.to_string()))?;
        Ok((ended.observer.vms, until.get().saturating_since(from)))
    }
}

/// A stage for each VM above one for the device.
fn stack(
    vms: &[Workload],
    run: &Run<'_>,
    fitted: &FittedDevice,
    filled_to: &[Timestamp],
    contents: Option<Contents>,
) -> Result<Stack, PredictError> {
    let &Run { order: DispatchOrder { policy, durable_first }, seed, .. } = run;
    let passage = LayerConfig { per_vm: true, delay_up: fitted.delay(), ..LayerConfig::default() };
    let mut guests = Layer::new(Box::new(|| shipped("fifo")), passage);
    for (number, vm) in vms.iter().enumerate() {
        guests = guests.with_stage(VmId(number as u16), scheduler(vm.scheduler)?, vm.limits);
    }
    // The layer builds the scheduler itself and cannot report an error, so check it here.
    scheduler(&policy.scheduler())?;
    let at_device = move || -> Box<dyn Scheduler> {
        let order = scheduler(&policy.scheduler()).expect("it was built just before");
        if durable_first { Box::new(DurableFirst::of(order)) } else { order }
    };
    // The VMs' own stages have split long requests; the device splits none.
    let limits = Limits { merge: false, depth: fitted.depth(), max_sectors: Request::SECTORS_MAX, ..Limits::default() };
    let shared = LayerConfig { limits, ..LayerConfig::default() };
    let drive = fitted.drive(run.vms.clone(), filled_to, contents, seed);
    Ok(Stack::new(vec![guests, Layer::new(Box::new(at_device), shared)], drive))
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Operation};

    use super::*;
    use crate::isolated_trace::TracedRequest;
    use crate::twin::workload::{background_depth, infer};

    #[test]
    fn simulated_span_shrinks_to_the_request_limit() {
        let span = Nanos::from_s(300);
        assert_eq!(informative_span(span, 100_000), span);
        assert_eq!(informative_span(span, 400_000), Nanos::from_s(75));
        assert_eq!(informative_span(span, 0), span);
    }

    /// A process that reads for 2 ms every 7 ms, and one with bursts of 12 background writes of 4 ms. Of each burst
    /// `at_once` are in flight at once, and the others wait.
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
    fn background_depth_is_inferred_from_throttled_writes() {
        for at_once in [1, 2, 4] {
            assert_eq!(u64::from(background_depth(&traced(at_once))), at_once);
        }
        let mut free = traced(2);
        free.requests.iter_mut().for_each(|request| request.issued = request.arrival);
        assert_eq!(background_depth(&free), u32::MAX);
    }

    #[test]
    fn simulated_time_is_limited_to_duration_max() {
        use crate::twin::device::concurrent;
        use crate::twin::device::policy::Policy;

        // The VM reads only at the beginning.
        let mut trace = traced(2);
        trace.requests.retain(|request| {
            request.operation == Operation::Write || request.arrival < Timestamp::from_ns(1_400_000_000)
        });
        let vms = [infer(&trace)];
        let traces = [trace];
        let fits = [FittedDevice::Concurrent(concurrent::fit(&traces, traces::Sectors::new(1 << 30)).unwrap())];
        let reads = |duration_max: Nanos| {
            let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
            let run = Run { fits: &fits, order, seed: 1, vms: 0..1, duration_max };
            simulate(&traces, &vms, &run).unwrap()[0][0].reads.iops.unwrap()
        };
        assert!(reads(Nanos::from_s(2)) > 2.0 * reads(UNLIMITED), "{} {}", reads(Nanos::from_s(2)), reads(UNLIMITED));
        assert_eq!(reads(Nanos::from_s(60)), reads(UNLIMITED));
    }

    #[test]
    fn long_requests_are_not_split() {
        use crate::twin::device;
        use crate::twin::device::policy::Policy;

        // Reads one after another at distant addresses. Each takes 5 to 9 ms; every second one has 4,096 sectors and
        // takes 16 ms more.
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
        let fits = [FittedDevice::Disk(device::fit_disk(&traces).unwrap())];
        let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
        let run = Run { fits: &fits, order, seed: 1, vms: 0..1, duration_max: UNLIMITED };
        let simulated = simulate(&traces, &vms, &run).unwrap()[0][0].reads;
        assert!((simulated.response_ns.unwrap() / 15e6 - 1.0).abs() < 0.03, "{simulated:?}");
    }

    #[test]
    fn vm_that_pauses_does_not_end_the_simulation() {
        use crate::twin::device::concurrent;
        use crate::twin::device::policy::Policy;

        // One VM reads all the time, the other for 300 ms every 10 s. In most excerpts the latter sends nothing.
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
        let fits = [FittedDevice::Concurrent(concurrent::fit(&traces, traces::Sectors::new(1 << 30)).unwrap())];
        let order = DispatchOrder { policy: Policy::Fcfs, durable_first: false };
        let run = Run { fits: &fits, order, seed: 1, vms: 0..2, duration_max: UNLIMITED };
        let simulation = Simulation { traces: &traces, vms: &vms, run: &run, span: Nanos::from_s(60) };
        let start = Timestamp::from_ns(20_000_000_000);
        let (_, measured) = simulation.simulate_excerpt(&fits[0], start, Nanos::from_s(4), &[start; 2], None).unwrap();
        assert_eq!(measured, Nanos::from_ms(3600));
    }

    #[test]
    fn excerpt_has_the_requests_before_it_within_and_the_next() {
        use crate::twin::simulation::excerpt::BEFORE_MAX;

        let trace = traced(2);
        let from = Timestamp::from_ns(2_000_100_000);
        let to = from + Nanos::from_s(2);
        let arrives = |time: Timestamp| trace.requests.iter().filter(|request| request.arrival < time).count();
        assert!(arrives(from) > BEFORE_MAX && arrives(to) > arrives(from));
        assert_eq!(within(&trace, from, to), &trace.requests[arrives(from) - BEFORE_MAX..=arrives(to)]);
        let early = Timestamp::from_ns(500_100_000);
        assert!((100..BEFORE_MAX).contains(&arrives(early)));
        assert_eq!(within(&trace, early, to), &trace.requests[..=arrives(to)]);
        assert_eq!(within(&trace, Timestamp::ZERO, Timestamp::MAX), trace.requests);
    }
}
