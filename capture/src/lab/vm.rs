//! One VM under QEMU: its start, its control line, its results.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::carrier::{CONSOLE_FILE, GuestJob};
use super::image::GuestImage;
use super::plan::{Accelerator, CARRIER_NAME};
use super::process::{POLL_INTERVAL, Process};
use super::qemu::{GuestDisk, Qemu};
use super::{LabError, carrier};

/// The longest line of a guest that is read.
const LINE_BYTES_MAX: usize = 4096;
/// The time within which a VM must power off after its guest has reported `done`.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings with which a VM is started.
#[derive(Debug)]
pub struct VmStart<'a> {
    /// The image that it boots.
    pub image: &'a GuestImage,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// Memory in bytes.
    pub memory: u64,
    /// The VM's name.
    pub name: &'a str,
    /// The disk under test.
    pub disk: GuestDisk,
    /// What its guest is to do.
    pub job: GuestJob<'a>,
    /// The folder for its console output, its results and QEMU's log; created if missing.
    pub folder: &'a Path,
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
    pub fn start(start: VmStart<'_>) -> Result<RunningVm, LabError> {
        let (name, folder) = (start.name.to_owned(), start.folder.to_owned());
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        let carrier = folder.join("carrier.img");
        carrier::pack(&start.job, &folder, &carrier)?;
        let io = |error| LabError::Host(format!("the control line of VM {name}: {error}"));
        let (control, theirs) = UnixStream::pair().map_err(io)?;
        control.set_nonblocking(true).map_err(io)?;
        let qemu = qemu(start, &carrier, theirs)?.start(&folder.join("qemu.log"))?;
        Ok(RunningVm { name, qemu, control, received: Vec::new(), folder, carrier })
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

    /// How long its threads have waited for a processor of the host; `None` where that is not counted.
    pub fn waited(&self) -> Option<Duration> {
        self.qemu.waited()
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
        carrier::unpack(&self.carrier, &self.folder)
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
        if self.received.len() > LINE_BYTES_MAX {
            self.received.clear();
        }
        let end = self.received.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }

    fn failed(&self, problem: &str) -> LabError {
        let console = self.folder.join(CONSOLE_FILE);
        LabError::Vm { vm: self.name.clone(), problem: problem.to_owned(), console }
    }
}

/// QEMU's command line for the VM.
fn qemu(start: VmStart<'_>, carrier: &Path, control: UnixStream) -> Result<Qemu, LabError> {
    let mut qemu = Qemu::new(start.accelerator, start.image)?;
    let megabytes = start.memory >> 20;
    qemu.args(&["-machine", "q35,memory-backend=memory", "-smp", "1", "-m", &megabytes.to_string()]);
    // The drive's server reads and writes the guest's memory.
    qemu.args(&["-object", &format!("memory-backend-memfd,id=memory,size={megabytes}M,share=on")]);
    qemu.args(&["-name", start.name, "-device", "virtio-rng-pci"]);
    let console = start.folder.join(CONSOLE_FILE);
    qemu.console(File::create(&console).map_err(LabError::io(&console))?)?;
    qemu.control(control)?;
    qemu.file_argument("-initrd", &start.image.initramfs)?;
    qemu.args(&["-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on"]);
    let disk = OpenOptions::new().read(true).write(true).open(carrier).map_err(LabError::io(carrier))?;
    qemu.virtio_disk(CARRIER_NAME, disk)?;
    qemu.disk(start.disk)?;
    Ok(qemu)
}
