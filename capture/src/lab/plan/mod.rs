//! The plan of a lab, as TOML: the VMs, their disks on one drive, and the groups that run together.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use traces::described::{DescriptionError, line_of};
use traces::quantity::parse_bytes;

use super::run::JOBS_FOLDER;
use super::{filebench, workload};

/// Slices of the LUN are multiples of this size, in bytes: the usual alignment of partitions.
pub const SLICE_ALIGNMENT_BYTES: u64 = 1 << 20;
/// The smallest disk that holds the workloads' files and ext4, in bytes.
const DISK_BYTES_MIN: u64 = 64 << 20;

/// A plan: VMs, the drive that they share, and the groups that run together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How long each workload runs, in seconds.
    pub seconds: u32,
    /// How long each workload runs before measurement begins, in seconds.
    #[serde(default)]
    pub warm_up_seconds: u32,
    /// The number of repetitions of each run.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Seed of the workloads' random offsets, the same in each run.
    #[serde(default = "one_long")]
    pub seed: u64,
    /// The groups that run together, in addition to each VM alone.
    #[serde(default)]
    pub together: Together,
    /// The drive that they share.
    pub lun: PlannedLun,
    /// The configuration of the VMs.
    #[serde(default)]
    pub guest: GuestSettings,
    /// The VMs, in the order of their slices on the drive.
    #[serde(rename = "vm")]
    pub vms: Vec<PlannedVm>,
}

/// The groups that run together, in addition to each VM alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Together {
    /// No groups.
    #[default]
    Nobody,
    /// `"pairs"` or `"all"`.
    Named(TogetherName),
    /// These groups.
    Groups(Vec<Vec<String>>),
}

/// Sets of groups that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TogetherName {
    /// Every pair of VMs.
    Pairs,
    /// All VMs at once.
    All,
}

/// The drive that the VMs share, which `iocast serve` serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLun {
    /// A drive with its tunables, as in `iocast list drives`.
    pub drive: String,
    /// Scheduler in front of the drive; order of arrival if none is named.
    pub scheduler: Option<String>,
    /// The size of the used part of the drive, in bytes; each VM has an equal slice.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
}

/// The configuration of the VMs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestSettings {
    /// Memory in bytes; the guest's programs take about 100 MB of it.
    #[serde(deserialize_with = "bytes")]
    pub memory: u64,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// The scheduler of the guest's disk; the kernel's choice if none is named.
    pub scheduler: Option<String>,
    /// The most requests that a VM's disk accepts at once: a power of two up to 1,024 for virtio disks, up to
    /// [`FILE_QUEUE_DEPTH_MAX`] for others.
    pub queue_depth: u32,
    /// Also record in the guest by `iocast capture block` with tracepoints, beside blktrace.
    pub tracefs: bool,
}

impl Default for GuestSettings {
    fn default() -> GuestSettings {
        GuestSettings {
            memory: 512 << 20,
            accelerator: Accelerator::Auto,
            scheduler: None,
            queue_depth: 8,
            tracefs: false,
        }
    }
}

/// The most requests of a file that nbdfuse passes on at once: libfuse (3.14) has ten threads unless its caller
/// requests others.
pub const FILE_QUEUE_DEPTH_MAX: u32 = 10;
/// The serial number of the disk that carries the job into the guest. A VM's disk has the VM's name.
pub(super) const CARRIER_NAME: &str = "carrier";
/// The most entries of a virtio disk's queue.
const VIRTIO_QUEUE_DEPTH_MAX: u32 = 1024;

/// The way in which QEMU executes the VMs' instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// KVM if a kernel boots under it, else TCG.
    Auto,
    /// The host's processor.
    Kvm,
    /// QEMU's binary translation.
    Tcg,
}

/// A VM of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedVm {
    /// Its name: letters, digits and `-`.
    pub name: String,
    /// The name of one of the lab's workloads, or the path of a fio job.
    pub workload: Option<String>,
    /// Instead, the path of a FileBench personality.
    pub filebench: Option<String>,
    /// How it reaches its disk.
    pub disk: Transport,
    /// The size of its disk in bytes.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
}

/// How a VM reaches its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A virtio block device; QEMU is the served disk's client.
    Virtio,
    /// A SCSI disk on a virtio controller; QEMU is the served disk's client.
    VirtioScsi,
    /// An iSCSI disk of the guest's own initiator; the target is the served disk's client.
    Iscsi,
}

/// VMs that run at once, by their index in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabGroup {
    /// `alone-mail`, `together-mail-web`.
    pub name: String,
    /// Indexes of the members, in the plan's order.
    pub members: Vec<usize>,
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// Names the file, the line if TOML reports it, and the valid values.
    pub fn read(path: &Path) -> Result<Plan, DescriptionError> {
        let plan = Plan::read_kept(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let check_job = |vm| plan.job(vm, folder).map(drop);
        (0..plan.vms.len()).try_for_each(check_job).map_err(|problem| refused(path, None, problem))?;
        Ok(plan)
    }

    /// Reads and checks a plan that was kept with its results. The files of its workloads are elsewhere.
    ///
    /// # Errors
    /// As [`Plan::read`], workloads apart.
    pub fn read_kept(path: &Path) -> Result<Plan, DescriptionError> {
        let plan = Plan::parse(path)?;
        plan.check().map_err(|problem| refused(path, None, problem))?;
        Ok(plan)
    }

    /// Parses a plan without checking it.
    pub(super) fn parse(path: &Path) -> Result<Plan, DescriptionError> {
        let text = traces::read_text(path).map_err(|error| refused(path, None, format!("cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error| {
            refused(path, error.span().map(|span| line_of(&text, span.start)), error.message().to_owned())
        })
    }

    /// The plan in `text` with each VM alone only, under `scheduler` and for `seconds`, if given: the plan and its text.
    ///
    /// # Errors
    /// The text is no valid plan. `path` is its file, which the message names.
    pub fn alone_under(
        text: &str,
        scheduler: &str,
        seconds: Option<u32>,
        path: &Path,
    ) -> Result<(Plan, String), DescriptionError> {
        let invalid = |problem: String| refused(path, None, problem);
        let mut table: toml::Table = toml::from_str(text).map_err(|error| invalid(error.message().to_owned()))?;
        table.remove("together");
        if let Some(seconds) = seconds {
            table.insert("seconds".to_owned(), i64::from(seconds).into());
        }
        let guest = table.entry("guest").or_insert_with(|| toml::Table::new().into());
        let Some(guest) = guest.as_table_mut() else { return Err(invalid("guest is no table".to_owned())) };
        guest.insert("scheduler".to_owned(), scheduler.into());
        let text = table.to_string();
        let plan: Plan = toml::from_str(&text).map_err(|error| invalid(error.message().to_owned()))?;
        plan.check().map_err(invalid)?;
        Ok((plan, text))
    }

    /// The groups of one repetition: each VM alone, then those that run together.
    pub fn groups(&self) -> Vec<LabGroup> {
        let vms = self.vms.len();
        let mut groups: Vec<Vec<usize>> = (0..vms).map(|vm| vec![vm]).collect();
        match &self.together {
            Together::Nobody => {}
            Together::Named(TogetherName::All) => groups.push((0..vms).collect()),
            Together::Named(TogetherName::Pairs) => {
                groups.extend((0..vms).flat_map(|a| (a + 1..vms).map(move |b| vec![a, b])));
            }
            Together::Groups(named) => groups.extend(named.iter().map(|names| {
                let mut members: Vec<usize> = names.iter().filter_map(|name| self.vm(name)).collect();
                members.sort_unstable();
                members
            })),
        }
        groups.into_iter().map(|members| LabGroup { name: self.name_of(&members), members }).collect()
    }

    /// Where a VM's slice of the LUN begins, in bytes.
    pub fn place(&self, vm: usize) -> u64 {
        self.slice() * vm as u64
    }

    /// The fio job or the FileBench personality of a VM. `folder` is where the plan's relative paths start. Beside the
    /// results of a lab, its plan finds the jobs that were kept with them.
    ///
    /// # Errors
    /// The workload or file does not exist, or would not end, or the plan names both or neither.
    pub fn job(&self, vm: usize, folder: &Path) -> Result<String, String> {
        let PlannedVm { name, workload, filebench, .. } = &self.vms[vm];
        match (workload, filebench) {
            (Some(job), None) => {
                let kept = || workload::job(&format!("{JOBS_FOLDER}/{name}.fio"), folder);
                let found = workload::job(job, folder).or_else(|error| match error.kind() {
                    ErrorKind::NotFound => kept().map_err(|_| error),
                    _ => Err(error),
                });
                found.map_err(|error| format!("workload {job} of {name}: {error}"))
            }
            (None, Some(file)) => filebench::personality(file, folder, self.seconds)
                .map_err(|error| format!("filebench {file} of {name}: {error}")),
            _ => Err(format!("{name} must have either workload or filebench")),
        }
    }

    fn slice(&self) -> u64 {
        self.lun.size / self.vms.len() as u64 / SLICE_ALIGNMENT_BYTES * SLICE_ALIGNMENT_BYTES
    }

    fn vm(&self, name: &str) -> Option<usize> {
        self.vms.iter().position(|vm| vm.name == name)
    }

    fn name_of(&self, members: &[usize]) -> String {
        match members {
            [vm] => alone(&self.vms[*vm].name),
            _ => {
                let names: Vec<&str> = members.iter().map(|&vm| self.vms[vm].name.as_str()).collect();
                format!("together-{}", names.join("-"))
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let must = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
        must(self.seconds > 0, "seconds is 0; it must be positive")?;
        must(self.warm_up_seconds < self.seconds, "warm_up_seconds must be less than seconds")?;
        must(self.repetitions > 0, "repetitions is 0; it must be positive")?;
        must(!self.vms.is_empty(), "the plan has no [[vm]]")?;
        let mut names = BTreeSet::new();
        for vm in &self.vms {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if vm.name.is_empty() || vm.name.len() > 32 || !vm.name.chars().all(plain) {
                return Err(format!("vm name {:?}: use up to 32 letters, digits and -", vm.name));
            }
            if vm.name == CARRIER_NAME {
                return Err(format!("vm name {CARRIER_NAME}: the guests' own disk is called so; choose another"));
            }
            if !names.insert(&vm.name) {
                return Err(format!("two VMs are called {}", vm.name));
            }
            self.check_disk(vm)?;
            self.check_depth(vm)?;
        }
        if let Together::Groups(groups) = &self.together {
            for group in groups {
                self.check_group(group)?;
            }
        }
        Ok(())
    }

    fn check_disk(&self, vm: &PlannedVm) -> Result<(), String> {
        if vm.size < DISK_BYTES_MIN || !vm.size.is_multiple_of(SLICE_ALIGNMENT_BYTES) {
            return Err(format!("size of {}: use whole megabytes, at least {} MB", vm.name, DISK_BYTES_MIN >> 20));
        }
        if vm.size > self.slice() {
            let (share, vms) = (self.slice() >> 20, self.vms.len());
            return Err(format!(
                "the disk of {} has {} MB, but the LUN has only {share} MB for each of {vms} VMs; enlarge lun.size",
                vm.name,
                vm.size >> 20
            ));
        }
        Ok(())
    }

    fn check_depth(&self, vm: &PlannedVm) -> Result<(), String> {
        let depth = self.guest.queue_depth;
        let name = &vm.name;
        if vm.disk == Transport::Virtio {
            return match depth.is_power_of_two() && depth <= VIRTIO_QUEUE_DEPTH_MAX {
                true => Ok(()),
                false => Err(format!(
                    "queue_depth {depth}: {name} has a virtio disk, whose queue holds a power of two of requests, up to \
                     {VIRTIO_QUEUE_DEPTH_MAX}"
                )),
            };
        }
        if !(1..=FILE_QUEUE_DEPTH_MAX).contains(&depth) {
            return Err(format!(
                "queue_depth {depth}: use 1 to {FILE_QUEUE_DEPTH_MAX}, or virtio disks only; nbdfuse, which connects the \
                 disk of {name}, passes on {FILE_QUEUE_DEPTH_MAX} requests of a VM at once, and further ones would wait \
                 where neither guest nor drive sees them"
            ));
        }
        Ok(())
    }

    fn check_group(&self, group: &[String]) -> Result<(), String> {
        if let Some(unknown) = group.iter().find(|name| self.vm(name).is_none()) {
            let known: Vec<&str> = self.vms.iter().map(|vm| vm.name.as_str()).collect();
            return Err(format!("together names {unknown:?}; the VMs are {}", known.join(", ")));
        }
        let different: BTreeSet<&String> = group.iter().collect();
        if group.len() < 2 || different.len() < group.len() {
            return Err(format!("together has {group:?}; a group has two or more different VMs"));
        }
        Ok(())
    }
}

/// The name of the group in which a VM runs alone.
pub fn alone(vm: &str) -> String {
    format!("alone-{vm}")
}

fn refused(path: &Path, line: Option<usize>, problem: String) -> DescriptionError {
    DescriptionError { what: "lab plan", name: path.display().to_string(), line, problem }
}

impl PlannedVm {
    /// The IQN of its target.
    pub fn target(&self) -> String {
        format!("iqn.2026-11.org.iocast.lab:disk-{}", self.name)
    }

    /// The IQN of its initiator.
    pub fn initiator(&self) -> String {
        format!("iqn.2026-11.org.iocast.lab:vm-{}", self.name)
    }
}

/// A UUID that depends on VM and seed only, so that the file system has the same layout in every run.
pub fn uuid(seed: u64, vm: usize) -> String {
    let low = seed & 0xffff_ffff_ffff;
    format!("10ca5700-0000-4000-8{vm:03x}-{low:012x}")
}

fn one() -> u32 {
    1
}

fn one_long() -> u64 {
    1
}

fn bytes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_bytes(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests;
