//! All runs of a plan: disks prepared once, then each machine alone and groups together, again and again.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use traces::results::lab::{LabResults, LabRun};

use super::image::GuestImage;
use super::plan::{Accelerator, LabGroup, Plan, PlannedVm, Transport, uuid};
use super::process::{Process, require, run as run_command};
use super::results::{measure, summarise};
use super::storage::{ServedStorage, devices};
use super::vm::{RunningVm, VmStart};
use super::{LabError, filebench, sandbox};

/// The plan, in the folder of its results.
const PLAN_FILE: &str = "plan.toml";
/// The figures of a run, in its folder; written last.
const FIGURES_FILE: &str = "run.json";
/// How long a guest may take to boot, attach its disk and mount it; TCG on a busy machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(240);
/// How long it may take to write its files.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(900);
/// How much longer than planned a workload may take: its last requests and the archive of its results.
const WORKLOAD_OVERRUN_MAX: Duration = Duration::from_secs(180);
/// What a virtio disk takes at once while it is prepared.
const PREPARE_QUEUE_DEPTH: u32 = 8;
/// About how long it takes to prepare a disk, and what a run takes beside its workload; for the time that is shown to
/// be left.
const DISK_ESTIMATE: Duration = Duration::from_secs(45);
const RUN_OVERHEAD_ESTIMATE: Duration = Duration::from_secs(25);
/// How long the capture of the wire takes to begin, many times over, and how long it may take to end.
const CAPTURE_START_DELAY: Duration = Duration::from_secs(2);
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(30);
/// How disks are copied, in bytes.
const COPY_CHUNK_BYTES: usize = 1 << 20;

/// Where a lab works and with what.
#[derive(Clone, Debug)]
pub struct Lab {
    /// What is done.
    pub plan: Plan,
    /// The plan as it was written.
    pub plan_text: String,
    /// The folder that the plan's relative paths start from.
    pub plan_folder: PathBuf,
    /// The folder of the results; made if it is not there.
    pub folder: PathBuf,
    /// What guests boot.
    pub image: GuestImage,
    /// The program that serves the disk, converts and captures the wire: `iocast`.
    pub iocast: PathBuf,
}

/// Who is told how far a lab is.
pub trait LabProgress {
    /// `what` begins, step `step` of `steps`; it and the rest take about `left`.
    fn begins(&mut self, what: &str, step: usize, steps: usize, left: Duration);
}

/// That the programs which `plan` needs are installed: before the work, not in the middle of it.
///
/// # Errors
/// The first that is missing, with its Debian package if there is one.
pub fn check_programs(plan: &Plan) -> Result<(), LabError> {
    require(&[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("nbdkit", "nbdkit"),
        ("nbdfuse", "libnbd-bin"),
        ("tar", "tar"),
        ("unshare", "util-linux"),
        ("ip", "iproute2"),
    ])?;
    if plan.vms.iter().any(|vm| vm.disk == Transport::Iscsi) {
        require(&[("tgtd", "tgt"), ("tgtadm", "tgt"), ("dumpcap", "wireshark-common"), ("mount", "mount")])?;
    }
    plan.vms.iter().try_for_each(|vm| carried(vm).map(drop))
}

/// The host's programs and libraries that a machine's workload takes along.
fn carried(vm: &PlannedVm) -> Result<Vec<PathBuf>, LabError> {
    vm.filebench.as_ref().map_or(Ok(Vec::new()), |asked| filebench::files(&vm.name, asked))
}

/// Makes every run of the plan.
///
/// # Errors
/// The first run that fails ends it, or `stop` does; what was finished before stays.
pub fn run(lab: &Lab, watch: &mut dyn LabProgress, stop: &AtomicBool) -> Result<LabResults, LabError> {
    let plan = &lab.plan;
    std::fs::create_dir_all(&lab.folder).map_err(LabError::io(&lab.folder))?;
    keep_plan(lab)?;
    let scratch = tempfile::tempdir().map_err(LabError::io(&std::env::temp_dir()))?;
    let groups = plan.groups();
    let (disks, all_runs) = (plan.vms.len(), groups.len() * plan.repetitions as usize);
    let steps = disks + all_runs;
    let left = |disks: usize, runs: usize| {
        DISK_ESTIMATE * disks as u32 + (RUN_OVERHEAD_ESTIMATE + Duration::from_secs(plan.seconds.into())) * runs as u32
    };
    let accelerator = lab.image.accelerator(plan.guest.accelerator, scratch.path())?;
    let bench = LabRunner { lab, accelerator, sockets: scratch.path(), stop };
    for vm in 0..disks {
        watch.begins(
            &format!("preparing the disk of {}", plan.vms[vm].name),
            1 + vm,
            steps,
            left(disks - vm, all_runs),
        );
        bench.prepare(vm)?;
    }
    let mut runs = Vec::new();
    for repetition in 1..=plan.repetitions {
        for group in &groups {
            if let Some(made) = bench.made(group, repetition)? {
                runs.push(made);
                continue;
            }
            let what = format!("{}, repetition {repetition} of {}", group.name, plan.repetitions);
            watch.begins(&what, 1 + disks + runs.len(), steps, left(0, all_runs - runs.len()));
            runs.push(bench.run(group, repetition)?);
        }
    }
    Ok(summarise(plan, &lab.image.version, accelerator, runs))
}

/// What all runs share.
struct LabRunner<'a> {
    lab: &'a Lab,
    accelerator: Accelerator,
    sockets: &'a Path,
    stop: &'a AtomicBool,
}

impl LabRunner<'_> {
    /// Makes the file system of a machine and the files that its workload begins with, at full speed. A disk that is
    /// there from an earlier call stays as it is.
    fn prepare(&self, vm: usize) -> Result<(), LabError> {
        let (plan, folder) = (&self.lab.plan, self.lab.folder.join("prepare").join(&self.lab.plan.vms[vm].name));
        let disk = self.prepared(vm);
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        if disk.is_file() {
            return Ok(());
        }
        let unfinished = disk.with_extension("unfinished");
        File::create(&unfinished)
            .and_then(|file| file.set_len(plan.vms[vm].size))
            .map_err(LabError::io(&unfinished))?;
        let job = self.job(vm)?;
        let mut devices = devices(Transport::Virtio, PREPARE_QUEUE_DEPTH, &unfinished);
        // Nobody needs it should the host lose power now.
        devices.iter_mut().for_each(|argument| *argument = argument.replace("cache=none,aio=native", "cache=unsafe"));
        let mut guest = RunningVm::start(&self.machine(vm, "prepare", Transport::Virtio, devices, &job, &folder)?)?;
        guest.expect("done", BOOT_TIMEOUT + PREPARE_TIMEOUT, self.stop)?;
        guest.finish()?;
        std::fs::rename(&unfinished, &disk).map_err(LabError::io(&disk))
    }

    /// Runs the members of a group at once.
    fn run(&self, group: &LabGroup, repetition: u32) -> Result<LabRun, LabError> {
        let plan = &self.lab.plan;
        let folder = self.lab.folder.join("runs").join(&group.name).join(repetition.to_string());
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        let disk = self.compose(&group.members)?;
        let storage = ServedStorage::start(plan, &group.members, &disk, &self.lab.iocast, &folder, self.sockets)?;
        let wire = self.wire(group, &folder)?;
        let mut guests = Vec::new();
        for &member in &group.members {
            let vm = &plan.vms[member];
            let (job, place) = (self.job(member)?, folder.join(&vm.name));
            let machine = self.machine(member, "run", vm.disk, storage.devices(vm), &job, &place)?;
            guests.push(RunningVm::start(&machine)?);
        }
        // FileBench lays its files out by then.
        let lays_out = group.members.iter().any(|&vm| plan.vms[vm].filebench.is_some());
        for guest in &mut guests {
            guest.expect("ready", BOOT_TIMEOUT + if lays_out { PREPARE_TIMEOUT } else { Duration::ZERO }, self.stop)?;
        }
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for guest in &mut guests {
            guest.say("go")?;
        }
        for guest in &mut guests {
            guest.expect("done", Duration::from_secs(plan.seconds.into()) + WORKLOAD_OVERRUN_MAX, self.stop)?;
        }
        for guest in guests {
            guest.finish()?;
        }
        if let Some(wire) = wire {
            wire.end(CAPTURE_TIMEOUT)?;
        }
        storage.stop()?;
        std::fs::remove_file(&disk).map_err(LabError::io(&disk))?;
        for &member in &group.members {
            self.convert(&plan.vms[member], &folder)?;
        }
        let begun = i64::try_from(begun.as_nanos()).unwrap_or(i64::MAX);
        let figures = measure(plan, group, repetition, &folder, begun)?;
        let path = folder.join(FIGURES_FILE);
        let text = serde_json::to_string_pretty(&figures).map_err(|error| LabError::io(&path)(error.into()))?;
        std::fs::write(&path, text).map_err(LabError::io(&path))?;
        Ok(figures)
    }

    /// The figures of a run that was made before.
    fn made(&self, group: &LabGroup, repetition: u32) -> Result<Option<LabRun>, LabError> {
        let path = self.lab.folder.join("runs").join(&group.name).join(repetition.to_string()).join(FIGURES_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(LabError::io(&path))?;
        serde_json::from_str(&text).map(Some).map_err(|error| LabError::io(&path)(error.into()))
    }

    /// The drive's image with the prepared disks of `members` at their places, the rest of it empty.
    fn compose(&self, members: &[usize]) -> Result<PathBuf, LabError> {
        let path = self.lab.folder.join("lun.img");
        let mut lun = File::create(&path).map_err(LabError::io(&path))?;
        lun.set_len(self.lab.plan.lun.size).map_err(LabError::io(&path))?;
        for &member in members {
            let disk = self.prepared(member);
            let mut from = File::open(&disk).map_err(LabError::io(&disk))?;
            copy_sparse(&mut from, &mut lun, self.lab.plan.place(member)).map_err(LabError::io(&path))?;
        }
        Ok(path)
    }

    /// Records the wire if somebody uses it.
    fn wire(&self, group: &LabGroup, folder: &Path) -> Result<Option<Process>, LabError> {
        if group.members.iter().all(|&vm| self.lab.plan.vms[vm].disk != Transport::Iscsi) {
            return Ok(None);
        }
        let mut command = Command::new(&self.lab.iocast);
        command.args(["capture", "iscsi", "--force", "--interface", "lo"]);
        command.arg("--output").arg(folder.join("wire.parquet")).arg("--raw").arg(folder.join("wire.pcap.gz"));
        let mut capture = Process::start(&mut command, "wireshark-common", &folder.join("wire.log"))?;
        // It does not say when it listens; guests take longer to boot.
        let started = Instant::now();
        capture.wait_until(CAPTURE_TIMEOUT, || started.elapsed() > CAPTURE_START_DELAY)?;
        Ok(Some(capture))
    }

    /// The guest's capture as a trace that goes anywhere.
    fn convert(&self, vm: &PlannedVm, folder: &Path) -> Result<(), LabError> {
        let (from, to) = (folder.join(&vm.name), folder.join(format!("{}.parquet", vm.name)));
        let mut command = Command::new(&self.lab.iocast);
        command.arg("convert").arg(from.join(format!("{}.blktrace.0", vm.name))).arg(&to);
        command.args(["--force", "--vm", &vm.name]);
        run_command(&mut command, "iocast").map(drop)
    }

    fn machine<'b>(
        &'b self,
        vm: usize,
        stage: &str,
        disk: Transport,
        devices: Vec<String>,
        job: &'b str,
        folder: &'b Path,
    ) -> Result<VmStart<'b>, LabError> {
        let (plan, name) = (&self.lab.plan, &self.lab.plan.vms[vm].name);
        let carried = carried(&plan.vms[vm])?;
        let transport = match disk {
            Transport::Virtio => "virtio",
            Transport::VirtioScsi => "virtio-scsi",
            Transport::Iscsi => "iscsi",
        };
        let settings = vec![
            ("STAGE", stage.to_owned()),
            ("PROGRAM", if carried.is_empty() { "fio" } else { filebench::PROGRAM }.to_owned()),
            ("VM", name.clone()),
            ("TRANSPORT", transport.to_owned()),
            ("RUNTIME", plan.seconds.to_string()),
            ("SEED", plan.seed.to_string()),
            ("UUID", uuid(plan.seed, vm)),
            ("SCHEDULER", plan.guest.scheduler.clone().unwrap_or_default()),
            ("QUEUE_DEPTH", plan.guest.queue_depth.to_string()),
            ("TRACEFS", if plan.guest.tracefs { "1" } else { "" }.to_owned()),
            ("INITIATOR", plan.vms[vm].initiator()),
            ("TARGET", plan.vms[vm].target()),
        ];
        let (image, accelerator, memory, sockets) =
            (&self.lab.image, self.accelerator, plan.guest.memory, self.sockets);
        let recorder = (plan.guest.tracefs && stage == "run").then_some(self.lab.iocast.as_path());
        Ok(VmStart { image, accelerator, memory, name, devices, settings, job, recorder, carried, folder, sockets })
    }

    fn job(&self, vm: usize) -> Result<String, LabError> {
        self.lab.plan.job(vm, &self.lab.plan_folder).map_err(LabError::Host)
    }

    fn prepared(&self, vm: usize) -> PathBuf {
        self.lab.folder.join("prepare").join(format!("{}.img", self.lab.plan.vms[vm].name))
    }
}

/// Keeps the plan with its results. Where there are some, they have to be of the same plan, but for the number of repetitions.
fn keep_plan(lab: &Lab) -> Result<(), LabError> {
    let kept = lab.folder.join(PLAN_FILE);
    if kept.is_file() {
        let before = Plan { repetitions: lab.plan.repetitions, ..Plan::parse(&kept)? };
        if before != lab.plan {
            let problem = format!("{} is not this plan: name another folder", kept.display());
            return Err(LabError::Host(problem));
        }
    }
    std::fs::write(&kept, &lab.plan_text).map_err(LabError::io(&kept))
}

/// Copies what is not zero to `place`, where there are zeros.
fn copy_sparse(from: &mut File, to: &mut File, place: u64) -> std::io::Result<()> {
    let mut piece = vec![0; COPY_CHUNK_BYTES];
    let mut at = place;
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        if piece[..read].iter().any(|&byte| byte != 0) {
            to.seek(SeekFrom::Start(at))?;
            to.write_all(&piece[..read])?;
        }
        at += read as u64;
    }
}

/// That this user may do what `plan` needs.
///
/// # Errors
/// iSCSI needs root.
pub fn check_rights(plan: &Plan) -> Result<(), LabError> {
    if sandbox::is_entered() || sandbox::is_root() || plan.vms.iter().all(|vm| vm.disk != Transport::Iscsi) {
        return Ok(());
    }
    Err(LabError::Host(
        "a target and its disks over iSCSI need root (CAP_SYS_ADMIN to mount, CAP_NET_RAW to record the wire); virtio \
         disks do not"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use traces::results::lab::{LabFigures, LabVm};

    use super::*;

    const PLAN_TEXT: &str = "seconds = 10\nrepetitions = 2\ntogether = \"pairs\"\n[lun]\ndrive = \"x\"\nsize = \"8m\"\n\
        [guest]\naccelerator = \"tcg\"\n\
        [[vm]]\nname = \"a\"\nworkload = \"mail\"\ndisk = \"virtio\"\nsize = \"3m\"\n\
        [[vm]]\nname = \"b\"\nworkload = \"web\"\ndisk = \"virtio\"\nsize = \"3m\"\n";
    const GROUPS: [&str; 3] = ["alone-a", "alone-b", "together-a-b"];

    fn lab(folder: &Path, plan_text: &str) -> Lab {
        let nowhere = PathBuf::from("/nowhere");
        Lab {
            plan: toml::from_str(plan_text).unwrap(),
            plan_text: plan_text.to_owned(),
            plan_folder: nowhere.clone(),
            folder: folder.to_owned(),
            image: GuestImage { kernel: nowhere.clone(), initramfs: nowhere.clone(), version: "6.1".to_owned() },
            iocast: nowhere.join("iocast"),
        }
    }

    /// Leaves what a lab of the plan leaves: disks that begin with their machine's name, and figures that differ.
    fn made(folder: &Path) -> Vec<LabRun> {
        std::fs::create_dir_all(folder.join("prepare")).unwrap();
        for name in ["a", "b"] {
            std::fs::write(folder.join("prepare").join(format!("{name}.img")), disk(name)).unwrap();
        }
        let mut runs = Vec::new();
        for repetition in 1..=2 {
            for group in GROUPS {
                let place = folder.join("runs").join(group).join(repetition.to_string());
                std::fs::create_dir_all(&place).unwrap();
                let guest = LabFigures::default();
                let vm = LabVm {
                    vm: group.to_owned(),
                    drive: guest.clone(),
                    guest,
                    wire: None,
                    tracefs: None,
                    recorder_cpu_ns: Default::default(),
                    filebench: None,
                };
                let begun_unix_ns = runs.len() as i64;
                let run =
                    LabRun { group: group.to_owned(), repetition, folder: String::new(), begun_unix_ns, vms: vec![vm] };
                std::fs::write(place.join(FIGURES_FILE), serde_json::to_string(&run).unwrap()).unwrap();
                runs.push(run);
            }
        }
        runs
    }

    /// Something at its beginning, a piece of nothing, one of nothing but something, and an end that is no whole piece.
    fn disk(name: &str) -> Vec<u8> {
        let mut disk = vec![0; 3 * COPY_CHUNK_BYTES + 300];
        let letter = name.as_bytes()[0];
        disk[2 * COPY_CHUNK_BYTES..3 * COPY_CHUNK_BYTES].fill(letter);
        (disk[0], disk[3 * COPY_CHUNK_BYTES + 299]) = (letter, letter);
        disk
    }

    #[derive(Default)]
    struct SeenSteps(Vec<(String, usize, usize, u64)>);

    impl LabProgress for SeenSteps {
        fn begins(&mut self, what: &str, step: usize, steps: usize, left: Duration) {
            self.0.push((what.to_owned(), step, steps, left.as_secs()));
        }
    }

    #[test]
    fn runs_that_were_made_are_kept_and_only_those_that_are_missing_made() {
        let folder = tempfile::tempdir().unwrap();
        let (lab, stop) = (lab(folder.path(), PLAN_TEXT), AtomicBool::new(false));
        let expected = made(folder.path());
        let mut told = SeenSteps::default();
        assert_eq!(run(&lab, &mut told, &stop).unwrap().runs, expected);
        let [first, second] = ["a", "b"].map(|name| format!("preparing the disk of {name}"));
        assert_eq!(told.0, [(first, 1, 8, 2 * 45 + 6 * 35), (second, 2, 8, 45 + 6 * 35)]);

        // Nothing serves the disk here, so that it ends with the first run that is to be made.
        std::fs::remove_file(folder.path().join("runs/alone-b/2").join(FIGURES_FILE)).unwrap();
        let mut told = SeenSteps::default();
        assert!(matches!(run(&lab, &mut told, &stop), Err(LabError::Missing { package: "nbdkit", .. })));
        assert_eq!(told.0[2], ("alone-b, repetition 2 of 2".to_owned(), 7, 8, 2 * 35));
        assert_eq!(told.0.len(), 3);
        // Its disk lies in its slice, and nobody else's anywhere.
        let mut lun = vec![0; 8 << 20];
        let slice = 4 << 20;
        lun[slice..slice + disk("b").len()].copy_from_slice(&disk("b"));
        assert!(std::fs::read(folder.path().join("lun.img")).unwrap() == lun);
    }

    #[test]
    fn disks_of_a_group_lie_each_in_its_slice() {
        let folder = tempfile::tempdir().unwrap();
        made(folder.path());
        let (lab, stop) = (lab(folder.path(), PLAN_TEXT), AtomicBool::new(false));
        let bench = LabRunner { lab: &lab, accelerator: Accelerator::Tcg, sockets: folder.path(), stop: &stop };
        let mut lun = vec![0; 8 << 20];
        for (slice, name) in [(0, "a"), (4 << 20, "b")] {
            lun[slice..slice + disk(name).len()].copy_from_slice(&disk(name));
        }
        // What the run before left there is gone.
        std::fs::write(folder.path().join("lun.img"), vec![7; 9 << 20]).unwrap();
        assert!(std::fs::read(bench.compose(&[0, 1]).unwrap()).unwrap() == lun);
    }

    #[test]
    fn a_folder_is_of_one_plan_with_any_number_of_repetitions() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join(PLAN_FILE);
        for text in [PLAN_TEXT, &PLAN_TEXT.replace("repetitions = 2", "repetitions = 5")] {
            keep_plan(&lab(folder.path(), text)).unwrap();
            assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
        }
        let before = std::fs::read_to_string(&kept).unwrap();
        for (from, to) in [("seconds = 10", "seconds = 11"), ("\"8m\"", "\"9m\""), ("\"pairs\"", "\"all\"")] {
            let other = lab(folder.path(), &PLAN_TEXT.replace(from, to));
            assert!(
                keep_plan(&other).unwrap_err().to_string().contains("is not this plan: name another folder"),
                "{to}"
            );
            assert_eq!(std::fs::read_to_string(&kept).unwrap(), before);
        }
    }

    #[test]
    fn a_guest_is_told_what_the_plan_says() {
        let folder = tempfile::tempdir().unwrap();
        let text = PLAN_TEXT.replace("seconds = 10", "seconds = 10\nseed = 9\nwarm_up_seconds = 3");
        let text =
            text.replace("[guest]", "[guest]\ntracefs = true\nscheduler = \"bfq\"\nqueue_depth = 4\nmemory = \"1g\"");
        let (lab, stop) = (lab(folder.path(), &text), AtomicBool::new(false));
        let bench = LabRunner { lab: &lab, accelerator: Accelerator::Tcg, sockets: folder.path(), stop: &stop };
        let job = bench.job(1).unwrap();
        assert!(job.contains("[get]"));
        for (stage, recorder) in [("run", Some(lab.iocast.as_path())), ("prepare", None)] {
            let machine = bench.machine(1, stage, Transport::VirtioScsi, Vec::new(), &job, folder.path()).unwrap();
            assert_eq!((machine.name, machine.memory, machine.recorder), ("b", 1 << 30, recorder));
            let told = |name| machine.settings.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
            let plain =
                ["STAGE", "PROGRAM", "VM", "TRANSPORT", "RUNTIME", "SEED", "SCHEDULER", "QUEUE_DEPTH", "TRACEFS"]
                    .map(told);
            assert_eq!(plain, [stage, "fio", "b", "virtio-scsi", "10", "9", "bfq", "4", "1"]);
            assert_eq!(told("UUID"), uuid(9, 1));
            assert_eq!(
                (told("INITIATOR"), told("TARGET")),
                (&*lab.plan.vms[1].initiator(), &*lab.plan.vms[1].target())
            );
        }
    }
}
