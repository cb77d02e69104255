//! Helpers for tests of live captures: devices, loads, captures in the background.
#![allow(dead_code)] // Each test program uses a part.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use traces::formats;
use traces::trace::ReadOptions;
use traces::{Losses, Record, TraceMeta};

pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Fails with the name of the package if a program is missing.
pub fn need(program: &str, package: &str) {
    let found = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    assert!(found, "{program} is not installed: apt install {package}");
}

/// Runs a program to its end, which must be successful. Returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A loop device over a file in memory.
pub struct Loop {
    pub path: PathBuf,
    pub folder: tempfile::TempDir,
}

impl Loop {
    pub fn new(mib: u64) -> Loop {
        assert!(is_root(), "these tests need root (loop devices, tracefs)");
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let path = run("losetup", &["-f", "--show", image.to_str().unwrap()]);
        Loop { path: path.trim().into(), folder }
    }

    pub fn name(&self) -> String {
        self.path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    pub fn str(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub fn set(&self, setting: &str, value: &str) {
        fs::write(format!("/sys/block/{}/queue/{setting}", self.name()), value).unwrap();
    }

    pub fn detach(&self) {
        // Manually added partitions outlive the file behind the device.
        for number in ["1", "2"] {
            let _ = Command::new("delpart").arg(&self.path).arg(number).stderr(Stdio::null()).status();
        }
        // A loop device keeps this for whoever gets it next.
        let _ = Command::new("blockdev").arg("--setrw").arg(&self.path).stderr(Stdio::null()).status();
        let _ = Command::new("losetup").arg("-d").arg(&self.path).stderr(Stdio::null()).status();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.detach();
    }
}

fn is_root() -> bool {
    run("id", &["-u"]).trim() == "0"
}

/// The program, as built for the tests.
pub fn iocast() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("iocast"))
}

/// Runs `iocast` to its end.
pub fn ran(arguments: &[&str]) -> Output {
    iocast().args(arguments).output().unwrap()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A capture in the background that has begun.
pub struct Running {
    child: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Left by a failed test; the supervisor cleans up.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    pub fn begin(arguments: &[&str]) -> Running {
        let mut child = iocast().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let from = Instant::now();
        // Wait for an instance with its events switched on. Those of other tests come and go meanwhile.
        while !instances().iter().any(|path| is_of(path, child.id()) && is_on(path)) {
            if let Some(status) = child.try_wait().unwrap() {
                let output = child.wait_with_output().unwrap();
                panic!("the capture ended with {status}: {}", errors(&output));
            }
            assert!(from.elapsed() < Duration::from_secs(20), "the capture does not begin");
            thread::sleep(Duration::from_millis(10));
        }
        Running { child: Some(child) }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: &str) {
        run("kill", &[&format!("-{signal}"), &self.pid().to_string()]);
    }

    /// Waits for its end. Returns its output.
    pub fn wait(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    /// Interrupts it. Returns its output.
    pub fn interrupt(self) -> Output {
        self.signal("INT");
        self.wait()
    }
}

/// The trace instances of iocast.
pub fn instances() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(TRACEFS).join("instances")).expect("tracefs is mounted and accessible");
    let ours = entries.flatten().map(|entry| entry.path());
    ours.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("iocast-")).collect()
}

pub fn is_of(instance: &Path, pid: u32) -> bool {
    instance.file_name().unwrap().to_string_lossy().starts_with(&format!("iocast-{pid}."))
}

/// Whether the events and then the instance were switched on; a new instance starts as on.
fn is_on(instance: &Path) -> bool {
    let on = |name: &str| fs::read_to_string(instance.join(name)).is_ok_and(|text| text.trim() == "1");
    on("events/block/block_rq_complete/enable") && on("tracing_on")
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// fio on a device: random reads and writes of 4 KiB that bypass the page cache.
pub fn fio(device: &Loop, seconds: u32, more: &[&str]) -> Command {
    need("fio", "fio");
    let mut command = Command::new("fio");
    let seconds = format!("--runtime={seconds}");
    command.args(["--name=load", "--filename", device.str(), "--direct=1", "--rw=randrw", "--bs=4k", &seconds]);
    command.args(["--time_based", "--ioengine=libaio", "--iodepth=16", "--output-format=terse"]);
    command.args(more).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// All records of a trace, its losses and metadata.
pub fn read(path: &Path, device: Option<&str>) -> (Vec<Record>, Losses, TraceMeta) {
    let device = device.map(str::to_owned);
    let options = ReadOptions { lenient: true, device, ..ReadOptions::default() };
    let mut reader = formats::open(path, &options).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    (records, reader.losses().clone(), reader.meta().clone())
}
