//! The steps of a lab: prepares one disk, or runs one group of VMs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use traces::results::lab::LabRun;

use super::super::carrier::GuestJob;
use super::super::plan::{Accelerator, LabGroup, PlannedVm, Transport, uuid};
use super::super::process::{Process, run as run_command};
use super::super::qemu::GuestDisk;
use super::super::results::measure;
use super::super::storage::{ServedStorage, fast_disk};
use super::super::vm::{RunningVm, VmStart};
use super::super::{LabError, filebench};
use super::{Lab, store};

/// The file of a run's figures in its folder; written last.
pub(super) const FIGURES_FILE: &str = "run.json";
/// The time within which a VM must boot, attach its disk and mount it; long enough for TCG on a busy host.
const BOOT_TIMEOUT: Duration = Duration::from_secs(240);
/// The time within which a guest must write its files.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(900);
/// The time within which a workload must end after its planned duration: for its last requests and the archive of its
/// results.
const WORKLOAD_OVERRUN_MAX: Duration = Duration::from_secs(180);
/// The time for which the lab waits until the wire capture records, with a wide margin, and the time within which the
/// capture must end.
const CAPTURE_START_DELAY: Duration = Duration::from_secs(2);
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a disk that are copied at once.
pub(super) const COPY_CHUNK_BYTES: usize = 1 << 20;

/// The state that all runs share.
pub(super) struct LabRunner<'a> {
    pub(super) lab: &'a Lab,
    /// The job of each VM.
    pub(super) jobs: Vec<String>,
    pub(super) accelerator: Accelerator,
    pub(super) sockets: &'a Path,
    pub(super) stop: &'a AtomicBool,
}

/// How long the threads of each VM have waited for a processor of the host.
fn waited(vms: &[RunningVm]) -> Vec<Option<Duration>> {
    vms.iter().map(RunningVm::waited).collect()
}

impl LabRunner<'_> {
    /// Creates the file system of a VM and its workload's initial files, at full speed. An existing disk from an
    /// earlier call is kept.
    pub(super) fn prepare(&self, vm: usize) -> Result<(), LabError> {
        let (plan, folder) = (&self.lab.plan, self.lab.folder.join("prepare").join(&self.lab.plan.vms[vm].name));
        let disk = self.prepared_disk(vm);
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        if disk.is_file() {
            return Ok(());
        }
        let unfinished = disk.with_extension("unfinished");
        File::create(&unfinished)
            .and_then(|file| file.set_len(plan.vms[vm].size))
            .map_err(LabError::io(&unfinished))?;
        let start = self.vm_start(vm, "prepare", fast_disk(&unfinished)?, &folder)?;
        let mut running = RunningVm::start(start)?;
        running.expect("done", BOOT_TIMEOUT + PREPARE_TIMEOUT, self.stop)?;
        running.finish()?;
        std::fs::rename(&unfinished, &disk).map_err(LabError::io(&disk))
    }

    /// Runs the members of a group at once.
    pub(super) fn run(&self, group: &LabGroup, repetition: u32) -> Result<LabRun, LabError> {
        let plan = &self.lab.plan;
        let folder = self.lab.folder.join("runs").join(&group.name).join(repetition.to_string());
        std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        let disk = self.compose(&group.members)?;
        let storage = ServedStorage::start(plan, &group.members, &disk, &self.lab.iocast, &folder, self.sockets)?;
        let wire = self.capture_wire(group, &folder)?;
        let mut running = Vec::new();
        for &member in &group.members {
            let vm = &plan.vms[member];
            let place = folder.join(&vm.name);
            let start = self.vm_start(member, "run", storage.disk(vm)?, &place)?;
            running.push(RunningVm::start(start)?);
        }
        // FileBench lays out its files before it is ready.
        let lays_out = group.members.iter().any(|&vm| plan.vms[vm].filebench.is_some());
        for vm in &mut running {
            vm.expect("ready", BOOT_TIMEOUT + if lays_out { PREPARE_TIMEOUT } else { Duration::ZERO }, self.stop)?;
        }
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (started, before) = (Instant::now(), waited(&running));
        for vm in &mut running {
            vm.say("go")?;
        }
        for vm in &mut running {
            vm.expect("done", Duration::from_secs(plan.seconds.into()) + WORKLOAD_OVERRUN_MAX, self.stop)?;
        }
        let (ran, after) = (started.elapsed(), waited(&running));
        for vm in running {
            vm.finish()?;
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
        let mut figures = measure(plan, group, repetition, &folder, begun)?;
        for (vm, (before, after)) in figures.vms.iter_mut().zip(before.into_iter().zip(after)) {
            let waited = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            vm.host_wait_share = waited.map(|waited| waited.as_secs_f64() / ran.as_secs_f64());
        }
        let path = folder.join(FIGURES_FILE);
        store(&path, &figures)?;
        Ok(figures)
    }

    /// The figures of a run that is already complete.
    pub(super) fn existing_run(&self, group: &LabGroup, repetition: u32) -> Result<Option<LabRun>, LabError> {
        let path = self.lab.folder.join("runs").join(&group.name).join(repetition.to_string()).join(FIGURES_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(LabError::io(&path))?;
        serde_json::from_str(&text).map(Some).map_err(|error| LabError::io(&path)(error.into()))
    }

    /// Composes the drive's image: the prepared disks of `members` at their offsets, zeros elsewhere.
    pub(super) fn compose(&self, members: &[usize]) -> Result<PathBuf, LabError> {
        let path = self.lab.folder.join("lun.img");
        let mut lun = File::create(&path).map_err(LabError::io(&path))?;
        lun.set_len(self.lab.plan.lun.size).map_err(LabError::io(&path))?;
        for &member in members {
            let disk = self.prepared_disk(member);
            let mut from = File::open(&disk).map_err(LabError::io(&disk))?;
            copy_sparse(&mut from, &mut lun, self.lab.plan.place(member)).map_err(LabError::io(&path))?;
        }
        Ok(path)
    }

    /// Captures the wire if a member has an iSCSI disk.
    fn capture_wire(&self, group: &LabGroup, folder: &Path) -> Result<Option<Process>, LabError> {
        if group.members.iter().all(|&vm| self.lab.plan.vms[vm].disk != Transport::Iscsi) {
            return Ok(None);
        }
        let mut command = Command::new(&self.lab.iocast);
        command.args(["capture", "iscsi", "--force", "--interface", "lo"]);
        command.arg("--output").arg(folder.join("wire.parquet")).arg("--raw").arg(folder.join("wire.pcap.gz"));
        let mut capture = Process::start(&mut command, &folder.join("wire.log"))?;
        // The capture does not report when it starts; VMs take longer to boot.
        let started = Instant::now();
        capture.wait_until(CAPTURE_TIMEOUT, || started.elapsed() > CAPTURE_START_DELAY)?;
        Ok(Some(capture))
    }

    /// Converts the guest's blktrace capture to a Parquet trace.
    fn convert(&self, vm: &PlannedVm, folder: &Path) -> Result<(), LabError> {
        let (from, to) = (folder.join(&vm.name), folder.join(format!("{}.parquet", vm.name)));
        let mut command = Command::new(&self.lab.iocast);
        command.arg("convert").arg(from.join(format!("{}.blktrace.0", vm.name))).arg(&to);
        command.args(["--force", "--vm", &vm.name]);
        run_command(&mut command).map(drop)
    }

    pub(super) fn vm_start<'b>(
        &'b self,
        vm: usize,
        stage: &str,
        disk: GuestDisk,
        folder: &'b Path,
    ) -> Result<VmStart<'b>, LabError> {
        let (plan, name) = (&self.lab.plan, &self.lab.plan.vms[vm].name);
        let carried = carried(&plan.vms[vm])?;
        let settings = vec![
            ("STAGE", stage.to_owned()),
            ("PROGRAM", if carried.is_empty() { "fio" } else { filebench::PROGRAM }.to_owned()),
            ("VM", name.clone()),
            ("TRANSPORT", disk.transport().to_owned()),
            ("RUNTIME", plan.seconds.to_string()),
            ("SEED", plan.seed.to_string()),
            ("UUID", uuid(plan.seed, vm)),
            ("SCHEDULER", plan.guest.scheduler.clone().unwrap_or_default()),
            ("QUEUE_DEPTH", plan.guest.queue_depth.to_string()),
            ("TRACEFS", if plan.guest.tracefs { "1" } else { "" }.to_owned()),
            ("INITIATOR", plan.vms[vm].initiator()),
            ("TARGET", plan.vms[vm].target()),
        ];
        let (image, accelerator, memory) = (&self.lab.image, self.accelerator, plan.guest.memory);
        let recorder = (plan.guest.tracefs && stage == "run").then_some(self.lab.iocast.as_path());
        let job = GuestJob { text: &self.jobs[vm], settings, recorder, carried };
        Ok(VmStart { image, accelerator, memory, name, disk, job, folder })
    }

    fn prepared_disk(&self, vm: usize) -> PathBuf {
        self.lab.folder.join("prepare").join(format!("{}.img", self.lab.plan.vms[vm].name))
    }
}

/// The host's programs and libraries that a VM's workload needs in the guest.
fn carried(vm: &PlannedVm) -> Result<Vec<PathBuf>, LabError> {
    if vm.filebench.is_some() { filebench::files() } else { Ok(Vec::new()) }
}

/// Copies the chunks of a disk that are not all zeros to `place`, where the image is zero.
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
