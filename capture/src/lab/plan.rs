//! What a lab is to do, as TOML.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use traces::described::{DescriptionError, line_of};
use traces::quantity::parse_bytes;

use super::{filebench, workload};

/// The size that slices of the LUN are multiples of, in bytes: what partitions are aligned to.
pub const SLICE_ALIGNMENT_BYTES: u64 = 1 << 20;
/// The smallest disk that the workloads' files and ext4 fit on, in bytes.
const DISK_BYTES_MIN: u64 = 64 << 20;

/// A plan: virtual machines, the disk they share, who runs together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How long each workload runs.
    pub seconds: u32,
    /// How long it has run before figures begin.
    #[serde(default)]
    pub warm_up_seconds: u32,
    /// How often each run is made.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Seed of the workloads' random places, the same in each run.
    #[serde(default = "one_long")]
    pub seed: u64,
    /// Who runs together, beside each alone.
    #[serde(default)]
    pub together: Together,
    /// The disk they share.
    pub lun: PlannedLun,
    /// What the machines are like.
    #[serde(default)]
    pub guest: GuestSettings,
    /// The machines, in the order of their places on the disk.
    #[serde(rename = "vm")]
    pub vms: Vec<PlannedVm>,
}

/// Who runs together, beside each alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Together {
    /// Nobody.
    #[default]
    Nobody,
    /// `"pairs"` or `"all"`.
    Named(TogetherName),
    /// These groups.
    Groups(Vec<Vec<String>>),
}

/// Groups that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TogetherName {
    /// Every two.
    Pairs,
    /// All at once.
    All,
}

/// The disk that the machines share, which `iocast serve` serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLun {
    /// A drive with its tunables, as `iocast list drives` has them.
    pub drive: String,
    /// Who decides what waits in front of it; the order of arrival if nobody.
    pub scheduler: Option<String>,
    /// The part of it that is used; each machine has an equal share, at its own place.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
}

/// What the machines are like.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestSettings {
    /// Memory, in bytes; about 100 MB of it hold the guest's programs.
    #[serde(deserialize_with = "bytes")]
    pub memory: u64,
    /// What runs their instructions.
    pub accelerator: Accelerator,
    /// The scheduler of their disk; what the kernel chooses if none is named.
    pub scheduler: Option<String>,
    /// How many requests their disk takes at once, at most [`QUEUE_DEPTH_MAX`]; a power of two for virtio disks.
    pub queue_depth: u32,
    /// Record in the guest by `iocast capture block` and tracepoints too, beside blktrace.
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

/// nbdfuse passes on so many requests of a file at once: libfuse (3.14) has ten threads unless its caller asks for others.
pub const QUEUE_DEPTH_MAX: u32 = 10;

/// What runs the guests' instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// KVM where a kernel comes up under it, else TCG.
    Auto,
    /// The processor.
    Kvm,
    /// QEMU's translation.
    Tcg,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedVm {
    /// Its name: letters, digits and `-`.
    pub name: String,
    /// A workload of the lab by name, or the path of a fio job.
    pub workload: Option<String>,
    /// In its place the path of a personality of FileBench.
    pub filebench: Option<String>,
    /// How it reaches its disk.
    pub disk: Transport,
    /// The size of its disk.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
}

/// How a guest reaches its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A virtio block device of the hypervisor, which is the served disk's client.
    Virtio,
    /// A SCSI disk of the hypervisor on a virtio controller.
    VirtioScsi,
    /// The guest's own iSCSI initiator; the target is the served disk's client.
    Iscsi,
}

/// Machines that run at once, by their index in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabGroup {
    /// `alone-mail`, `together-mail-web`.
    pub name: String,
    /// Who, in the plan's order.
    pub members: Vec<usize>,
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// Names the file, the line where TOML tells it, and what would be right.
    pub fn read(path: &Path) -> Result<Plan, DescriptionError> {
        let plan = Plan::parse(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        plan.check(folder).map_err(|problem| refused(path, None, problem))?;
        Ok(plan)
    }

    /// Reads a plan without looking at whether it can be done.
    pub(super) fn parse(path: &Path) -> Result<Plan, DescriptionError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| refused(path, None, format!("cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error| {
            refused(path, error.span().map(|span| line_of(&text, span.start)), error.message().to_owned())
        })
    }

    /// The runs of one repetition: each machine alone, then those together.
    pub fn groups(&self) -> Vec<LabGroup> {
        let machines = self.vms.len();
        let mut groups: Vec<Vec<usize>> = (0..machines).map(|vm| vec![vm]).collect();
        match &self.together {
            Together::Nobody => {}
            Together::Named(TogetherName::All) => groups.push((0..machines).collect()),
            Together::Named(TogetherName::Pairs) => {
                groups.extend((0..machines).flat_map(|a| (a + 1..machines).map(move |b| vec![a, b])));
            }
            Together::Groups(named) => groups.extend(named.iter().map(|names| {
                let mut members: Vec<usize> = names.iter().filter_map(|name| self.vm(name)).collect();
                members.sort_unstable();
                members
            })),
        }
        groups.into_iter().map(|members| LabGroup { name: self.name_of(&members), members }).collect()
    }

    /// Where a machine's slice of the LUN begins, in bytes.
    pub fn place(&self, vm: usize) -> u64 {
        self.slice() * vm as u64
    }

    /// The fio job of a machine, or FileBench's personality; `folder` is where the plan's relative paths start from.
    ///
    /// # Errors
    /// Names it: there is no such workload and no such file, or the file is none that ends; or the plan names both or neither.
    pub fn job(&self, vm: usize, folder: &Path) -> Result<String, String> {
        let PlannedVm { name, workload, filebench, .. } = &self.vms[vm];
        match (workload, filebench) {
            (Some(job), None) => {
                workload::job(job, folder).map_err(|error| format!("workload {job} of {name}: {error}"))
            }
            (None, Some(file)) => filebench::personality(file, folder, self.seconds)
                .map_err(|error| format!("filebench {file} of {name}: {error}")),
            _ => Err(format!("{name} has to have a workload, or filebench, which takes its place")),
        }
    }

    fn slice(&self) -> u64 {
        self.lun.size / self.vms.len() as u64 / SLICE_ALIGNMENT_BYTES * SLICE_ALIGNMENT_BYTES
    }

    fn vm(&self, name: &str) -> Option<usize> {
        self.vms.iter().position(|vm| vm.name == name)
    }

    fn name_of(&self, members: &[usize]) -> String {
        let names: Vec<&str> = members.iter().map(|&vm| self.vms[vm].name.as_str()).collect();
        format!("{}-{}", if members.len() == 1 { "alone" } else { "together" }, names.join("-"))
    }

    fn check(&self, folder: &Path) -> Result<(), String> {
        let must = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
        must(self.seconds > 0, "seconds is 0; a workload has to run for a while")?;
        must(self.warm_up_seconds < self.seconds, "warm_up_seconds leaves nothing of seconds")?;
        must(self.repetitions > 0, "repetitions is 0")?;
        must(!self.vms.is_empty(), "it has no [[vm]]")?;
        let mut names = BTreeSet::new();
        for (index, vm) in self.vms.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if vm.name.is_empty() || vm.name.len() > 32 || !vm.name.chars().all(plain) {
                return Err(format!("vm name {:?}: use up to 32 letters, digits and -", vm.name));
            }
            if !names.insert(&vm.name) {
                return Err(format!("two VMs are called {}", vm.name));
            }
            self.check_disk(vm)?;
            self.check_depth(vm)?;
            self.job(index, folder)?;
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
            return Err(format!("size of {}: whole megabytes, at least {} MB", vm.name, DISK_BYTES_MIN >> 20));
        }
        if vm.size > self.slice() {
            let (share, vms) = (self.slice() >> 20, self.vms.len());
            return Err(format!(
                "the disk of {} has {} MB, and of the LUN each of {vms} has {share} MB; enlarge lun.size",
                vm.name,
                vm.size >> 20
            ));
        }
        Ok(())
    }

    fn check_depth(&self, vm: &PlannedVm) -> Result<(), String> {
        let depth = self.guest.queue_depth;
        if !(1..=QUEUE_DEPTH_MAX).contains(&depth) {
            return Err(format!(
                "queue_depth {depth}: 1 to {QUEUE_DEPTH_MAX}; what stands between a guest and the drive passes on {QUEUE_DEPTH_MAX} requests at once, \
                 and more would wait where neither sees them"
            ));
        }
        if vm.disk == Transport::Virtio && !depth.is_power_of_two() {
            return Err(format!("queue_depth {depth}: {} has a virtio disk, whose queue holds 1, 2, 4 or 8", vm.name));
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

fn refused(path: &Path, line: Option<usize>, problem: String) -> DescriptionError {
    DescriptionError { what: "lab plan", name: path.display().to_string(), line, problem }
}

impl PlannedVm {
    /// The name of its target.
    pub fn target(&self) -> String {
        format!("iqn.2026-11.org.iocast.lab:disk-{}", self.name)
    }

    /// The name of its initiator.
    pub fn initiator(&self) -> String {
        format!("iqn.2026-11.org.iocast.lab:vm-{}", self.name)
    }
}

/// A UUID that is the same for the same machine and seed, so that its file system lies the same.
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
mod tests {
    use super::*;

    const PAIR: &str = r#"
seconds = 20
together = "pairs"
[lun]
drive = "cheetah-15k4"
size = "4g"
[[vm]]
name = "mail"
workload = "mail"
disk = "virtio"
size = "1g"
[[vm]]
name = "web"
workload = "web"
disk = "iscsi"
size = "1g"
"#;

    fn read(text: &str) -> Result<Plan, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, text).unwrap();
        Plan::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "plan.toml"))
    }

    #[test]
    fn everybody_runs_alone_before_any_two_run_together() {
        let plan = read(PAIR).unwrap();
        let names: Vec<String> = plan.groups().into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["alone-mail", "alone-web", "together-mail-web"]);
        let listed = read(&PAIR.replace(r#""pairs""#, r#"[["web", "mail"]]"#)).unwrap();
        assert_eq!(listed.groups(), plan.groups());
        let nobody = read(&PAIR.replace("together = \"pairs\"\n", "")).unwrap();
        assert_eq!(nobody.groups().len(), 2);
        assert_eq!(read(&PAIR.replace("pairs", "all")).unwrap().groups(), plan.groups());
    }

    #[test]
    fn three_machines_make_three_pairs_and_one_whole() {
        let third = "[[vm]]\nname = \"db\"\nworkload = \"oltp\"\ndisk = \"virtio\"\nsize = \"1g\"\n";
        let three = PAIR.to_owned() + third;
        let alone = [vec![0], vec![1], vec![2]];
        for (together, expected) in [
            (r#""pairs""#, vec![vec![0, 1], vec![0, 2], vec![1, 2]]),
            (r#""all""#, vec![vec![0, 1, 2]]),
            (r#"[["db", "mail"], ["db", "web", "mail"]]"#, vec![vec![0, 2], vec![0, 1, 2]]),
        ] {
            let groups = read(&three.replace(r#""pairs""#, together)).unwrap().groups();
            let members: Vec<Vec<usize>> = groups.iter().map(|group| group.members.clone()).collect();
            assert_eq!(members, [&alone[..], &expected[..]].concat(), "{together}");
        }
        let listed = read(&three.replace(r#""pairs""#, r#"[["db", "mail"]]"#)).unwrap();
        assert_eq!(listed.groups()[3].name, "together-mail-db");
    }

    #[test]
    fn limits_may_be_reached() {
        let fills = read(&PAIR.replace("\"4g\"", "\"2g\"")).unwrap();
        assert_eq!((fills.place(1), fills.vms[1].size), (1 << 30, 1 << 30));
        let long = "a".repeat(32);
        assert_eq!(
            read(&PAIR.replace("\"mail\"\nworkload", &format!("{long:?}\nworkload"))).unwrap().vms[0].name,
            long
        );
        assert!(read(&PAIR.replace("\"mail\"\nworkload", &format!("\"{long}a\"\nworkload"))).is_err());
        assert!(read(&PAIR.replace("\"1g\"", "\"64m\"")).is_ok() && read(&PAIR.replace("\"1g\"", "\"63m\"")).is_err());
        assert!(read(&PAIR.replace("seconds = 20", "seconds = 20\nwarm_up_seconds = 19")).is_ok());
        let depth = |depth: u32, disk: &str| {
            let text = PAIR.replace(r#"disk = "virtio""#, &format!("disk = {disk:?}"));
            read(&text.replacen("[[vm]]", &format!("[guest]\nqueue_depth = {depth}\n[[vm]]"), 1))
        };
        assert!(depth(1, "virtio").is_ok() && depth(8, "virtio").is_ok() && depth(10, "virtio-scsi").is_ok());
    }

    #[test]
    fn what_a_plan_leaves_open_is_the_plain_case() {
        let plan = read(PAIR).unwrap();
        assert_eq!((plan.warm_up_seconds, plan.repetitions, plan.seed), (0, 1, 1));
        assert_eq!((plan.guest, plan.lun.scheduler), (GuestSettings::default(), None));
        assert_eq!(GuestSettings::default().memory, 512 << 20);
    }

    #[test]
    fn slices_are_equal_and_aligned() {
        let plan = read(&PAIR.replace("4g", "4097m")).unwrap();
        assert_eq!((plan.place(0), plan.place(1)), (0, 2048 << 20));
    }

    #[test]
    fn a_plan_that_cannot_be_says_what_would_be_right() {
        for (from, to, says) in [
            ("seconds = 20", "seconds = 0", "plan.toml: seconds is 0"),
            ("seconds = 20", "seconds = 20\nwarm_up_seconds = 20", "leaves nothing"),
            ("seconds = 20", "seconds = 20\nrepetitions = 0", "repetitions is 0"),
            ("seconds = 20", "seconds = 20\nspeed = 3", "at line 3: unknown field `speed`"),
            (r#"name = "web""#, r#"name = "mail""#, "two VMs are called mail"),
            (r#"name = "web""#, r#"name = "a/b""#, "letters, digits and -"),
            ("\"4g\"", "\"1500m\"", "the disk of mail has 1024 MB, and of the LUN each of 2 has 750 MB"),
            ("\"1g\"", "\"8m\"", "size of mail: whole megabytes, at least 64 MB"),
            ("\"1g\"", "\"1x\"", "at line 11"),
            (r#""pairs""#, r#"[["mail", "wbe"]]"#, r#"together names "wbe"; the VMs are mail, web"#),
            (r#""pairs""#, r#"[["mail", "mail"]]"#, "two or more different VMs"),
            (r#""pairs""#, r#"[["mail"]]"#, "two or more different VMs"),
            (
                r#"workload = "web""#,
                r#"workload = "wbe""#,
                "workload wbe of web: there is no such workload (mail, web, file, oltp) and no such file",
            ),
            (r#"workload = "web""#, r#"filebench = "none.f""#, "filebench none.f of web: No such file"),
            (
                r#"workload = "web""#,
                "workload = \"web\"\nfilebench = \"a.f\"",
                "web has to have a workload, or filebench",
            ),
            ("workload = \"web\"\n", "", "web has to have a workload, or filebench"),
            (r#"disk = "virtio""#, r#"disk = "floppy""#, "at line 10: unknown variant `floppy`"),
            ("[[vm]]", "[guest]\nqueue_depth = 0\n[[vm]]", "queue_depth 0: 1 to 10"),
            ("[[vm]]", "[guest]\nqueue_depth = 11\n[[vm]]", "queue_depth 11: 1 to 10; what stands between"),
            ("[[vm]]", "[guest]\nqueue_depth = 10\n[[vm]]", "mail has a virtio disk, whose queue holds 1, 2, 4 or 8"),
        ] {
            assert!(PAIR.contains(from), "{from}");
            let said = read(&PAIR.replacen(from, to, 1)).unwrap_err();
            assert!(said.contains(says), "{said:?} does not say {says:?}");
        }
        assert!(Plan::read(Path::new("/nowhere/plan.toml")).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn names_that_initiator_and_file_system_go_by_differ_between_machines() {
        let plan = read(PAIR).unwrap();
        assert_ne!(plan.vms[0].initiator(), plan.vms[1].initiator());
        assert_ne!(plan.vms[0].target(), plan.vms[1].target());
        assert_ne!(uuid(1, 0), uuid(1, 1));
        assert_ne!(uuid(1, 0), uuid(2, 0));
        assert_eq!(uuid(u64::MAX, 4095).len(), 36);
    }
}
