//! The drive that guests share, and what stands between it and them: `iocast serve`, a file for each served disk, and for
//! iSCSI a target over those files.
//!
//! QEMU could speak NBD itself. Its client (version 7.2) holds back what a request has got while another waits for the next
//! reply: a read of 8 ms took 13. So it gets a file that nbdfuse makes of the served disk, over so many connections that none
//! waits for another's, and reads and writes it asynchronously, since the kernel lets synchronous writers of such a file in one
//! by one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LabError;
use super::plan::{Plan, PlannedVm, QUEUE_DEPTH_MAX, Transport};
use super::process::{Process, run};

/// How long a server may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to write its log's end.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections of each disk to the server, which each have one request under way: one for each that nbdfuse passes on at once.
const NBD_CONNECTIONS: u32 = QUEUE_DEPTH_MAX;
/// Where the target listens: within the lab's own network.
pub const PORTAL: &str = "127.0.0.1:3260";

/// The drive, served, with the targets that iSCSI disks need.
#[derive(Debug)]
pub struct ServedStorage {
    server: Process,
    /// Where the served disks are files.
    folder: PathBuf,
    /// Who makes them so.
    files: Vec<Process>,
    target: Option<Process>,
    /// How many requests each machine's disk takes at once.
    queue_depth: u32,
}

impl ServedStorage {
    /// Serves `image` as the plan's drive, a slice for each of `members`. `iocast` is the program that serves; the
    /// request log and the report of its timing go to `folder`, sockets to `sockets`.
    ///
    /// # Errors
    /// A program is missing or does not come up.
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
        command.arg("--image").arg(image).arg("--listen").arg(format!("unix:{}", socket.display()));
        if let Some(scheduler) = &plan.lun.scheduler {
            command.args(["--scheduler", scheduler]);
        }
        for &member in members {
            let vm = &plan.vms[member];
            command.arg("--export").arg(format!("{}@{}:{}", vm.name, plan.place(member), vm.size));
        }
        command.arg("--log").arg(folder.join("lun.parquet")).arg("--report").arg(folder.join("lun.json"));
        let mut server = Process::start(&mut command, "nbdkit", &folder.join("serve.log"))?;
        server.wait_until(START_TIMEOUT, || socket.exists())?;
        let queue_depth = plan.guest.queue_depth;
        let mut storage =
            ServedStorage { server, files: Vec::new(), folder: sockets.join("files"), target: None, queue_depth };
        for &member in members {
            storage.mount(&plan.vms[member], &socket, folder)?;
        }
        let over_iscsi: Vec<&PlannedVm> =
            members.iter().map(|&vm| &plan.vms[vm]).filter(|vm| vm.disk == Transport::Iscsi).collect();
        if !over_iscsi.is_empty() {
            storage.offer(&over_iscsi, folder)?;
        }
        Ok(storage)
    }

    /// QEMU's arguments for the disk of `vm`.
    pub fn devices(&self, vm: &PlannedVm) -> Vec<String> {
        devices(vm.disk, self.queue_depth, &self.file(vm))
    }

    /// The served disk of `vm` as a file.
    fn file(&self, vm: &PlannedVm) -> PathBuf {
        self.folder.join(&vm.name).join("disk")
    }

    /// Ends it all. The server's log is complete then.
    ///
    /// # Errors
    /// The server had to be killed, or ended badly.
    pub fn stop(mut self) -> Result<(), LabError> {
        // The target ignores requests to end; what it served has been written through.
        if let Some(target) = &mut self.target {
            target.kill();
        }
        for file in self.files.drain(..) {
            file.end(END_TIMEOUT)?;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        self.server.check()?;
        self.server.end(END_TIMEOUT)?;
        Ok(())
    }

    /// Makes the served disk of `vm` a file.
    fn mount(&mut self, vm: &PlannedVm, socket: &Path, folder: &Path) -> Result<(), LabError> {
        let file = self.file(vm);
        let mount = self.folder.join(&vm.name);
        std::fs::create_dir_all(&mount).map_err(LabError::io(&mount))?;
        let mut command = Command::new("nbdfuse");
        command.args(["--connections", &NBD_CONNECTIONS.to_string()]);
        command.arg(&file).arg(format!("nbd+unix:///{}?socket={}", vm.name, socket.display()));
        let log = folder.join(format!("nbdfuse-{}.log", vm.name));
        let mut process = Process::start(&mut command, "libnbd-bin", &log)?;
        process.wait_until(START_TIMEOUT, || file.exists())?;
        self.files.push(process);
        Ok(())
    }

    /// A target for each machine, over the file that is its served disk.
    fn offer(&mut self, vms: &[&PlannedVm], folder: &Path) -> Result<(), LabError> {
        let control = Path::new("/run/tgtd");
        std::fs::create_dir_all(control).map_err(LabError::io(control))?;
        // Another target of this machine has its control socket there, which is not seen in the lab.
        run(Command::new("mount").args(["-t", "tmpfs", "lab", "/run/tgtd"]), "mount")?;
        let mut command = Command::new("tgtd");
        command.args(["-f", "--iscsi", &format!("portal={PORTAL}")]);
        let mut target = Process::start(&mut command, "tgt", &folder.join("tgtd.log"))?;
        target.wait_until(START_TIMEOUT, || administer(&["--mode", "sys", "--op", "show"]).is_ok())?;
        for (index, vm) in vms.iter().enumerate() {
            let id = (index + 1).to_string();
            let file = self.file(vm);
            administer(&["--mode", "target", "--op", "new", "--tid", &id, "-T", &vm.target()])?;
            let disk = ["--mode", "logicalunit", "--op", "new", "--tid", &id, "--lun", "1"];
            // Past the page cache, or the drive's times would not be seen, and asynchronously.
            let over = ["-b", &file.display().to_string(), "--bstype", "aio"].map(str::to_owned);
            administer(&disk.iter().map(|&word| word.to_owned()).chain(over).collect::<Vec<_>>())?;
            administer(&["--mode", "target", "--op", "bind", "--tid", &id, "-I", "ALL"])?;
        }
        self.target = Some(target);
        Ok(())
    }
}

/// QEMU's arguments for a disk that is the file `served`, reached as `disk` says. A virtio disk gets its depth here, others are told
/// in the guest.
pub fn devices(disk: Transport, queue_depth: u32, served: &Path) -> Vec<String> {
    let served = served.display();
    let drive = format!("file={served},format=raw,if=none,id=disk,cache=none,aio=native,discard=unmap");
    // A request takes one place of the queue however many pieces of memory it has, which QEMU would else derive from the places.
    let virtio =
        format!("virtio-blk-pci,drive=disk,serial=test,num-queues=1,queue-size={queue_depth},seg-max-adjust=off");
    let arguments: &[&str] = match disk {
        Transport::Virtio => &["-drive", &drive, "-device", &virtio],
        Transport::VirtioScsi => {
            &["-drive", &drive, "-device", "virtio-scsi-pci,id=scsi", "-device", "scsi-hd,drive=disk,bus=scsi.0"]
        }
        Transport::Iscsi => &["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"],
    };
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn administer<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Result<String, LabError> {
    run(Command::new("tgtadm").args(["--lld", "iscsi"]).args(arguments), "tgt")
}
