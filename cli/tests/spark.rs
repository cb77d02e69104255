//! `iocast sweep --engine spark` on a cluster of one master and two workers on 127.0.0.1, of which one is killed. Run by
//! name (`make test-spark`), with the Python of its environment in IOCAST_SPARK_PYTHON.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use program::{iocast, sample};
use tempfile::TempDir;

/// Memory of each worker of the cluster, and of its executor.
const WORKER_MEMORY: &str = "700m";
const EXECUTOR_MEMORY: &str = "600m";
/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Some 80 tasks in as many partitions as a sweep of that size has.
const PLAN: &str = "traces = ['*.parquet']
schedulers = ['fifo', 'cscan', 'cats', { name = 'deadline', fifo_batch = { from = 1, to = 17, step = 1 } }]
stacks = ['host.toml']
drives = ['cheetah-15k4']
pacing = 'closed'
map = 'remap'
windows = [{ end = '30s' }]
[pairs]
";

/// A process that is killed with what it began.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        kill_all(&descendants(self.0.id()));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill_all(processes: &[u32]) {
    let words: Vec<String> = processes.iter().map(u32::to_string).collect();
    if !words.is_empty() {
        let _ = Command::new("kill").arg("-KILL").args(words).stderr(Stdio::null()).status();
    }
}

/// The processes that a process has begun, and those that they have begun.
fn descendants(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let own: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect();
    own.iter().flat_map(|child| [vec![*child], descendants(*child)].concat()).collect()
}

/// Whether a task of the sweep runs below the process.
fn runs_task(process: u32) -> bool {
    let is_worker = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"worker")
    };
    descendants(process).iter().any(is_worker)
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        sleep(Duration::from_millis(50));
    }
}

/// A master and two workers.
struct Cluster {
    folder: TempDir,
    python: PathBuf,
    home: PathBuf,
    url: String,
    workers: Vec<Process>,
    _master: Process,
}

impl Cluster {
    fn new() -> Cluster {
        let python = PathBuf::from(std::env::var_os("IOCAST_SPARK_PYTHON").expect("run `make test-spark`"));
        let output = Command::new(&python).args(["-c", "import pyspark; print(pyspark.__path__[0])"]).output().unwrap();
        let home = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let master =
            class(&home, folder.path(), "master.Master", &["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]);
        let url = wait_for("the master's start", || {
            let log = fs::read_to_string(folder.path().join("master.Master.log")).unwrap();
            let at = log.find("spark://127.0.0.1:")?;
            Some(log[at..].split_whitespace().next()?.to_owned())
        });
        let worker = |name: &str| {
            let work = folder.path().join(name);
            fs::create_dir(&work).unwrap();
            let work = work.to_str().unwrap().to_owned();
            let options = ["--host", "127.0.0.1", "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0"];
            class(&home, Path::new(&work), "worker.Worker", &[&options[..], &["--work-dir", &work, &url]].concat())
        };
        let workers: Vec<Process> = ["one", "two"].into_iter().map(worker).collect();
        for name in ["one", "two"] {
            let log = folder.path().join(name).join("worker.Worker.log");
            wait_for("a worker's registration", || {
                fs::read_to_string(&log).unwrap().contains("Successfully registered").then_some(())
            });
        }
        Cluster { folder, python, home, url, workers, _master: master }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Begins a sweep on the cluster.
    fn sweep(&self, out: &str, more: &[&str]) -> Process {
        let log = File::create(self.path(&format!("{out}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_iocast"));
        command.args(["sweep", &self.path("plan.toml"), "--out", &self.path(out)]);
        command.args(["--engine", "spark", "--master", &self.url, "--output-format", "json"]).args(more);
        for conf in [
            &format!("spark.executor.memory={EXECUTOR_MEMORY}"),
            "spark.executor.cores=1",
            "spark.driver.memory=600m",
            "spark.driver.host=127.0.0.1",
            "spark.ui.enabled=false",
        ] {
            command.args(["--spark-conf", conf]);
        }
        command.env("SPARK_HOME", &self.home).env("PYSPARK_PYTHON", &self.python).env("SPARK_LOCAL_IP", "127.0.0.1");
        let summary = File::create(self.path(&format!("{out}.json"))).unwrap();
        Process(command.stdin(Stdio::null()).stdout(summary).stderr(log).spawn().unwrap())
    }

    fn results(&self, out: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(out).join("results.parquet")).unwrap()
    }

    fn log(&self, out: &str) -> String {
        fs::read_to_string(self.path(&format!("{out}.log"))).unwrap()
    }
}

/// Starts a class of Spark's own, whose log goes to `folder`.
fn class(home: &Path, folder: &Path, name: &str, options: &[&str]) -> Process {
    let log = File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(home.join("bin/spark-class"));
    command.arg(format!("org.apache.spark.deploy.{name}")).args(options);
    command.env("SPARK_LOCAL_IP", "127.0.0.1").env("SPARK_DAEMON_MEMORY", "256m").env("SPARK_HOME", home);
    Process(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
}

#[test]
fn spark_gives_the_bytes_of_the_local_sweep_though_a_worker_is_killed() {
    let mut cluster = Cluster::new();
    for name in ["mail", "web"] {
        fs::copy(sample(&format!("{name}.parquet")), cluster.path(&format!("{name}.parquet"))).unwrap();
    }
    // A task that fails by its input is a row there, too.
    fs::write(cluster.path("none.parquet"), "PAR1 and no more").unwrap();
    fs::write(cluster.path("plan.toml"), PLAN).unwrap();
    fs::write(cluster.path("host.toml"), "[[layer]]\nname = 'host'\nscheduler = 'fifo'\n").unwrap();
    iocast().args(["sweep", &cluster.path("plan.toml"), "--out", &cluster.path("local")]).assert().success();
    let local = cluster.results("local");

    let mut whole = cluster.sweep("whole", &[]);
    let status = whole.0.wait().unwrap();
    assert!(status.success(), "{}", cluster.log("whole"));
    assert!(!cluster.log("whole").contains("Lost executor"));
    assert!(local == cluster.results("whole"), "the results of Spark differ from those of the local sweep");
    let parts = fs::read_dir(cluster.path("whole/spark")).unwrap().flatten();
    let parts = parts.filter(|part| part.path().extension().is_some_and(|ending| ending == "parquet")).count();
    assert!(parts > 20, "{parts} partitions");

    let mut faulty = cluster.sweep("faulty", &[]);
    let worker = cluster.workers.pop().unwrap();
    // Some results are there, and a task is in flight on the worker that is killed.
    wait_for("a finished task", || cluster.log("faulty").contains("Finished task 5").then_some(()));
    wait_for("a task in flight", || runs_task(worker.0.id()).then_some(()));
    assert!(faulty.0.try_wait().unwrap().is_none(), "it ended before the worker could be killed");
    // The executor is a child of the worker; both are gone before either can tell.
    drop(worker);
    let status = faulty.0.wait().unwrap();
    let log = cluster.log("faulty");
    assert!(status.success(), "{log}");
    assert!(log.contains("Lost executor"), "{log}");
    let is_repeated = |line: &str| line.contains("Starting task") && line.contains(".1 in stage");
    assert!(log.lines().any(is_repeated), "no task was in flight: {log}");
    assert!(local == cluster.results("faulty"), "the results differ after a worker was killed");
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(cluster.path("faulty.json")).unwrap()).unwrap();
    assert_eq!((&summary["tasks"], &summary["failed"]), (&126.into(), &63.into()));

    // The plan's folder has the names of the traces, and a store their content, and the stack.
    fs::create_dir(cluster.path("store")).unwrap();
    fs::copy(cluster.path("host.toml"), cluster.path("store/host.toml")).unwrap();
    for name in ["mail.parquet", "web.parquet", "none.parquet"] {
        fs::rename(cluster.path(name), cluster.path(&format!("store/{name}"))).unwrap();
        File::create(cluster.path(name)).unwrap();
    }
    let store = format!("file://{}", cluster.path("store"));
    let status = cluster.sweep("stored", &["--traces-at", &store]).0.wait().unwrap();
    assert!(status.success(), "{}", cluster.log("stored"));
    assert!(local == cluster.results("stored"), "the results of a store's traces differ");
}
