//! QEMU without privileges: a guest that breaks out of it finds a process that may do next to nothing.
//!
//! QEMU runs as `nobody` where the lab runs as root, without capabilities, and under QEMU's own filter of system calls.
//! It opens no file of the host's by name, for it may not: it gets its disks, its sockets and the image as open
//! descriptors. So no path is part of an option either, where a comma in it would begin another option.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};

use super::LabError;
use super::image::GuestImage;
use super::plan::Accelerator;
use super::process::Process;
use super::sandbox;

/// The program.
const PROGRAM: &str = "qemu-system-x86_64";
/// The user and the group `nobody`, which own nothing.
const NOBODY: &str = "65534";
/// What QEMU's filter of system calls denies.
const DENIED: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// The device that KVM is used through.
const KVM: &str = "/dev/kvm";

/// The disk under test, as QEMU gets it.
#[derive(Debug)]
pub enum GuestDisk {
    /// Served over vhost-user.
    VhostUser {
        /// The connection to the server.
        server: UnixStream,
        /// Entries of its queue.
        queue_depth: u32,
    },
    /// A SCSI disk: a file that is open for direct I/O.
    Scsi(File),
    /// A virtio disk in a file, through the host's page cache: the disk may be lost if the host loses power.
    Cached(File),
    /// None: the guest reaches its disk over the network.
    Network,
}

impl GuestDisk {
    /// How the guest reaches it, as the guest's script has it.
    pub fn transport(&self) -> &'static str {
        match self {
            GuestDisk::VhostUser { .. } | GuestDisk::Cached(_) => "virtio",
            GuestDisk::Scsi(_) => "virtio-scsi",
            GuestDisk::Network => "iscsi",
        }
    }
}

/// Who may use KVM, besides root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvmAccess {
    /// Everybody.
    Anyone,
    /// A group.
    Group(u32),
    /// Nobody, or there is no KVM.
    RootOnly,
}

impl KvmAccess {
    /// That of this host.
    pub fn of_host() -> KvmAccess {
        std::fs::metadata(KVM).map_or(KvmAccess::RootOnly, |kvm| KvmAccess::of(kvm.mode(), kvm.gid()))
    }

    fn of(mode: u32, group: u32) -> KvmAccess {
        const READ_WRITE: u32 = 0o6;
        let may = |bits: u32| bits & READ_WRITE == READ_WRITE;
        match group {
            _ if may(mode) => KvmAccess::Anyone,
            // The group of root owns files of root's.
            1.. if may(mode >> 3) => KvmAccess::Group(group),
            _ => KvmAccess::RootOnly,
        }
    }
}

/// A command line of QEMU, and the open files that go with it.
#[derive(Debug)]
pub struct Qemu {
    command: Command,
    passed: Vec<OwnedFd>,
}

impl Qemu {
    /// A VM with nothing but a processor, which boots the kernel of `image`.
    ///
    /// # Errors
    /// The kernel cannot be opened.
    pub fn new(accelerator: Accelerator, image: &GuestImage) -> Result<Qemu, LabError> {
        let mut qemu = Qemu { command: unprivileged(), passed: Vec::new() };
        qemu.args(&["-sandbox", DENIED]);
        match accelerator {
            Accelerator::Kvm => qemu.args(&["-accel", "kvm", "-cpu", "host"]),
            // The simplest processor model boots fastest under emulation.
            Accelerator::Tcg | Accelerator::Auto => qemu.args(&["-accel", "tcg,thread=multi", "-cpu", "qemu64"]),
        }
        qemu.args(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        qemu.file_argument("-kernel", &image.kernel)?;
        Ok(qemu)
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: &[&str]) {
        self.command.args(arguments);
    }

    /// Adds an option whose value is a file that QEMU only reads.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn file_argument(&mut self, option: &str, path: &Path) -> Result<(), LabError> {
        let number = self.pass(File::open(path).map_err(LabError::io(path))?)?;
        self.args(&[option, &format!("/proc/self/fd/{number}")]);
        Ok(())
    }

    /// Adds a serial line whose output goes to `console`.
    ///
    /// # Errors
    /// The descriptor cannot be passed on.
    pub fn console(&mut self, console: File) -> Result<(), LabError> {
        let set = self.set(console)?;
        self.args(&["-chardev", &format!("file,id=console,path={set}"), "-serial", "chardev:console"]);
        Ok(())
    }

    /// Adds a serial line that ends in `socket`.
    ///
    /// # Errors
    /// The descriptor cannot be passed on.
    pub fn control(&mut self, socket: UnixStream) -> Result<(), LabError> {
        let number = self.pass(socket)?;
        self.args(&["-chardev", &format!("socket,id=control,fd={number}"), "-serial", "chardev:control"]);
        Ok(())
    }

    /// Adds a virtio disk with the serial number `name`, through the host's page cache.
    ///
    /// # Errors
    /// The descriptor cannot be passed on.
    pub fn virtio_disk(&mut self, name: &str, disk: File) -> Result<(), LabError> {
        self.drive(name, disk, "cache=unsafe,discard=unmap")?;
        self.args(&["-device", &format!("virtio-blk-pci,drive={name},serial={name}")]);
        Ok(())
    }

    /// Adds the disk under test.
    ///
    /// # Errors
    /// The descriptor cannot be passed on.
    pub fn disk(&mut self, disk: GuestDisk) -> Result<(), LabError> {
        match disk {
            GuestDisk::VhostUser { server, queue_depth } => {
                // A request takes one queue entry, whatever its number of memory segments: guests use indirect
                // descriptors.
                let number = self.pass(server)?;
                self.args(&["-chardev", &format!("socket,id=disk,fd={number}")]);
                let device = format!("vhost-user-blk-pci,chardev=disk,num-queues=1,queue-size={queue_depth}");
                self.args(&["-device", &device]);
            }
            GuestDisk::Scsi(file) => {
                self.drive("disk", file, "cache=none,aio=native,discard=unmap")?;
                self.args(&["-device", "virtio-scsi-pci,id=scsi", "-device", "scsi-hd,drive=disk,bus=scsi.0"]);
            }
            GuestDisk::Cached(file) => self.virtio_disk("disk", file)?,
            GuestDisk::Network => {
                self.args(&["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"]);
            }
        }
        Ok(())
    }

    /// Starts QEMU, with its output in the file `log`. QEMU has the descriptors then, and they are closed here.
    ///
    /// # Errors
    /// QEMU is not installed, or its log cannot be written.
    pub fn start(mut self, log: &Path) -> Result<Process, LabError> {
        Process::start(&mut self.command, log)
    }

    /// Adds a raw drive that no device uses yet.
    fn drive(&mut self, id: &str, disk: File, access: &str) -> Result<(), LabError> {
        let set = self.set(disk)?;
        // QEMU would open a drive for reading first, and then once more, but has only this descriptor.
        let drive = format!("file={set},format=raw,if=none,id={id},auto-read-only=off,{access}");
        self.args(&["-drive", &drive]);
        Ok(())
    }

    /// Passes an open file on, as QEMU names it where it would open a file.
    fn set(&mut self, file: File) -> Result<String, LabError> {
        let number = self.pass(file)?;
        self.args(&["-add-fd", &format!("fd={number},set={number}")]);
        Ok(format!("/dev/fdset/{number}"))
    }

    /// Lets QEMU inherit an open file or socket. Returns its number there, which is its number here.
    fn pass(&mut self, open: impl Into<OwnedFd>) -> Result<i32, LabError> {
        let open = open.into();
        fcntl_setfd(&open, FdFlags::empty()).map_err(|error| LabError::Host(format!("QEMU's descriptors: {error}")))?;
        let number = open.as_raw_fd();
        self.passed.push(open);
        Ok(number)
    }
}

/// QEMU's program, without its arguments, with no privilege that the lab has.
fn unprivileged() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]);
    // In a user namespace the lab is root in name only, and there is no other user.
    if sandbox::is_of_root() {
        command.args(["--reuid", NOBODY, "--regid", NOBODY]);
        match KvmAccess::of_host() {
            KvmAccess::Group(group) => command.args(["--groups", &group.to_string()]),
            KvmAccess::Anyone | KvmAccess::RootOnly => command.arg("--clear-groups"),
        };
    }
    command.args(["--", PROGRAM]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_used_as_a_member_of_its_group_but_never_of_roots() {
        for (mode, group, access) in [
            (0o20_600, 104, KvmAccess::RootOnly),
            (0o20_640, 104, KvmAccess::RootOnly),
            (0o20_660, 104, KvmAccess::Group(104)),
            (0o20_660, 0, KvmAccess::RootOnly),
            (0o20_666, 104, KvmAccess::Anyone),
            (0o20_666, 0, KvmAccess::Anyone),
        ] {
            assert_eq!(KvmAccess::of(mode, group), access, "{mode:o} {group}");
        }
    }
}
