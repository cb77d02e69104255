use std::path::{Path, PathBuf};

use traces::results::lab::{LabFigures, LabRun, LabVm};

use super::super::plan::{Accelerator, uuid};
use super::super::qemu::GuestDisk;
use super::runner::{COPY_CHUNK_BYTES, FIGURES_FILE};
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

/// Creates the results of a complete lab: disks that begin with their VM's name, and distinct figures.
fn complete_lab(folder: &Path) -> Vec<LabRun> {
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
            let vm = LabVm { vm: group.to_owned(), drive: guest.clone(), guest, ..LabVm::default() };
            let begun_unix_ns = runs.len() as i64;
            let run =
                LabRun { group: group.to_owned(), repetition, folder: String::new(), begun_unix_ns, vms: vec![vm] };
            std::fs::write(place.join(FIGURES_FILE), serde_json::to_string(&run).unwrap()).unwrap();
            runs.push(run);
        }
    }
    runs
}

/// A disk with a nonzero byte at its beginning, a chunk of zeros, a nonzero chunk, and an end that is no whole chunk.
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
fn complete_runs_are_kept_and_missing_ones_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, stop) = (lab(folder.path(), PLAN_TEXT), AtomicBool::new(false));
    let expected = complete_lab(folder.path());
    let mut steps = SeenSteps::default();
    let results = run(&lab, &mut steps, &stop).unwrap();
    assert_eq!((&results.runs, results.planned_runs, results.missing_runs()), (&expected, 6, 0));
    let stored =
        || -> LabResults { serde_json::from_slice(&std::fs::read(folder.path().join(RESULTS_FILE)).unwrap()).unwrap() };
    assert_eq!(stored(), results);
    let [first, second] = ["a", "b"].map(|name| format!("preparing the disk of {name}"));
    assert_eq!(steps.0, [(first, 1, 8, 2 * 45 + 6 * 35), (second, 2, 8, 45 + 6 * 35)]);

    // No program serves the drive here, so the lab ends with the first run that it must make.
    std::fs::remove_file(folder.path().join("runs/alone-b/2").join(FIGURES_FILE)).unwrap();
    let mut steps = SeenSteps::default();
    assert!(matches!(run(&lab, &mut steps, &stop), Err(LabError::Missing { program }) if program == "iocast"));
    assert_eq!(steps.0[2], ("alone-b, repetition 2 of 2".to_owned(), 7, 8, 2 * 35));
    // Results of the runs before it can be read.
    assert_eq!((&stored().runs[..], stored().missing_runs()), (&expected[..4], 2));
    assert_eq!(steps.0.len(), 3);
    // The VM's disk lies in its slice; the other slice is empty.
    let mut lun = vec![0; 8 << 20];
    let slice = 4 << 20;
    lun[slice..slice + disk("b").len()].copy_from_slice(&disk("b"));
    assert!(std::fs::read(folder.path().join("lun.img")).unwrap() == lun);
}

#[test]
fn jobs_lie_beside_the_results_and_do_not_change() {
    let (plans, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let job = plans.path().join("scan.fio");
    std::fs::write(&job, "[scan]\nruntime=${RUNTIME}\n").unwrap();
    let plan = PLAN_TEXT.replace("workload = \"web\"", "workload = \"scan.fio\"");
    let lab = Lab { plan_folder: plans.path().to_owned(), ..lab(results.path(), &plan) };
    keep_jobs(&lab).unwrap();
    keep_jobs(&lab).unwrap();
    let kept = |name: &str| std::fs::read_to_string(results.path().join("jobs").join(name)).unwrap();
    assert_eq!(kept("b.fio"), std::fs::read_to_string(&job).unwrap());
    assert!(kept("a.fio").contains("${RUNTIME}"));
    // The plan that is kept with the results finds them there.
    assert_eq!(lab.plan.job(1, results.path()).unwrap(), kept("b.fio"));
    let elsewhere = lab.plan.job(1, Path::new("/nowhere")).unwrap_err();
    assert!(elsewhere.contains("workload scan.fio of b: there is no such workload"), "{elsewhere}");
    std::fs::write(&job, "[scan]\nbs=8k\nruntime=${RUNTIME}\n").unwrap();
    let refused = keep_jobs(&lab).unwrap_err().to_string();
    assert!(refused.contains("b.fio is not this job of b: name another folder"), "{refused}");
}

#[test]
fn each_disk_of_a_group_lies_in_its_slice() {
    let folder = tempfile::tempdir().unwrap();
    complete_lab(folder.path());
    let (lab, stop) = (lab(folder.path(), PLAN_TEXT), AtomicBool::new(false));
    let runner = LabRunner {
        jobs: keep_jobs(&lab).unwrap(),
        lab: &lab,
        accelerator: Accelerator::Tcg,
        sockets: folder.path(),
        stop: &stop,
    };
    let mut lun = vec![0; 8 << 20];
    for (slice, name) in [(0, "a"), (4 << 20, "b")] {
        lun[slice..slice + disk(name).len()].copy_from_slice(&disk(name));
    }
    // The image of the previous run is overwritten.
    std::fs::write(folder.path().join("lun.img"), vec![7; 9 << 20]).unwrap();
    assert!(std::fs::read(runner.compose(&[0, 1]).unwrap()).unwrap() == lun);
}

#[test]
fn folder_accepts_its_own_plan_with_any_number_of_repetitions() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join(PLAN_FILE);
    for text in [PLAN_TEXT, &PLAN_TEXT.replace("repetitions = 2", "repetitions = 5")] {
        keep_plan(&lab(folder.path(), text)).unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    }
    let before = std::fs::read_to_string(&kept).unwrap();
    for (from, to) in [("seconds = 10", "seconds = 11"), ("\"8m\"", "\"9m\""), ("\"pairs\"", "\"all\"")] {
        let other = lab(folder.path(), &PLAN_TEXT.replace(from, to));
        assert!(keep_plan(&other).unwrap_err().to_string().contains("is not this plan: name another folder"), "{to}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), before);
    }
}

#[test]
fn guest_settings_follow_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let text = PLAN_TEXT.replace("seconds = 10", "seconds = 10\nseed = 9\nwarm_up_seconds = 3");
    let text =
        text.replace("[guest]", "[guest]\ntracefs = true\nscheduler = \"bfq\"\nqueue_depth = 4\nmemory = \"1g\"");
    let (lab, stop) = (lab(folder.path(), &text), AtomicBool::new(false));
    let runner = LabRunner {
        jobs: keep_jobs(&lab).unwrap(),
        lab: &lab,
        accelerator: Accelerator::Tcg,
        sockets: folder.path(),
        stop: &stop,
    };
    for (stage, recorder) in [("run", Some(lab.iocast.as_path())), ("prepare", None)] {
        let disk = GuestDisk::Scsi(tempfile::tempfile().unwrap());
        let start = runner.vm_start(1, stage, disk, folder.path()).unwrap();
        assert_eq!((start.name, start.memory, start.job.recorder), ("b", 1 << 30, recorder));
        assert!(start.job.text.contains("[get]"));
        let setting = |name| start.job.settings.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
        let plain = ["STAGE", "PROGRAM", "VM", "TRANSPORT", "RUNTIME", "SEED", "SCHEDULER", "QUEUE_DEPTH", "TRACEFS"]
            .map(setting);
        assert_eq!(plain, [stage, "fio", "b", "virtio-scsi", "10", "9", "bfq", "4", "1"]);
        assert_eq!(setting("UUID"), uuid(9, 1));
        assert_eq!(
            (setting("INITIATOR"), setting("TARGET")),
            (&*lab.plan.vms[1].initiator(), &*lab.plan.vms[1].target())
        );
    }
}
