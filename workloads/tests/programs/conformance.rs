//! Rules that hold for every program of the registry.

use std::collections::BTreeMap;

use iocast_workloads::guest::{Files, Step};
use iocast_workloads::programs::{Build, Entry, PROGRAMS, Workload, build, build_jobs, find};
use traces::spec::{Spec, Tunable, Unit};
use traces::{Nanos, Sectors, Timestamp};

use crate::driver::run;

const DELAY: Nanos = Nanos::from_us(100);
const STEPS: usize = 100_000;

/// Settings beside the defaults that make a program small enough to run to its end.
fn small(entry: &Entry) -> Workload {
    let given = match entry.name {
        "dd" => "dd:size=8m",
        "iozone" => "iozone:size=4m,threads=2",
        "fio" => "fio:size=4m,rw=randrw,io_size=8m",
        "varmail" => "varmail:nfiles=1000",
        "webserver" => "webserver:nfiles=1000",
        "fileserver" => "fileserver:nfiles=1000",
        "surge" => "surge:files=1000,directories=10,processes=5",
        "terasort" => "terasort:data=64m,chunk=16m,io.sort.mb=4m",
        name => name,
    };
    build(&given.parse().unwrap()).unwrap()
}

#[test]
fn equal_seeds_give_equal_steps_and_different_seeds_different_ones() {
    for entry in PROGRAMS {
        let steps = |seed: u64| run(&small(entry), seed, DELAY, STEPS).steps();
        assert!(steps(1) == steps(1), "{}", entry.name);
        let is_random = !matches!(entry.name, "dd" | "iozone" | "terasort");
        assert_eq!(steps(1) != steps(2), is_random, "{}", entry.name);
    }
}

/// The driver checks that every access lies within its file.
#[test]
fn programs_end_or_run_endlessly_as_registered() {
    for entry in PROGRAMS {
        let workload = small(entry);
        let run = run(&workload, 1, DELAY, STEPS);
        assert!(run.full.is_none(), "{}", entry.name);
        assert_eq!(run.ended, workload.ends(), "{} after {} steps", entry.name, run.seen.len());
        assert_eq!(run.seen.len() == STEPS, !workload.ends(), "{}", entry.name);
    }
    let workload = build(&"dd:repeat=0,size=1m".parse().unwrap()).unwrap();
    assert!(!workload.ends() && !run(&workload, 1, DELAY, STEPS).ended);
}

/// Even if nothing takes time at the disk, no process asks for more than a few steps at one time.
#[test]
fn time_advances_with_all_data_in_memory() {
    let specs = ["dd:repeat=0,size=512,bs=1,operation=write", "iozone:size=1,record=1,threads=3"];
    let jobs = [
        "[a]\nsize=4k\nrw=randwrite\nfsync=1\ntime_based\nruntime=1s\nthinktime=0",
        "[a]\nsize=4k\nrw=rw\nrate=1g\nloops=100",
        "[a]\nsize=4k\nnumjobs=3\ntime_based\nruntime=10ms\n[b]\nstonewall\nsize=4k\nrw=trimwrite\nloops=100",
    ];
    let workloads = specs.iter().map(|spec| build(&spec.parse().unwrap()).unwrap());
    let workloads = workloads.chain(jobs.iter().map(|job| build_jobs("test", job).unwrap()));
    for workload in workloads.chain(PROGRAMS.iter().map(small)) {
        let run = run(&workload, 1, Nanos::ZERO, STEPS);
        let mut at_once: BTreeMap<(Timestamp, usize), usize> = BTreeMap::new();
        for seen in run.seen.iter().filter(|seen| !is_past_the_cache(&seen.step)) {
            *at_once.entry((seen.at, seen.process)).or_default() += 1;
        }
        let most = at_once.values().max().unwrap();
        assert!(*most <= 16, "{:?}: {most} steps at once", workload.entry);
    }
}

fn is_past_the_cache(step: &Step) -> bool {
    match step {
        Step::Access(access) | Step::Start(access) => access.direct,
        Step::AwaitAtMost(_) => true,
        _ => false,
    }
}

#[test]
fn disk_that_is_too_small_is_an_error() {
    for entry in PROGRAMS {
        let workload = build(&entry.name.parse().unwrap()).unwrap();
        let mut files = Files::new(Sectors::new(64));
        let error = workload.processes(&mut files, 1).err().unwrap();
        assert_eq!(error.capacity, Sectors::new(64), "{}", entry.name);
    }
}

#[test]
fn every_event_of_a_program_has_a_name() {
    for entry in PROGRAMS {
        let workload = small(entry);
        let run = run(&workload, 1, DELAY, STEPS);
        for seen in &run.seen {
            if let Step::Post(event) | Step::Await(event, _) = seen.step {
                assert!((event.0 as usize) < workload.events().len(), "{}: {event:?}", entry.name);
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_similar_ones() {
    assert_eq!(find("iozon").err().unwrap().to_string(), "unknown workload `iozon`; did you mean iozone?");
    let error = build(&"dd:sise=1g".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(error, "`dd` has no tunable `sise`; did you mean size?");
    let error = build(&"absent.fio".parse().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("fio job file absent.fio: "), "{error}");
    let error = build(&"fio:bs=1000".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("1000 is not a multiple of 512"), "{error}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]
    /// Values at the ends of their ranges, in any combination, make processes or an error.
    #[test]
    fn no_combination_of_settings_panics(ends in proptest::collection::vec(0u8..4, 32)) {
        for entry in PROGRAMS {
            let value = |(tunable, end): (&Tunable, &u8)| {
                let (min, max) = (tunable.range.0, tunable.range.1.min(1 << 60));
                // Few enough processes and files that a test is short.
                let max = if matches!(tunable.unit, Unit::Count) { max.min(min.max(1000)) } else { max };
                (*end < 3).then(|| (tunable.name.to_owned(), tunable.extreme(*end, (min, max))))
            };
            let given = entry.tunables.iter().zip(&ends).filter_map(value).collect();
            let Ok(workload) = build(&Spec { name: entry.name.to_owned(), given }) else {
                assert!(matches!(entry.build, Build::Jobs(_)), "settings contradict one another in fio alone");
                continue;
            };
            let mut files = Files::new(Sectors::new(1 << 22));
            if let Ok(processes) = workload.processes(&mut files, 1) {
                crate::driver::drive(processes, files, Nanos::from_us(1), 500);
            }
        }
    }
}
