//! The columns of a comparison: schedulers, stacks, or schedulers in one layer of stacks.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use replay::rotational::set_all_for;
use replay::stack::StackSpec;
use schedulers::Registry;
use traces::results::Part;
use traces::spec::{Spec, library, parse_list};

use crate::arguments::Compare;
use crate::error::UsageError;
use crate::scheduling::Scheduling;

/// The schedulers that are compared by default on a Cheetah: those of the papers, which measured Cheetahs.
const OF_PAPERS: &str = "fifo,sstf,cscan,deadline,cats";
/// The schedulers that are compared by default on other drives: those of Linux 6.
const OF_LINUX: &str = "none,mq-deadline,kyber,bfq";
/// The baselines by default, the first that is compared.
const BASELINES: [&str; 2] = ["deadline", "mq-deadline"];

/// One column of the comparison.
pub struct Candidate {
    /// The name in the results: the short name, or the full one where two columns share the short name.
    pub label: String,
    /// The drive, as an index into those that are compared.
    pub drive: usize,
    pub scheduling: Scheduling,
    /// The layer of a stack that is watched, and whose scheduler may be compared; 0 for a stage.
    pub layer: usize,
    /// Whether whole stacks are compared, rather than schedulers.
    compares_stack: bool,
}

impl Candidate {
    fn new(scheduling: Scheduling, layer: usize, compares_stack: bool) -> Candidate {
        Candidate { label: String::new(), drive: 0, scheduling, layer, compares_stack }
    }

    /// The scheduler that is compared; `None` if whole stacks are.
    fn scheduler(&self) -> Option<&Spec> {
        match &self.scheduling {
            Scheduling::Stage { scheduler, .. } => Some(scheduler),
            Scheduling::Stack(stack) => (!self.compares_stack).then(|| &stack.layers[self.layer].scheduler),
        }
    }

    /// Whether a scheduler of the column is in a shared library.
    pub fn is_in_library(&self) -> bool {
        match &self.scheduling {
            Scheduling::Stage { scheduler, .. } => library(&scheduler.name).is_some(),
            Scheduling::Stack(stack) => stack.layers.iter().any(|layer| library(&layer.scheduler.name).is_some()),
        }
    }

    /// The short and the full name of the scheduler or stack that is compared. A scheduler is named with its tunables,
    /// as given.
    fn names(&self) -> [String; 2] {
        match (self.scheduler(), &self.scheduling) {
            (Some(scheduler), _) | (None, Scheduling::Stage { scheduler, .. }) => {
                [scheduler.without_folders().to_string(), scheduler.to_string()]
            }
            (None, Scheduling::Stack(stack)) => [short_name(stack), stack.to_string()],
        }
    }

    /// The scheduler or stack of the column with all its settings, under its label.
    ///
    /// # Errors
    /// An unknown scheduler.
    pub fn part(&self) -> Result<Part> {
        let spec = match (self.scheduler(), &self.scheduling) {
            (Some(scheduler), _) | (None, Scheduling::Stage { scheduler, .. }) => scheduler,
            (None, Scheduling::Stack(stack)) => {
                let layer = |layer: &replay::stack::LayerSpec| {
                    (layer.name.clone(), layer.scheduler.without_folders().to_string())
                };
                let settings = stack.layers.iter().map(layer).collect();
                return Ok(Part { name: self.label.clone(), model: "stack".to_owned(), settings });
            }
        };
        let built = schedulers::build(spec).map_err(UsageError::from_display)?;
        Ok(super::part(&self.label, built.entry.name, &built.settings))
    }

    /// The path of its file with this `ending` in `folder`.
    pub fn file(&self, folder: &Path, index: usize, ending: &str) -> PathBuf {
        let [short, _] = self.names();
        let name = self.scheduler().map_or(short, |scheduler| scheduler.without_folders().name);
        folder.join(format!("{index}-{}.{ending}", name.replace('/', "+")))
    }
}

/// The columns that the command line names for `drives`, in its order: all of the first drive, then those of the next.
///
/// # Errors
/// An unknown name, a tunable or value that is not accepted, the same drive, scheduler or stack twice.
pub fn of(arguments: &Compare, drives: &[Spec]) -> Result<Vec<Candidate>> {
    let names: Vec<String> =
        short_or_full(&drives.iter().map(|drive| [drive.name.clone(), drive.to_string()]).collect::<Vec<_>>());
    let mut candidates = Vec::new();
    for (index, drive) in drives.iter().enumerate() {
        ensure!(!drives[..index].contains(drive), UsageError(format!("drive `{drive}` is named twice")));
        for candidate in on_drive(arguments, drive)? {
            let several = drives.len() > 1;
            let label = if several { format!("{} {}", names[index], candidate.label) } else { candidate.label };
            candidates.push(Candidate { label, drive: index, ..candidate });
        }
    }
    Ok(candidates)
}

/// The columns of one drive.
fn on_drive(arguments: &Compare, drive: &Spec) -> Result<Vec<Candidate>> {
    let given = &arguments.stack;
    let stacks = given
        .stacks
        .iter()
        .map(|text| StackSpec::of(text))
        .collect::<Result<Vec<StackSpec>, _>>()
        .map_err(UsageError::from_display)?;
    let built = drive_models::build(drive).map_err(UsageError::from_display)?;
    let specs = match (&arguments.schedulers, stacks.is_empty()) {
        (None, true) if drive.name.starts_with("cheetah") => schedulers(OF_PAPERS)?,
        (None, true) => schedulers(OF_LINUX)?,
        (None, false) => Vec::new(),
        (Some(list), _) => schedulers(list)?,
    };
    let specs = set_all_for(specs, &built, &Registry::builtin());
    if stacks.is_empty() {
        let limits = arguments.replaying.stage.limits(built.queue_depth());
        let stage = |scheduler| Candidate::new(Scheduling::Stage { scheduler, limits }, 0, false);
        return labelled(specs.into_iter().map(stage).collect(), false);
    }
    let mut columns = Vec::new();
    let several = stacks.len() > 1;
    for stack in stacks {
        let layer = stack.layer(given.layer.as_deref()).map_err(UsageError::from_display)?;
        for spec in &specs {
            let stack = stack.clone().with_scheduler(layer, spec).map_err(UsageError::from_display)?;
            columns.push(Candidate::new(Scheduling::Stack(stack), layer, false));
        }
        if specs.is_empty() {
            columns.push(Candidate::new(Scheduling::Stack(stack), layer, true));
        }
    }
    labelled(columns, several)
}

/// The names of the stacks that the command line names, in its order.
///
/// # Errors
/// A stack that cannot be read.
pub fn stacks(arguments: &Compare) -> Result<Vec<String>> {
    let named = arguments.stack.stacks.iter().map(|text| StackSpec::of(text).map(|stack| called(&stack)));
    named.collect::<Result<_, _>>().map_err(UsageError::from_display)
}

/// The label of the baseline.
///
/// # Errors
/// A baseline that is not compared.
pub fn baseline(given: Option<&str>, candidates: &[Candidate]) -> Result<Option<String>> {
    let is = |candidate: &&Candidate, name: &str| {
        candidate.names().iter().any(|known| known == name)
            || candidate.scheduler().is_some_and(|scheduler| scheduler.name == name)
    };
    let find = |name: &str| {
        let labelled = candidates.iter().find(|candidate| candidate.label == name);
        labelled.or_else(|| candidates.iter().find(|candidate| is(candidate, name))).map(|found| found.label.clone())
    };
    let Some(name) = given else {
        // One with tunables of its own is only the baseline if none is without.
        let as_it_is = |name: &&str| {
            candidates.iter().any(|candidate| candidate.scheduler().is_some_and(|spec| spec.to_string() == **name))
        };
        let plain = BASELINES.into_iter().find(as_it_is);
        return Ok(plain.into_iter().chain(BASELINES).find_map(find));
    };
    let labels: Vec<&str> = candidates.iter().map(|candidate| candidate.label.as_str()).collect();
    let kind = if candidates.iter().all(|candidate| candidate.compares_stack) { "stacks" } else { "schedulers" };
    let unknown =
        || UsageError(format!("the baseline `{name}` is not among the {kind} compared: {}", labels.join(", ")));
    Ok(Some(find(name).ok_or_else(unknown)?))
}

/// The short name of each pair, or the full one where two share the short name.
fn short_or_full(names: &[[String; 2]]) -> Vec<String> {
    let shared = |short: &String| names.iter().filter(|[other, _]| other == short).count() > 1;
    names.iter().map(|[short, full]| if shared(short) { full.clone() } else { short.clone() }).collect()
}

fn schedulers(list: &str) -> Result<Vec<Spec>> {
    let specs = if list == "all" {
        let spec = |entry: &schedulers::Entry| Spec { name: entry.name.to_owned(), given: Vec::new() };
        schedulers::SCHEDULERS.iter().map(spec).collect()
    } else {
        parse_list(list).map_err(UsageError::from_display)?
    };
    for spec in &specs {
        // Built once here, so that an unknown name or tunable is reported before any trace is read.
        schedulers::build(spec).map_err(UsageError::from_display)?;
    }
    Ok(specs)
}

/// A stack's name as given; of a file its name without folder and ending.
fn called(stack: &StackSpec) -> String {
    let path = Path::new(&stack.name);
    match path.extension().is_some_and(|extension| extension == "toml") {
        true => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        false => stack.name.clone(),
    }
}

/// As it is [`called`], or the schedulers of a line.
fn short_name(stack: &StackSpec) -> String {
    let name = called(stack);
    if !name.contains('=') {
        return name;
    }
    stack.layers.iter().map(|layer| layer.scheduler.name.as_str()).collect::<Vec<&str>>().join("/")
}

/// Gives each column its label: the short name, or the full one where two columns share the short name. The stack's
/// name stands before it where schedulers are compared in several stacks.
fn labelled(columns: Vec<Candidate>, several_stacks: bool) -> Result<Vec<Candidate>> {
    let in_stack = |column: &Candidate, name: &str| match &column.scheduling {
        Scheduling::Stack(stack) if several_stacks && !column.compares_stack => {
            format!("{} {name}", short_name(stack))
        }
        _ => name.to_owned(),
    };
    let names: Vec<_> = columns.iter().map(|column| column.names().map(|name| in_stack(column, &name))).collect();
    let mut candidates: Vec<Candidate> = Vec::new();
    for (column, label) in columns.into_iter().zip(short_or_full(&names)) {
        let kind = if column.compares_stack { "stack" } else { "scheduler" };
        ensure!(
            candidates.iter().all(|candidate| candidate.label != label),
            UsageError(format!("{kind} `{label}` is named twice"))
        );
        candidates.push(Candidate { label, ..column });
    }
    Ok(candidates)
}
