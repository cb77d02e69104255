//! Makes the runs: a lab for the captures, and one for each scheduler, repetition by repetition.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capture::lab::{Lab, LabProgress, Plan};
use traces::whole_file::write_whole;

use super::folder::{CAPTURE_FOLDER, PLAN_FILE};
use crate::arguments::ValidateGuest;
use crate::capture::lab as labs;
use crate::error::UsageError;
use crate::needs::uses;
use crate::quiet;

/// About how long a run takes besides its workload.
const RUN_OVERHEAD_ESTIMATE: Duration = Duration::from_secs(25);
/// The fewest repetitions, which an interval needs.
const REPETITIONS_MIN: u32 = 2;
/// Without --capture-seconds, captures are this many times as long as the other runs. A process that is faster under
/// another scheduler then has requests for the whole of their time.
const CAPTURE_TIMES: u32 = 2;

/// One lab of the folder.
struct Part {
    /// Its folder within that of the results.
    name: String,
    plan: Plan,
    text: String,
}

/// Makes all runs of a plan, the captures under the first of `schedulers`. Returns the folder of the results.
///
/// # Errors
/// As `iocast capture lab`; a plan with fewer than two repetitions.
pub fn make(arguments: &ValidateGuest, schedulers: &[String]) -> Result<PathBuf> {
    let given = &arguments.input;
    let plan = Plan::read(given).map_err(UsageError::from_display)?;
    ensure!(
        plan.repetitions >= REPETITIONS_MIN,
        UsageError(format!(
            "{}: repetitions is {}; intervals need {REPETITIONS_MIN} or more",
            given.display(),
            plan.repetitions
        ))
    );
    let text = traces::read_text(given).with_context(|| given.display().to_string())?;
    let seconds = arguments.capture_seconds.unwrap_or_else(|| plan.seconds.saturating_mul(CAPTURE_TIMES));
    let part = |name: &str, scheduler: &str, seconds: Option<u32>| -> Result<Part> {
        let (plan, text) = Plan::alone_under(&text, scheduler, seconds, given)?;
        Ok(Part { name: name.to_owned(), plan, text })
    };
    let mut captures = part(CAPTURE_FOLDER, &schedulers[0], Some(seconds))?;
    captures.plan.repetitions = 1;
    let under = schedulers.iter().map(|scheduler| part(scheduler, scheduler, None)).collect::<Result<Vec<_>>>()?;
    let folder = arguments.folders.output.clone().unwrap_or_else(|| given.with_extension(""));
    let needed = [uses::VALIDATE_GUEST, uses::VALIDATE_GUEST_IMAGE];
    let host =
        labs::enter(&captures.plan, &folder, arguments.folders.resume, arguments.folders.cache.as_deref(), needed)?;
    let folder = std::path::absolute(&folder)?;
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let kept = folder.join(PLAN_FILE);
    write_whole(&kept, text.as_bytes())?;
    let mut steps = Steps::new(&plan, seconds, under.len());
    let mut run = |part: &Part, repetition: u32| -> Result<()> {
        let plan = Plan { repetitions: repetition, ..part.plan.clone() };
        steps.begin(&part.name);
        let lab = Lab {
            plan,
            plan_text: part.text.clone(),
            plan_folder: given.parent().map(Path::to_path_buf).unwrap_or_default(),
            folder: folder.join(&part.name),
            image: host.image.clone(),
            iocast: std::env::current_exe()?,
        };
        labs::make(&lab, &mut steps, &host.stop).map(drop)
    };
    run(&captures, 1)?;
    for part in &under {
        share_disks(&folder, part)?;
    }
    // Schedulers take turns, so that a change of the host's load meets all of them.
    for repetition in 1..=plan.repetitions {
        for part in &under {
            run(part, repetition)?;
        }
    }
    Ok(folder)
}

/// Gives a lab the disks that the captures were prepared with. Labs only read them.
fn share_disks(folder: &Path, part: &Part) -> Result<()> {
    let to = folder.join(&part.name).join("prepare");
    std::fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
    for vm in &part.plan.vms {
        let name = format!("{}.img", vm.name);
        let disk = to.join(&name);
        if !disk.exists() {
            let from = folder.join(CAPTURE_FOLDER).join("prepare").join(&name);
            std::fs::hard_link(&from, &disk).with_context(|| from.display().to_string())?;
        }
    }
    Ok(())
}

/// Prints a line for each run that is made, on a terminal.
struct Steps {
    part: String,
    /// Runs that were begun before, or found complete.
    begun: usize,
    runs: usize,
    vms: usize,
    /// The parts that were begun.
    parts: usize,
    seconds: Duration,
}

impl Steps {
    fn new(plan: &Plan, capture_seconds: u32, schedulers: usize) -> Steps {
        let vms = plan.vms.len();
        let runs = vms * (1 + schedulers * plan.repetitions as usize);
        let all = u64::from(capture_seconds) * vms as u64 + u64::from(plan.seconds) * (runs - vms) as u64;
        Steps { part: String::new(), begun: 0, runs, vms, parts: 0, seconds: Duration::from_secs(all) }
    }

    fn begin(&mut self, part: &str) {
        self.part = part.to_owned();
        self.begun = self.parts * self.vms;
        self.parts += 1;
    }
}

impl LabProgress for Steps {
    fn begins(&mut self, what: &str, _step: usize, _steps: usize, _left: Duration) {
        if !quiet::shows_progress() {
            return;
        }
        // A lab announces its disks each time; those of the captures serve all.
        let Some((run, _)) = what.strip_prefix("alone-").and_then(|run| run.split_once(',')) else {
            if self.parts == 1 {
                eprintln!("{what}");
            }
            return;
        };
        let left = (self.seconds + RUN_OVERHEAD_ESTIMATE * self.runs as u32) * (self.runs - self.begun) as u32
            / self.runs as u32;
        self.begun += 1;
        let (part, begun, runs, minutes) = (&self.part, self.begun, self.runs, left.as_secs().div_ceil(60));
        eprintln!("{begun}/{runs} {run}: {part}, about {minutes} min left");
    }
}
