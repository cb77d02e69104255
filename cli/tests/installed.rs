//! The program where it is installed: `make install` into an empty prefix, then each subcommand once, in an empty folder
//! of a mount namespace in which the checkout is hidden. Needs root, tracefs, fio and the programs of the lab.
//!
//! `make test-dist` has packages installed in a Debian root, which `IOCAST_ROOT` names, below the prefix `IOCAST_PREFIX`.
//! Each subcommand then runs in that root.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod guest_folder;
mod live;
mod wire;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use live::{Loop, errors, fio};

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn make(rule: &str, variables: &[(&str, &Path)]) {
    let variables = variables.iter().map(|(name, value)| format!("{name}={}", value.display()));
    let output = Command::new("make").arg(rule).args(variables).current_dir(checkout()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
}

fn built() -> PathBuf {
    live::iocast().get_program().into()
}

/// The files below a folder, relative to it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => _ = found.insert(path.strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found
}

/// An installed program, and an empty folder to run it in.
struct Installed {
    /// The root of the system that it is installed in: this one's, or a folder.
    root: PathBuf,
    /// Below the root.
    prefix: PathBuf,
    folder: tempfile::TempDir,
    /// What is removed at the end: the prefix, unless it was given.
    _made: Option<tempfile::TempDir>,
    /// The subcommands that have run.
    ran: BTreeSet<String>,
}

impl Installed {
    fn new() -> Installed {
        let ran = BTreeSet::new();
        if let Some(root) = env::var_os("IOCAST_ROOT").map(PathBuf::from) {
            let prefix = env::var_os("IOCAST_PREFIX").expect("IOCAST_ROOT needs IOCAST_PREFIX").into();
            let folder = tempfile::tempdir_in(root.join("tmp")).unwrap();
            return Installed { root, prefix, folder, _made: None, ran };
        }
        let (made, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make("install", &[("PREFIX", made.path()), ("IOCAST", &built())]);
        Installed { root: "/".into(), prefix: made.path().to_owned(), folder, _made: Some(made), ran }
    }

    /// A path below the root, as this test sees it.
    fn seen(&self, path: &str) -> PathBuf {
        self.root.join(self.prefix.join(path).strip_prefix("/").unwrap())
    }

    /// A command of the installed program, with a plain environment and without the checkout.
    fn command(&mut self, subcommand: &str, arguments: &[&str]) -> Command {
        self.ran.insert(subcommand.replace('-', " "));
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        match self.root == Path::new("/") {
            true => command.arg(r#"mount -t tmpfs none "$0" && exec "$@""#).arg(checkout()),
            false => command.arg(IN_ROOT).arg(&self.root),
        };
        let folder = Path::new("/").join(self.folder.path().strip_prefix(&self.root).unwrap());
        command.arg("env").arg("--chdir").arg(&folder).arg(self.prefix.join("bin/iocast"));
        command.args(subcommand.split(' ')).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", folder);
        command
    }

    /// Whether it can load the schedulers of shared libraries: a static program cannot.
    fn loads_libraries(&self) -> bool {
        let program = live::run("readelf", &["--program-headers", self.seen("bin/iocast").to_str().unwrap()]);
        program.contains("INTERP")
    }

    /// Runs a subcommand, which must succeed and write `outputs`. Returns what it printed.
    fn runs(&mut self, subcommand: &str, arguments: &[&str], outputs: &[&str]) -> String {
        let output = self.command(subcommand, arguments).output().unwrap();
        assert!(output.status.success(), "{subcommand} {arguments:?}: {}", errors(&output));
        for name in outputs {
            let metadata = fs::metadata(self.folder.path().join(name));
            assert!(metadata.is_ok_and(|metadata| metadata.len() > 0), "{subcommand}: there is no {name}");
        }
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.is_empty() || !outputs.is_empty(), "{subcommand} {arguments:?} did nothing");
        printed
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }
}

/// Enters a root with the devices and file systems of this host's kernel. The root is a mount, as labs need it to be.
const IN_ROOT: &str = r#"mount --bind "$0" "$0" || exit
for at in dev proc sys; do mount --rbind "/$at" "$0/$at" || exit; done
exec chroot "$0" "$@""#;

/// A subcommand that does something by itself although it has subcommands.
const ALSO_ALONE: &str = "iocast-calibrate";

/// The subcommands that do something, from the names of the installed manual pages.
fn subcommands(prefix: &Path) -> BTreeSet<String> {
    let pages = files(&prefix.join("share/man/man1"));
    let name = |page: &PathBuf| page.display().to_string().trim_end_matches(".gz").trim_end_matches(".1").to_owned();
    let names: Vec<String> = pages.iter().map(name).filter(|name| name.starts_with("iocast")).collect();
    let is_leaf =
        |name: &&String| *name == ALSO_ALONE || !names.iter().any(|other| other.starts_with(&format!("{name}-")));
    names.iter().filter(is_leaf).map(|name| name["iocast-".len()..].replace('-', " ")).collect()
}

/// Two VMs on two drives.
const PLACEMENT: &str = r#"
end = "5s"
[[lun]]
name = "one"
drive = "cheetah-15k4"
[[lun]]
name = "two"
drive = "cheetah-15k4"
[[vm]]
name = "mail"
capture = "mail.parquet"
[[vm]]
name = "web"
capture = "web.parquet"
"#;
/// Two VMs, alone and together, as briefly as a busy host allows: emulated guests start their load seconds late.
const LAB: &str = r#"
seconds = 12
warm_up_seconds = 1
together = "all"
[lun]
drive = "nvme-ssd"
size = "1g"
[guest]
accelerator = "tcg"
[[vm]]
name = "mail"
workload = "small.fio"
disk = "virtio"
size = "64m"
[[vm]]
name = "web"
workload = "small.fio"
disk = "virtio"
size = "64m"
"#;
const JOB: &str = "[global]\nioengine=psync\ndirectory=.\ntime_based=1\nruntime=${RUNTIME}\nrandseed=${SEED}\nsize=8m\n\
    [read]\nrw=randread\ndirect=1\nbs=4k\nthinktime=2000\n";

fn forecasts_and_traces(installed: &mut Installed) {
    installed.runs("stat", &["web.parquet"], &[]);
    installed.runs("convert", &["web.parquet", "web.csv"], &["web.csv"]);
    installed.runs("compare", &["mail.parquet", "--drive", "cheetah-15k4", "--end", "5s", "-o", "mail"], &["mail.svg"]);
    installed.runs(
        "compare",
        &["--workload", "kim2015-dd", "--drive", "sata-500", "--end", "1s", "--schedulers", "fifo"],
        &[],
    );
    let compare = ["mail.parquet", "--end", "5s", "--history", "--output-format", "json"];
    let stored = installed.runs("compare", &compare, &[]);
    installed.write("stored.json", &stored);
    installed.runs("report", &["stored.json", "-o", "stored.html"], &["stored.html"]);
    let result = r#"{"schema_version": 1, "runs": [{"scheduler": {"name": "none"}, "iops": 99.0}]}"#;
    installed.write("before.json", result);
    installed.write("after.json", &result.replace("99", "100"));
    installed.runs("diff", &["before.json", "after.json", "--threshold", "2%"], &[]);
    installed.runs("predict", &["mail.parquet", "web.parquet", "--predictors", "casale"], &[]);
    installed.write("placement.toml", PLACEMENT);
    installed.runs("place", &["placement.toml"], &[]);
    installed.write(
        "sweep.toml",
        "traces = ['*.parquet']\nschedulers = ['fifo']\ndrives = ['cheetah-15k4']\nwindows = [{ end = '5s' }]\n",
    );
    installed.runs("sweep", &["sweep.toml", "--out", "sweep"], &["sweep/results.parquet"]);
    let search =
        ["--scheduler", "mq-deadline", "--tunables", "fifo_batch=1/4", "--for", "mean_read", "--pacing", "closed"];
    installed.runs("tune", &[&["mail.parquet", "--out", "tune"][..], &search].concat(), &["tune/tune.json"]);
    // Without tasks on standard input, its results are a stream of none.
    let answered = installed.command("worker", &[]).output().unwrap();
    assert!(answered.status.success() && !answered.stdout.is_empty(), "{}", errors(&answered));
    let calibration = ["--drive", "cheetah-15k5", "--reads", "400", "--models", "fixed", "-o", "fit"];
    installed.runs("calibrate", &calibration, &["fit-fixed.toml", "fit.svg"]);
    // Ten threads that read, ten that write, and both: 2 ms a read, 3 ms a write.
    for (name, [reads, writes]) in [("r", [500.0, 0.0]), ("w", [0.0, 333.0]), ("m", [200.0, 200.0])] {
        let operation = |iops: f64| match iops {
            0.0 => "{}".to_owned(),
            iops => format!("{{\"requests\": 1000, \"iops\": {iops}, \"response_ns\": {}}}", 10e9 / iops),
        };
        let (reads, writes) = (operation(reads), operation(writes));
        installed.write(
            &format!("{name}.json"),
            &format!("{{\"vm\": \"{name}\", \"reads\": {reads}, \"writes\": {writes}}}"),
        );
    }
    let captures = ["10/0=r.json", "0/10=w.json", "10/10=m.json", "-o", "storage"];
    installed.runs("calibrate qpn", &captures, &["storage-qpn.txt"]);
    let net = installed.prefix.join("share/doc/iocast/docs/examples/noorshams2014.toml");
    installed.runs("predict", &["--solve", net.to_str().unwrap(), "--draw", "net.svg"], &["net.svg"]);
    installed.runs("validate closed", &["web.parquet", "--drive", "cheetah-15k4"], &[]);
    let one_at_a_time = (0u64..300).map(|index| {
        let (at, lba) = (index * 20_000_000, index * 4096);
        format!("{at},read,{lba},8,,0,0,0,0,,{at},{},0\n", at + 9_000_000)
    });
    let header = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                  completed_ns,error\n";
    installed.write("measured.csv", &format!("{header}{}", one_at_a_time.collect::<String>()));
    installed.runs("validate scheduler", &["cats", "--sequences", "20"], &[]);
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel/linux-source-6.12");
    assert!(tree.is_dir(), "{} is not there; `make kernel-trees` unpacks it", tree.display());
    let copied = Command::new("cp").arg("-r").arg(&tree).arg(installed.folder.path().join("linux")).status();
    assert!(copied.unwrap().success());
    let source = "linux/block/mq-deadline.c";
    installed.runs("kernel-scheduler build", &[source, "--output", "mq.so"], &["mq.so"]);
    let elevator = ["web.parquet", "--end", "5s", "--schedulers", "kernel:./mq.so"];
    if installed.loads_libraries() {
        installed.runs("compare", &elevator, &[]);
    } else {
        let refused = installed.command("compare", &elevator).output().unwrap();
        assert!(
            errors(&refused).contains("./mq.so cannot be used: this iocast is linked statically"),
            "{}",
            errors(&refused)
        );
        assert_eq!(refused.status.code(), Some(2));
    }
    let project = ["mine", "--traces", "web.parquet", "--end", "5s"];
    installed.runs("bench init", &project, &["mine/Cargo.toml", "mine/scenarios/web.toml", "mine/traces/web.parquet"]);
    installed.runs("validate drive", &["cheetah-9lp", "measured.csv"], &[]);
    installed.runs(
        "reproduce",
        &["casale2011", "--seeds", "1", "--alternatives", "off", "-o", "casale"],
        &["casale.json", "casale.md"],
    );
    for what in ["schedulers", "drives", "formats", "stacks", "predictors", "papers", "workloads"] {
        installed.runs("list", &[what], &[]);
    }
}

fn about_itself(installed: &mut Installed) {
    assert!(installed.runs("doctor", &[], &[]).contains("qemu-system-x86_64"));
    assert!(installed.runs("completions", &["bash"], &[]).contains("COMPREPLY"));
    assert!(installed.runs("man", &["capture", "block"], &[]).contains(".TH iocast-capture-block 1"));
    // In packages it is compressed. zcat -f takes both.
    let page = installed.seen("share/man/man1/iocast-capture-block.1");
    let page = if page.exists() { page } else { page.with_extension("1.gz") };
    assert_eq!(installed.runs("man", &["capture", "block"], &[]), live::run("zcat", &["-f", page.to_str().unwrap()]));
}

fn wire(installed: &mut Installed) {
    wire::capture(&installed.folder.path().join("san.pcap"));
    installed.runs("capture iscsi", &["--read", "san.pcap", "-o", "san.parquet"], &["san.parquet"]);
    installed.runs("capture scrub", &["san.pcap", "clean.pcap"], &["clean.pcap"]);
    installed.runs("capture recover", &["san.parquet"], &[]);
    installed.runs("capture cleanup", &[], &[]);
}

/// Starts `iocast serve` and returns it when it serves.
fn served(installed: &mut Installed) -> Child {
    let arguments = ["--drive", "nvme-ssd", "--image", "memory:16m", "--listen", "unix:lun", "--log", "lun.parquet"];
    let mut command = installed.command("serve", &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("serving nbd")), "the server has ended");
    child
}

fn devices(installed: &mut Installed) {
    let server = served(installed);
    let uri = format!("nbd+unix:///?socket={}", installed.folder.path().join("lun").display());
    live::run("nbdinfo", &["--size", &uri]);
    live::run("kill", &[&server.id().to_string()]);
    let ended: Output = server.wait_with_output().unwrap();
    assert!(ended.status.success() && String::from_utf8_lossy(&ended.stdout).contains("lateness"));
    let device = Loop::new(64);
    // Four tags, so that requests wait in the scheduler.
    for (setting, value) in [("scheduler", "none"), ("nr_requests", "4"), ("scheduler", "mq-deadline")] {
        device.set(setting, value);
    }
    installed.runs("replay", &["web.parquet", "--device", device.str(), "--map", "remap", "--end", "1s"], &[]);
    let mut load = fio(&device, 30, &["--iodepth=64"]).spawn().unwrap();
    installed.runs("capture block", &[device.str(), "-w", "1", "-o", "block.parquet"], &["block.parquet"]);
    installed.runs("capture decisions", &[device.str(), "-w", "2", "-o", "decisions"], &["decisions.queue.json"]);
    live::run("kill", &[&load.id().to_string()]);
    load.wait().unwrap();
    installed.runs("validate decisions", &["decisions", "--scheduler", "mq-deadline"], &[]);
    installed.write("lab.toml", LAB);
    installed.write("small.fio", JOB);
    installed.runs("capture lab", &["lab.toml", "-o", "lab"], &["lab/lab.json"]);
    installed.runs("validate cross", &["--synthetic", "--vms", "1"], &[]);
    installed.runs("validate consolidation", &["lab", "--predictors", "casale"], &[]);
    guest_folder::folder(&installed.folder.path().join("guests"));
    installed.runs("validate guest", &["guests"], &[]);
}

#[test]
fn every_subcommand_works_without_the_checkout() {
    let mut installed = Installed::new();
    let samples = installed.seen("share/doc/iocast/traces/samples");
    for sample in ["mail.parquet", "web.parquet"] {
        fs::copy(samples.join(sample), installed.folder.path().join(sample)).unwrap();
    }
    forecasts_and_traces(&mut installed);
    about_itself(&mut installed);
    wire(&mut installed);
    devices(&mut installed);
    assert_eq!(installed.ran, subcommands(&installed.seen("")));
}

#[test]
fn make_install_stages_below_destdir_and_uninstall_removes_all_of_it() {
    let stage = tempfile::tempdir().unwrap();
    let neighbour = stage.path().join("opt/x/share/man/man1/other.1");
    fs::create_dir_all(neighbour.parent().unwrap()).unwrap();
    fs::write(&neighbour, "another program's").unwrap();
    let built = built();
    let variables = [("DESTDIR", stage.path()), ("PREFIX", Path::new("/opt/x")), ("IOCAST", built.as_path())];
    make("install", &variables);
    let found = files(&stage.path().join("opt/x"));
    for name in [
        "bin/iocast",
        "share/man/man1/iocast.1",
        "share/man/man1/iocast-capture-lab.1",
        "share/bash-completion/completions/iocast",
        "share/zsh/site-functions/_iocast",
        "share/fish/vendor_completions.d/iocast.fish",
        "include/iocast_scheduler.h",
        "share/doc/iocast/README.md",
        "share/doc/iocast/docs/serve.md",
        "share/doc/iocast/traces/samples/mail.parquet",
    ] {
        assert!(found.contains(Path::new(name)), "{name} is missing");
    }
    let mode = fs::metadata(stage.path().join("opt/x/bin/iocast")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let syntax = |shell: &str, script: &str| {
        live::run(shell, &["-n", stage.path().join("opt/x").join(script).to_str().unwrap()]);
    };
    syntax("bash", "share/bash-completion/completions/iocast");
    make("uninstall", &variables);
    assert_eq!(files(stage.path()), BTreeSet::from([PathBuf::from("opt/x/share/man/man1/other.1")]));
}
