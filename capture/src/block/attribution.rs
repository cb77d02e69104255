//! Which virtual machine a request is of: by the device it went to, or by who queued it.
//!
//! A process is looked at when its first request is seen: by the time its records leave it may be gone. What
//! the kernel's own threads queue (write-back, device mapper, iothreads of the kernel) tells nobody.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use traces::VmId;

/// How requests are given to virtual machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeBy {
    /// Each device is a virtual machine's.
    #[default]
    Device,
    /// The control group of the process that queued it.
    Cgroup,
    /// The process that queued it: of qemu the guest's name, of blkback the domain.
    Process,
}

/// The name of those whose requests are nobody's.
pub(super) const UNATTRIBUTED: &str = "unattributed";
/// More virtual machines are not told apart.
const VMS_MAX: usize = 4096;
/// So many processes are remembered; when they are more, all are looked at again.
const REMEMBERED_PROCESSES_MAX: usize = 1 << 16;

/// Gives processes to virtual machines.
pub(super) struct Attribution {
    by: AttributeBy,
    proc: PathBuf,
    /// Names by [`VmId`].
    vms: Vec<String>,
    known: BTreeMap<u32, VmId>,
    /// The process asked for last, which is mostly the next one too.
    last: Option<(u32, VmId)>,
    requests: u64,
    unattributed: u64,
}

impl Attribution {
    /// Of the processes of this machine, or the devices of these names.
    pub(super) fn new(by: AttributeBy, devices: impl Iterator<Item = String>) -> Attribution {
        Attribution::within(by, devices, Path::new("/proc"))
    }

    fn within(by: AttributeBy, devices: impl Iterator<Item = String>, proc: &Path) -> Attribution {
        let vms = match by {
            AttributeBy::Device => devices.collect(),
            // The first, so that it is there whatever comes.
            AttributeBy::Cgroup | AttributeBy::Process => vec![UNATTRIBUTED.to_owned()],
        };
        let (known, proc) = (BTreeMap::new(), proc.to_owned());
        Attribution { by, proc, vms, known, last: None, requests: 0, unattributed: 0 }
    }

    /// Names by [`VmId`].
    pub(super) fn vms(&self) -> &[String] {
        &self.vms
    }

    /// A process has queued a request.
    pub(super) fn see(&mut self, pid: u32) {
        if self.by != AttributeBy::Device && self.last.is_none_or(|(last, _)| last != pid) {
            let vm = match self.known.get(&pid) {
                Some(vm) => *vm,
                None => self.look(pid),
            };
            self.last = Some((pid, vm));
        }
    }

    /// The virtual machine of a request of a process, on the device of that number; counts it.
    pub(super) fn vm(&mut self, pid: u32, device: usize) -> VmId {
        self.requests += 1;
        if self.by == AttributeBy::Device {
            return VmId(u16::try_from(device).unwrap_or(0));
        }
        let vm = self.known.get(&pid).copied().unwrap_or_default();
        self.unattributed += u64::from(vm == VmId(0));
        vm
    }

    /// The share of requests that are nobody's; `None` if there was none, or they were not looked at.
    pub(super) fn unattributed_share(&self) -> Option<f64> {
        (self.by != AttributeBy::Device && self.requests > 0).then(|| self.unattributed as f64 / self.requests as f64)
    }

    fn look(&mut self, pid: u32) -> VmId {
        if self.known.len() >= REMEMBERED_PROCESSES_MAX {
            self.known.clear();
        }
        let name = match self.by {
            AttributeBy::Cgroup => self.cgroup(pid),
            _ => self.process(pid),
        };
        let vm = name.map_or(VmId(0), |name| self.number(name));
        self.known.insert(pid, vm);
        vm
    }

    fn number(&mut self, name: String) -> VmId {
        let at = match self.vms.iter().position(|vm| *vm == name) {
            Some(at) => at,
            None if self.vms.len() < VMS_MAX => {
                self.vms.push(name);
                self.vms.len() - 1
            }
            None => 0,
        };
        VmId(u16::try_from(at).unwrap_or(0))
    }

    fn read(&self, pid: u32, file: &str) -> Option<Vec<u8>> {
        fs::read(self.proc.join(pid.to_string()).join(file)).ok()
    }

    /// Whose command line is empty is a thread of the kernel's.
    fn command_line(&self, pid: u32) -> Option<Vec<u8>> {
        self.read(pid, "cmdline").filter(|line| !line.is_empty())
    }

    /// The path of a process's control group, of version 2 or of the controller `blkio`.
    fn cgroup(&self, pid: u32) -> Option<String> {
        self.command_line(pid)?;
        let text = String::from_utf8_lossy(&self.read(pid, "cgroup")?).into_owned();
        let mut fields = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let of = |found: Option<(&str, &str)>| found.map(|(_, path)| path.to_owned());
        let by_controller = of(fields.clone().find(|(names, _)| names.split(',').any(|name| name == "blkio")));
        by_controller.filter(|path| path != "/").or_else(|| of(fields.find(|(names, _)| names.is_empty())))
    }

    fn process(&self, pid: u32) -> Option<String> {
        let comm = self.read(pid, "comm")?;
        let comm = String::from_utf8_lossy(&comm).trim_end().to_owned();
        // Xen's block backend is a thread of the kernel's for each domain's disk: blkback.DOMAIN.DISK (older
        // ones: DOMAIN.DISK), cut at 15 characters.
        if let Some(rest) = comm.strip_prefix("blkback.") {
            let (domain, disk) = rest.split_once('.')?;
            return Some(format!("domain {domain} {}", disk.split('-').next().unwrap_or(disk)));
        }
        let line = self.command_line(pid)?;
        let words: Vec<&str> =
            line.split(|byte| *byte == 0).map(|word| std::str::from_utf8(word).unwrap_or_default()).collect();
        Some(guest_name(&words).unwrap_or(comm))
    }
}

/// The name that qemu was given: `-name guest=web,debug-threads=on` or `-name web`.
fn guest_name(words: &[&str]) -> Option<String> {
    if !words.first()?.rsplit('/').next()?.contains("qemu") && !words.first()?.ends_with("kvm") {
        return None;
    }
    let at = words.iter().position(|word| *word == "-name" || *word == "--name")?;
    let mut parts = words.get(at + 1)?.split(',');
    let name = parts.clone().find_map(|part| part.strip_prefix("guest=")).or_else(|| parts.next())?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(folder: &Path, pid: u32, comm: &str, line: &str, cgroup: &str) {
        let at = folder.join(pid.to_string());
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("comm"), format!("{comm}\n")).unwrap();
        fs::write(at.join("cmdline"), line.replace(' ', "\0")).unwrap();
        fs::write(at.join("cgroup"), cgroup).unwrap();
    }

    fn machine() -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let at = proc.path();
        let v2 = "0::/machine.slice/web.scope\n";
        process(at, 10, "qemu-system-x86", "/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -m 1G", v2);
        process(at, 11, "CPU 0/KVM", "/usr/bin/kvm -name mail -m 1G", "4:cpu:/x\n3:blkio,x:/mail\n0::/\n");
        process(at, 12, "blkback.3.xvda-", "", "0::/\n");
        process(at, 13, "kworker/u4:1", "", "0::/\n");
        process(at, 14, "fio", "fio -name=x", "3:blkio:/\n0::/user.slice\n");
        proc
    }

    fn names(by: AttributeBy, pids: &[u32]) -> (Vec<String>, Option<f64>) {
        let proc = machine();
        let mut found = Attribution::within(by, ["sda".to_owned(), "sdb".to_owned()].into_iter(), proc.path());
        pids.iter().for_each(|pid| found.see(*pid));
        // Gone when the records leave.
        drop(proc);
        let vms: Vec<VmId> = pids.iter().map(|pid| found.vm(*pid, 1)).collect();
        let names = vms.iter().map(|vm| found.vms()[usize::from(vm.0)].clone()).collect();
        (names, found.unattributed_share())
    }

    #[test]
    fn guests_are_known_by_process() {
        let (names, share) = names(AttributeBy::Process, &[10, 11, 12, 13, 14, 0, 10, 99]);
        assert_eq!(
            names,
            ["web", "mail", "domain 3 xvda", "unattributed", "fio", "unattributed", "web", "unattributed"]
        );
        assert_eq!(share, Some(3.0 / 8.0));
    }

    #[test]
    fn guests_are_known_by_control_group() {
        let (names, share) = names(AttributeBy::Cgroup, &[10, 11, 12, 13, 14]);
        let unknown = "unattributed";
        assert_eq!(names, ["/machine.slice/web.scope", "/mail", unknown, unknown, "/user.slice"]);
        assert_eq!(share, Some(2.0 / 5.0));
    }

    #[test]
    fn by_device_nobody_is_looked_at() {
        assert_eq!(names(AttributeBy::Device, &[10, 0]), (vec!["sdb".to_owned(), "sdb".to_owned()], None));
    }
}
