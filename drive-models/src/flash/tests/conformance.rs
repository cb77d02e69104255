//! Under any settings and any load: every command completes once, time goes forward, the same input gives the same
//! output, and map and cells agree in the end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use traces::Flags;

use super::super::*;
use super::timing::{drive, request};

const SETTINGS: &[&str] = &[
    "",
    "power_loss_protection=on,channels=2,dies=2,suspensions=3",
    "page=16k,planes=2,buffer=32k,pages_per_block=2,dies=3,precondition=random,capacity=64m",
    "interface=sata,depth=3,page=8k,precondition=random,over_provisioning=0.02",
    // Much happens at the same time.
    "command=4us,read_overhead=8us,write_overhead=4us,read_time=4us,program_time=8us,erase_time=8us,link_byte_ps=0,\
     channel_byte_ps=0,channels=2,dies=2,precondition=random",
    "capacity=160m,simulated=16m,page=16k,suspensions=1,precondition=empty,dies=2",
];

/// When a caller advances the drive beside the times that it names.
#[derive(Clone, Copy, PartialEq)]
enum Advances {
    /// Before it submits a command.
    Submitting,
    /// Every so many ns.
    Every(u64),
    /// Never.
    AsNamed,
}

fn run(settings: &str, load: &[(u64, u8, u64, u64, bool)], advances: Advances) -> Vec<Completion> {
    let mut drive = drive(settings);
    let units = drive.capacity().count() / 8;
    let (mut now, mut done, mut fresh) = (Timestamp::ZERO, Vec::new(), Vec::new());
    let mut step = |drive: &mut Flash, now: Timestamp, done: &mut Vec<Completion>| {
        drive.advance(now, &mut fresh);
        done.append(&mut fresh);
    };
    for (id, &(gap, kind, unit, length, fua)) in load.iter().enumerate() {
        if let Advances::Every(ns) = advances {
            (1..=gap / ns).for_each(|nth| step(&mut drive, now + Nanos::from_ns(nth * ns), &mut done));
        }
        now += Nanos::from_ns(gap);
        while let Some(next) = drive.next_event().filter(|next| *next <= now) {
            step(&mut drive, next, &mut done);
        }
        if advances != Advances::AsNamed {
            step(&mut drive, now, &mut done);
        }
        let operation = Operation::from_number(kind % 4).unwrap();
        let (unit, length) = (unit % units, if operation == Operation::Flush { 0 } else { length });
        let mut request = request(operation, unit, length.min(units - unit));
        request.flags.set(Flags::FUA, fua && operation == Operation::Write);
        while !drive.accepts(&request) {
            now = drive.next_event().unwrap();
            step(&mut drive, now, &mut done);
        }
        drive.submit(now, RequestId(id as u32), &request);
    }
    while let Some(next) = drive.next_event() {
        assert!(next >= now, "nothing happens in the past");
        now = next;
        step(&mut drive, now, &mut done);
    }
    drive.ftl.audit();
    done
}

/// Loads with `gaps` in us, since short ones keep all dies busy.
fn load(gaps: std::ops::Range<u64>) -> impl Strategy<Value = Vec<(u64, u8, u64, u64, bool)>> {
    prop::collection::vec((gaps.prop_map(|us| us * 1000), 0u8..7, 0u64..40_960, 1u64..40, any::<bool>()), 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_command_completes_once_and_runs_repeat(
        settings in prop::sample::select(SETTINGS),
        load in prop_oneof![load(0..400), load(0..9)],
    ) {
        let done = run(settings, &load, Advances::Submitting);
        let ids: BTreeSet<RequestId> = done.iter().map(|completion| completion.id).collect();
        prop_assert_eq!((ids.len(), done.len()), (load.len(), load.len()));
        prop_assert!(done.windows(2).all(|pair| pair[0].finished <= pair[1].finished));
        prop_assert!(done.iter().all(|completion| completion.started <= completion.finished));
        for advances in [Advances::Submitting, Advances::Every(700), Advances::AsNamed] {
            prop_assert_eq!(run(settings, &load, advances), done.clone());
        }
    }
}
