//! Attributes requests to VMs: by the device, or by the process that queued them.
//!
//! A process is identified at its first request, because it may have ended when its records are emitted. Requests of
//! kernel threads (write-back, device mapper, the kernel's I/O threads) belong to no VM.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use traces::VmId;

use super::device::BlockDevice;
use super::open_files;

/// How requests are attributed to VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeBy {
    /// Each device is one VM.
    #[default]
    Device,
    /// By the control group of the process that queued the request.
    Cgroup,
    /// By the process that queued the request: the VM's name for qemu, the domain for blkback.
    Process,
}

/// The VM name of requests without a VM.
pub(super) const UNATTRIBUTED: &str = "unattributed";
/// The most VMs; the requests of further ones count as unattributed.
const VMS_MAX: usize = 4096;
/// The most processes that are remembered. Beyond them, all are forgotten and identified again.
const REMEMBERED_PROCESSES_MAX: usize = 1 << 16;

/// Attributes processes to VMs.
pub(super) struct Attribution {
    by: AttributeBy,
    proc: PathBuf,
    /// VM names by [`VmId`].
    vms: Vec<String>,
    known: BTreeMap<u32, VmId>,
    /// The last process, which usually queues the next request too.
    last: Option<(u32, VmId)>,
    requests: u64,
    unattributed: u64,
    /// Numbers of the devices on which open files are looked for; none if their names are not wanted.
    devices: Vec<u32>,
    /// Files by the VM or loop device that has them.
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Attribution {
    /// Attributes the processes of this host, or the devices with these names.
    pub(super) fn new(by: AttributeBy, devices: impl Iterator<Item = String>) -> Attribution {
        Attribution::within(by, devices, Path::new("/proc"))
    }

    fn within(by: AttributeBy, devices: impl Iterator<Item = String>, proc: &Path) -> Attribution {
        let vms = match by {
            AttributeBy::Device => devices.collect(),
            // Always the first VM.
            AttributeBy::Cgroup | AttributeBy::Process => vec![UNATTRIBUTED.to_owned()],
        };
        let (known, proc) = (BTreeMap::new(), proc.to_owned());
        let (devices, files) = (Vec::new(), BTreeMap::new());
        Attribution { by, proc, vms, known, last: None, requests: 0, unattributed: 0, devices, files }
    }

    /// The same, which notes the names of files that lie on these devices or behind them.
    pub(super) fn with_files(mut self, devices: &[BlockDevice]) -> Attribution {
        self.devices = devices.iter().map(|device| device.number).collect();
        let behind =
            |device: &BlockDevice| Some((device.name.clone(), BTreeSet::from([open_files::behind_loop(device)?])));
        self.files = devices.iter().filter_map(behind).collect();
        self
    }

    /// Files on the traced devices, by the VM or loop device that has them.
    pub(super) fn files(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.files
    }

    /// Names by [`VmId`].
    pub(super) fn vms(&self) -> &[String] {
        &self.vms
    }

    /// Identifies a process that has queued a request.
    pub(super) fn see(&mut self, pid: u32) {
        if self.by != AttributeBy::Device && self.last.is_none_or(|(last, _)| last != pid) {
            let vm = match self.known.get(&pid) {
                Some(vm) => *vm,
                None => self.identify(pid),
            };
            self.last = Some((pid, vm));
        }
    }

    /// The VM of a request by process `pid` on device number `device`. Counts the request.
    pub(super) fn vm(&mut self, pid: u32, device: usize) -> VmId {
        self.requests += 1;
        if self.by == AttributeBy::Device {
            return VmId(u16::try_from(device).unwrap_or(0));
        }
        let vm = self.known.get(&pid).copied().unwrap_or_default();
        self.unattributed += u64::from(vm == VmId(0));
        vm
    }

    /// The share of unattributed requests; `None` without requests, or if VMs are devices.
    pub(super) fn unattributed_share(&self) -> Option<f64> {
        (self.by != AttributeBy::Device && self.requests > 0).then(|| self.unattributed as f64 / self.requests as f64)
    }

    fn identify(&mut self, pid: u32) -> VmId {
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

    /// The command line of a process. It is empty for kernel threads.
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

    fn process(&mut self, pid: u32) -> Option<String> {
        let comm = self.read(pid, "comm")?;
        let comm = String::from_utf8_lossy(&comm).trim_end().to_owned();
        // Xen's block backend is one kernel thread for each domain's disk: blkback.DOMAIN.DISK (older ones:
        // DOMAIN.DISK), cut at 15 characters.
        if let Some(rest) = comm.strip_prefix("blkback.") {
            let (domain, disk) = rest.split_once('.')?;
            return Some(format!("domain {domain} {}", disk.split('-').next().unwrap_or(disk)));
        }
        let line = self.command_line(pid)?;
        let words: Vec<&str> =
            line.split(|byte| *byte == 0).map(|word| std::str::from_utf8(word).unwrap_or_default()).collect();
        let Some(vm) = qemu_vm_name(&words) else { return Some(comm) };
        // Of the first thread that is seen; all have the same files.
        if !self.devices.is_empty() && !self.files.contains_key(&vm) {
            let files = open_files::of_process(&self.proc.join(pid.to_string()), &self.devices);
            self.files.insert(vm.clone(), files);
        }
        Some(vm)
    }
}

/// The name in qemu's command line: `-name guest=web,debug-threads=on` or `-name web`.
fn qemu_vm_name(words: &[&str]) -> Option<String> {
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

    fn host() -> tempfile::TempDir {
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
        let proc = host();
        let mut found = Attribution::within(by, ["sda".to_owned(), "sdb".to_owned()].into_iter(), proc.path());
        pids.iter().for_each(|pid| found.see(*pid));
        // The processes have ended when the records are emitted.
        drop(proc);
        let vms: Vec<VmId> = pids.iter().map(|pid| found.vm(*pid, 1)).collect();
        let names = vms.iter().map(|vm| found.vms()[usize::from(vm.0)].clone()).collect();
        (names, found.unattributed_share())
    }

    #[test]
    fn vms_are_identified_by_process() {
        let (names, share) = names(AttributeBy::Process, &[10, 11, 12, 13, 14, 0, 10, 99]);
        assert_eq!(
            names,
            ["web", "mail", "domain 3 xvda", "unattributed", "fio", "unattributed", "web", "unattributed"]
        );
        assert_eq!(share, Some(3.0 / 8.0));
    }

    #[test]
    fn vms_are_identified_by_control_group() {
        let (names, share) = names(AttributeBy::Cgroup, &[10, 11, 12, 13, 14]);
        let unknown = "unattributed";
        assert_eq!(names, ["/machine.slice/web.scope", "/mail", unknown, unknown, "/user.slice"]);
        assert_eq!(share, Some(2.0 / 5.0));
    }

    #[test]
    fn attribution_by_device_ignores_processes() {
        assert_eq!(names(AttributeBy::Device, &[10, 0]), (vec!["sdb".to_owned(), "sdb".to_owned()], None));
    }
}
