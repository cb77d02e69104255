//! One VM under QEMU: its start, its control line, its results.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::LabError;
use super::image::GuestImage;
use super::plan::{Accelerator, CARRIER_NAME};
use super::process::{POLL_INTERVAL, Process, run};

/// The script that runs in the guest.
const GUEST_SCRIPT: &str = include_str!("../../lab/run.sh");
/// Size of the sparse disk that carries the job into the guest and the results out.
const CARRIER_DISK_BYTES: u64 = 1 << 30;
/// The time within which a VM must power off after its guest has reported `done`.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings with which a VM is started.
#[derive(Clone, Debug)]
pub struct VmStart<'a> {
    /// The image that it boots.
    pub image: &'a GuestImage,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// Memory in bytes.
    pub memory: u64,
    /// The VM's name.
    pub name: &'a str,
    /// QEMU's arguments for the disk under test, and a network card if it needs one.
    pub devices: Vec<String>,
    /// Settings for the script in the guest, as `NAME=VALUE`.
    pub settings: Vec<(&'static str, String)>,
    /// The fio job, or FileBench's personality.
    pub job: &'a str,
    /// The program `iocast`, if it also records in the guest.
    pub recorder: Option<&'a Path>,
    /// The host's programs and libraries that the workload needs; none for fio, which the image contains.
    pub carried: Vec<PathBuf>,
    /// The folder for its console output, its results and QEMU's log; created if missing.
    pub folder: &'a Path,
    /// A folder with a short path, for its socket.
    pub sockets: &'a Path,
}

/// A running VM.
#[derive(Debug)]
pub struct RunningVm {
    name: String,
    qemu: Process,
    control: UnixStream,
    /// The part of a line that has arrived over the control line.
    received: Vec<u8>,
    folder: PathBuf,
    carrier: PathBuf,
}

impl RunningVm {
    /// Starts the VM. It boots while the caller continues.
    ///
    /// # Errors
    /// A file cannot be written, or QEMU does not start.
    pub fn start(start: &VmStart<'_>) -> Result<RunningVm, LabError> {
        let folder = start.folder.to_owned();
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        let carrier = folder.join("carrier.img");
        pack_job(start, &folder, &carrier)?;
        let socket = start.sockets.join(format!("{}.control", start.name));
        let mut qemu = Process::start(&mut command(start, &carrier, &socket), &folder.join("qemu.log"))?;
        let mut control = None;
        qemu.wait_until(Duration::from_secs(10), || {
            control = UnixStream::connect(&socket).ok();
            control.is_some()
        })?;
        let Some(control) = control else { return Err(qemu.failed("has no control line")) };
        control.set_nonblocking(true).map_err(LabError::io(&socket))?;
        Ok(RunningVm { name: start.name.to_owned(), qemu, control, received: Vec::new(), folder, carrier })
    }

    /// Waits for a line from the guest that begins with `word`. Returns the rest of the line.
    ///
    /// # Errors
    /// The guest reports `failed`, the VM ends, the line does not come in time, or `stop` is set.
    pub fn expect(&mut self, word: &str, timeout: Duration, stop: &AtomicBool) -> Result<String, LabError> {
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
                return Err(self.failed(&format!("ended before it reported {word:?}")));
            }
            if begun.elapsed() > timeout {
                return Err(self.failed(&format!("did not report {word:?} within {} s", timeout.as_secs())));
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Sends a line to the guest.
    ///
    /// # Errors
    /// The control line is closed.
    pub fn say(&mut self, line: &str) -> Result<(), LabError> {
        self.control
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| self.failed(&format!("its control line is closed: {error}")))
    }

    /// Waits until the VM has powered off, and unpacks its results into its folder.
    ///
    /// # Errors
    /// It does not end, or its results cannot be unpacked.
    pub fn finish(mut self) -> Result<(), LabError> {
        let begun = Instant::now();
        while self.qemu.ended()?.is_none() {
            if begun.elapsed() > POWER_OFF_TIMEOUT {
                return Err(self.failed("did not power off"));
            }
            sleep(POLL_INTERVAL);
        }
        run(Command::new("tar").arg("-x").arg("-f").arg(&self.carrier).arg("-C").arg(&self.folder))?;
        std::fs::remove_file(&self.carrier).map_err(LabError::io(&self.carrier))
    }

    /// The next complete line from the guest.
    fn line(&mut self) -> Option<String> {
        let mut buffer = [0; 512];
        match self.control.read(&mut buffer) {
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A closed line is detected by QEMU's end.
            Err(_) => {}
        }
        let end = self.received.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }

    fn failed(&self, problem: &str) -> LabError {
        let console = self.folder.join("console.txt");
        LabError::Vm { vm: self.name.clone(), problem: problem.to_owned(), console }
    }
}

/// Packs the job onto the carrier disk, as an archive from its first byte on.
fn pack_job(start: &VmStart<'_>, folder: &Path, carrier: &Path) -> Result<(), LabError> {
    let job = folder.join("job");
    std::fs::create_dir_all(&job).map_err(LabError::io(&job))?;
    let settings: String =
        start.settings.iter().map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', ""))).collect();
    for (name, text) in [("run.sh", GUEST_SCRIPT), ("settings", &settings), ("job", start.job)] {
        let path = job.join(name);
        std::fs::write(&path, text).map_err(LabError::io(&path))?;
    }
    // The host's programs are packed but not kept in the folder.
    let along = job.join("host");
    std::fs::create_dir_all(&along).map_err(LabError::io(&along))?;
    let recorder = start.recorder.map(|program| (program, "iocast".as_ref()));
    let carried = start.carried.iter().filter_map(|path| Some((path.as_path(), path.file_name()?)));
    for (path, name) in recorder.into_iter().chain(carried) {
        std::fs::copy(path, along.join(name)).map_err(LabError::io(path))?;
    }
    run(Command::new("tar").arg("-c").arg("-f").arg(carrier).arg("-C").arg(&job).arg("."))?;
    std::fs::remove_dir_all(&along).map_err(LabError::io(&along))?;
    let file = std::fs::OpenOptions::new().write(true).open(carrier).map_err(LabError::io(carrier))?;
    file.set_len(CARRIER_DISK_BYTES).map_err(LabError::io(carrier))
}

fn command(start: &VmStart<'_>, carrier: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    match start.accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        // The simplest processor model boots fastest under emulation.
        Accelerator::Tcg | Accelerator::Auto => command.args(["-accel", "tcg,thread=multi", "-cpu", "qemu64"]),
    };
    let megabytes = start.memory >> 20;
    command.args(["-machine", "q35,memory-backend=memory", "-smp", "1", "-m", &megabytes.to_string()]);
    // The drive's server reads and writes the guest's memory.
    command.arg("-object").arg(format!("memory-backend-memfd,id=memory,size={megabytes}M,share=on"));
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.arg("-name").arg(start.name);
    command.arg("-serial").arg(format!("file:{}", start.folder.join("console.txt").display()));
    command.arg("-chardev").arg(format!("socket,id=control,path={},server=on,wait=off", socket.display()));
    command.args(["-serial", "chardev:control", "-device", "virtio-rng-pci"]);
    command.arg("-kernel").arg(&start.image.kernel).arg("-initrd").arg(&start.image.initramfs);
    command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on"]);
    command.arg("-drive").arg(format!("file={},format=raw,if=none,id=carrier,cache=unsafe", carrier.display()));
    command.arg("-device").arg(format!("virtio-blk-pci,drive=carrier,serial={CARRIER_NAME}"));
    command.args(&start.devices);
    command
}
