//! Schedulers that run freely on a capture, with expected figures worked out by hand.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_replay::decisions::DecisionsError;
use iocast_replay::{Pacing, RecordedRun};
use traces::events::{Category, Event, Watch, action};
use traces::results::free_run::FreeRun;
use traces::{Priority, Timestamp};

const I: u8 = action::INSERT;
const D: u8 = action::ISSUE;
const C: u8 = action::COMPLETE;
const R: u8 = action::REQUEUE;
const M: u8 = action::BACK_MERGE;

/// One line of a script: time in ns, event, process, first sector; reads of 8 sectors.
type Line = (u64, u8, u32, u64);

fn recorded(lines: &[Line]) -> RecordedRun {
    let mut run = RecordedRun::default();
    for &(time, code, pid, sector) in lines {
        let event = Event {
            time,
            sector,
            bytes: 4096,
            action: u32::from(code) | Category::READ.in_action(),
            pid,
            priority: Priority::new(2, 4).unwrap(),
            ..Event::default()
        };
        run.event(Timestamp::from_ns(time), &event);
    }
    run
}

fn free(scheduler: &str, pacing: Pacing, lines: &[Line]) -> Result<FreeRun, DecisionsError> {
    let built = schedulers::build(&scheduler.parse().unwrap()).unwrap();
    recorded(lines).run(scheduler, built.scheduler, pacing)
}

/// Mean response times in ns: in the capture and in the run.
fn means(run: &FreeRun) -> (f64, f64) {
    (run.all.kernel.moments.mean_ns.unwrap(), run.all.ours.moments.mean_ns.unwrap())
}

/// Served in order of arrival: 100, 200, 900 and 210 take 100, 150, 50 and 60 ns.
const IN_ORDER: [Line; 12] = [
    (0, I, 1, 100),
    (0, D, 1, 100),
    (10, I, 1, 200),
    (20, I, 2, 900),
    (30, I, 2, 210),
    (100, C, 1, 100),
    (100, D, 1, 200),
    (250, C, 1, 200),
    (250, D, 2, 900),
    (300, C, 2, 900),
    (300, D, 2, 210),
    (360, C, 2, 210),
];

#[test]
fn service_times_stay_the_same_in_any_order() {
    let run = free("fifo", Pacing::Recorded, &IN_ORDER).unwrap();
    assert_eq!((run.requests, run.unfinished, run.depth), (4, 0, 1));
    assert_eq!(means(&run), (237.5, 237.5));
    assert_eq!(run.throughput.ratio, Some(1.0));
    // 200 was taken ahead while 100 was served; then 210 is nearer than 900: 250 to 310, and 310 to 360.
    let run = free("sstf", Pacing::Recorded, &IN_ORDER).unwrap();
    assert_eq!(means(&run), (237.5, 240.0));
    let [first, second] = &run.processes[..] else { panic!("two processes") };
    assert_eq!((first.process.0, first.responses.mean_ratio), (1, Some(1.0)));
    // Of process 2, 900 takes 340 and 210 takes 280 where it was 280 and 330.
    assert_eq!(second.responses.ours.moments.mean_ns, Some(310.0));
    assert_eq!(second.responses.kernel.moments.mean_ns, Some(305.0));
    assert_eq!(second.responses.p99_ratio, Some(340.0 / 330.0));
    assert_eq!(run.throughput.ours_span_ns.as_ns(), 360);
    assert_eq!((run.classes.len(), run.classes[0].class, run.operations.len()), (1, 2, 1));
}

/// Process 1 sends its next request 5 ns after a completion; process 2 has three outstanding.
const DEPENDENT: [Line; 15] = [
    (0, I, 2, 100),
    (0, D, 2, 100),
    (1, I, 2, 108),
    (2, I, 1, 1000),
    (3, I, 2, 116),
    (100, C, 2, 100),
    (100, D, 2, 108),
    (200, C, 2, 108),
    (200, D, 1, 1000),
    (300, C, 1, 1000),
    (300, D, 2, 116),
    (305, I, 1, 1008),
    (400, C, 2, 116),
    (400, D, 1, 1008),
    (500, C, 1, 1008),
];

#[test]
fn closed_pacing_keeps_think_times_and_recorded_pacing_arrival_times() {
    // 116 goes before 1000, which completes at 400; 1008 arrives at 405 to an idle device, or at 305.
    let run = free("sstf", Pacing::Closed, &DEPENDENT).unwrap();
    let of_1 = &run.processes[0].responses;
    assert_eq!(of_1.kernel.moments.mean_ns, Some((298.0 + 195.0) / 2.0));
    assert_eq!(of_1.ours.moments.mean_ns, Some((398.0 + 100.0) / 2.0));
    assert_eq!(run.throughput.ours_span_ns.as_ns(), 505);
    let run = free("sstf", Pacing::Recorded, &DEPENDENT).unwrap();
    assert_eq!(run.processes[0].responses.ours.moments.mean_ns, Some((398.0 + 195.0) / 2.0));
    assert_eq!(run.throughput.ours_span_ns.as_ns(), 500);
    for pacing in [Pacing::Closed, Pacing::Recorded] {
        let run = free("fifo", pacing, &DEPENDENT).unwrap();
        assert_eq!((run.all.mean_ratio, run.throughput.ratio), (Some(1.0), Some(1.0)), "{pacing:?}");
    }
}

#[test]
fn depth_is_that_of_the_capture_and_overlapping_requests_count_as_queued() {
    let lines = [
        (0, I, 1, 8),
        (0, D, 1, 8),
        (1, I, 1, 0),
        (1, D, 1, 0),
        (2, I, 1, 16),
        (100, C, 1, 8),
        (150, C, 1, 0),
        (160, D, 1, 16),
        (200, C, 1, 16),
        // The first of these never completes, the second is never issued.
        (210, I, 1, 24),
        (210, D, 1, 24),
        (211, I, 1, 32),
    ];
    let run = free("fifo", Pacing::Recorded, &lines).unwrap();
    assert_eq!((run.requests, run.unfinished, run.depth), (3, 2, 2));
    // 100, 50 and 40 one after another: the device is never idle.
    assert_eq!(run.all.ours.moments.max_ns, Some(188));
    assert_eq!(run.all.kernel.moments.max_ns, Some(198));
}

#[test]
fn merged_and_requeued_requests_take_part_as_last_issued() {
    let mut lines = vec![(0, I, 1, 100), (1, I, 1, 108), (2, M, 1, 108), (3, D, 1, 100), (4, R, 1, 100)];
    lines.extend([(5, I, 1, 100), (7, D, 1, 100)]);
    let mut run = recorded(&lines);
    let complete = Event {
        time: 57,
        sector: 100,
        bytes: 8192,
        action: u32::from(C) | Category::READ.in_action(),
        ..Event::default()
    };
    run.event(Timestamp::from_ns(57), &complete);
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let run = run.run("fifo", scheduler, Pacing::Closed).unwrap();
    assert_eq!((run.requests, run.unfinished, run.depth), (1, 0, 1));
    assert_eq!(run.all.kernel.moments.max_ns, Some(57));
    assert_eq!(run.all.ours.moments.max_ns, Some(50), "it is issued at once");
    assert_eq!(run.throughput.kernel_bytes_per_s.round(), (8192.0 / 57e-9_f64).round());
}

#[test]
fn captures_without_requests_are_refused_with_the_reason() {
    let refused = |lines: &[Line]| free("fifo", Pacing::Closed, lines).unwrap_err();
    assert_eq!(refused(&[(0, D, 1, 0), (1, C, 1, 0)]), DecisionsError::NoInsertions);
    assert_eq!(refused(&[(0, I, 1, 0)]), DecisionsError::NoIssues);
    assert_eq!(refused(&[(0, I, 1, 0), (1, D, 1, 0)]), DecisionsError::NoCompletions);
}
