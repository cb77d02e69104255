//! The drive that guests share, and what stands between it and them: `iocast serve`, and for iSCSI a target whose disks
//! are the served ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LabError;
use super::plan::{Plan, Transport, Vm};
use super::process::{Process, run};

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to write its log's end.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Where the target listens: within the lab's own network.
pub const PORTAL: &str = "127.0.0.1:3260";

/// The drive, served, with the targets that iSCSI disks need.
#[derive(Debug)]
pub struct Storage {
    server: Process,
    socket: PathBuf,
    target: Option<Process>,
    /// Files that are the served disks, as the target needs them.
    files: Vec<Process>,
}

impl Storage {
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
    ) -> Result<Storage, LabError> {
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
        server.wait_until(PATIENCE, || socket.exists())?;
        let mut storage = Storage { server, socket, target: None, files: Vec::new() };
        let over_iscsi: Vec<&Vm> =
            members.iter().map(|&vm| &plan.vms[vm]).filter(|vm| vm.disk == Transport::Iscsi).collect();
        if !over_iscsi.is_empty() {
            storage.offer(&over_iscsi, folder, sockets)?;
        }
        Ok(storage)
    }

    /// QEMU's arguments for the disk of `vm`.
    pub fn devices(&self, vm: &Vm) -> Vec<String> {
        let served = format!("nbd+unix:///{}?socket={}", vm.name, self.socket.display());
        devices(vm.disk, &served)
    }

    /// Ends it all. The server's log is complete then.
    ///
    /// # Errors
    /// The server had to be killed, or ended badly.
    pub fn stop(mut self, sockets: &Path) -> Result<(), LabError> {
        // The target ignores requests to end; what it served has been written through.
        if let Some(target) = &mut self.target {
            target.kill();
        }
        for file in self.files.drain(..) {
            file.end(LAST_WORDS)?;
        }
        let _ = std::fs::remove_dir_all(sockets.join("files"));
        self.server.check()?;
        self.server.end(LAST_WORDS)?;
        Ok(())
    }

    /// A target for each machine, over a file that is its served disk.
    fn offer(&mut self, vms: &[&Vm], folder: &Path, sockets: &Path) -> Result<(), LabError> {
        for vm in vms {
            let mount = sockets.join("files").join(&vm.name);
            std::fs::create_dir_all(&mount).map_err(LabError::io(&mount))?;
            let file = mount.join("disk");
            let mut command = Command::new("nbdfuse");
            command.arg(&file).arg(format!("nbd+unix:///{}?socket={}", vm.name, self.socket.display()));
            let mut process =
                Process::start(&mut command, "libnbd-bin", &folder.join(format!("nbdfuse-{}.log", vm.name)))?;
            process.wait_until(PATIENCE, || file.exists())?;
            self.files.push(process);
        }
        let control = Path::new("/run/tgtd");
        std::fs::create_dir_all(control).map_err(LabError::io(control))?;
        // Another target of this machine has its control socket there, which is not seen in the lab.
        run(Command::new("mount").args(["-t", "tmpfs", "lab", "/run/tgtd"]), "mount")?;
        let mut command = Command::new("tgtd");
        command.args(["-f", "--iscsi", &format!("portal={PORTAL}")]);
        let mut target = Process::start(&mut command, "tgt", &folder.join("tgtd.log"))?;
        target.wait_until(PATIENCE, || administer(&["--mode", "sys", "--op", "show"]).is_ok())?;
        for (index, vm) in vms.iter().enumerate() {
            let id = (index + 1).to_string();
            let file = sockets.join("files").join(&vm.name).join("disk");
            administer(&["--mode", "target", "--op", "new", "--tid", &id, "-T", &vm.target()])?;
            let disk = ["--mode", "logicalunit", "--op", "new", "--tid", &id, "--lun", "1"];
            // Past the page cache, or the drive's times would not be seen.
            let over =
                ["-b", &file.display().to_string(), "--bstype", "rdwr", "--bsoflags", "direct"].map(str::to_owned);
            administer(&disk.iter().map(|&word| word.to_owned()).chain(over).collect::<Vec<_>>())?;
            administer(&["--mode", "target", "--op", "bind", "--tid", &id, "-I", "ALL"])?;
        }
        self.target = Some(target);
        Ok(())
    }
}

/// QEMU's arguments for a disk at `served`, reached as `disk` says.
pub fn devices(disk: Transport, served: &str) -> Vec<String> {
    let drive = format!("file={served},format=raw,if=none,id=disk,cache=none,discard=unmap");
    let arguments: &[&str] = match disk {
        Transport::Virtio => &["-drive", &drive, "-device", "virtio-blk-pci,drive=disk,serial=test"],
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
