//! `iocast sweep` and `iocast worker`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod parquet_table;
mod program;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use parquet_table::table;
use program::{failure, iocast, json, sample};
use scratch::Scratch;

/// A folder with copies of two samples and a plan.
struct Plan {
    scratch: Scratch,
}

/// Twelve tasks: two traces alone and together, two schedulers of which one has two values.
const SMALL: &str = "traces = ['*.parquet']
schedulers = ['fifo', { name = 'deadline', fifo_batch = [1, 16] }]
drives = ['cheetah-15k4']
pacing = 'closed'
map = 'remap'
windows = [{ end = '4s' }, { start = '4s', limit = 300 }]
[pairs]
";

impl Plan {
    fn new(text: &str) -> Plan {
        let scratch = Scratch::new();
        for name in ["mail", "web"] {
            fs::copy(sample(&format!("{name}.parquet")), scratch.path(&format!("{name}.parquet"))).unwrap();
        }
        fs::write(scratch.path("plan.toml"), text).unwrap();
        Plan { scratch }
    }

    fn arguments(&self, out: &str, more: &[&str]) -> Vec<String> {
        let own = ["sweep".to_owned(), self.scratch.str("plan.toml"), "--out".to_owned(), self.scratch.str(out)];
        own.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Runs the sweep, and gives what it printed.
    fn sweep(&self, out: &str, threads: u32, more: &[&str]) -> String {
        let mut command = iocast();
        command.args(self.arguments(out, more)).env("RAYON_NUM_THREADS", threads.to_string());
        String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
    }

    fn fails(&self, out: &str, more: &[&str]) -> (i32, String) {
        failure(&self.arguments(out, more).iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn results(&self, out: &str) -> Vec<u8> {
        fs::read(self.scratch.path(out).join("results.parquet")).unwrap()
    }

    fn parts(&self, out: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.scratch.path(out).join("parts")).into_iter().flatten();
        let mut parts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        parts.retain(|part| part.extension().is_some_and(|ending| ending == "parquet"));
        parts.sort();
        parts
    }

    fn table(&self, out: &str) -> RecordBatch {
        table(&self.scratch.path(out).join("results.parquet"))
    }
}

fn text(table: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let column = table.column_by_name(column).unwrap();
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row).to_owned())
}

fn whole(table: &RecordBatch, column: &str, row: usize) -> i64 {
    table.column_by_name(column).unwrap().as_primitive::<Int64Type>().value(row)
}

fn real(table: &RecordBatch, column: &str, row: usize) -> serde_json::Value {
    let column = table.column_by_name(column).unwrap();
    let value = column.as_primitive::<Float64Type>().value(row);
    if column.is_null(row) { serde_json::Value::Null } else { value.into() }
}

#[test]
fn each_row_is_what_compare_says_of_the_same_replay() {
    let plan = Plan::new(SMALL);
    let said = plan.sweep("out", 2, &[]);
    assert!(said.starts_with("18 tasks, of which 0 failed by their input; results: "), "{said}");
    let table = plan.table("out");
    assert_eq!(table.num_rows(), 18);
    for row in 0..18 {
        assert_eq!(whole(&table, "task", row), row as i64);
        assert_eq!(text(&table, "error", row), None);
        let path = |name: String| plan.scratch.str(&name);
        let trace = path(text(&table, "trace", row).unwrap());
        let scheduler = text(&table, "scheduler", row).unwrap();
        let start = format!("{}ns", whole(&table, "start_ns", row));
        let mut arguments =
            vec!["compare", "--schedulers", &scheduler, "--drive", "cheetah-15k4", "--pacing", "closed"];
        arguments.extend(["--map", "remap", "--start", &start, "--vm"]);
        let vm = format!("vm={trace}");
        let beside = text(&table, "beside", row).map(|name| format!("beside={}", path(name)));
        arguments.push(&vm);
        arguments.extend(beside.iter().flat_map(|beside| ["--per-vm", "--vm", beside]));
        let end = (!table.column_by_name("end_ns").unwrap().is_null(row))
            .then(|| format!("{}ns", whole(&table, "end_ns", row)));
        match &end {
            Some(end) => arguments.extend(["--end", end]),
            None => arguments.extend(["--limit", "300"]),
        }
        let compared = json(&arguments);
        let run = &compared["runs"][0];
        for (class, prefix) in [("read", "read"), ("write", "write"), ("all", "all")] {
            let of = |name: &str| format!("{prefix}_{name}");
            assert_eq!(whole(&table, &of("requests"), row), run[class]["requests"], "{row} {class}");
            assert_eq!(real(&table, &of("bytes_per_s"), row), run[class]["bytes_per_s"]);
            assert_eq!(real(&table, &of("response_mean_ns"), row), run[class]["response_time"]["mean_ns"]);
            let p99_9 = &run[class]["response_percentiles_ns"]["p99.9"];
            let column = of("response_p99_9_ns");
            assert_eq!(table.column_by_name(&column).unwrap().is_null(row), p99_9.is_null());
            p99_9.as_i64().into_iter().for_each(|p99_9| assert_eq!(whole(&table, &column, row), p99_9));
        }
        for (at, vm) in ["vm", "beside"].into_iter().enumerate().filter(|_| beside.is_some()) {
            // A VM that sent nothing while both were active has no figures.
            let own = run["vms"].as_array().unwrap().iter().find(|own| own["vm"] == vm);
            let column = format!("{vm}_read_iops");
            assert_eq!(table.column_by_name(&column).unwrap().is_null(row), own.is_none());
            own.into_iter().for_each(|own| assert_eq!(real(&table, &column, row), own["read"]["iops"]));
            let digest = text(&table, ["trace_sha256", "beside_sha256"][at], row).unwrap();
            assert_eq!(compared["provenance"]["traces"][at]["sha256"], digest);
        }
        let origin: serde_json::Value = serde_json::from_str(&text(&table, "provenance", row).unwrap()).unwrap();
        assert_eq!(origin["drives"], compared["provenance"]["drives"]);
        assert_eq!(origin["options"], compared["provenance"]["options"]);
        assert_eq!(origin["scheduler"], run["scheduler"]);
        let histogram =
            table.column_by_name("read_response_histogram").unwrap().as_binary::<i32>().value(row).to_owned();
        assert_eq!(histogram[..4], [0x1c, 0x84, 0x93, 0x13]);
    }
    // The first three tasks differ in the scheduler only, the next in the window, then comes the pair.
    let pair = (0..18).filter(|row| text(&table, "beside", *row).is_some()).collect::<Vec<_>>();
    assert_eq!(pair, (6..12).collect::<Vec<_>>());
}

#[test]
fn threads_and_shards_change_no_byte() {
    let plan = Plan::new(SMALL);
    plan.sweep("one", 1, &[]);
    plan.sweep("four", 4, &[]);
    assert_eq!(plan.results("one"), plan.results("four"));
    for shard in ["2/3", "1/3"] {
        let said = plan.sweep("shards", 2, &["--shard", shard]);
        assert!(said.contains("are left to other shards"), "{said}");
        assert!(!plan.scratch.path("shards/results.parquet").exists());
    }
    assert_eq!(plan.parts("shards").len(), 12);
    let said = plan.sweep("shards", 2, &["--shard", "3/3"]);
    assert!(said.starts_with("18 tasks"), "{said}");
    assert_eq!(plan.results("one"), plan.results("shards"));
    // Shards on hosts without a common folder: their parts are brought together.
    for shard in ["1/2", "2/2"] {
        plan.sweep(&format!("host{}", &shard[..1]), 2, &["--shard", shard]);
    }
    for part in plan.parts("host2") {
        fs::copy(&part, plan.scratch.path("host1/parts").join(part.file_name().unwrap())).unwrap();
    }
    plan.sweep("host1", 1, &[]);
    assert_eq!(plan.results("one"), plan.results("host1"));
}

/// Twenty tasks that take seconds.
const LONG: &str = "traces = ['mail.parquet']
schedulers = ['fifo', 'cscan', { name = 'deadline', fifo_batch = { from = 1, to = 18, step = 1 } }]
drives = ['cheetah-15k4']
";

fn spawn(arguments: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocast"));
    command.args(arguments).env("RAYON_NUM_THREADS", "2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn killed_sweep_goes_on_where_it_was() {
    let plan = Plan::new(LONG);
    plan.sweep("whole", 2, &[]);
    let mut child = spawn(&plan.arguments("killed", &[]));
    while plan.parts("killed").len() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    let left = plan.parts("killed");
    assert!((3..20).contains(&left.len()), "{} parts", left.len());
    assert!(!plan.scratch.path("killed/results.parquet").exists());
    // Nothing but whole parts: each can be read.
    let rows: usize = left.iter().map(|part| table(part).num_rows()).sum();
    assert_eq!(rows, left.len());
    let written = |part: &PathBuf| fs::metadata(part).unwrap().modified().unwrap();
    let times: Vec<_> = left.iter().map(written).collect();
    plan.sweep("killed", 2, &[]);
    assert_eq!(left.iter().map(written).collect::<Vec<_>>(), times, "parts were run again");
    assert_eq!(plan.results("whole"), plan.results("killed"));
}

#[test]
fn task_that_fails_by_its_input_is_a_row() {
    let plan = Plan::new(&SMALL.replace("'*.parquet'", "'*.parquet', 'none.csv'"));
    let mut bytes = fs::read(plan.scratch.path("web.parquet")).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(plan.scratch.path("cut.parquet"), bytes).unwrap();
    fs::write(plan.scratch.path("none.csv"), "no,trace\n1,2\n").unwrap();
    let said = plan.sweep("out", 2, &[]);
    // Four alone and six pairs, six tasks each; all but mail and web, alone and together, fail.
    assert!(said.starts_with("60 tasks, of which 42 failed by their input"), "{said}");
    let table = plan.table("out");
    for row in 0..table.num_rows() {
        let names = ["trace", "beside"].map(|column| text(&table, column, row).unwrap_or_default());
        let is_bad = names.iter().any(|name| ["cut.parquet", "none.csv"].contains(&name.as_str()));
        let error = text(&table, "error", row);
        assert_eq!(error.is_some(), is_bad, "{names:?} {error:?}");
        if let Some(error) = error {
            assert!(error.contains("cut.parquet") || error.contains("none.csv"), "{error}");
            assert!(!error.contains('/'), "a folder of this host: {error}");
            assert_eq!(text(&table, "provenance", row), None);
            assert!(table.column_by_name("read_requests").unwrap().is_null(row));
        }
        assert!(text(&table, "program", row).unwrap().starts_with("iocast "));
    }
    let summary: serde_json::Value = serde_json::from_str(&plan.sweep("out", 2, &["--output-format=json"])).unwrap();
    assert_eq!((&summary["tasks"], &summary["failed"]), (&60.into(), &42.into()));
}

#[test]
fn bad_plans_are_refused_with_line_and_remedy() {
    let cases = [
        ("traces = ['*.parquet']\ndrives = ['cheetah-15k4']", "at least one of `drives`, and one of `schedulers`"),
        ("traces = ['no*.csv']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']", "at line 1: no file fits `no*.csv`"),
        (
            "traces = ['*.parquet']\nschedulers = ['fifa']\ndrives = ['cheetah-15k4']",
            "at line 2: unknown scheduler `fifa`; did you mean fifo",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo', 'fifo']\ndrives = ['cheetah-15k4']",
            "at line 2: the scheduler `fifo` is there twice",
        ),
        ("traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheeta-15k4']", "at line 3: unknown drive"),
        (
            "traces = ['*.parquet']\nschedulers = ['plugin:./x.so']\ndrives = ['cheetah-15k4']",
            "at line 2: a scheduler in a shared library",
        ),
        (
            "traces = ['*.parquet']\nschedulers = [{ name = 'deadline', fifo_batch = { from = 4, to = 1, step = 1 } }]\ndrives = ['cheetah-15k4']",
            "at line 2: deadline:fifo_batch: the range ends before it begins",
        ),
        (
            "traces = ['*.parquet']\nschedulers = [{ name = 'deadline', fifo_batch = [1, 'x'] }]\ndrives = ['cheetah-15k4']",
            "at line 2: deadline:fifo_batch=`x` is not",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\npacing = 'close'",
            "at line 4: expected recorded, scaled=F, asap, asap=N or closed",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nmap = 'exakt'",
            "did you mean exact",
        ),
        ("traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\ndepth = 0", "at line 4: depth 0"),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nquantities = ['read_iop']",
            "at line 4: no result has a quantity `read_iop`; did you mean read_iops",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nwindows = [{ start = '2s', end = '1s' }]",
            "at line 4: `end` must be later",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nwindows = [{ traces = 'oltp*' }]",
            "at line 4: no trace fits `oltp*`",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nsheds = 1",
            "at line 4: unknown field `sheds`",
        ),
        (
            "traces = ['mail.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\n[pairs]\nalone = false",
            "no two traces to pair",
        ),
        (
            "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nwindows = [{ limit = 1 }, { end = '1s' }, { limit = 1 }]",
            "at line 4: the window is there twice",
        ),
        ("traces = ['']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']", "at line 1: a pattern of paths is empty"),
        ("traces = ['*.parquet']\nschedulers = [5]\ndrives = ['cheetah-15k4']", "at line 2: a scheduler is a text"),
        ("traces = [", "at line 1"),
        ("traces = ['*.parquet']\nstacks = ['nothing']\ndrives = ['cheetah-15k4']", "at line 2"),
    ];
    for (text, says) in cases {
        let plan = Plan::new(text);
        let (code, error) = plan.fails("out", &[]);
        assert_eq!(code, 2, "{text}: {error}");
        assert!(error.contains(says), "{text}: {error}");
        assert!(says == "no two traces to pair" || error.contains("plan.toml"), "{error}");
        assert!(!plan.scratch.path("out").exists());
    }
    let plan = Plan::new(SMALL);
    for shard in ["0/2", "3/2", "1", "a/b", "1/0"] {
        let (code, error) = plan.fails("out", &["--shard", shard]);
        assert_eq!(code, 2);
        assert!(error.contains("expected i/n with i from 1 to n"), "{shard}: {error}");
    }
}

#[test]
fn folder_of_another_sweep_and_damaged_parts_are_refused() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let before = plan.results("out");
    fs::write(plan.scratch.path("plan.toml"), SMALL.replace("16]", "32]")).unwrap();
    let (code, error) = plan.fails("out", &[]);
    assert!(
        code == 1 && error.contains("holds the tasks of another plan") && error.contains("another --out"),
        "{error}"
    );
    fs::write(plan.scratch.path("plan.toml"), SMALL.replace("fifo'", "fifo', 'cscan'")).unwrap();
    assert!(plan.fails("out", &[]).1.contains("holds the tasks of another plan"));
    fs::write(plan.scratch.path("plan.toml"), SMALL).unwrap();
    assert_eq!(plan.results("out"), before);

    let part = plan.parts("out")[4].clone();
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, &bytes[..bytes.len() - 9]).unwrap();
    let (code, error) = plan.fails("out", &[]);
    assert!(code == 1 && error.contains("0000004.parquet") && error.contains("remove it"), "{error}");
    // A part that stands in the place of another.
    fs::copy(&plan.parts("out")[3], &part).unwrap();
    let (code, error) = plan.fails("out", &[]);
    assert!(code == 1 && error.contains("task 3 where task 4 should follow"), "{error}");
    fs::remove_file(&part).unwrap();
    plan.sweep("out", 2, &[]);
    assert_eq!(plan.results("out"), before);
}

#[test]
fn trace_that_changes_during_the_sweep_is_found() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &["--shard", "1/2"]);
    fs::copy(sample("oltp.parquet"), plan.scratch.path("mail.parquet")).unwrap();
    let (code, error) = plan.fails("out", &["--shard", "2/2"]);
    assert!(code == 1 && error.contains("mail.parquet has changed during the sweep: tasks 0 and 1"), "{error}");
}

/// Writes the profile of a shipped drive as `my.toml` into the plan's folder.
fn profile(plan: &Plan, drive: &str) {
    let profiles = concat!(env!("CARGO_MANIFEST_DIR"), "/../drive-models/profiles");
    fs::copy(format!("{profiles}/{drive}.toml"), plan.scratch.path("my.toml")).unwrap();
}

/// The errors of tasks that a worker has run.
fn errors(worker: &std::process::Output) -> Vec<Option<String>> {
    let batches = StreamReader::try_new(&worker.stdout[..], None).unwrap().map(Result::unwrap);
    let of = |batch: RecordBatch| (0..batch.num_rows()).map(|row| text(&batch, "error", row)).collect::<Vec<_>>();
    batches.flat_map(of).collect()
}

#[test]
fn profiles_are_in_the_plans_folder_wherever_it_is_swept_from_and_must_not_change() {
    let of = SMALL.replace("['cheetah-15k4']", "['raid:member=my.toml,members=3', 'my.toml']");
    let plan = Plan::new(&of);
    profile(&plan, "atlas-10k");
    plan.sweep("out", 2, &[]);
    // Elsewhere another profile has the same name.
    let elsewhere = Plan::new(&of);
    profile(&elsewhere, "barracuda");
    let mut command = iocast();
    command.args(plan.arguments("other", &[])).current_dir(elsewhere.scratch.path("."));
    command.assert().success();
    assert!(plan.results("out") == plan.results("other"));
    let table = plan.table("out");
    assert!((0..table.num_rows()).all(|row| text(&table, "error", row).is_none()));

    plan.sweep("shards", 2, &["--shard", "1/2"]);
    let tasks = tasks(&plan, "shards");
    profile(&plan, "barracuda");
    let (code, error) = plan.fails("shards", &["--shard", "2/2"]);
    assert!(code == 1 && error.contains("profiles or stacks have changed since"), "{error}");
    // A worker looks, too.
    let errors = errors(&worker(&tasks));
    let is_told =
        |error: &Option<String>| error.as_ref().is_some_and(|error| error.contains("has changed since the sweep"));
    assert!(errors.len() == table.num_rows() && errors.iter().all(is_told), "{errors:?}");
}

#[test]
fn the_error_of_a_missing_trace_does_not_depend_on_its_neighbours() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 1, &[]);
    let tasks = tasks(&plan, "out");
    fs::rename(plan.scratch.path("web.parquet"), plan.scratch.path("wep.parquet")).unwrap();
    let errors: BTreeSet<String> = errors(&worker(&tasks)).into_iter().flatten().collect();
    assert_eq!(Vec::from_iter(errors), ["web.parquet: No such file or directory (os error 2)"]);
}

#[test]
fn processes_that_run_the_same_sweep_at_a_time_all_end_well() {
    let plan = Plan::new(LONG);
    plan.sweep("whole", 2, &[]);
    let begin = |more: &[&str]| spawn(&plan.arguments("shared", more));
    let mut processes: Vec<Child> = (0..3).map(|_| begin(&[])).collect();
    processes.extend(["1/2", "2/2"].map(|shard| begin(&["--shard", shard])));
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    assert!(plan.results("shared") == plan.results("whole"));
    let mut names: Vec<_> =
        fs::read_dir(plan.scratch.path("shared")).unwrap().map(|of| of.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["parts", "results.parquet", "tasks.parquet"]);
}

#[test]
fn quantities_seeds_stacks_and_drawn_pairs_are_as_the_plan_says() {
    let plan = Plan::new(
        "traces = ['*.parquet', '*.csv']
except = ['web*']
schedulers = ['none']
stacks = ['guest=fifo/lun=deadline@depth=4']
drives = ['cheetah-15k4', 'sata-ssd']
seeds = [3, 5]
depth = 2
windows = [{ limit = 50 }]
quantities = ['all_iops', 'read_response_histogram']
[pairs]
alone = false
busier_than_iops = 20
most = 2
",
    );
    for (name, gap_us) in [("slow", 500_000), ("quick", 1_000), ("fast", 2_000)] {
        plan.scratch.trace(&format!("{name}.csv"), (0..100).map(|at| (at * gap_us, "read", at * 8, 8, 100)));
    }
    let mut command = iocast();
    let output = command.args(plan.arguments("out", &[])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("of 4 traces 1 are not paired") && said.contains("2 of 3 pairs are drawn, with seed 1"),
        "{said}"
    );
    let table = plan.table("out");
    let (mut schedulings, mut drives, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    let two = serde_json::Value::from("2");
    for row in 0..table.num_rows() {
        assert_eq!(text(&table, "error", row), None);
        schedulings.push([text(&table, "scheduler", row), text(&table, "stack", row)]);
        drives.push(text(&table, "drive", row).unwrap());
        pairs.push([text(&table, "trace", row).unwrap(), text(&table, "beside", row).unwrap()]);
        let depth = table.column_by_name("depth").unwrap();
        assert_eq!(depth.is_null(row), schedulings[row][0].is_none());
        let origin: serde_json::Value = serde_json::from_str(&text(&table, "provenance", row).unwrap()).unwrap();
        assert_eq!(origin["options"].get("depth"), schedulings[row][0].as_ref().map(|_| &two), "the depth replayed");
        for (column, wanted) in
            [("all_iops", true), ("read_iops", false), ("read_response_histogram", true), ("status", false)]
        {
            assert_eq!(!table.column_by_name(column).unwrap().is_null(row), wanted, "{column}");
        }
    }
    drives.sort();
    drives.dedup();
    schedulings.dedup();
    assert_eq!(schedulings.len(), table.num_rows(), "a scheduler and a stack take turns");
    pairs.dedup();
    assert_eq!(pairs.len(), 2);
    assert!(pairs.iter().flatten().all(|name| !name.contains("slow") && !name.contains("web")), "{pairs:?}");
    // The SSD has a seed, the Cheetah none.
    assert_eq!(drives, ["cheetah-15k4", "sata-ssd:seed=3", "sata-ssd:seed=5"]);
}

#[test]
fn window_with_a_pattern_is_that_of_its_traces() {
    let plan = Plan::new(
        "traces = ['*.parquet']
schedulers = ['fifo', 'none']
drives = ['cheetah-15k4']
windows = [{ limit = 10 }, { traces = 'w*.parquet', start = '1s', limit = 20 }, { traces = 'mail.parquet', limit = 30 }]
[pairs]
",
    );
    plan.sweep("out", 2, &[]);
    let table = plan.table("out");
    let mut windows: Vec<String> = Vec::new();
    for row in 0..table.num_rows() {
        let names = ["trace", "beside"].map(|column| text(&table, column, row).unwrap_or_default());
        windows.push(format!("{} {} {}", names[0], names[1], whole(&table, "limit", row)));
        assert_eq!(whole(&table, "start_ns", row) == 0, whole(&table, "limit", row) != 20);
        assert_eq!(whole(&table, "task", row), row as i64);
    }
    windows.dedup();
    let one = |names: &str, limit: u32| format!("{names} {limit}");
    // A pair has the windows of both.
    let (mail, pair, web) = ("mail.parquet ", "mail.parquet web.parquet", "web.parquet ");
    let wanted =
        [one(mail, 10), one(mail, 30), one(pair, 10), one(pair, 20), one(pair, 30), one(web, 10), one(web, 20)];
    assert_eq!(windows, wanted);
}

/// The tasks of a folder as an Arrow stream.
fn tasks(plan: &Plan, out: &str) -> Vec<u8> {
    let tasks = table(&plan.scratch.path(out).join("tasks.parquet"));
    let mut writer = StreamWriter::try_new(Vec::new(), &tasks.schema()).unwrap();
    // Two batches.
    writer.write(&tasks.slice(0, 7)).unwrap();
    writer.write(&tasks.slice(7, tasks.num_rows() - 7)).unwrap();
    writer.into_inner().unwrap()
}

fn worker(input: &[u8]) -> std::process::Output {
    let mut command = iocast();
    command.arg("worker").write_stdin(input).output().unwrap()
}

#[test]
fn worker_gives_the_rows_of_the_sweep() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let output = worker(&tasks(&plan, "out"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let batches: Vec<RecordBatch> =
        StreamReader::try_new(&output.stdout[..], None).unwrap().map(Result::unwrap).collect();
    let results = plan.table("out");
    let mut at = 0;
    for batch in batches {
        let same = results.slice(at, batch.num_rows());
        assert_eq!(batch.columns(), same.columns());
        at += batch.num_rows();
    }
    assert_eq!(at, 18);
}

#[test]
fn worker_ends_with_its_input_and_names_what_is_wrong_with_it() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let output = worker(b"");
    assert!(output.status.success());
    assert_eq!(StreamReader::try_new(&output.stdout[..], None).unwrap().count(), 0);
    let whole = tasks(&plan, "out");
    for (input, says) in [
        (&b"this is no Arrow stream at all, but text"[..], "the tasks on standard input"),
        (&whole[..whole.len() / 2], "the tasks on standard input"),
        (&worker(&whole).stdout, "there is no column folder"),
    ] {
        let output = worker(input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn worker_ends_when_nobody_reads() {
    let plan = Plan::new(SMALL);
    plan.sweep("out", 2, &[]);
    let input = tasks(&plan, "out");
    let mut child = Command::new(env!("CARGO_BIN_EXE_iocast"))
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    // The schema comes before the first task does.
    let (tell, read) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // A message begins with a mark and the length of what follows.
        let mut begin = [0; 8];
        out.read_exact(&mut begin).unwrap();
        let length = u32::from_le_bytes(*begin.last_chunk().unwrap()) as usize;
        let is_there = out.read_exact(&mut vec![0; length]).is_ok();
        drop(out);
        tell.send(is_there)
    });
    assert!(read.recv_timeout(Duration::from_secs(60)).expect("no schema came"));
    // Standard input stays open, so that only the closed pipe can end it.
    pipe.write_all(&input[..input.len() - 8]).unwrap();
    let mut waited = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        waited += 1;
        assert!(waited < 6_000, "it goes on for nobody");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(error, "");
}

#[test]
fn spark_is_asked_for_only_where_it_can_run() {
    let plan = Plan::new(SMALL);
    let (code, error) = plan.fails("out", &["--engine", "spark"]);
    assert!(code == 2 && error.contains("--master"), "{error}");
    let (code, error) = plan.fails("out", &["--master", "yarn"]);
    assert!(code == 2 && error.contains("add --engine spark") && !plan.scratch.path("out").exists(), "{error}");
    let (code, error) = plan.fails("out", &["--engine", "spark", "--master", "local[1]", "--shard", "1/2"]);
    assert!(code == 2 && error.contains("leave out --shard"), "{error}");
    // Of a capture in several files, which only its reader knows, the nodes would copy one.
    let named = Plan::new("traces = ['a.csv']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\n");
    fs::write(named.scratch.path("a.csv"), "").unwrap();
    let stored = ["--engine", "spark", "--master", "local[1]", "--traces-at", "s3://fleet"];
    let (code, error) = named.fails("out", &stored);
    assert!(code == 2 && error.contains("iocast convert a.csv NAME.parquet"), "{error}");
    let run = |home: Option<&str>| {
        let mut command = iocast();
        command.args(plan.arguments("out", &["--engine", "spark", "--master", "local[1]"]));
        command.env("PATH", "/nowhere");
        match home {
            Some(home) => command.env("SPARK_HOME", home),
            None => command.env_remove("SPARK_HOME"),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = run(None);
    assert!(
        error.contains("sweep cannot begin") && error.contains("spark-submit") && error.contains("java"),
        "{error}"
    );
    assert!(run(Some("/nowhere")).contains("set SPARK_HOME to a folder of Apache Spark"));
}
