//! The live engine: on a device with the times of a drive model, and on a clock that stands still while the replay
//! computes, it makes the replay of the simulated engine. What devices and machines do wrong is counted.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod modelled_device;
mod requests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocast_replay::live::{Clock, DeviceDrive, End, Failure, Finished, LiveDevice, LiveEnded, LiveEngine, OnError};
use iocast_replay::{Engine, Source};
use modelled_device::{ManualClock, ModelledDevice, Observers, observers, paced, reads, stage, text};
use proptest::prelude::*;
use traces::{Nanos, Observed, Record, Request, RequestId, Sectors, Timestamp};

type Drive<F> = DeviceDrive<ModelledDevice<F>>;
type Live<F> = LiveEngine<Box<dyn Source>, Box<dyn schedulers::Scheduler>, Drive<F>, Observers, ManualClock>;

fn live<F: FnMut(usize) -> Option<Failure> + Send>(
    records: &[Record],
    pacing: usize,
    scheduler: &str,
    depth: u32,
    device: ModelledDevice<F>,
) -> Live<F> {
    let (source, clock) = (paced(pacing, records, device.capacity()), device.clock.clone());
    LiveEngine::new(source, stage(scheduler, depth), DeviceDrive::new(device), observers(), clock).spin(Nanos::ZERO)
}

/// A replay of `records` as recorded, without a scheduler, on a device of 1 ms per request.
fn replayed<F: FnMut(usize) -> Option<Failure> + Send>(
    records: &[Record],
    script: F,
) -> LiveEnded<Box<dyn Source>, Observers, Drive<F>> {
    let device = ModelledDevice::new("fixed", &ManualClock::default(), script);
    live(records, 0, "none", 64, device).run().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The promise on which everything else rests.
    #[test]
    fn a_live_replay_is_the_simulated_one(
        bursts in prop::collection::vec(requests::request(), 1..60),
        pacing in 0usize..4,
        depth in 1u32..4,
        volatile in any::<bool>(),
    ) {
        let mut now = 0;
        let records: Vec<Record> = bursts.into_iter().enumerate().map(|(number, (gap, mut request))| {
            now += gap;
            request.arrival = Timestamp::from_ns(now);
            let completed = Some(Timestamp::from_ns(now + 500_000 + number as u64 % 5 * 700_000));
            Record { request, observed: Observed { completed, ..Observed::default() } }
        }).collect();
        let drive = if volatile { "fixed:write_cache=volatile-fua" } else { "fixed:service=370us" };
        // Schedulers that ask for costs get the distance on a device, and its time on a drive model.
        for scheduler in ["none", "fifo", "deadline", "mq-deadline", "kyber", "bfq", "cfq", "cscan"] {
            let model = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
            let source = paced(pacing, &records, model.capacity());
            let simulated = Engine::new(source, stage(scheduler, depth), model, observers()).run().unwrap();
            let device = ModelledDevice::new(drive, &ManualClock::default(), |_| None);
            let live = live(&records, pacing, scheduler, depth, device).run().unwrap();
            prop_assert_eq!((live.end, live.unfinished), (End::Complete, 0));
            prop_assert_eq!(text(live.observer), text(simulated.observer), "{}", scheduler);
            if pacing != 2 {
                prop_assert_eq!(live.punctuality.error.moments().max_ns, Some(0));
            }
        }
    }
}

#[test]
fn a_clock_that_jumps_makes_arrivals_late_and_loses_none() {
    let clock = ManualClock::default();
    let jump = clock.clone();
    // The system stands still for a second while the 100th request is in flight.
    let device = ModelledDevice::new("fixed", &clock, move |number| {
        if number == 100 {
            jump.set(jump.now() + Nanos::from_ns(1_000_000_000));
        }
        None
    });
    let ended = live(&reads(3000, 1_000_000), 0, "none", 64, device).run().unwrap();
    assert_eq!((ended.end, ended.unfinished, ended.failures.len()), (End::Complete, 0, 0));
    let punctuality = &ended.punctuality;
    assert_eq!(punctuality.error.count(), 3000);
    // Of 1,000 arrivals within that second, all but those of the last millisecond are late.
    assert!((998..=1000).contains(&punctuality.late_by_host), "{}", punctuality.late_by_host);
    assert_eq!((punctuality.late_by_device, ended.held_back), (0, 0));
}

#[test]
fn arrivals_that_a_slow_device_holds_back_are_laid_to_it() {
    let device = ModelledDevice::new("fixed:service=2ms", &ManualClock::default(), |_| None);
    let ended = live(&reads(1000, 1_000_000), 0, "none", 1, device).max_outstanding(10).run().unwrap();
    let punctuality = &ended.punctuality;
    assert_eq!((ended.end, punctuality.error.count(), punctuality.late_by_host), (End::Complete, 1000, 0));
    assert!(punctuality.late_by_device > 900, "{}", punctuality.late_by_device);
    assert!(ended.held_back >= punctuality.late_by_device);
    // It serves every second request in time, so the error grows by as much as the time that was asked for.
    assert!((punctuality.drift_share().unwrap() - 1.0).abs() < 0.05, "{:?}", punctuality.drift_share());
}

#[test]
fn failures_are_counted_and_the_replay_goes_on() {
    let script = |number| match number % 10 {
        3 => Some(Failure::Errno(5)),
        7 => Some(Failure::Short),
        _ => None,
    };
    let ended = replayed(&reads(100, 2_000_000), script);
    assert_eq!((ended.end, ended.unfinished), (End::Complete, 0));
    let failures: Vec<(Failure, u64)> = ended.failures.into_iter().collect();
    assert_eq!(failures, [(Failure::Errno(5), 10), (Failure::Short, 10)]);
}

#[test]
fn a_replay_stops_at_its_first_failure_if_it_is_to() {
    let fail = |number| (number == 20).then_some(Failure::Errno(5));
    let device = ModelledDevice::new("fixed", &ManualClock::default(), fail);
    let ended = live(&reads(100, 2_000_000), 0, "none", 64, device).on_error(OnError::Stop).run().unwrap();
    assert_eq!(ended.end, End::Failed);
    assert_eq!(ended.punctuality.error.count(), 21);
}

#[test]
fn a_replay_stops_when_the_device_is_gone() {
    let fails = |errno: i32| move |number| (number >= 20).then_some(Failure::Errno(errno));
    for gone in [6, 19, 107] {
        let ended = replayed(&reads(100, 2_000_000), fails(gone));
        assert_eq!((ended.end, ended.failures[&Failure::Errno(gone)]), (End::DeviceGone, 1));
    }
    // EIO says nothing by itself; a device without a size does.
    assert_eq!(replayed(&reads(100, 2_000_000), fails(5)).end, End::Complete);
    let mut device = ModelledDevice::new("fixed", &ManualClock::default(), fails(5));
    device.is_gone = true;
    assert_eq!(live(&reads(100, 2_000_000), 0, "none", 64, device).run().unwrap().end, End::DeviceGone);
}

#[test]
fn an_interrupted_replay_sends_no_more_and_waits_for_the_device() {
    let stop = Arc::new(AtomicBool::new(false));
    let (clock, set) = (ManualClock::default(), Arc::clone(&stop));
    let device = ModelledDevice::new("fixed:service=5ms", &clock, move |number| {
        if number == 20 {
            set.store(true, Ordering::Relaxed);
        }
        None
    });
    // Five arrivals per service: most wait in the scheduler, which keeps them.
    let ended = live(&reads(1000, 1_000_000), 0, "none", 2, device).stop(stop).run().unwrap();
    assert_eq!(ended.end, End::Interrupted);
    let completed = ended.observer.0.total(iocast_replay::metrics::Class::Read).response.count();
    // 21 before the signal, and the two in flight.
    assert_eq!(completed, 23);
    assert_eq!(ended.unfinished as u64 + completed, ended.punctuality.error.count());
}

#[test]
fn a_device_that_never_answers_ends_with_the_results_so_far() {
    /// Accepts everything and completes the first ten.
    struct Deaf(ManualClock, Arc<AtomicBool>, u32, Vec<Finished>);
    impl LiveDevice for Deaf {
        fn capacity(&self) -> Sectors {
            Sectors::new(1 << 30)
        }
        fn accepts(&self, _: &Request) -> bool {
            true
        }
        fn submit(&mut self, id: RequestId, _: &Request) {
            self.2 += 1;
            if self.2 <= 10 {
                self.3.push(Finished { id, failure: None });
            }
        }
        fn start(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn poll(&mut self, finished: &mut Vec<Finished>) {
            finished.append(&mut self.3);
        }
        fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
            self.0.set(self.0.now() + timeout);
            // The user loses patience after a minute.
            self.1.store(self.0.now() > Timestamp::from_ns(60_000_000_000), Ordering::Relaxed);
            Ok(())
        }
    }
    let (clock, stop) = (ManualClock::default(), Arc::new(AtomicBool::new(false)));
    let device = Deaf(clock.clone(), Arc::clone(&stop), 0, Vec::new());
    let source = paced(0, &reads(15, 1_000_000), device.capacity());
    let drive = DeviceDrive::new(device);
    let engine = LiveEngine::new(source, stage("none", 64), drive, observers(), clock).spin(Nanos::ZERO).stop(stop);
    let ended = engine.run().unwrap();
    assert_eq!((ended.end, ended.unfinished), (End::Interrupted, 5));
}
