//! Plans, folders and engines that are refused.

use std::fs;

use crate::plan::{Plan, SMALL};
use crate::program::iocast;

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
    assert!(!plan.scratch.path("out").exists() && !named.scratch.path("out").exists());
}
