//! What stands in the rows of results.

use std::fs;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;

use crate::plan::{Plan, SMALL, real, text, whole};
use crate::program::{iocast, json};

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
fn notes_name_traces_as_the_plan_does() {
    let plan = Plan::new("traces = ['web.parquet']\nschedulers = ['none']\ndrives = ['sata-ssd']\npacing = 'closed'\n");
    plan.sweep("out", 1, &[]);
    let notes = text(&plan.table("out"), "notes", 0).unwrap();
    assert!(notes.lines().any(|note| note.starts_with("web.parquet: the first of its processes")), "{notes}");
    assert!(!notes.contains('/'), "a folder of this host: {notes}");
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
        said.contains("of 4 traces 1 is not paired") && said.contains("2 of 3 pairs are drawn, with seed 1"),
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
