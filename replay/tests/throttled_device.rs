//! A device behind a throttle on a slowed clock: with k large enough it makes the replay that a simulation of the
//! modelled disk makes. A k that is too small rises until it is not, and a found k makes nearly nothing late.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod modelled_device;
mod requests;

use drive_models::throttle::{Procedure, Throttle, ThrottleSettings, find_k};
use iocast_replay::live::{DeviceDrive, End, Failure, LiveEnded, LiveEngine, ServiceTimes, Throttled};
use iocast_replay::{Engine, Source};
use modelled_device::{ManualClock, ModelledDevice, Observers, observers, paced, reads, stage, text};
use proptest::prelude::*;
use traces::{Nanos, Observed, Record, Timestamp};

type Device = ModelledDevice<fn(usize) -> Option<Failure>>;
type Ended<'a> = LiveEnded<Box<dyn Source>, Observers, Throttled<'a, Device>>;

/// A virtual disk whose service time rises tenfold within a minute, with noise.
const TENFOLD: &str = "virtual-disk:service=300us,drift=linear,drift_to=3ms,drift_over=60s,cv=0.2,capacity=64m";

/// A throttle of `tunables` in front of `device`, and the clock of the device.
fn throttle(tunables: &str, device: &str) -> (Throttle<DeviceDrive<Device>>, ManualClock) {
    let clock = ManualClock::default();
    (Throttle::new(drive(device, &clock), &settings(tunables)), clock)
}

fn settings(tunables: &str) -> ThrottleSettings {
    let spec = format!("throttle:cache=off,{tunables}").parse().unwrap();
    drive_models::build_throttle(&spec).unwrap().unwrap().settings().on_slowed_clock()
}

fn drive(device: &str, clock: &ManualClock) -> DeviceDrive<Device> {
    DeviceDrive::new(ModelledDevice::new(device, clock, |_| None))
}

fn replay<'a>(
    throttle: &'a mut Throttle<DeviceDrive<Device>>,
    clock: &ManualClock,
    records: &[Record],
    pacing: usize,
    scheduler: &str,
) -> Ended<'a> {
    let source = paced(pacing, records, drive_models::DriveModel::capacity(throttle));
    let drive = Throttled::new(throttle);
    LiveEngine::new(source, stage(scheduler, 1), drive, observers(), clock.clone()).spin(Nanos::ZERO).run().unwrap()
}

fn mean_error(times: ServiceTimes) -> f64 {
    times.achieved_ns as f64 / times.modelled_ns as f64 - 1.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_throttled_device_makes_the_replay_of_the_modelled_disk(
        bursts in prop::collection::vec(requests::request(), 1..60),
        pacing in 0usize..4,
        k in prop::sample::select(vec![1u32, 3, 8, 20]),
    ) {
        let mut now = 0;
        let records: Vec<Record> = bursts.into_iter().map(|(gap, mut request)| {
            now += gap;
            request.arrival = Timestamp::from_ns(now);
            let completed = Some(Timestamp::from_ns(now + 700_000));
            Record { request, observed: Observed { completed, ..Observed::default() } }
        }).collect();
        for scheduler in ["none", "deadline", "cats", "cscan"] {
            let model = drive_models::build(&"linear:cache=off,capacity=64m".parse().unwrap()).unwrap().drive;
            let source = paced(pacing, &records, model.capacity());
            let simulated = Engine::new(source, stage(scheduler, 1), model, observers()).run().unwrap();
            let (mut throttle, clock) = throttle(&format!("k={k}"), "virtual-disk:service=900us,cv=0.4,capacity=64m");
            let ended = replay(&mut throttle, &clock, &records, pacing, scheduler);
            prop_assert_eq!((ended.end, ended.unfinished), (End::Complete, 0));
            prop_assert_eq!(text(ended.observer), text(simulated.observer), "{}", scheduler);
            let times = ended.drive.all();
            prop_assert_eq!((times.achieved_ns, throttle.report().late), (times.modelled_ns, 0));
        }
    }
}

#[test]
fn k_that_adapts_gives_the_modelled_service_time_on_a_device_that_slows_down_tenfold() {
    // 3 ms at the end for 4.25 ms at least, k = 1 at first, which 0.1 is not.
    let (mut throttle, clock) = throttle("k=0.1,dynamic=on,raise=1.1,lower_at=0", TENFOLD);
    let ended = replay(&mut throttle, &clock, &reads(60_000, 1_000_000), 2, "none");
    assert_eq!((ended.end, ended.unfinished), (End::Complete, 0));
    let (all, stable) = (ended.drive.all(), ended.drive.stable());
    let report = throttle.report();
    assert!(report.k.millionths() > 500_000 && !report.changes.is_empty(), "{report:?}");
    assert_eq!(report.late, report.changes.len() as u64);
    assert!(stable.requests > 1000 && stable.requests < all.requests, "{all:?} {stable:?}");
    assert_eq!(all.requests, 60_000);
    assert!(mean_error(stable).abs() < 0.02, "{stable:?}");
    // Its clock ran slower than the device's, and as much slower as k says.
    assert!(clock_seconds(&clock) > 60.0);
}

fn clock_seconds(clock: &ManualClock) -> f64 {
    use iocast_replay::live::Clock;
    clock.now().as_ns() as f64 / 1e9
}

#[test]
fn a_found_k_makes_fewer_than_one_in_a_thousand_late() {
    let records = reads(20_000, 1_000_000);
    let clock = ManualClock::default();
    let found = find_k(
        &settings("k=0.05,lower_at=0"),
        Procedure::default(),
        || {
            clock.set(Timestamp::ZERO);
            Ok::<_, ()>(drive("virtual-disk:service=1ms,cv=0.5,capacity=64m", &clock))
        },
        |throttle| {
            let ended = replay(throttle, &clock, &records, 2, "none");
            Ok((ended.end, ended.drive.all()))
        },
    )
    .unwrap();
    let (end, times) = found.measured;
    assert_eq!((end, found.report.completions), (End::Complete, 20_000));
    assert!(found.searches[0].late > 20, "{:?}", found.searches[0].late);
    assert!(found.report.late * 1000 < found.report.completions, "{}", found.report.late);
    assert!(mean_error(times).abs() < 0.02, "{times:?}");
}

#[test]
fn a_k_that_is_too_small_is_late_and_says_so() {
    let (mut throttle, clock) = throttle("k=0.1", "virtual-disk:service=1ms,capacity=64m");
    let ended = replay(&mut throttle, &clock, &reads(1000, 100_000_000), 0, "none");
    let times = ended.drive.all();
    // Every request takes 1 ms of the device, 10 ms on its clock; the disk would take 4.25 to 9.5 ms.
    assert_eq!((throttle.report().late, times.achieved_ns), (1000, 1000 * 10_000_000));
    assert!(mean_error(times) > 0.05, "{times:?}");
}
