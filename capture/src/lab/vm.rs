//! One QEMU guest: how it is started, what it says, what it leaves.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::LabError;
use super::image::GuestImage;
use super::plan::Accelerator;
use super::process::{POLL_INTERVAL, Process, run};

/// What runs inside.
const GUEST_SCRIPT: &str = include_str!("../../lab/run.sh");
/// The disk that brings the job in and the results out, in bytes; sparse.
const CARRIER_DISK_BYTES: u64 = 1 << 30;
/// How long a guest may take to end once it has said that it is done.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(60);

/// What a guest is started with.
#[derive(Clone, Debug)]
pub struct VmStart<'a> {
    /// What it boots.
    pub image: &'a GuestImage,
    /// What runs its instructions.
    pub accelerator: Accelerator,
    /// Memory in bytes.
    pub memory: u64,
    /// Its name.
    pub name: &'a str,
    /// QEMU's arguments for the disk under test, and a network card if it needs one.
    pub devices: Vec<String>,
    /// What the script inside is told, as `NAME=VALUE`.
    pub settings: Vec<(&'static str, String)>,
    /// The fio job, or FileBench's personality.
    pub job: &'a str,
    /// `iocast`, if it is to run inside.
    pub recorder: Option<&'a Path>,
    /// Programs and libraries of the host that the workload needs; none for fio, which the image has.
    pub carried: Vec<PathBuf>,
    /// Where its console, its results and QEMU's log go; made if it is not there.
    pub folder: &'a Path,
    /// A folder with a short path, for its socket.
    pub sockets: &'a Path,
}

/// A guest that runs.
#[derive(Debug)]
pub struct RunningVm {
    name: String,
    qemu: Process,
    control: UnixStream,
    /// What has come over the control line and is not a whole line yet.
    said: Vec<u8>,
    folder: PathBuf,
    carrier: PathBuf,
}

impl RunningVm {
    /// Starts it. It boots while the caller goes on.
    ///
    /// # Errors
    /// A file cannot be written, or QEMU does not start.
    pub fn start(machine: &VmStart<'_>) -> Result<RunningVm, LabError> {
        let folder = machine.folder.to_owned();
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        let carrier = folder.join("carrier.img");
        pack_job(machine, &folder, &carrier)?;
        let socket = machine.sockets.join(format!("{}.control", machine.name));
        let mut qemu =
            Process::start(&mut command(machine, &carrier, &socket), "qemu-system-x86", &folder.join("qemu.log"))?;
        let mut control = None;
        qemu.wait_until(Duration::from_secs(10), || {
            control = UnixStream::connect(&socket).ok();
            control.is_some()
        })?;
        let Some(control) = control else { return Err(qemu.failed("has no control line")) };
        control.set_nonblocking(true).map_err(LabError::io(&socket))?;
        Ok(RunningVm { name: machine.name.to_owned(), qemu, control, said: Vec::new(), folder, carrier })
    }

    /// Waits for a line that begins with `word`; the rest of it.
    ///
    /// # Errors
    /// The guest says `failed`, ends, or says nothing of the kind in time; or `stop` is set.
    pub fn expect(&mut self, word: &str, patience: Duration, stop: &AtomicBool) -> Result<String, LabError> {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.line() {
                match line.split_once(' ').unwrap_or((line.as_str(), "")) {
                    (first, rest) if first == word => return Ok(rest.to_owned()),
                    ("failed:", why) => return Err(self.failed(why)),
                    _ => {}
                }
                continue;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if self.qemu.ended()?.is_some() {
                return Err(self.failed(&format!("ended before it said {word:?}")));
            }
            if begun.elapsed() > patience {
                return Err(self.failed(&format!("did not say {word:?} within {} s", patience.as_secs())));
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// It does not listen any more.
    pub fn say(&mut self, line: &str) -> Result<(), LabError> {
        self.control
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| self.failed(&format!("does not listen: {error}")))
    }

    /// Waits until it has powered off, and unpacks what it leaves into its folder.
    ///
    /// # Errors
    /// It does not end, or what it leaves cannot be unpacked.
    pub fn finish(mut self) -> Result<(), LabError> {
        let begun = Instant::now();
        while self.qemu.ended()?.is_none() {
            if begun.elapsed() > POWER_OFF_TIMEOUT {
                return Err(self.failed("did not power off"));
            }
            sleep(POLL_INTERVAL);
        }
        run(Command::new("tar").arg("-x").arg("-f").arg(&self.carrier).arg("-C").arg(&self.folder), "tar")?;
        std::fs::remove_file(&self.carrier).map_err(LabError::io(&self.carrier))
    }

    /// The next whole line that it has said.
    fn line(&mut self) -> Option<String> {
        let mut buffer = [0; 512];
        match self.control.read(&mut buffer) {
            Ok(read) => self.said.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // That it has gone is seen by QEMU's end.
            Err(_) => {}
        }
        let end = self.said.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.said.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }

    fn failed(&self, problem: &str) -> LabError {
        let console = self.folder.join("console.txt");
        LabError::Vm { vm: self.name.clone(), problem: problem.to_owned(), console }
    }
}

/// Puts the job on the disk that carries it in: an archive from its first byte on.
fn pack_job(machine: &VmStart<'_>, folder: &Path, carrier: &Path) -> Result<(), LabError> {
    let job = folder.join("job");
    std::fs::create_dir_all(&job).map_err(LabError::io(&job))?;
    let settings: String =
        machine.settings.iter().map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', ""))).collect();
    for (name, text) in [("run.sh", GUEST_SCRIPT), ("settings", &settings), ("job", machine.job)] {
        let path = job.join(name);
        std::fs::write(&path, text).map_err(LabError::io(&path))?;
    }
    // What is the host's goes along and is not kept.
    let along = job.join("host");
    std::fs::create_dir_all(&along).map_err(LabError::io(&along))?;
    let recorder = machine.recorder.map(|program| (program, "iocast".as_ref()));
    let carried = machine.carried.iter().filter_map(|path| Some((path.as_path(), path.file_name()?)));
    for (path, name) in recorder.into_iter().chain(carried) {
        std::fs::copy(path, along.join(name)).map_err(LabError::io(path))?;
    }
    run(Command::new("tar").arg("-c").arg("-f").arg(carrier).arg("-C").arg(&job).arg("."), "tar")?;
    std::fs::remove_dir_all(&along).map_err(LabError::io(&along))?;
    let file = std::fs::OpenOptions::new().write(true).open(carrier).map_err(LabError::io(carrier))?;
    file.set_len(CARRIER_DISK_BYTES).map_err(LabError::io(carrier))
}

fn command(machine: &VmStart<'_>, carrier: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    match machine.accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        // The plainest processor comes up fastest under translation.
        Accelerator::Tcg | Accelerator::Auto => command.args(["-accel", "tcg,thread=multi", "-cpu", "qemu64"]),
    };
    command.args(["-machine", "q35", "-smp", "1", "-m", &(machine.memory >> 20).to_string()]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.arg("-name").arg(machine.name);
    command.arg("-serial").arg(format!("file:{}", machine.folder.join("console.txt").display()));
    command.arg("-chardev").arg(format!("socket,id=control,path={},server=on,wait=off", socket.display()));
    command.args(["-serial", "chardev:control", "-device", "virtio-rng-pci"]);
    command.arg("-kernel").arg(&machine.image.kernel).arg("-initrd").arg(&machine.image.initramfs);
    command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on"]);
    command.arg("-drive").arg(format!("file={},format=raw,if=none,id=carrier,cache=unsafe", carrier.display()));
    command.args(["-device", "virtio-blk-pci,drive=carrier,serial=carrier"]);
    command.args(&machine.devices);
    command
}
