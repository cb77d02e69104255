//! Tables of results whose answers are known.

use super::*;

/// A context, a scheduler and a figure.
type Line = (String, String, f64);

fn of(lines: &[Line], better: Better) -> Result<Sensitivity, SensitivityError> {
    sensitivity(
        lines.iter().map(|(context, scheduler, value)| Observation { context, scheduler, value: *value }),
        better,
    )
}

/// Each of three batches and two expiries in three contexts: 1, 2 and 4 times, 1 and 2 times, 1, 100 and 7 times.
/// The default expiry and the default batch are not named.
fn additive() -> Vec<Line> {
    let mut lines = Vec::new();
    for (context, cost) in [("a", 1.0), ("b", 100.0), ("c", 7.0)] {
        for (batch, by_batch) in [("fifo_batch=100", 4.0), ("", 2.0), ("fifo_batch=9", 1.0)] {
            for (expiry, by_expiry) in [("", 1.0), ("read_expire=40ms", 2.0)] {
                let given: Vec<&str> = [batch, expiry].into_iter().filter(|one| !one.is_empty()).collect();
                let colon = if given.is_empty() { "" } else { ":" };
                let scheduler = format!("mq-deadline{colon}{}", given.join(","));
                lines.push((context.to_owned(), scheduler, cost * by_batch * by_expiry));
            }
        }
    }
    lines
}

fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} is not {other}");
}

#[test]
fn effects_that_multiply_are_found_as_they_are() {
    let found = of(&additive(), Better::Smaller).unwrap();
    assert_eq!((found.contexts, found.candidates, found.incomplete, found.left_out), (3, 6, 0, 0));
    let [expiry, batch] = &found.tunables[..] else { panic!("{found:?}") };
    assert_eq!((expiry.tunable.as_str(), batch.tunable.as_str()), ("read_expire", "fifo_batch"));
    let texts = |matter: &Matter| matter.values.iter().map(|of| of.value.clone()).collect::<Vec<String>>();
    assert_eq!(texts(batch), ["9", "16", "100"]);
    assert_eq!(texts(expiry), ["40ms", "500ms"]);
    for (of, ratio) in batch.values.iter().zip([0.5, 1.0, 2.0]) {
        near(of.ratio, ratio);
        assert_eq!(of.candidates, 2);
    }
    near(expiry.values[0].ratio, 2.0_f64.sqrt());
    near(batch.range, 3.0);
    near(expiry.range, 1.0);
    // In units of ln 2 squared: batches at -1, 0 and 1 have the variance 2/3, expiries at -1/2 and 1/2 have 1/4.
    near(batch.share, 8.0 / 11.0);
    near(expiry.share, 3.0 / 11.0);
    near(batch.share_by_chance, 2.0 / 5.0);
    assert_eq!((batch.best.as_str(), expiry.best.as_str()), ("9", "500ms"));
    let found = of(&additive(), Better::Larger).unwrap();
    assert_eq!((found.tunables[1].best.as_str(), found.tunables[0].best.as_str()), ("100", "40ms"));
}

#[test]
fn contexts_that_lack_candidates_do_not_change_what_is_found() {
    let whole = of(&additive(), Better::Smaller).unwrap();
    // The dear context lacks the candidates with the smallest batch, another lacks one, a third has but one.
    let mut lines = additive();
    lines.retain(|(context, scheduler, _)| context != "b" || !scheduler.contains("fifo_batch=9"));
    lines.retain(|(context, scheduler, _)| context != "c" || scheduler != "mq-deadline");
    lines.push(("d".to_owned(), "mq-deadline".to_owned(), 3.0));
    lines.push(("a".to_owned(), "mq-deadline:fifo_batch=9".to_owned(), 0.0));
    let found = of(&lines, Better::Smaller).unwrap();
    assert_eq!((found.contexts, found.incomplete, found.left_out), (3, 3, 2));
    for (one, other) in found.tunables.iter().zip(&whole.tunables) {
        near(one.share, other.share);
        near(one.range, other.range);
        assert_eq!(one.best, other.best);
    }
    // The order of the observations is nothing.
    lines.reverse();
    assert_eq!(of(&lines, Better::Smaller).unwrap().tunables[1].best, "9");
}

#[test]
fn tunable_without_effect_has_no_share() {
    let mut lines = Vec::new();
    for context in ["a", "b"] {
        for batch in [1, 2, 4, 8] {
            for merges in ["on", "off"] {
                for starved in [1, 3] {
                    let scheduler =
                        format!("mq-deadline:fifo_batch={batch},front_merges={merges},writes_starved={starved}");
                    let noise = if (batch + starved) % 2 == 0 { 1.0 } else { 1.001 };
                    lines.push((context.to_owned(), scheduler, f64::from(batch).sqrt() * noise));
                }
            }
        }
    }
    let found = of(&lines, Better::Smaller).unwrap();
    let share = |name: &str| found.tunables.iter().find(|of| of.tunable == name).unwrap().share;
    assert!(share("fifo_batch") > 0.999);
    near(share("front_merges"), 0.0);
    assert!(share("writes_starved") < 1e-4);
    let merges = found.tunables.iter().find(|of| of.tunable == "front_merges").unwrap();
    assert_eq!((merges.values[0].value.as_str(), merges.values[1].value.as_str()), ("off", "on"));
    // Nothing has any effect.
    let flat: Vec<Line> = lines.into_iter().map(|(context, scheduler, _)| (context, scheduler, 5.0)).collect();
    assert!(of(&flat, Better::Smaller).unwrap().tunables.iter().all(|of| of.share == 0.0 && of.range < 1e-9));
}

#[test]
fn numbers_that_are_all_different_are_grouped_with_their_neighbours() {
    // 24 drawn candidates: the figure grows with the batch, while the expiry is scattered.
    let line = |at: u64| {
        let scheduler = format!("mq-deadline:fifo_batch={},read_expire={}ms", at + 1, 100 + (at * 7) % 24);
        ("a".to_owned(), scheduler, 1.0 + at as f64)
    };
    let lines: Vec<Line> = (0..24).map(line).collect();
    let found = of(&lines, Better::Smaller).unwrap();
    let [expiry, batch] = &found.tunables[..] else { panic!("{found:?}") };
    let values: Vec<&str> = batch.values.iter().map(|of| of.value.as_str()).collect();
    assert_eq!(values, ["1..6", "7..12", "13..18", "19..24"]);
    assert!(batch.values.iter().all(|of| of.candidates == 6) && batch.best == "1..6");
    assert!(batch.share > 0.7 && expiry.share < 0.2, "{} {}", batch.share, expiry.share);
    // With one tunable, each value is a candidate of its own and explains it whole.
    let line = |at: u64| ("a".to_owned(), format!("mq-deadline:fifo_batch={}", at + 1), 1.0 + at as f64);
    let found = of(&(0..6).map(line).collect::<Vec<Line>>(), Better::Smaller).unwrap();
    assert_eq!(found.tunables[0].values.len(), 6);
    near(found.tunables[0].share, 1.0);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let lines = |of: &[(&str, &str, f64)]| -> Vec<Line> {
        of.iter().map(|(context, scheduler, value)| ((*context).to_owned(), (*scheduler).to_owned(), *value)).collect()
    };
    let fails = |some: &[(&str, &str, f64)]| of(&lines(some), Better::Smaller).unwrap_err().to_string();
    let (one, two) = ("mq-deadline", "mq-deadline:fifo_batch=1");
    assert!(fails(&[]).contains("no two candidates"));
    // 16 is the default: the same candidate twice.
    assert!(fails(&[("a", one, 1.0), ("a", "mq-deadline:fifo_batch=16", 2.0)]).contains("no two candidates"));
    assert!(fails(&[("a", one, 1.0), ("b", two, 2.0)]).contains("no two candidates"));
    assert!(fails(&[("a", one, 1.0), ("a", "bfq", 2.0)]).contains("`mq-deadline` and `bfq`"));
    assert!(fails(&[("a", "mq-deadline:batch=1", 1.0)]).contains("no tunable `batch`"));
    let (three, four) = ("mq-deadline:fifo_batch=2", "mq-deadline:fifo_batch=3");
    let apart = [("a", one, 1.0), ("a", two, 2.0), ("b", three, 3.0), ("b", four, 9.0)];
    assert!(fails(&apart).contains("no context in common"));
}
