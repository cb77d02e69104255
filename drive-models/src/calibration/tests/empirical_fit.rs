//! Times of devices and traces as distributions.

use super::*;
use crate::empirical::EmpiricalCells;

/// The cells of an empirical fit.
fn cells(fitted: &FittedModel) -> EmpiricalCells {
    let profile = Profile::parse("fitted", &fitted.profile.render("none")).unwrap();
    profile.description.downcast_ref::<EmpiricalCells>().unwrap().clone()
}

#[test]
fn measured_times_are_drawn_again() {
    let mut drive = Noise { now: Timestamp::ZERO, random: Xoshiro256PlusPlus::seed_from_u64(1) };
    let reads = measured(&mut drive, 10_000);
    let found = fitted("empirical", &reads, &mut drive).unwrap();
    assert_eq!((parameter(&found, "requests"), parameter(&found, "depth")), (5_000.0, 1.0));
    within(parameter(&found, "median_ns"), 5e6, 0.05);
    let judged = judged(&found, &reads);
    assert!(judged.reads == 5_000 && judged.distribution.relative_rms < 0.03, "{judged:?}");
}

#[test]
fn of_a_trace_queued_requests_are_drawn_too_and_judged_reads_are_not() {
    let mut trace = TraceReads::new(1);
    for round in 0..1_000 {
        let (at, lba) = (round * 2_000, round * 100);
        trace.push(&record(Operation::Read, lba, at, at + 100)); // alone
        trace.push(&record(Operation::Write, lba + 20, at + 1_000, at + 1_200));
        trace.push(&record(Operation::Read, lba + 40, at + 1_050, at + 1_750)); // finds the write
    }
    let reads = trace.finish().unwrap();
    // The first came from nowhere.
    assert_eq!((reads.points.len(), reads.half(true).len()), (999, 499));
    let evidence = FitEvidence {
        reads: &reads,
        capacity: reads.furthest(),
        origin: "a trace",
        depends_on_distance: false,
        force_linear: false,
        heads: None,
        seed: 1,
    };
    let found = (empirical::FIT.fit)(&evidence, None).unwrap();
    assert_eq!(parameter(&found, "depth"), 2.0);
    let cells = cells(&found);
    let drawn_from = |operation, queue| {
        let cell = cells.of(operation, Sectors::new(8), Sectors::new(1 << 30), queue);
        (cell.samples, cell.quantiles.median().as_ns() as f64)
    };
    let (alone, time) = drawn_from(Operation::Read, 0);
    within(time, 1e5, 0.01);
    assert!((499..=500).contains(&alone), "{alone}");
    // A fair coin of a thousand tosses is further from its half than this once in ten thousand times.
    for (operation, queue, known) in [(Operation::Read, 1, 7e5), (Operation::Write, 0, 2e5)] {
        let (drawn, time) = drawn_from(operation, queue);
        within(time, known, 0.01);
        assert!(drawn.abs_diff(500) < 62, "{drawn}");
    }
    assert!(judged(&found, &reads).distribution.relative_rms < 0.01);
}

#[test]
fn requests_are_served_in_the_order_of_their_issue() {
    let mut order = served::IssueOrder::default();
    let mut found = Vec::new();
    // Arrival, issue and completion in us, first sector.
    for (nth, (arrival, issued, completed, lba)) in
        [(0, 0, 40, 100), (5, 30, 50, 200), (10, 20, 60, 300), (70, 70, 80, 400)].into_iter().enumerate()
    {
        let at = |us: u64| Timestamp::from_ns(us * 1000);
        while let Some((nth, served)) = order.pop(at(arrival)) {
            found.push((nth, served.distance.count(), served.queue_length));
        }
        let request = Request::new(at(arrival), Operation::Read, Lba::new(lba), Sectors::new(8));
        order.push(nth as u64, Measurement { request, issued: at(issued), service: at(completed).since(at(issued)) });
    }
    assert_eq!(found, [(0, 100, 0), (2, 192, 1), (1, 108, 2)]);
    assert_eq!(order.pop(Timestamp::MAX).map(|(nth, served)| (nth, served.queue_length)), Some((3, 0)));
}
