//! Our mq-deadline, kyber and bfq against the kernel's own code, decision by decision, and the build of that code.
//!
//! `make test-kernel` unpacks the kernel trees into `target/kernel`. `IOCAST_KERNEL_SEQUENCES` is the number of random
//! sequences of each load, of up to some 5,000 decisions, and `IOCAST_KERNEL_SEED` the seed of the first.

mod kernel_pair;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use iocast_schedulers::build;
use iocast_schedulers::kernel::{self, BuildError, Source};
use kernel_pair::load::{ALL, Load, run};
use kernel_pair::recorded::{self, LOADS};
use kernel_pair::{BEGIN, Difference, Pair};

/// Steps of a sequence.
const STEPS: u32 = 5000;
const VERSIONS: [&str; 2] = ["6.1", "6.12"];

fn tree(version: &str) -> PathBuf {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel");
    let trees = std::env::var_os("IOCAST_KERNEL_TREES").map_or(trees, PathBuf::from);
    let tree = trees.join(format!("linux-source-{version}"));
    assert!(tree.is_dir(), "{} is not there; `make kernel-trees` unpacks it", tree.display());
    tree
}

fn source(version: &str, file: PathBuf) -> Source {
    Source { file, tree: tree(version), hz: 250, compiler: "cc".to_owned() }
}

/// The elevator of this file, built; its name for `--schedulers`.
fn built(folder: &Path, version: &str, file: &str) -> String {
    let path = folder.join(format!("{file}-{version}.so"));
    // One that is loaded must not be written again.
    if !path.exists() {
        let library = kernel::build(&source(version, tree(version).join("block").join(file))).unwrap();
        fs::write(&path, library.bytes).unwrap();
    }
    format!("kernel:{}", path.display())
}

#[derive(Default)]
struct Agreement {
    decisions: u64,
    /// The first difference of each sequence that has one; the rest of the sequence does not count.
    differences: Vec<(u64, Difference)>,
}

impl Agreement {
    fn percent(&self) -> f64 {
        100.0 * (1.0 - self.differences.len() as f64 / self.decisions as f64)
    }
}

fn agreement(ours: &str, theirs: &str, load: Load) -> Agreement {
    let given = |name: &str, or: u64| std::env::var(name).map_or(or, |number| number.parse().unwrap());
    let (first, sequences) = (given("IOCAST_KERNEL_SEED", 1), given("IOCAST_KERNEL_SEQUENCES", 200));
    let (next, total) = (AtomicU64::new(first), Mutex::new(Agreement::default()));
    let make = |spec: &str| build(&spec.parse().unwrap()).unwrap().scheduler;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + sequences {
                        break;
                    }
                    let mut pair = Pair::new(make(ours), make(theirs), BEGIN);
                    let outcome = run(&mut pair, seed, load, STEPS);
                    let mut total = total.lock().unwrap();
                    total.decisions += pair.decisions;
                    total.differences.extend(outcome.err().map(|difference| (seed, difference)));
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap();
    total.differences.sort_by_key(|(seed, _)| *seed);
    let of = theirs.rsplit('/').next().unwrap_or_default();
    let (decisions, percent, differences) = (total.decisions, total.percent(), total.differences.len());
    println!("{ours} and {of}: {decisions} decisions, {differences} differ, {percent:.4} % agree; {load:?}");
    for (seed, difference) in total.differences.iter().take(3) {
        println!("  seed {seed}, {difference}");
    }
    total
}

#[test]
fn mq_deadline_and_kyber_decide_as_the_kernel_does() {
    let folder = tempfile::tempdir().unwrap();
    for (ours, version, file) in [
        ("mq-deadline", "6.12", "mq-deadline.c"),
        ("mq-deadline:fifo_batch=1,writes_starved=0,read_expire=8ms", "6.12", "mq-deadline.c"),
        ("kyber", "6.12", "kyber-iosched.c"),
        ("kyber:read_lat_nsec=100us", "6.12", "kyber-iosched.c"),
        ("kyber", "6.1", "kyber-iosched.c"),
    ] {
        let theirs = built(folder.path(), version, file);
        let tunables = ours.split_once(':').map_or(String::new(), |(_, tunables)| {
            format!(":{}", tunables.replace("8ms", "8").replace("100us", "100000"))
        });
        let agreement = agreement(ours, &format!("{theirs}{tunables}"), ALL);
        assert!(agreement.differences.is_empty(), "{:#?}", agreement.differences.first());
        assert!(agreement.decisions > 1000 * 200, "{} decisions are too few", agreement.decisions);
    }
}

/// The aim is 99.99 %. The bounds are what is reached, so that a rule that is lost turns this red.
#[test]
fn bfq_decides_as_the_kernel_does_but_for_five_decisions_in_a_hundred_thousand() {
    let folder = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        let theirs = built(folder.path(), version, "bfq-iosched.c");
        let plain = Load { classes: false, merges: false, ..ALL };
        let classes = Load { merges: false, ..ALL };
        for (tunable, load, least) in [
            ("", plain, 99.999),
            ("", classes, 99.998),
            ("", ALL, 99.997),
            (":rotational=on", ALL, 99.995),
            (":low_latency=off", ALL, 99.997),
        ] {
            let their_tunable = tunable.replace("=off", "=0");
            let agreement = agreement(&format!("bfq{tunable}"), &format!("{theirs}{their_tunable}"), load);
            assert!(agreement.percent() >= least, "{:#?}", agreement.differences);
        }
    }
}

/// What `cargo test` holds our elevators against is what the kernel's own code decides.
#[test]
fn recorded_decisions_are_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let make = |spec: &str| build(&spec.parse().unwrap()).unwrap().scheduler;
    for (spec, file) in [("mq-deadline", "mq-deadline.c"), ("kyber", "kyber-iosched.c"), ("bfq", "bfq-iosched.c")] {
        let theirs = built(folder.path(), "6.12", file);
        let digest = recorded::digest(&|| make(spec), &|| make(&theirs), LOADS[0]).unwrap();
        assert_eq!(format!("{digest:016x}"), recorded::recorded()[spec][0], "{spec}");
    }
}

/// Linux 6.1 goes on from the request that was the next in order when the last one was sent. Later versions look for it
/// from the position of the last one ("block: mq-deadline: Track the dispatch position").
#[test]
fn mq_deadline_of_6_1_differs_in_how_the_order_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = built(folder.path(), "6.1", "mq-deadline.c");
    let agreement = agreement("mq-deadline", &theirs, Load { merges: false, requeues: false, ..ALL });
    assert!(agreement.percent() >= 99.5 && !agreement.differences.is_empty());
}

#[test]
fn only_kyber_has_several_hardware_queues_and_they_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let kyber = built(folder.path(), "6.12", "kyber-iosched.c");
    let agreement = agreement("kyber", &format!("{kyber}:hw_queues=4"), Load { merges: false, ..ALL });
    assert!(!agreement.differences.is_empty(), "four queues decide as one does");
    for file in ["mq-deadline.c", "bfq-iosched.c"] {
        let spec = format!("{}:hw_queues=4", built(folder.path(), "6.12", file));
        let error = build(&spec.parse().unwrap()).err().unwrap().to_string();
        assert!(error.contains("has no tunable `hw_queues`"), "{error}");
    }
}

#[test]
fn every_elevator_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        let files = [
            ("mq-deadline.c", ""),
            ("kyber-iosched.c", ""),
            ("kyber-iosched.c", ":hw_queues=4"),
            ("bfq-iosched.c", ""),
        ];
        for (file, tunable) in files {
            let spec = format!("{}{tunable}", built(folder.path(), version, file)).parse().unwrap();
            let make = || build(&spec).unwrap();
            for seed in 1..=200 {
                let steps = iocast_schedulers::conformance::random_steps(seed);
                let outcome = iocast_schedulers::conformance::check(&make, &steps);
                assert!(outcome.is_ok(), "{version} {file}, seed {seed}: {outcome:?}");
            }
        }
    }
}

#[test]
fn patched_copy_decides_otherwise_and_shows_its_tunables() {
    let folder = tempfile::tempdir().unwrap();
    for (version, file, before, after) in [
        ("6.1", "mq-deadline.c", "fifo_batch = 16", "fifo_batch = 1"),
        ("6.12", "mq-deadline.c", "fifo_batch = 16", "fifo_batch = 1"),
        ("6.12", "kyber-iosched.c", "[KYBER_READ] = 256", "[KYBER_READ] = 1"),
        ("6.12", "bfq-iosched.c", "bfq_back_penalty = 2", "bfq_back_penalty = 9"),
    ] {
        let text = fs::read_to_string(tree(version).join("block").join(file)).unwrap();
        assert!(text.contains(before), "{file} of {version} has no `{before}`");
        let copy = folder.path().join(file);
        fs::write(&copy, text.replace(before, after)).unwrap();
        let path = folder.path().join(format!("patched-{file}-{version}.so"));
        fs::write(&path, kernel::build(&source(version, copy)).unwrap().bytes).unwrap();
        let patched = build(&format!("kernel:{}", path.display()).parse().unwrap()).unwrap();
        let normal = |name: &str| patched.entry.tunables.iter().find(|of| of.name == name).map(|of| of.default);
        match file {
            "mq-deadline.c" => assert_eq!(normal("fifo_batch"), Some("1")),
            "bfq-iosched.c" => assert_eq!(normal("back_seek_penalty"), Some("9")),
            _ => assert_eq!(normal("read_lat_nsec"), Some("2000000")),
        }
        let original = built(folder.path(), version, file);
        let make = |spec: &str| build(&spec.parse().unwrap()).unwrap().scheduler;
        let differs = (1..=50).any(|seed| {
            let mut pair = Pair::new(make(&original), make(&format!("kernel:{}", path.display())), BEGIN);
            run(&mut pair, seed, ALL, STEPS).is_err()
        });
        assert!(differs, "the change of {file} of {version} has no effect");
    }
}

#[test]
fn what_is_missing_is_listed_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(tree("6.12").join("block/mq-deadline.c")).unwrap();
    let copy = folder.path().join("mq-deadline.c");
    let refused = |text: String, tree_of: &str| {
        fs::write(&copy, text).unwrap();
        kernel::build(&source(tree_of, copy.clone())).unwrap_err()
    };
    let calls =
        text.replace("const unsigned long now = jiffies;", "const unsigned long now = blk_mine(hctx) + hctx->mine;");
    let BuildError::Lacking { names } = refused(calls, "6.12") else { panic!("it was another error") };
    let names: Vec<String> = names.iter().map(|lacking| format!("{} {}", lacking.name, lacking.place)).collect();
    let place = format!("{}:460", copy.display());
    assert_eq!(names, [format!("blk_mine {place}"), format!("mine {place}")]);
    let broken = refused(text.replace("struct deadline_data {", "struct {"), "6.12").to_string();
    assert!(broken.contains("does not compile") || broken.contains("deadline_data"), "{broken}");
    let unregistered = refused(text.replace("module_init(deadline_init);", ""), "6.12").to_string();
    assert!(unregistered.contains("it has no module_init(), so it registers no elevator"), "{unregistered}");
    let no_compiler = Source { compiler: "no-such-cc".to_owned(), ..source("6.12", copy.clone()) };
    assert!(kernel::build(&no_compiler).unwrap_err().to_string().contains("`no-such-cc` cannot be run"));
    let no_tree = Source { tree: folder.path().to_owned(), ..source("6.12", copy.clone()) };
    assert!(kernel::build(&no_tree).unwrap_err().to_string().contains("no unpacked tree of Linux"));
    let no_file = source("6.12", folder.path().join("none.c"));
    assert!(kernel::build(&no_file).unwrap_err().to_string().contains("there is no such file"));
}
