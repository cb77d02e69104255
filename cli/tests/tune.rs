//! `iocast tune`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod parquet_table;
mod program;
mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use parquet_table::table;
use program::{failure, iocast, sample};
use scratch::Scratch;
use serde_json::Value;

/// Reads and writes at random places, as many of each, 1 ms apart.
fn random(scratch: &Scratch, name: &str, requests: u64) {
    let mut state = name.bytes().fold(7_u64, |state, byte| state.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let line = |at: u64| {
        let operation = if next() % 2 == 0 { "read" } else { "write" };
        (at * 1_000, operation, next() % 50_000_000 / 8 * 8, 8, 5_000)
    };
    scratch.trace(name, (0..requests).map(line));
}

/// A folder with traces of this many requests.
fn traces(names: &[&str], requests: u64) -> Scratch {
    let scratch = Scratch::new();
    names.iter().for_each(|name| random(&scratch, name, requests));
    scratch
}

/// How often reads go before writes, and the longest batch, on a disk with 32 requests outstanding.
const GRID: &str = "writes_starved=1..16,fifo_batch=1..16";
const FOUR: [&str; 4] = ["a.csv", "b.csv", "c.csv", "d.csv"];

fn words<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let own = ["tune", "*.csv", "--scheduler", "mq-deadline", "--pacing", "asap=32", "--out", out];
    [&own[..], more].concat()
}

/// Runs a tuning, and gives what it printed.
fn tune(scratch: &Scratch, threads: u32, words: &[&str]) -> String {
    let mut command = iocast();
    command
        .current_dir(scratch.folder.path())
        .args(words)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .env("COLUMNS", "80");
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

fn stored(scratch: &Scratch, out: &str) -> Value {
    serde_json::from_slice(&fs::read(scratch.path(out).join("tune.json")).unwrap()).unwrap()
}

fn text(table: &RecordBatch, column: &str, row: usize) -> String {
    table.column_by_name(column).unwrap().as_string::<i32>().value(row).to_owned()
}

fn whole(table: &RecordBatch, column: &str, row: usize) -> Option<i64> {
    let column = table.column_by_name(column).unwrap();
    (!column.is_null(row)).then(|| column.as_primitive::<Int64Type>().value(row))
}

/// The geometric mean of a column over the traces, for each scheduler, over that of the defaults.
fn by_scheduler(table: &RecordBatch, column: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut traces = BTreeSet::new();
    for row in 0..table.num_rows() {
        let value = table.column_by_name(column).unwrap().as_primitive::<Float64Type>().value(row);
        *sums.entry(text(table, "scheduler", row)).or_default() += value.ln();
        traces.insert(text(table, "trace", row));
    }
    let defaults = sums["mq-deadline"];
    sums.into_iter().map(|(name, sum)| (name, ((sum - defaults) / traces.len() as f64).exp())).collect()
}

fn names(used: &Value) -> Vec<String> {
    used.as_array().unwrap().iter().map(|used| used["trace"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn best_tunables_are_those_of_the_whole_grid_and_limits_change_them() {
    let scratch = traces(&FOUR, 2_400);
    let said = tune(&scratch, 2, &words("free", &["--for", "mean_read", "--tunables", GRID]));
    let free = stored(&scratch, "free");
    let best = free["best"].as_str().unwrap();
    assert!(said.starts_with(&format!("--scheduler {best}\n")), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");

    // Every combination, on all of the traces that it was tuned on.
    let tuned_on = names(&free["tuned_on"]);
    let batches = [1, 2, 4, 8, 16].map(|batch| format!("fifo_batch = {batch}"));
    let mut schedulers = vec!["'mq-deadline'".to_owned()];
    for starved in [1, 2, 4, 8, 16] {
        let one = |batch: &String| format!("{{ name = 'mq-deadline', {batch}, writes_starved = {starved} }}");
        schedulers.extend(batches.iter().map(one));
    }
    let plan = format!(
        "traces = {tuned_on:?}\nschedulers = [{}]\ndrives = ['cheetah-15k4']\npacing = 'asap=32'\n",
        schedulers.join(", ")
    );
    fs::write(scratch.path("grid.toml"), plan).unwrap();
    tune(&scratch, 2, &["sweep", "grid.toml", "--out", "grid"]);
    let grid = by_scheduler(&table(&scratch.path("grid/results.parquet")), "read_response_mean_ns");
    let least = grid.values().copied().fold(f64::INFINITY, f64::min);
    let found = free["on_tuned"]["ratio"].as_f64().unwrap();
    assert!(least < 0.8, "tunables matter: {least}");
    assert!(found.ln() < 0.95 * least.ln(), "{best}: {found}, where the grid has {least}");
    assert!(free["verdict"] == "not_proven", "two windows prove nothing: {}", free["on_held_out"]);
    let on_held_out = free["on_held_out"]["ratio"].as_f64().unwrap();
    assert!((on_held_out.ln() / found.ln() - 1.0).abs() < 0.2, "{on_held_out} {found}");
    let rounds = free["rounds"].as_array().unwrap();
    assert_eq!(rounds.iter().map(|round| round["parts"].as_u64().unwrap()).take(2).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(rounds.iter().map(|round| round["candidates"].as_array().unwrap().len()).max(), Some(25));

    // The scheduler as given is in every round.
    let is_given = |of: &&Value| of["scheduler"] == "mq-deadline";
    let in_all = rounds.iter().map(|round| round["candidates"].as_array().unwrap().iter().find(is_given));
    assert!(in_all.clone().count() > 2 && in_all.clone().all(|given| given.is_some_and(|given| given["ratio"] == 1.0)));

    // Reads gain at the cost of writes.
    let bound = words("bound", &["--for", "mean_read", "--tunables", GRID, "--limit", "mean_write=+20%"]);
    let said = tune(&scratch, 2, &bound);
    let bound = stored(&scratch, "bound");
    assert_ne!(bound["best"], free["best"]);
    let limit = &bound["limits"][0];
    assert!(limit["on_tuned"].as_f64().unwrap() <= 1.2, "{limit}");
    assert!(bound["on_tuned"]["ratio"].as_f64().unwrap() > found);
    let holds = limit["on_held_out"].as_f64().unwrap() <= 1.2;
    assert_eq!(limit["holds"], holds);
    assert!(said.contains("mean_write") && said.contains("+20.0 %"), "{said}");
    let broken = |of: &Value| of["is_within_limits"] == false;
    assert!(bound["rounds"][0]["candidates"].as_array().unwrap().iter().any(broken));
}

#[test]
fn limit_that_breaks_on_held_out_traces_ends_with_a_code_of_its_own() {
    let scratch = Scratch::new();
    let samples = ["web", "file", "oltp", "mail"].map(|name| sample(&format!("{name}.parquet")));
    let mut command = iocast();
    command.arg("tune").args(&samples).args(["--hold-out", &sample("mail.parquet"), "--limit", "mean_write=+5%"]);
    command.args(["--scheduler", "mq-deadline", "--pacing", "closed", "--out"]).arg(scratch.path("tuned"));
    let output = command.assert().code(3);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("breaks the limit of mean_write on held-out traces"), "{said}");
    // The writes of the mail server are not like those of the others.
    let limit = &stored(&scratch, "tuned")["limits"][0];
    assert_eq!(limit["holds"], false);
    assert!(limit["on_tuned"].as_f64().unwrap() <= 1.05 && limit["on_held_out"].as_f64().unwrap() > 1.05, "{limit}");
}

#[test]
fn what_does_not_matter_has_no_share_and_changes_nothing() {
    let scratch = traces(&FOUR[..2], 1_200);
    let only = ["--tunables", "prio_aging_expire", "--for", "mean_read"];
    let said = tune(&scratch, 2, &words("nothing", &only));
    assert!(said.starts_with("Nothing beats mq-deadline as given: of 4 other candidates none"), "{said}");
    let nothing = stored(&scratch, "nothing");
    assert_eq!((&nothing["verdict"], &nothing["best"]), (&Value::from("nothing_better"), &Value::Null));
    assert_eq!(nothing["sensitivity"]["tunables"][0]["share"], 0.0);
    assert!(!scratch.path("nothing/held-out").exists());

    let both = ["--tunables", "prio_aging_expire,writes_starved=1..16", "--for", "mean_read"];
    tune(&scratch, 2, &words("both", &both));
    let both = stored(&scratch, "both");
    // Of equal candidates the one with the fewest changes is the best.
    assert!(!both["best"].as_str().unwrap().contains("prio_aging"), "{}", both["best"]);
    let tunables = both["sensitivity"]["tunables"].as_array().unwrap();
    let share = |name: &str| tunables.iter().find(|of| of["tunable"] == name).unwrap()["share"].as_f64().unwrap();
    assert!(share("writes_starved") > 0.99 && share("prio_aging_expire") < 1e-9, "{tunables:?}");
}

#[test]
fn rounds_never_see_what_is_held_out() {
    let scratch = traces(&["a.csv", "b.csv", "c.csv", "d.csv", "e.csv", "f.csv"], 1_100);
    let seen = |round: &str| -> BTreeSet<String> {
        let tasks = table(&scratch.path(round).join("tasks.parquet"));
        (0..tasks.num_rows()).map(|row| text(&tasks, "trace", row)).collect()
    };
    let some = ["--tunables", "writes_starved=1..16", "--for", "mean_read", "--output-format", "json"];
    let drawn: Value = serde_json::from_str(&tune(&scratch, 2, &words("drawn", &some))).unwrap();
    assert_eq!(drawn, stored(&scratch, "drawn"));
    assert_eq!(names(&drawn["held_out"]).len(), 2);
    assert_eq!(seen("drawn/round-0"), names(&drawn["tuned_on"]).into_iter().collect());
    assert_eq!(seen("drawn/held-out"), names(&drawn["held_out"]).into_iter().collect());
    assert!(seen("drawn/held-out").is_disjoint(&seen("drawn/round-0")));
    let other: Vec<&str> = [&some[..], &["--seed", "2"]].concat();
    let other: Value = serde_json::from_str(&tune(&scratch, 2, &words("other", &other))).unwrap();
    assert_ne!(names(&other["held_out"]), names(&drawn["held_out"]));

    // By pattern, and by another name of the same file.
    let named: Vec<&str> = [&some[..], &["--hold-out", "[ab].csv", "--hold-out", "./f.csv"]].concat();
    tune(&scratch, 2, &words("named", &named));
    assert_eq!(seen("named/held-out").into_iter().collect::<Vec<_>>(), ["a.csv", "b.csv", "f.csv"]);
    assert_eq!(seen("named/round-0").into_iter().collect::<Vec<_>>(), ["c.csv", "d.csv", "e.csv"]);

    // A single trace is split in time.
    let mut single = words("single", &some);
    single[1] = "c.csv";
    let single: Value = serde_json::from_str(&tune(&scratch, 2, &single)).unwrap();
    let cut = single["tuned_on"][0]["end_ns"].as_i64().unwrap();
    assert!(cut == 1_099_000_000 / 3 * 2 && single["held_out"][0]["start_ns"] == cut);
    assert!(single["notes"][0].as_str().unwrap().contains("one trace only"), "{}", single["notes"]);
    let tasks = table(&scratch.path("single/round-0/tasks.parquet"));
    assert!((0..tasks.num_rows()).all(|row| whole(&tasks, "end_ns", row).unwrap() <= cut));
    let tasks = table(&scratch.path("single/held-out/tasks.parquet"));
    assert!((0..tasks.num_rows()).all(|row| whole(&tasks, "start_ns", row).unwrap() >= cut));
}

#[test]
fn threads_and_kills_change_no_byte() {
    let scratch = traces(&FOUR, 2_400);
    let long = ["--for", "mean_read", "--candidates", "27"];
    let bytes = |out: &str| fs::read(scratch.path(out).join("tune.json")).unwrap();
    tune(&scratch, 1, &words("one", &long));
    tune(&scratch, 2, &words("two", &long));
    assert_eq!(bytes("one"), bytes("two"));
    // The traces have no priorities. Drawn candidates change their aging, and what is found does not.
    let one = stored(&scratch, "one");
    assert!(one["rounds"][0]["candidates"].to_string().contains("prio_aging_expire"));
    assert!(!one["best"].as_str().unwrap().contains("prio_aging_expire"), "{}", one["best"]);

    let mut command = Command::new(env!("CARGO_BIN_EXE_iocast"));
    command.current_dir(scratch.folder.path()).args(words("killed", &long)).env("RAYON_NUM_THREADS", "2");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parts = |round: &str| {
        let entries = fs::read_dir(scratch.path("killed").join(round).join("parts")).into_iter().flatten();
        let is_part = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
        entries.map(|entry| entry.unwrap().path()).filter(is_part).collect::<BTreeSet<_>>()
    };
    while parts("round-1").is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert!(!scratch.path("killed/tune.json").exists());
    let before: Vec<_> = parts("round-0").into_iter().chain(parts("round-1")).collect();
    let written = || before.iter().map(|part| fs::metadata(part).unwrap().modified().unwrap()).collect::<Vec<_>>();
    let times = written();
    tune(&scratch, 2, &words("killed", &long));
    assert_eq!(written(), times, "parts were run again");
    assert_eq!(bytes("one"), bytes("killed"));

    // Another tuning does not mix with this one, and a trace that changed between rounds is found.
    let other = |more: &[&str]| {
        let output = iocast().current_dir(scratch.folder.path()).args(words("killed", more)).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(other(&["--for", "mean_read", "--candidates", "26"]).contains("holds the tasks of another plan"));
    let tuned_on = names(&stored(&scratch, "killed")["tuned_on"]);
    let changed = fs::read_to_string(scratch.path(&tuned_on[0])).unwrap().replacen(",read,", ",write,", 1);
    fs::write(scratch.path(&tuned_on[0]), changed).unwrap();
    fs::remove_dir_all(scratch.path("killed/round-1")).unwrap();
    let error = other(&long);
    assert!(error.contains(&format!("{} has changed since an earlier round", tuned_on[0])), "{error}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let scratch = traces(&FOUR[..2], 1_200);
    let fails = |pacing: &'static str, more: &[&str], says: &str| {
        let more = [&["--tunables", "fifo_batch=1/4"][..], more].concat();
        let mut words = words("out", &more);
        words[5] = pacing;
        let output = iocast().current_dir(scratch.folder.path()).args(words).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(says), "{more:?}: {error}");
        fs::remove_dir_all(scratch.path("out")).unwrap();
    };
    // A disk does not serve a request per ms, a percentile needs requests, and a drive needs addresses.
    fails("recorded", &[], "use --pacing closed");
    fails("asap=32", &["--for", "p99_99_read"], "no window has requests enough for p99_99_read");
    fails("asap=32", &["--drive", "cheetah-9lp"], "the scheduler as given fails in it: ");
    // Writes have no figure here, so a limit on them cannot be judged.
    scratch.trace("reads.csv", (0..1_200).map(|at| (at * 1_000, "read", at * 7_919 % 50_000 * 8, 8, 900)));
    let mut reads =
        words("reads", &["--for", "mean_read", "--limit", "mean_write=+1%", "--tunables", "fifo_batch=1/4"]);
    reads[1] = "reads.csv";
    tune(&scratch, 2, &reads);
    let reads = stored(&scratch, "reads");
    assert_eq!(reads["limits"][0]["on_tuned"], Value::Null);
}

/// The notes that name this.
fn notes(tuning: &Value, of: &str) -> Vec<String> {
    let all = tuning["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
    all.filter(|note| note.contains(of)).collect()
}

#[test]
fn limits_are_noted_where_they_could_not_be_judged() {
    let scratch = traces(&FOUR[..2], 1_200);
    let place = |at: u64| at * 2_654_435_761 % 6_000_000 * 8;
    scratch.trace("reads.csv", (0..1_200).map(|at| (at * 1_000, "read", place(at), 8, 900)));
    let on = |out: &str, tuned_on: &[&str], held_out: &str, tunables: &str| {
        let more =
            ["--for", "mean_read", "--limit", "mean_write=+900%", "--hold-out", held_out, "--tunables", tunables];
        let mut words = words(out, &more);
        words.splice(1..2, tuned_on.iter().copied());
        (tune(&scratch, 2, &words), stored(&scratch, out))
    };
    let judged = "writes_starved=1/16,fifo_batch=1/4";
    let (said, held_out_reads) = on("held-out-reads", &FOUR[..2], "reads.csv", judged);
    let limit = &held_out_reads["limits"][0];
    assert!(limit["on_tuned"].is_f64() && limit["holds"].is_null(), "{limit}");
    let [note] = &notes(&held_out_reads, "mean_write")[..] else { panic!("{}", held_out_reads["notes"]) };
    assert!(
        note.starts_with("Whether the limit of mean_write holds on held-out traces could not be judged."),
        "{note}"
    );
    assert!(said.contains("not judged") && said.contains("holds on held-out traces could not be judged"), "{said}");
    let (tuned, page) = (scratch.str("held-out-reads/tune.json"), scratch.str("page.html"));
    iocast().args(["report", &tuned, "-o", &page]).assert().success();
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("not judged") && page.contains("holds on held-out traces could not be judged"));

    // Held-out traces without the goal still have the figure of the limit.
    scratch.trace("writes.csv", (0..1_200).map(|at| (at * 1_000, "write", place(at), 8, 900)));
    let (_, held_out_writes) = on("held-out-writes", &FOUR[..2], "writes.csv", judged);
    let limit = &held_out_writes["limits"][0];
    assert!(limit["on_held_out"].is_f64() && limit["holds"] == true, "{limit}");
    assert!(held_out_writes["on_held_out"].is_null() && notes(&held_out_writes, "mean_write").is_empty());
    assert_eq!(notes(&held_out_writes, "no window has requests enough for mean_read").len(), 1);
    // Only held-out traces have writes: the limit binds no choice, and is judged all the same.
    let (_, tuned_on_reads) = on("tuned-on-reads", &["reads.csv"], "a.csv", "read_expire=50ms/10s");
    let limit = &tuned_on_reads["limits"][0];
    assert!(limit["on_tuned"].is_null() && limit["holds"] == true, "{limit}");
    let in_no_round = "In round-0 the limit of mean_write could not be judged for the best of the changed candidates. No \
                       window there has the figure, from enough requests, of both it and the scheduler as given.";
    assert_eq!(notes(&tuned_on_reads, "mean_write"), [in_no_round]);
    // The same where nothing is better, and no word about held-out traces, which are not replayed.
    let (_, nothing) = on("nothing", &["reads.csv"], "b.csv", "prio_aging_expire=1s/2s");
    assert_eq!(nothing["verdict"], "nothing_better");
    assert_eq!(notes(&nothing, "mean_write"), [in_no_round]);
    let (_, judged) = on("judged", &["a.csv"], "b.csv", judged);
    assert!(judged["limits"][0]["holds"] == true && notes(&judged, "mean_write").is_empty(), "{}", judged["notes"]);
}

#[test]
fn errors_of_tasks_that_failed_are_noted() {
    let scratch = traces(&FOUR[..2], 1_200);
    // Behind the end of the disk.
    scratch.trace("far.csv", (0..1_200).map(|at| (at * 1_000, "read", (1 << 40) + at * 8, 8, 900)));
    let mut words = words("out", &["--for", "mean_read", "--tunables", "fifo_batch=1/4", "--hold-out", "b.csv"]);
    words.splice(1..2, ["a.csv", "far.csv"]);
    let said = tune(&scratch, 2, &words);
    let out = stored(&scratch, "out");
    // Three candidates on two traces; then the best and the scheduler as given on one.
    assert_eq!(out["rounds"][0]["failed_tasks"], 3);
    let [note] = &notes(&out, "failed")[..] else { panic!("{}", out["notes"]) };
    assert!(note.starts_with("3 of 8 tasks failed: far.csv"), "{note}");
    assert!(said.contains("3 of 8 tasks failed: far.csv"), "{said}");
}

#[test]
fn a_trace_without_a_span_is_not_split_in_time() {
    let scratch = traces(&FOUR[..2], 1_200);
    let burst = |at: u64| (5, "read", at * 2_654_435_761 % 6_000_000 * 8, 8, 900);
    for (name, requests, says) in [
        ("burst.csv", 1_200, "burst.csv: all 1200 requests arrive within 3 ns"),
        ("one.csv", 1, "one.csv: it has one request only"),
        ("none.csv", 0, "none.csv: it has no requests"),
    ] {
        scratch.trace(name, (0..requests).map(burst));
        let mut words = words("out", &["--for", "mean_read", "--tunables", "fifo_batch=1/4"]);
        words[1] = name;
        let output = iocast().current_dir(scratch.folder.path()).args(words).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(says), "{name}: {error}");
        assert!(error.contains("--hold-out") && !scratch.path("out").exists(), "{error}");
    }
    // Beside others it is replayed as a whole.
    let mut several = words("several", &["--for", "mean_read", "--tunables", "fifo_batch=1/4", "--hold-out", "a.csv"]);
    several[1] = "burst.csv";
    tune(&scratch, 2, &several);
    assert_eq!(stored(&scratch, "several")["rounds"][0]["windows"], 1);
}

#[test]
fn questions_that_make_no_sense_are_refused_with_a_remedy() {
    let scratch = traces(&["a.csv"], 50);
    let path = scratch.str("a.csv");
    let out = scratch.str("out");
    for (more, says) in [
        (&["--scheduler", "fifo"][..], "`fifo` has no tunables"),
        (&["--scheduler", "mq-deadline", "--for", "p99_reads"], "did you mean p99_read"),
        (&["--scheduler", "mq-deadline", "--limit", "throughput=+2%"], "write throughput=-2%"),
        (&["--scheduler", "mq-deadline", "--limit", "throughput"], "FIGURE=CHANGE"),
        (&["--scheduler", "mq-deadline", "--limit", "p99_read=+2%"], "so it needs no limit"),
        (&["--scheduler", "mq-deadline", "--limit", "p50_all=0%", "--limit", "p50_all=1%"], "another limit on p50_all"),
        (&["--scheduler", "mq-deadline", "--candidates", "1"], "2..=10000"),
        (&["--scheduler", "mq-deadline", "--tunables", "fifo_batch=16"], "the only candidate is mq-deadline"),
        (&["--scheduler", "mq-deadline", "--tunables", "fifo_bach"], "did you mean fifo_batch"),
        (&["--scheduler", "mq-deadline", "--tunables", "tick=2s"], "is not from 1ns to 1s"),
        (&["--scheduler", "mq-deadline", "--drive", "cheeta"], "unknown drive"),
        (&["--scheduler", "mq-deadline", "--pacing", "close"], "did you mean closed?"),
        (&["--scheduler", "mq-deadline", "--hold-out", &path], "leaves no trace to tune on"),
        (&["--scheduler", "mq-deadline", "--hold-out", "none*.csv"], "no trace fits `none*.csv`"),
        (&["--scheduler", "mq-deadline", "--engine", "spark"], "--master"),
    ] {
        let (code, error) = failure(&[&["tune", &path, "--out", &out][..], more].concat());
        assert_eq!(code, 2, "{more:?}: {error}");
        assert!(error.contains(says), "{more:?}: {error}");
        assert!(!scratch.path("out").exists());
    }
    let (code, error) = failure(&["tune", "none*.csv", "--scheduler", "bfq", "--out", &out]);
    assert!(code == 2 && error.contains("no trace fits `none*.csv`"), "{error}");
    // Spark is asked for by the same way as for a sweep.
    let mut spark = iocast();
    spark.args(["tune", &path, "--scheduler", "mq-deadline", "--tunables", "fifo_batch=1/4", "--out", &out]);
    let spark =
        spark.args(["--engine", "spark", "--master", "local[1]"]).env("PATH", "/nowhere").env_remove("SPARK_HOME");
    let error = String::from_utf8(spark.output().unwrap().stderr).unwrap();
    assert!(error.contains("tune cannot begin") && error.contains("spark-submit"), "{error}");
    let (code, error) = failure(&["tune", &scratch.str("disk"), "--scheduler", "bfq", "--out", &out]);
    assert!(code == 1 && error.contains("disk"), "{error}");
}
