//! Sweeps that were killed, that several processes run, or whose files change meanwhile.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use crate::parquet_table::table;
use crate::plan::{LONG, Plan, SMALL, errors, spawn, tasks, text, worker};
use crate::program::{failure, iocast, sample};

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
fn profiles_may_have_the_names_of_partitions_but_not_what_separates_settings() {
    let plan = Plan::new(&SMALL.replace("['cheetah-15k4']", "['raid:member=host=x/my.toml,members=3', 'my=a.toml']"));
    fs::create_dir(plan.scratch.path("host=x")).unwrap();
    profile(&plan, "atlas-10k");
    fs::copy(plan.scratch.path("my.toml"), plan.scratch.path("host=x/my.toml")).unwrap();
    fs::rename(plan.scratch.path("my.toml"), plan.scratch.path("my=a.toml")).unwrap();
    plan.sweep("out", 2, &[]);
    let table = plan.table("out");
    assert!((0..table.num_rows()).all(|row| text(&table, "error", row).is_none()));
    // The checksum is of these files.
    fs::write(plan.scratch.path("host=x/my.toml"), "damaged").unwrap();
    assert!(errors(&worker(&tasks(&plan, "out"))).iter().flatten().count() > 0);

    let folder = plan.scratch.path("a:b");
    fs::create_dir(&folder).unwrap();
    for name in ["plan.toml", "mail.parquet"] {
        fs::copy(plan.scratch.path(name), folder.join(name)).unwrap();
    }
    let (code, error) = failure(&["sweep", &plan.scratch.str("a:b/plan.toml"), "--out", &plan.scratch.str("c")]);
    assert!(code == 2 && error.contains("rename the folder"), "{error}");
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
