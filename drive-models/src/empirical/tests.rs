use rand::RngExt;
use traces::spec::Spec;

use super::*;
use crate::Profile;

fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn request(operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(sectors))
}

/// Takes `count` requests of one kind whose times are drawn by `time`, each as far from the one before.
fn observe(fit: &mut EmpiricalFit, kind: (Operation, u64, u64, u32), count: u64, mut time: impl FnMut() -> u64) {
    let (operation, sectors, distance, queue) = kind;
    for nth in 0..count {
        let request = request(operation, nth * (sectors + distance), sectors);
        let issued = Timestamp::from_ns(nth * 1_000_000);
        fit.observe(&request, issued, issued + Nanos::from_ns(time()), queue).unwrap();
    }
}

fn settings(text: &str) -> Settings {
    let spec: Spec = format!("empirical:{text}").parse().unwrap();
    Settings::resolve(&spec, MODEL.tunables).unwrap()
}

/// Times of `count` requests that each are alone at the drive.
fn times(drive: &mut EmpiricalDrive, count: u64, request: impl Fn(u64) -> Request) -> Vec<u64> {
    let mut done = Vec::new();
    let mut now = Timestamp::ZERO;
    for nth in 0..count {
        drive.submit(now, RequestId(0), &request(nth));
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
    }
    done.iter().map(|completion| completion.finished.since(completion.started).as_ns()).collect()
}

const HEADING: Heading<'static> = Heading {
    summary: "a \"test\"",
    validation: "none",
    source: "made up",
    capacity: Sectors::new(2_000_000),
    write_cache: WriteCache::Volatile { fua: true },
    discards: true,
};

/// Dvoretzky, Kiefer and Wolfowitz with Massart's constant: n draws are further than this from their distribution,
/// anywhere, once in a million samples.
fn dkw(n: f64) -> f64 {
    (2e6f64.ln() / (2.0 * n)).sqrt()
}

#[test]
fn drawn_times_have_the_fitted_distribution() {
    const N: u64 = 40_000;
    type Distribution = (&'static str, fn(f64) -> f64, fn(f64) -> f64);
    let distributions: [Distribution; 3] = [
        ("exponential", |u| -1e6 * (1.0 - u).ln(), |t| 1.0 - (-t / 1e6).exp()),
        ("uniform", |u| 2e5 + 1e5 * u, |t| ((t - 2e5) / 1e5).clamp(0.0, 1.0)),
        ("pareto", |u| 1e5 * (1.0 - u).powf(-0.5), |t| 1.0 - (1e5 / t.max(1e5)).powi(2)),
    ];
    for (name, inverse, share) in distributions {
        let (mut fit, mut uniform) = (EmpiricalFit::new(), random(3));
        observe(&mut fit, (Operation::Read, 8, 100, 0), N, || inverse(uniform.random::<f64>()) as u64);
        let mut drive = EmpiricalDrive::new(&settings("seed=1"), &fit.finish().unwrap().cells);
        let mut drawn = times(&mut drive, N, |nth| request(Operation::Read, nth * 108, 8));
        drawn.sort_unstable();
        // Both samples' errors, half a percent of the times, and the error of a line between quantiles 1/32 apart.
        let bound = 2.0 * dkw(N as f64) + 0.005 + 1.0 / 256.0;
        for (nth, time) in drawn.iter().enumerate() {
            let off = (nth as f64 / N as f64 - share(*time as f64)).abs();
            assert!(off < bound, "{name}: {time} ns is off by {off}, more than {bound}");
        }
    }
}

#[test]
fn drawn_tail_is_as_heavy_as_the_fitted_one() {
    let (mut fit, mut uniform) = (EmpiricalFit::new(), random(4));
    // One in five hundred takes a second instead of a millisecond.
    observe(&mut fit, (Operation::Read, 8, 100, 0), 50_000, || {
        if uniform.random_range(0..500) == 0 { 1_000_000_000 } else { 1_000_000 }
    });
    let mut drive = EmpiricalDrive::new(&settings("seed=1"), &fit.finish().unwrap().cells);
    let drawn = times(&mut drive, 200_000, |nth| request(Operation::Read, nth * 108, 8));
    let slow = drawn.iter().filter(|time| **time > 2_000_000).count();
    // Four hundred, of which quantiles 2⁻⁹ and 2⁻¹⁰ apart can make up to twice as many.
    assert!((200..=800).contains(&slow), "{slow}");
}

#[test]
fn each_condition_has_a_distribution_of_its_own() {
    let kinds = [
        ((Operation::Read, 8, 100, 0), 100_000),
        ((Operation::Write, 8, 100, 0), 200_000),
        ((Operation::Read, 256, 100, 0), 300_000),
        ((Operation::Read, 8, 50_000, 0), 400_000),
    ];
    let mut fit = EmpiricalFit::new();
    for (kind, time) in kinds {
        observe(&mut fit, kind, 1000, || time);
    }
    observe(&mut fit, (Operation::Read, 8, 100, 2), 1000, || 500_000);
    let fitted = fit.finish().unwrap();
    assert_eq!(fitted.depth, 3);
    let mut drive = EmpiricalDrive::new(&settings("depth=3"), &fitted.cells);
    for ((operation, sectors, distance, _), time) in kinds {
        let drawn = times(&mut drive, 100, |nth| request(operation, (nth + 1) * (sectors + distance), sectors));
        let near = |drawn: &u64| drawn.abs_diff(time) < time / 200;
        assert!(drawn[1..].iter().all(near), "{operation} {sectors} {distance}: {drawn:?} for {time}");
    }
    // The third of three at once finds two others.
    let mut done = Vec::new();
    for id in 0..3 {
        let read = request(Operation::Read, 10_000_000 + u64::from(id) * 108, 8);
        assert!(drive.accepts(&read));
        drive.submit(Timestamp::from_ns(1 << 50), RequestId(id), &read);
    }
    assert!(!drive.accepts(&request(Operation::Read, 0, 8)));
    drive.advance(Timestamp::MAX, &mut done);
    let third = done.iter().find(|completion| completion.id == RequestId(2)).unwrap();
    assert!(third.finished.since(third.started).as_ns().abs_diff(500_000) < 2_500);
    assert!(done.is_sorted_by_key(|completion| completion.finished));
}

#[test]
fn cell_with_too_few_samples_is_left_to_a_coarser_one() {
    let median = |fit: EmpiricalFit, operation, sectors, distance, queue| {
        let cells = fit.finish().unwrap().cells;
        let cell = cells.of(operation, Sectors::new(sectors), Sectors::new(distance), queue);
        (cell.condition, cell.samples)
    };
    let kinds = |last: u64| {
        let mut fit = EmpiricalFit::new();
        observe(&mut fit, (Operation::Read, 8, 100, 4), 150, || 1000);
        observe(&mut fit, (Operation::Read, 8, 500, 4), last, || 2000);
        observe(&mut fit, (Operation::Write, 8, 100, 1), 20, || 3000);
        fit
    };
    let read = Condition::of(Operation::Read, Sectors::new(8), Sectors::new(500), 4);
    let [finest, without_distance, without_size, without_queue, any] = read.coarser();
    let reading = |fit, sectors, queue| median(fit, Operation::Read, sectors, 500, queue);
    // 100 are enough and 99 are not. One request of each kind follows the last of another, so it is no sample of it.
    assert_eq!(reading(kinds(101), 8, 4), (finest, 100));
    assert_eq!(reading(kinds(100), 8, 4), (without_distance, 250));
    assert_eq!(reading(kinds(50), 16, 4), (without_size, 200));
    assert_eq!(reading(kinds(50), 16, 0), (without_size, 200), "the nearest queue length that is known");
    assert_eq!(median(kinds(50), Operation::Flush, 0, 0, 0), (any, 220));
    let write = Condition { operation: Some(Operation::Write), ..without_queue };
    assert_eq!(median(kinds(50), Operation::Write, 8, 100, 1), (write, 20));
}

#[test]
fn fallbacks_keep_the_queue_length_longest() {
    let finest = Condition::of(Operation::Write, Sectors::new(33), Sectors::new(0), 5);
    let text: Vec<String> = finest
        .fallbacks()
        .map(|Condition { size, distance, queue, .. }| format!("{size:?} {distance:?} {queue:?}").replace("Some", ""))
        .collect();
    let expected = "(2) (0) (3); (2) None (3); None None (3); None None (2); None None (4); None None (1); \
                    None None (5); None None (0); None None (6); None None (7); None None None; None None None";
    assert_eq!(text.join("; "), expected);
    for (nth, finest) in Condition::finest().enumerate() {
        assert_eq!(finest.index(), nth);
        assert!(finest.coarser().iter().all(Condition::is_known));
    }
}

#[test]
fn the_same_seed_draws_the_same() {
    let profile = Profile::shipped("qemu-virtio").unwrap();
    let cells: &EmpiricalCells = profile.description.downcast_ref().unwrap();
    let run = |seed: &str| {
        let mut drive = EmpiricalDrive::new(&settings(seed), cells);
        times(&mut drive, 1000, |nth| request(Operation::Read, nth * 999 % 100_000, 8))
    };
    assert_eq!(run("seed=5"), run("seed=5"));
    assert_ne!(run("seed=5"), run("seed=6"));
}

#[test]
fn a_profile_reads_back_as_it_was_written() {
    let (mut fit, mut uniform) = (EmpiricalFit::new(), random(9));
    for kind in [(Operation::Read, 8, 100, 0), (Operation::Write, 600, 0, 70), (Operation::Flush, 0, 0, 3)] {
        observe(&mut fit, kind, 500, || uniform.random_range(1..1_000_000));
    }
    let fitted = fit.finish().unwrap();
    let text = fitted.profile(&HEADING);
    let profile = Profile::parse("own", &text).unwrap();
    assert_eq!(profile.summary, HEADING.summary);
    assert_eq!(profile.description.downcast_ref(), Some(&fitted.cells));
    let setting = |key: &str| profile.settings[key].0.as_str();
    assert_eq!((setting("depth"), setting("write_cache"), setting("discards")), ("71", "volatile-fua", "on"));
}

#[test]
fn a_malformed_profile_is_refused_with_its_line() {
    let mut fit = EmpiricalFit::new();
    observe(&mut fit, (Operation::Read, 8, 100, 0), 200, || 100);
    let good = fit.finish().unwrap().profile(&HEADING);
    let line = |text: &str| good[..good.find(text).unwrap()].matches('\n').count() + 1;
    let (any, read, queue) =
        (line("{ samples"), line("{ operation = \"read\", samples"), line("queue = \"0\", samples"));
    for (from, to, at, message) in [
        ("source = \"made up\"\ncells", "source = \" \"\ncells", line("[empirical]") + 1, "the source is empty"),
        ("{ samples = 200, ", "{ samples = 0, ", any, "cell 0: samples = 0 are fewer than 1"),
        (
            "queue = \"0\", samples = 200",
            "queue = \"0\", samples = 99",
            queue,
            "cell 2: samples = 99 are fewer than 100",
        ),
        ("[100, 100", "[100", any, "cell 0: quantiles_ns must be 38 times"),
        ("[100, 100", "[100, 999", any, "cell 0: quantiles_ns must be 38 times, none below the one before"),
        ("[100, 100", "[100, -100", any, "invalid value: integer `-100`"),
        ("[100, 100", "[100, 0.5", any, "invalid type: floating point `0.5`"),
        ("operation = \"read\", samples", "operation = \"rea\", samples", read, "unknown variant `rea`"),
        ("queue = \"0\"", "queue = \"5\"", queue, "cell 2: queue = \"5\" is none of 0, 1, 2-3"),
        ("operation = \"read\", queue", "queue", queue, "cell 2: no request falls back to this combination"),
        ("{ operation = \"read\", samples", "{ samples", read, "cell 1: there is one of the same condition"),
        ("{ samples", "{ operation = \"write\", samples", line("cells = ["), "there is no cell without a condition"),
        ("samples = 200, ", "", any, "missing field `samples`"),
    ] {
        let error = Profile::parse("x", &good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("drive profile x at line {at}: {message}")), "{to}: {error}");
    }
    let without = &good[..good.find("[empirical]").unwrap()];
    let error = Profile::parse("x", without).unwrap_err().to_string();
    assert_eq!(error, "drive profile x at line 1: [empirical] is missing: an empirical drive needs it");
}

#[test]
fn times_that_run_backwards_are_named_and_left_out() {
    let mut fit = EmpiricalFit::new();
    let read = request(Operation::Read, 0, 8);
    let error = fit.observe(&read, Timestamp::from_ns(5), Timestamp::from_ns(4), 0).unwrap_err();
    assert_eq!(error.to_string(), "request 1 completed at 0.000000004 s, before it was issued at 0.000000005 s");
    assert_eq!(fit.clone().finish(), Err(EmpiricalFitError::Empty));
    fit.observe(&read, Timestamp::from_ns(5), Timestamp::from_ns(5), 0).unwrap();
    assert_eq!(fit.finish().unwrap().cells.iter().map(|cell| cell.samples).collect::<Vec<_>>(), [1, 1]);
}
