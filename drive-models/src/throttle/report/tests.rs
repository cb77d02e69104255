use super::*;

fn k(times: u64) -> ThrottleScale {
    ThrottleScale::from_millionths(times * 1_000_000)
}

fn report(steps: &[(u64, u64, u64)], last: u64) -> Report {
    let mut report = Report::new(k(steps.first().map_or(1, |step| step.1)));
    for &(at, from, to) in steps {
        let cause = if from < to { ChangeCause::Late } else { ChangeCause::LongQueue };
        report.changed(Change { at: Timestamp::from_ns(at), from: k(from), to: k(to), cause });
    }
    report.last = Timestamp::from_ns(last);
    report
}

#[test]
fn the_stable_k_is_the_largest_of_the_last_part() {
    let report = report(&[(10, 1, 9), (40, 9, 3), (60, 3, 5), (80, 5, 4)], 100);
    for (parts, stable) in [(1, 9), (0, 9), (2, 5), (4, 5), (5, 5), (10, 4)] {
        assert_eq!(report.stable_k(parts), k(stable), "the last 1/{parts}");
    }
    // At 40 it was still 9, and before the first change the value that this replaced.
    assert_eq!(report.largest_k_since(Timestamp::from_ns(40)), k(9));
    assert_eq!(report.largest_k_since(Timestamp::from_ns(41)), k(5));
    assert_eq!(Report::new(k(7)).stable_k(2), k(7));
}

#[test]
fn the_oldest_changes_are_forgotten() {
    let steps: Vec<(u64, u64, u64)> = (0..CHANGES_MAX as u64 + 3).map(|at| (at, at + 1, at + 2)).collect();
    let report = report(&steps, 1);
    assert_eq!((report.changes.len(), report.forgotten), (CHANGES_MAX, 3));
    assert_eq!(report.changes[0].at, Timestamp::from_ns(3));
}
