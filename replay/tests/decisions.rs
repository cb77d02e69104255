//! The reconstruction of decisions from the events of the block layer, and their comparison with a scheduler.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_replay::decisions::DecisionsError;
use iocast_replay::{Decisions, Pacing, RecordedRun};
use proptest::prelude::*;
use traces::events::{Category, Event, Watch, action};
use traces::results::decisions::Agreement;
use traces::{Priority, Timestamp};

const MS: u64 = 1_000_000;

/// One line of a script: time in ns, event, operation, first sector, sectors, class of priority, CPU.
type Line<'a> = (u64, u8, &'a str, u64, u32, u8, u32);

const I: u8 = action::INSERT;
const D: u8 = action::ISSUE;
const C: u8 = action::COMPLETE;
const G: u8 = action::GET_REQUEST;
const M: u8 = action::BACK_MERGE;
const F: u8 = action::FRONT_MERGE;
const R: u8 = action::REQUEUE;

fn events(scheduler: &str, lines: &[Line<'_>]) -> Result<Agreement, DecisionsError> {
    let built = schedulers::build(&scheduler.parse().unwrap()).unwrap();
    let mut decisions = Decisions::new(scheduler, built.scheduler);
    for &(time, code, operation, sector, sectors, class, cpu) in lines {
        let category = match operation {
            "R" => Category::READ,
            "W" => Category::WRITE,
            "D" => Category::WRITE | Category::DISCARD,
            other => panic!("no operation {other}"),
        };
        let event = Event {
            time,
            sector,
            bytes: sectors * 512,
            action: u32::from(code) | category.in_action(),
            pid: 1,
            cpu,
            priority: Priority::new(class, 0).unwrap(),
            ..Event::default()
        };
        decisions.event(Timestamp::from_ns(time), &event);
    }
    decisions.finish()
}

/// Reads of 8 sectors on CPU 0 in no class.
fn reads(scheduler: &str, lines: &[(u64, u8, u64)]) -> Agreement {
    let lines: Vec<Line<'_>> = lines.iter().map(|&(time, code, sector)| (time, code, "R", sector, 8, 0, 0)).collect();
    events(scheduler, &lines).unwrap()
}

fn counts(agreement: &Agreement) -> (u64, u64) {
    (agreement.decisions, agreement.agreed)
}

#[test]
fn candidates_are_the_requests_inserted_before_the_previous_issue() {
    // 10 is inserted before 300 is issued, but after 300 was chosen.
    let lines = [
        (0, I, 100),
        (1, D, 100),
        (2, I, 500),
        (3, I, 300),
        (4, I, 400),
        (5, D, 500),
        (6, I, 10),
        (7, D, 300),
        (8, D, 10),
        (9, D, 400),
    ];
    let agreement = reads("sstf", &lines);
    // 500 was alone when it was chosen; 300 and 400 waited when 500 went, 10 and 400 when 300 went.
    assert_eq!(agreement.decisions, 2);
    assert_eq!(agreement.misses.len(), 2, "nearest to 500 is 400, and then nearest to 308");
    let miss = &agreement.misses[0];
    assert_eq!((miss.at_ns.as_ns(), miss.kernel.sector.sector()), (7, 300));
    assert_eq!(miss.ours.unwrap().sector.sector(), 400);
    assert_eq!(miss.kernel.waited_ns.as_ns(), 4);
    assert!(!miss.is_race);
    assert!(miss.reason.starts_with("another read of the same process, below and older"), "{}", miss.reason);
    assert_eq!(agreement.baseline_fifo, Some(0.5));
    // Upwards from the end of 500 there is nothing, so 300 is first; upwards from 308 there is 400.
    assert_eq!(agreement.baseline_cscan, Some(0.5));
}

#[test]
fn decision_that_a_race_would_explain_is_marked() {
    // 200 is next upwards. It was inserted 1 ns before the decision, or 1 ms before.
    for (inserted, is_race) in [(2 * MS - 1, true), (MS, false)] {
        let lines = [
            (0, I, 100),
            (0, I, 300),
            (inserted, I, 200),
            (2 * MS, D, 100),
            (2 * MS + 1, D, 300),
            (2 * MS + 2, D, 200),
        ];
        let misses = reads("mq-deadline", &lines).misses;
        assert_eq!(misses.iter().map(|miss| miss.is_race).collect::<Vec<bool>>(), [is_race], "{misses:?}");
    }
}

#[test]
fn request_is_not_chosen_before_its_insertion() {
    // 50 went although it was inserted after the previous issue: then it was chosen later, from three.
    let lines =
        [(0, I, 100), (1, D, 100), (2, I, 300), (3, I, 400), (4, D, 300), (5, I, 310), (6, D, 310), (7, D, 400)];
    let mut wider = lines.to_vec();
    wider.insert(4, (3, I, 900));
    let agreement = reads("cscan", &wider);
    assert_eq!(counts(&agreement), (2, 2), "{:?}", agreement.misses);
    let agreement = reads("fifo", &wider);
    assert_eq!(counts(&agreement), (2, 1), "{:?}", agreement.misses);
    // So are the baselines: 310 is the next upwards, but not the oldest.
    assert_eq!((agreement.baseline_cscan, agreement.baseline_fifo), (Some(1.0), Some(0.5)));
}

#[test]
fn after_a_miss_the_choice_of_the_capture_is_followed() {
    let mut lines: Vec<(u64, u8, u64)> = vec![(0, I, 1000), (1, D, 1000)];
    lines.extend((0..6).map(|n| (2 + n, I, 2000 + 100 * n)));
    // The kernel goes downwards once, and on from there.
    for (n, sector) in [2000, 2500, 2100, 2200, 2300, 2400].into_iter().enumerate() {
        lines.push((10 + n as u64, D, sector));
    }
    for scheduler in ["fifo", "none", "mq-deadline:fifo_batch=100", "kyber"] {
        let agreement = reads(scheduler, &lines);
        assert_eq!(agreement.decisions, 4, "{scheduler}");
        let missed: Vec<u64> = agreement.misses.iter().map(|miss| miss.kernel.sector.sector()).collect();
        assert_eq!(missed, [2500], "{scheduler}");
    }
    // A scheduler that cannot be forked is informed as far as possible.
    let agreement = reads("deadline", &lines);
    assert_eq!(agreement.misses[0].kernel.sector.sector(), 2500);
}

#[test]
fn completions_and_classes_reach_the_scheduler() {
    let line = |time, code, sector, class| (time, code, "R", sector, 8, class, 0);
    // The best-effort requests wait until the real-time one has completed; 150 comes in the meantime.
    let lines = [
        line(0, I, 900, 1),
        line(1, D, 900, 1),
        line(2, I, 300, 2),
        line(3, I, 200, 2),
        line(4, C, 900, 1),
        line(3 * MS + 2, D, 200, 2),
        line(3 * MS + 3, D, 300, 2),
    ];
    let agreement = events("mq-deadline", &lines).unwrap();
    assert_eq!(counts(&agreement), (0, 0));
    let lines = [
        line(0, I, 900, 1),
        line(1, D, 900, 1),
        line(2, I, 300, 2),
        line(3, I, 200, 2),
        line(4, I, 910, 1),
        line(5, D, 910, 1),
        line(6, I, 100, 2),
        line(7, C, 900, 1),
        line(8, C, 910, 1),
        line(9, I, 110, 2),
        line(10, D, 100, 2),
        line(11, D, 110, 2),
    ];
    let agreement = events("mq-deadline", &lines).unwrap();
    assert_eq!(counts(&agreement), (2, 2), "{:?}", agreement.misses);
}

#[test]
fn request_queues_on_the_cpu_of_its_allocation() {
    let lines: [Line<'_>; 10] = [
        (0, I, "R", 0, 8, 0, 0),
        (1, D, "R", 0, 8, 0, 0),
        (2, I, "R", 8, 8, 0, 0),
        (3, G, "R", 16, 8, 0, 1),
        (4, I, "R", 16, 8, 0, 0),
        (5, I, "R", 24, 8, 0, 0),
        (6, D, "R", 8, 8, 0, 0),
        (7, D, "R", 24, 8, 0, 0),
        (8, D, "R", 16, 8, 0, 0),
        (9, C, "R", 16, 8, 0, 0),
    ];
    assert_eq!(counts(&events("kyber", &lines).unwrap()), (1, 1));
}

#[test]
fn merges_requeues_and_partial_completions_are_followed() {
    let lines: [Line<'_>; 16] = [
        (0, I, "R", 0, 8, 0, 0),
        (1, D, "R", 0, 8, 0, 0),
        (2, I, "R", 100, 8, 0, 0),
        (3, I, "R", 208, 8, 0, 0),
        (3, I, "R", 308, 8, 0, 0),
        // A bio behind the one, a bio before the other, and the third joined behind that.
        (4, M, "R", 108, 8, 0, 0),
        (5, F, "R", 200, 8, 0, 0),
        (6, I, "R", 216, 8, 0, 0),
        (7, M, "R", 216, 8, 0, 0),
        (8, D, "R", 100, 16, 0, 0),
        (9, R, "R", 100, 16, 0, 0),
        (10, I, "R", 100, 16, 0, 0),
        (11, D, "R", 100, 16, 0, 0),
        (12, C, "R", 100, 8, 0, 0),
        (13, C, "R", 108, 8, 0, 0),
        (14, D, "R", 200, 24, 0, 0),
    ];
    let agreement = events("mq-deadline", &lines).unwrap();
    assert_eq!(counts(&agreement), (2, 2), "{:?}", agreement.misses);
    assert!(agreement.misses.is_empty());
}

#[test]
fn reason_of_a_miss_names_a_tick_or_a_race() {
    let line = |time, code, sector| (time, code, sector);
    // The oldest expires 1 ms after the decision, if expiries are not counted in ticks.
    let lines = [
        line(0, I, 500),
        line(1, D, 500),
        line(1, I, 600),
        line(2, I, 10),
        line(499 * MS, I, 700),
        line(499 * MS, D, 600),
        line(499 * MS + 1, D, 10),
    ];
    let agreement = reads("mq-deadline:fifo_batch=1,tick=1ns", &lines);
    assert_eq!(agreement.misses.len(), 1);
    assert!(agreement.misses[0].reason.contains("a tick later"), "{}", agreement.misses[0].reason);
    // The kernel chose before it saw 660.
    let lines = [(0, I, 500), (1, D, 500), (2, I, 600), (3, I, 700), (4, I, 660), (5, D, 600), (6, D, 700)];
    let agreement = reads("mq-deadline", &lines);
    assert!(agreement.misses[0].reason.ends_with("1 fewer inserted"), "{}", agreement.misses[0].reason);
    // The kernel chose after it saw 660.
    let lines = [(0, I, 500), (1, D, 500), (2, I, 600), (3, I, 700), (3, I, 50), (5, D, 600), (6, I, 660), (7, D, 50)];
    let agreement = reads("cscan", &lines);
    assert_eq!(agreement.misses.len(), 1);
}

#[test]
fn a_capture_without_decisions_is_refused_with_the_reason() {
    let line = |time, code, sector| (time, code, "R", sector, 8, 0, 0);
    let error = events("fifo", &[line(0, D, 0), line(1, C, 0)]).unwrap_err();
    assert_eq!(error, DecisionsError::NoInsertions);
    assert!(error.to_string().contains("`none`"), "{error}");
    assert_eq!(events("fifo", &[line(0, I, 0)]).unwrap_err(), DecisionsError::NoIssues);
    let agreement = events("fifo", &[line(0, I, 0), line(1, D, 0)]).unwrap();
    assert_eq!((agreement.decisions, agreement.agreement), (0, None));
}

#[test]
fn ticks_are_aligned_to_the_clock_of_the_capture() {
    // 10 is inserted 2 ms after the first event, which is 3.9 ms after a tick: 1.9 ms into the next.
    let decided = |first: u64, expires: u64| {
        let lines = [(0, I, 500), (1, D, 500), (2 * MS, I, 600), (2 * MS, I, 10), (expires, I, 700), (expires, D, 600)];
        let mut decisions =
            Decisions::new("", schedulers::build(&"mq-deadline:fifo_batch=1".parse().unwrap()).unwrap().scheduler);
        for (time, code, sector) in lines.into_iter().chain([(expires + 1, D, 10), (expires + 2, D, 700)]) {
            let action = u32::from(code) | Category::READ.in_action();
            let event = Event { time: first + time, sector, bytes: 4096, action, ..Event::default() };
            decisions.event(Timestamp::from_ns(time), &event);
        }
        decisions.finish().unwrap()
    };
    // 600 is issued at the first time that the capture shows; by then 10 has expired or not. In the capture 10 goes
    // before 700.
    let first = 5_620 * 1000 * MS + 3_900_000;
    let agreement = decided(first, 502 * MS - 1_900_000);
    assert_eq!(agreement.decisions, 1);
    assert_eq!(agreement.misses.len(), 0, "10 has expired with the tick: {:?}", agreement.misses);
    let agreement = decided(first, 502 * MS - 1_900_001);
    assert_eq!(agreement.misses.len(), 1, "10 has not expired, and 700 is next");
    assert_eq!(agreement.misses[0].at_ns.as_ns(), 502 * MS - 1_900_000);
}

#[test]
fn gap_of_days_is_passed_in_bounded_time() {
    // sfq has nothing to send before the completion that comes a month later.
    let month = 30 * 86_400 * 1000 * MS;
    let lines = [(0, I, 0), (1, D, 0), (2, I, 8), (2, I, 16), (month, C, 0), (month + 1, D, 8), (month + 2, D, 16)];
    let begun = std::time::Instant::now();
    assert_eq!(counts(&reads("sfq:depth=1", &lines)), (0, 0), "none had two candidates when the one before was issued");
    assert!(begun.elapsed().as_secs() < 10, "asked every 3 ms it takes a minute at least");
}

#[test]
fn all_requests_of_a_plug_are_candidates_at_its_first_decision() {
    let line = |time, code, operation, sector| (time, code, operation, sector, 8, 0, 0);
    // If the write is there, the read passes it and then it is its turn; otherwise it is not.
    let decided = |order: [(u8, &'static str, u64); 4], next: [(&'static str, u64); 2]| {
        // Reads have begun: the first batch would be one of writes.
        let mut lines = vec![line(0, I, "R", 400), line(0, D, "R", 400)];
        for (time, (code, operation, sector)) in order.into_iter().enumerate() {
            lines.push(line(time as u64, code, operation, sector));
        }
        lines.extend([line(4, I, "R", 600), line(4, I, "R", 700), line(4, D, "R", 500)]);
        lines.extend(next.map(|(operation, sector)| line(5, D, operation, sector)));
        events("mq-deadline:fifo_batch=1,writes_starved=1", &lines).unwrap().misses.len()
    };
    let (read, write, then) = ((I, "R", 500), (I, "W", 10), [("W", 10), ("R", 600)]);
    assert_eq!(decided([(G, "R", 500), (G, "W", 10), read, write], then), 0);
    assert_eq!(decided([(G, "R", 500), read, (G, "W", 10), write], then), 1);
}

#[test]
fn allocation_without_an_insertion_is_dropped() {
    let lines = [(0, G, 7000), (1, G, 500), (2, I, 500), (3, G, 300), (4, I, 300), (5, D, 500), (6, D, 300)];
    assert_eq!(reads("fifo", &lines).misses.len(), 0);
}

#[test]
fn completion_leads_to_a_decision_only_after_a_request_waited_for_capacity() {
    // Best effort waits for real time in flight. If the scheduler is asked when that completes, 10 is next in order. If
    // it is asked only at the second tick after the attempt in vain, at 8 ms, 500 has expired.
    let of = |time_ms: u64, code, sector, class| (time_ms * MS, code, "R", sector, 8, class, 0);
    let misses = |lines: &[Line<'_>]| events("mq-deadline:fifo_batch=0,read_expire=8ms", lines).unwrap().misses.len();
    let begun = [of(1, I, 100, 1), of(1, D, 100, 1), of(2, I, 500, 2), of(3, I, 10, 2), of(3, I, 200, 1)];
    let ended = |next: [u64; 2]| [of(5, C, 200, 1), of(9, D, next[0], 2), of(9, D, next[1], 2)];
    // 200 is issued at once, or when 100 has completed.
    let had_capacity = [&begun[..], &[of(3, D, 200, 1), of(4, C, 100, 1)]].concat();
    let waited = [&begun[..], &[of(4, C, 100, 1), of(4, D, 200, 1)]].concat();
    for (lines, next) in [(had_capacity, [500, 10]), (waited, [10, 500])] {
        assert_eq!(misses(&[&lines[..], &ended(next)].concat()), 0, "{next:?}");
        assert_eq!(misses(&[&lines[..], &ended([next[1], next[0]])].concat()), 1, "{next:?}");
    }
}

/// Events of few sectors at few times: requests at one sector, several events at one nanosecond, requests taken back.
fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let code =
        prop_oneof![4 => Just(I), 4 => Just(D), 2 => Just(C), 1 => Just(G), 1 => Just(M), 1 => Just(F), 1 => Just(R)];
    let sector = prop_oneof![9 => (0..6_u64).prop_map(|place| place * 8), 1 => Just(u64::MAX / 512)];
    let bytes = prop_oneof![8 => Just(4096), 1 => Just(0), 1 => Just(8192), 1 => Just(u32::MAX - 511)];
    let category = prop_oneof![3 => Just(Category::READ), 2 => Just(Category::WRITE)];
    let step = prop_oneof![4 => Just(0_u64), 4 => Just(1), 1 => Just(400_000), 1 => Just(30 * MS)];
    let event = (code, sector, bytes, category, 1..4_u32, step);
    proptest::collection::vec(event, 1..200).prop_map(|events| {
        let mut time = 0;
        let event = |(code, sector, bytes, category, pid, step): (u8, u64, u32, Category, u32, u64)| {
            time += step;
            let action = u32::from(code) | category.in_action();
            Event { time, sector, bytes, action, pid, ..Event::default() }
        };
        events.into_iter().map(event).collect()
    })
}

proptest! {
    /// A capture may hold anything: events may be lost, be out of order, and come at the same nanosecond.
    #[test]
    fn agreements_and_misses_of_any_events_add_up_to_the_decisions(events in any_events()) {
        for entry in schedulers::SCHEDULERS {
            let built = schedulers::build(&entry.name.parse().unwrap()).unwrap();
            let mut decisions = Decisions::new(entry.name, built.scheduler);
            for event in &events {
                decisions.event(Timestamp::from_ns(event.time), event);
            }
            let counted = decisions.decisions();
            if let Ok(agreement) = decisions.finish() {
                prop_assert_eq!(agreement.agreed + agreement.misses.len() as u64, counted, "{}", entry.name);
            }
        }
    }

    /// The same capture with the scheduler running freely.
    #[test]
    fn free_run_of_any_events_completes_as_many_requests_as_the_kernel(events in any_events()) {
        for (name, pacing) in [("mq-deadline", Pacing::Closed), ("cfq", Pacing::Recorded)] {
            let mut recorded = RecordedRun::default();
            for event in &events {
                recorded.event(Timestamp::from_ns(event.time), event);
            }
            let scheduler = schedulers::build(&name.parse().unwrap()).unwrap().scheduler;
            if let Ok(run) = recorded.run(name, scheduler, pacing) {
                prop_assert_eq!(run.all.kernel.count, run.all.ours.count, "{}", name);
            }
        }
    }
}
