//! `iocast report` of the folder of a sweep: results whose best, front and interference are known, and a real sweep.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use program::{failure, iocast, sample, stdout};

/// A row of results by hand: what is not given stays empty.
#[derive(Clone, Copy, Default)]
struct Task {
    trace: &'static str,
    beside: Option<&'static str>,
    scheduler: &'static str,
    drive: &'static str,
    error: Option<&'static str>,
    overloaded: bool,
    /// Requests; enough for every percentile if none are given.
    reads: Option<i64>,
    p99_ns: i64,
    mean_ns: f64,
    iops: f64,
    /// From the first arrival to the last completion; 60 s if it is not given.
    span_s: Option<i64>,
    /// Mean response of reads and requests per second of both VMs.
    vms: Option<[[f64; 2]; 2]>,
}

type Get<T> = fn(&Task) -> Option<T>;

const TEXTS: [(&str, Get<&'static str>); 9] = [
    ("trace", |task| Some(task.trace)),
    ("beside", |task| task.beside),
    ("drive", |task| Some(task.drive)),
    ("scheduler", |task| Some(task.scheduler)),
    ("stack", |_| None),
    ("error", |task| task.error),
    ("status", |task| Some(if task.overloaded { "overloaded" } else { "comparable" })),
    ("pacing", |_| Some("closed")),
    ("map", |_| Some("exact")),
];
const COUNTS: [(&str, Get<i64>); 9] = [
    ("depth", |_| None),
    ("start_ns", |_| Some(0)),
    ("end_ns", |_| None),
    ("limit", |_| None),
    ("span_ns", |task| Some(task.span_s.unwrap_or(60) * 1_000_000_000)),
    ("read_requests", |task| task.reads.or(Some(100_000))),
    ("write_requests", |_| Some(100_000)),
    ("all_requests", |_| Some(200_000)),
    ("read_response_p99_ns", |task| (task.error.is_none()).then_some(task.p99_ns)),
];
const REALS: [(&str, Get<f64>); 8] = [
    ("all_iops", |task| Some(task.iops)),
    ("read_response_mean_ns", |task| Some(task.mean_ns)),
    ("vm_read_iops", |task| Some(task.vms?[0][1] / 2.0)),
    ("vm_write_iops", |task| Some(task.vms?[0][1] / 2.0)),
    ("beside_read_iops", |task| Some(task.vms?[1][1])),
    ("beside_write_iops", |_| Some(0.0)),
    ("vm_read_response_mean_ns", |task| Some(task.vms?[0][0])),
    ("beside_read_response_mean_ns", |task| Some(task.vms?[1][0])),
];

/// Writes results by hand into a folder of its own, and gives the folder.
fn results(folder: &Path, tasks: &[Task]) -> String {
    let of = |name: &str, array: ArrayRef| (name.to_owned(), array, true);
    let texts = TEXTS.map(|(name, get)| of(name, Arc::new(tasks.iter().map(get).collect::<StringArray>())));
    let counts = COUNTS.map(|(name, get)| of(name, Arc::new(tasks.iter().map(get).collect::<Int64Array>())));
    let reals = REALS.map(|(name, get)| of(name, Arc::new(tasks.iter().map(get).collect::<Float64Array>())));
    let columns = texts.into_iter().chain(counts).chain(reals);
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let path = folder.join("sweep");
    fs::create_dir_all(&path).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path.join("results.parquet")).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path.to_str().unwrap().to_owned()
}

/// The page of a folder, without mark-up: what stands in different places is apart by one space.
fn report(folder: &str, options: &[&str]) -> (String, String) {
    let path = PathBuf::from(folder).join("report.html");
    stdout(&[&["report", folder, "-o", path.to_str().unwrap(), "--force"], options].concat());
    let page = fs::read_to_string(path).unwrap();
    let main = &page[page.find("<header>").unwrap()..page.find("</main>").unwrap()];
    let mut text = String::new();
    for part in main.split('<').skip(1) {
        text.push_str(&part.split_once('>').unwrap().1.replace('\n', " "));
        text.push(' ');
    }
    (text.split_whitespace().collect::<Vec<&str>>().join(" "), page)
}

fn alone(trace: &'static str, scheduler: &'static str, p99_ms: i64, iops: f64) -> Task {
    Task { trace, scheduler, drive: "disk", p99_ns: p99_ms * 1_000_000, mean_ns: 1e6, iops, ..Task::default() }
}

#[test]
fn the_choice_does_not_matter_where_all_candidates_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let two = |trace, p99_ms| [alone(trace, "fifo", 1000, 400.0), alone(trace, "deadline", p99_ms, 400.0)];
    // In the first two it does not; in the third it does, and in the fourth one candidate fails.
    let mut tasks = [two("a.parquet", 1000), two("b.parquet", 1009), two("c.parquet", 1011)].concat();
    tasks.push(alone("d.parquet", "fifo", 1000, 400.0));
    tasks.push(Task { error: Some("damaged"), ..alone("d.parquet", "deadline", 1000, 400.0) });
    let (text, _) = report(&results(folder.path(), &tasks), &[]);
    let alike = "In 2 cases no candidate is more than 1 % worse than the best: the choice does not matter there.";
    assert!(text.contains(alike), "{text}");
    // Nothing is said of a sweep of one candidate.
    let (text, _) = report(&results(folder.path(), &[alone("a.parquet", "fifo", 1000, 400.0)]), &[]);
    assert!(!text.contains("the choice does not matter there"), "{text}");
}

#[test]
fn the_best_the_front_and_tunables_are_those_of_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let one = |trace, scale: i64| {
        [
            alone(trace, "fifo", 40 * scale, 400.0),
            alone(trace, "deadline", 20 * scale, 200.0),
            alone(trace, "deadline:read_expire=100ms", 10 * scale, 100.0),
            // Slower and with fewer requests than fifo: dominated.
            alone(trace, "cats", 80 * scale, 200.0),
        ]
    };
    let mut tasks = [one("a.parquet", 1), one("b.parquet", 3)].concat();
    // In the third trace fifo is best, and one candidate is overloaded.
    tasks.extend([alone("c.parquet", "fifo", 5, 400.0), alone("c.parquet", "cats", 10, 100.0)]);
    tasks.push(Task { overloaded: true, ..alone("c.parquet", "deadline", 1, 1.0) });
    tasks.push(Task {
        error: Some("c: <b>bad</b> & worse"),
        ..alone("c.parquet", "deadline:read_expire=100ms", 1, 1.0)
    });
    // Too few reads for a p99.
    tasks.push(Task { reads: Some(100), ..alone("d.parquet", "fifo", 5, 400.0) });
    let sweep = results(folder.path(), &tasks);
    let (text, page) = report(&sweep, &[]);
    assert!(text.contains("deadline has the best p99_read in 2 of 3 cases."), "{text}");
    assert!(!text.contains("the choice does not matter there"), "{text}");
    for warning in
        ["1 of 13 tasks failed by their input", "1 of 13 tasks are overloaded", "1 of 13 tasks have no p99_read"]
    {
        assert!(text.contains(warning), "{warning}: {text}");
    }
    // Case, drive, best, value, second, by how much, defaults, worst.
    let a = "a disk deadline:read_expire=100ms 10ms deadline 100.0 % 100.0 % 700.0 %";
    let c = "c disk fifo 5ms cats 100.0 % 0.0 % 100.0 %";
    assert!(text.contains(a) && text.contains(c), "{text}");
    // The mean over four candidates: 10·20·40·80 has the fourth root 28.28, and 100·200·200·400 has 200.
    let front = "fifo 2.00 1.41 on the front deadline 1.00 0.71 on the front \
                 deadline:read_expire=100ms 0.50 0.35 on the front cats 1.00 2.83 dominated";
    assert!(text.contains(front), "{text}");
    assert!(text.contains("From 2 cases, and 1 in which some lack a figure are left out"), "{text}");
    assert!(
        text.contains("deadline: 2 candidates in 2 cases") && text.contains("read_expire 100ms 100.0 % 100.0 %"),
        "{text}"
    );
    assert!(text.contains("c: &#60;b&#62;bad&#60;/b&#62; &#38; worse 1") && !page.contains("<b>bad"), "{text}");
    // By throughput fifo is always best; d has no figure that can be compared with nothing.
    let (text, _) = report(&sweep, &["--for", "throughput"]);
    assert!(text.contains("fifo has the best throughput in 4 of 4 cases."), "{text}");
    assert!(!text.contains("the choice does not matter there"), "{text}");
    assert!(text.contains("a disk fifo 400.0 /s deadline 50.0 % 0.0 % 75.0 %"), "{text}");
    let (code, said) = failure(&["report", &sweep, "-o", &format!("{sweep}/x.html"), "--for", "p99_reads"]);
    assert!(code == 2 && said.contains("did you mean p99_read"), "{said}");
    let twice = [(); 2].map(|()| report(&sweep, &[]).1);
    assert!(twice[0] == twice[1]);
}

#[test]
fn interference_is_against_the_vm_alone_under_the_same_candidate() {
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = Vec::new();
    for (scheduler, scale) in [("fifo", 1.0), ("cats", 4.0)] {
        for trace in ["a.parquet", "<i>b.parquet"] {
            tasks.push(Task { mean_ns: 1e6 * scale, iops: 100.0, ..alone(trace, scheduler, 5, 0.0) });
        }
        // Beside the other one, reads of a take twice as long under fifo and eight times under cats: four times.
        let slower = if scheduler == "fifo" { 2e6 } else { 32e6 };
        tasks.push(Task {
            beside: Some("<i>b.parquet"),
            vms: Some([[slower, 50.0], [1e6 * scale, 100.0]]),
            ..alone("a.parquet", scheduler, 5, 100.0)
        });
    }
    // Alone, neither ran under deadline, so that there is nothing to hold this pair against.
    tasks.push(Task {
        beside: Some("<i>b.parquet"),
        vms: Some([[9e9, 1.0], [9e9, 1.0]]),
        ..alone("a.parquet", "deadline", 5, 100.0)
    });
    let sweep = results(folder.path(), &tasks);
    let (text, page) = report(&sweep, &[]);
    assert!(text.contains("2 VMs of pairs are left out, because it or its neighbour has no task alone"), "{text}");
    let (a, b) = ("a &#60;i&#62;b 4.00 0.50", "&#60;i&#62;b a 1.00 1.00");
    assert!(text.contains(a) && text.contains(b), "{text}");
    assert!(text.contains("is held against the VM alone") && !page.contains("<i>b"), "{text}");
    assert_eq!(page.matches("class=\"picture wide\"").count(), 2);
    // Without tasks alone, each VM is held against the mean of its own pairs, of which each has one here.
    let pairs: Vec<Task> = tasks.iter().filter(|task| task.beside.is_some()).copied().collect();
    let (text, _) = report(&results(folder.path(), &pairs), &[]);
    assert!(text.contains("the mean of all its pairs, since the sweep replays no VM alone"), "{text}");
    assert!(text.contains("a &#60;i&#62;b 1.00 1.00"), "{text}");
}

#[test]
fn a_vm_that_outlasts_its_neighbour_is_not_held_against_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let of = |long_s: i64| {
        let beside = Some("short.parquet");
        let pair = Task { beside, vms: Some([[3e6, 50.0], [2e6, 80.0]]), ..alone("long.parquet", "fifo", 5, 100.0) };
        let tasks = [
            Task { span_s: Some(long_s), ..alone("long.parquet", "fifo", 5, 100.0) },
            Task { span_s: Some(60), ..alone("short.parquet", "fifo", 5, 100.0) },
            pair,
        ];
        report(&results(folder.path(), &tasks), &[]).0
    };
    let (both, one) = (of(90), of(91));
    let left_out = "1 VM of a pair is left out, because the VM runs more than 1.5 times as long alone";
    assert!(both.contains("long short 3.00 0.50") && both.contains("short long 2.00 0.80"), "{both}");
    assert!(!both.contains(left_out) && one.contains(left_out), "{one}");
    assert!(!one.contains("long short 3.00") && one.contains("short long 2.00 0.80"), "{one}");
}

#[test]
fn folders_without_a_result_and_damaged_results_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (code, said) = failure(&["report", folder.path().to_str().unwrap(), "-o", &path("x.html")]);
    assert!(code == 2 && said.contains("it is not the folder of a sweep, a lab or a tuning"), "{said}");
    fs::create_dir_all(folder.path().join("tuned/round-0")).unwrap();
    let (code, said) = failure(&["report", &path("tuned"), "-o", &path("x.html")]);
    assert!(code == 2 && said.contains("repeat the command of `iocast tune`, which goes on"), "{said}");
    let task = |n: i64| Task { error: (n % 3 == 0).then_some("bad"), ..alone("/srv/vms/a.parquet", "fifo", n, 1.0) };
    let sweep = results(folder.path(), &(1..64).map(task).collect::<Vec<Task>>());
    assert!(!report(&sweep, &[]).1.contains("/srv/"));
    // Of some damages the Parquet library panics, and they are errors like the others.
    let table = PathBuf::from(&sweep).join("results.parquet");
    let whole = fs::read(&table).unwrap();
    let (mut errors, mut panics) = (0, 0);
    for at in (0..whole.len()).rev().skip(8).step_by(21).take(130) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1; // Where a number is signed, the sign.
        fs::write(&table, bytes).unwrap();
        let output = iocast().args(["report", &sweep, "-o", &path("x.html"), "--force"]).output().unwrap();
        if output.status.success() {
            continue; // Damaged figures are figures, too.
        }
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && !said.contains("panicked"), "{at}: {said}");
        assert!(said.contains("results.parquet") && said.contains("makes it anew"), "{at}: {said}");
        errors += 1;
        panics += usize::from(said.contains("the decoder gave up"));
    }
    assert!(errors > 30 && panics > 0, "{errors} errors, {panics} panics");
}

#[test]
fn a_real_sweep_has_a_report_once_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["web.parquet", "mail.parquet"] {
        fs::copy(sample(name), path(name)).unwrap();
    }
    fs::write(
        path("plan.toml"),
        "traces = ['*.parquet']\nschedulers = ['fifo', 'cats']\ndrives = ['cheetah-15k4']\npacing = 'closed'\n\
         map = 'remap'\nwindows = [{ end = '5s' }]\n[pairs]\n",
    )
    .unwrap();
    let (sweep, page) = (path("sweep"), path("page.html"));
    stdout(&["sweep", &path("plan.toml"), "--out", &sweep, "--shard", "1/2"]);
    let (code, said) = failure(&["report", &sweep, "-o", &page]);
    assert!(code == 1 && said.contains("3 of 6 tasks have no result yet"), "{said}");
    assert!(said.contains(&format!("iocast sweep PLAN.toml --out {sweep}")), "{said}");
    stdout(&["sweep", &path("plan.toml"), "--out", &sweep, "--shard", "2/2"]);
    fs::remove_file(path("sweep/results.parquet")).unwrap();
    let (_, said) = failure(&["report", &sweep, "-o", &page]);
    assert!(said.contains("all 6 tasks have run, but their results are not joined"), "{said}");
    stdout(&["sweep", &path("plan.toml"), "--out", &sweep]);
    let said = stdout(&["report", &sweep, "-o", &page, "--figures", &path("figures")]);
    // The table of results stands for its folder.
    stdout(&["report", &format!("{sweep}/results.parquet"), "-o", &path("same.html")]);
    assert!(fs::read(path("same.html")).unwrap() == fs::read(&page).unwrap());
    assert!(said.contains("3 figures in"), "{said}");
    let figures = fs::read_dir(path("figures")).unwrap().map(|file| file.unwrap().path());
    let (svg, png): (Vec<PathBuf>, Vec<PathBuf>) = figures.partition(|path| path.extension().unwrap() == "svg");
    assert!(svg.len() == 3 && png.len() == 3, "{png:?}");
    assert!(png.iter().all(|path| fs::read(path).unwrap().starts_with(b"\x89PNG")));
    let text = fs::read_to_string(&page).unwrap();
    for part in
        ["Which scheduler is best", "mail beside web", "Who disturbs whom", "Of each trace the part to 5s is replayed"]
    {
        assert!(text.contains(part), "{part}");
    }
    // The table of tasks must be that of the results.
    fs::copy(path("sweep/parts/0000000.parquet"), path("sweep/results.parquet")).unwrap();
    let (_, said) = failure(&["report", &sweep, "-o", &path("other.html")]);
    assert!(said.contains("it has results of 1 tasks, and its table of tasks 6"), "{said}");
    let (code, said) = failure(&["report", &sample("lab-virtio"), "-o", &path("lab.html"), "--for", "p99_read"]);
    assert!(code == 2 && said.contains("--for has an effect on the folder of a sweep only"), "{said}");
}
