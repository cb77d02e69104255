//! The drive that the VMs share, and the connections to it: `iocast serve`, a vhost-user socket for each virtio disk, a
//! file for each other disk, and for iSCSI a target over those files.
//!
//! A virtio disk needs nothing between QEMU and the drive: the drive's server takes requests from the guest's queue. For
//! other disks QEMU has an NBD client of its own. In version 7.2 it delays a reply while another request waits for the
//! next one: a read of 8 ms took 13 ms. QEMU therefore gets a file that nbdfuse makes of the served disk. nbdfuse has
//! enough connections that no request waits for another's reply. QEMU accesses the file asynchronously, because the
//! kernel serialises synchronous writers of such a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::OFlags;

use super::LabError;
use super::plan::{FILE_QUEUE_DEPTH_MAX, Plan, PlannedVm, Transport};
use super::process::{Process, run};
use super::qemu::GuestDisk;
use super::sandbox;

/// The time within which a server must be ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The time within which a server must complete its log and end.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections of each disk to the server. Each carries one outstanding request, so there is one for each request that
/// nbdfuse passes on at once.
const NBD_CONNECTIONS: u32 = FILE_QUEUE_DEPTH_MAX;
/// The address at which the target listens, within the lab's own network.
pub const PORTAL: &str = "127.0.0.1:3260";

/// The served drive, with the targets of iSCSI disks.
#[derive(Debug)]
pub struct ServedStorage {
    server: Process,
    /// The folder of the served disks' files.
    folder: PathBuf,
    /// The folder of sockets.
    sockets: PathBuf,
    /// The nbdfuse processes.
    nbdfuse: Vec<Process>,
    target: Option<Process>,
    /// The most requests that each VM's disk accepts at once.
    queue_depth: u32,
}

impl ServedStorage {
    /// Serves `image` as the plan's drive, with a slice for each of `members`. `iocast` is the serving program. The
    /// request log and the timing report go to `folder`, sockets to `sockets`.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub fn start(
        plan: &Plan,
        members: &[usize],
        image: &Path,
        iocast: &Path,
        folder: &Path,
        sockets: &Path,
    ) -> Result<ServedStorage, LabError> {
        let socket = sockets.join("lun");
        let mut command = Command::new(iocast);
        command.args(["serve", "--force", "--drive", &plan.lun.drive]);
        command.arg("--image").arg(image);
        let queue_depth = plan.guest.queue_depth;
        command.args(["--threads", &queue_depth.to_string()]);
        if let Some(scheduler) = &plan.lun.scheduler {
            command.args(["--scheduler", scheduler]);
        }
        for &member in members {
            let vm = &plan.vms[member];
            command.arg("--export").arg(format!("{}@{}:{}", vm.name, plan.place(member), vm.size));
            if vm.disk == Transport::Virtio {
                let socket = disk_socket(sockets, vm);
                command.arg("--listen").arg(format!("vhost-user:{}={}", socket.display(), vm.name));
            }
        }
        // The last socket to appear.
        command.arg("--listen").arg(format!("unix:{}", socket.display()));
        command.arg("--log").arg(folder.join("lun.parquet")).arg("--report").arg(folder.join("lun.json"));
        let mut server = Process::start(&mut command, &folder.join("serve.log"))?;
        server.wait_until(START_TIMEOUT, || socket.exists())?;
        let mut storage = ServedStorage {
            server,
            nbdfuse: Vec::new(),
            folder: sockets.join("files"),
            sockets: sockets.to_owned(),
            target: None,
            queue_depth,
        };
        for vm in members.iter().map(|&member| &plan.vms[member]).filter(|vm| vm.disk != Transport::Virtio) {
            storage.mount(vm, &socket, folder)?;
        }
        let over_iscsi: Vec<&PlannedVm> =
            members.iter().map(|&vm| &plan.vms[vm]).filter(|vm| vm.disk == Transport::Iscsi).collect();
        if !over_iscsi.is_empty() {
            storage.start_target(&over_iscsi, folder)?;
        }
        Ok(storage)
    }

    /// The disk of `vm`. A virtio disk gets its queue depth here; other disks get it in the guest.
    ///
    /// # Errors
    /// Its socket or file cannot be opened.
    pub fn disk(&self, vm: &PlannedVm) -> Result<GuestDisk, LabError> {
        Ok(match vm.disk {
            Transport::Virtio => {
                let socket = disk_socket(&self.sockets, vm);
                let server = UnixStream::connect(&socket).map_err(LabError::io(&socket))?;
                GuestDisk::VhostUser { server, queue_depth: self.queue_depth }
            }
            Transport::VirtioScsi => GuestDisk::Scsi(open(&self.file(vm), OFlags::DIRECT)?),
            Transport::Iscsi => GuestDisk::Network,
        })
    }

    /// The file of the served disk of `vm`.
    fn file(&self, vm: &PlannedVm) -> PathBuf {
        self.folder.join(&vm.name).join("disk")
    }

    /// Ends all programs. The server's log is then complete.
    ///
    /// # Errors
    /// The server was killed or failed.
    pub fn stop(mut self) -> Result<(), LabError> {
        // tgtd ignores SIGTERM. The data that it served have been written through.
        if let Some(target) = &mut self.target {
            target.kill();
        }
        for process in self.nbdfuse.drain(..) {
            process.end(END_TIMEOUT)?;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        self.server.check()?;
        self.server.end(END_TIMEOUT)?;
        Ok(())
    }

    /// Makes the served disk of `vm` available as a file.
    fn mount(&mut self, vm: &PlannedVm, socket: &Path, folder: &Path) -> Result<(), LabError> {
        let file = self.file(vm);
        let mount = self.folder.join(&vm.name);
        std::fs::create_dir_all(&mount).map_err(LabError::io(&mount))?;
        let mut command = Command::new("nbdfuse");
        command.args(["--connections", &NBD_CONNECTIONS.to_string()]);
        if sandbox::is_of_root() {
            // QEMU is another user. No other process may enter the folder of sockets.
            command.args(["-o", "allow_other"]);
        }
        command.arg(&file).arg(format!("nbd+unix:///{}?socket={}", vm.name, socket.display()));
        let log = folder.join(format!("nbdfuse-{}.log", vm.name));
        let mut process = Process::start(&mut command, &log)?;
        process.wait_until(START_TIMEOUT, || file.exists())?;
        self.nbdfuse.push(process);
        Ok(())
    }

    /// Starts a target for each VM, over the file of its served disk.
    fn start_target(&mut self, vms: &[&PlannedVm], folder: &Path) -> Result<(), LabError> {
        let control = Path::new("/run/tgtd");
        std::fs::create_dir_all(control).map_err(LabError::io(control))?;
        // Another target on this host has its control socket there; the mount hides it from the lab.
        run(Command::new("mount").args(["-t", "tmpfs", "lab", "/run/tgtd"]))?;
        let mut command = Command::new("tgtd");
        command.args(["-f", "--iscsi", &format!("portal={PORTAL}")]);
        let mut target = Process::start(&mut command, &folder.join("tgtd.log"))?;
        target.wait_until(START_TIMEOUT, || tgtadm(&["--mode", "sys", "--op", "show"]).is_ok())?;
        for (index, vm) in vms.iter().enumerate() {
            let id = (index + 1).to_string();
            let file = self.file(vm);
            tgtadm(&["--mode", "target", "--op", "new", "--tid", &id, "-T", &vm.target()])?;
            let disk = ["--mode", "logicalunit", "--op", "new", "--tid", &id, "--lun", "1"];
            // Bypass the page cache, which would hide the drive's times, and access the file asynchronously.
            let over = ["-b", &file.display().to_string(), "--bstype", "aio"].map(str::to_owned);
            tgtadm(&disk.iter().map(|&word| word.to_owned()).chain(over).collect::<Vec<_>>())?;
            tgtadm(&["--mode", "target", "--op", "bind", "--tid", &id, "-I", "ALL"])?;
        }
        self.target = Some(target);
        Ok(())
    }
}

/// A virtio disk in a file, without a drive model.
///
/// # Errors
/// The file cannot be opened.
pub fn fast_disk(file: &Path) -> Result<GuestDisk, LabError> {
    open(file, OFlags::empty()).map(GuestDisk::Cached)
}

fn open(path: &Path, flags: OFlags) -> Result<File, LabError> {
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(LabError::io(path))
}

/// The vhost-user socket of a VM's disk.
fn disk_socket(sockets: &Path, vm: &PlannedVm) -> PathBuf {
    sockets.join(format!("{}.disk", vm.name))
}

fn tgtadm<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Result<String, LabError> {
    run(Command::new("tgtadm").args(["--lld", "iscsi"]).args(arguments))
}
