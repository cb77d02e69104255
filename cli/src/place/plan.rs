//! The plan of a placement: a TOML file with VMs, LUNs and limits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use predictors::place::Limits;
use replay::stack::StackSpec;
use serde::{Deserialize, Deserializer};
use traces::quantity::parse_nanos;
use traces::{DescriptionError, Nanos};

use crate::error::UsageError;
use crate::storage::Storage;

/// A plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How VMs together are forecast: `replay`, or a predictor. Without it, the way that fits each LUN.
    pub predictor: Option<String>,
    /// Seed of the order in which moves are tried.
    #[serde(default = "one")]
    pub seed: u64,
    /// Arrivals before this time after a trace's first arrival are left out.
    #[serde(default, deserialize_with = "time")]
    pub start: Nanos,
    /// Arrivals at or after this time after a trace's first arrival are left out.
    #[serde(default, deserialize_with = "some_time")]
    pub end: Option<Nanos>,
    /// Groups of VMs of which no two share a LUN.
    #[serde(default)]
    pub separate: Vec<Vec<String>>,
    #[serde(rename = "lun", default)]
    pub luns: Vec<Lun>,
    #[serde(rename = "vm", default)]
    pub vms: Vec<Vm>,
    /// Where it was read.
    #[serde(skip)]
    path: PathBuf,
}

/// A LUN.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lun {
    pub name: String,
    /// Its drive; without one, the LUN is the device of the recording.
    drive: Option<String>,
    /// The scheduler in front of the drive.
    scheduler: Option<String>,
    /// Most requests in flight at the drive.
    depth: Option<u32>,
    /// A stack in place of scheduler and depth; the path of a file is relative to the plan's folder.
    stack: Option<String>,
    /// The drive with the scheduling in front of it, once the plan is checked.
    #[serde(skip)]
    pub storage: Option<Storage>,
}

/// A VM.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    pub name: String,
    /// Its isolated trace; the path is relative to the plan's folder.
    capture: Option<PathBuf>,
    /// Its isolation profile instead; the path is relative to the plan's folder.
    profile: Option<PathBuf>,
    #[serde(default, deserialize_with = "some_time")]
    read_response: Option<Nanos>,
    #[serde(default, deserialize_with = "some_time")]
    read_p99: Option<Nanos>,
    #[serde(default, deserialize_with = "some_time")]
    write_response: Option<Nanos>,
    read_iops: Option<f64>,
    write_iops: Option<f64>,
}

/// The file that describes a VM alone.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    Capture(&'a Path),
    Profile(&'a Path),
}

impl Source<'_> {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Source::Capture(path) | Source::Profile(path) => path,
        }
    }
}

impl Vm {
    /// The VM's file.
    ///
    /// # Errors
    /// A VM without a file, or with two.
    pub fn source(&self) -> Result<Source<'_>, String> {
        match (&self.capture, &self.profile) {
            (Some(capture), None) => Ok(Source::Capture(capture)),
            (None, Some(profile)) => Ok(Source::Profile(profile)),
            (None, None) => Err(format!("VM {}: it needs a capture or a profile", self.name)),
            (Some(_), Some(_)) => Err(format!("VM {}: it names a capture and a profile; keep one of them", self.name)),
        }
    }

    pub fn limits(&self) -> Limits {
        let ns = |time: Option<Nanos>| time.map(|time| time.as_ns() as f64);
        Limits {
            read_response_ns: ns(self.read_response),
            read_p99_ns: ns(self.read_p99),
            write_response_ns: ns(self.write_response),
            read_iops: self.read_iops,
            write_iops: self.write_iops,
        }
    }
}

fn one() -> u64 {
    1
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    parse_nanos(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    time(deserializer).map(Some)
}

fn refused(path: &Path, line: Option<usize>, problem: String) -> DescriptionError {
    DescriptionError { what: "placement plan", name: path.display().to_string(), line, problem }
}

impl Lun {
    /// The LUN's drive with the scheduling in front of it, if it names a drive.
    fn build(&self, folder: &Path) -> Result<Option<Storage>, String> {
        let Some(drive) = &self.drive else {
            let before = [
                ("scheduler", self.scheduler.is_some()),
                ("depth", self.depth.is_some()),
                ("stack", self.stack.is_some()),
            ];
            return match before.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(format!("its {name} needs a drive behind it; name the drive, too")),
                None => Ok(None),
            };
        };
        let in_folder = |stack: &String| match StackSpec::is_file(stack) {
            true => folder.join(stack).display().to_string(),
            false => stack.clone(),
        };
        let stack = self.stack.as_ref().map(in_folder);
        let storage = Storage::new(drive.clone(), self.scheduler.as_deref(), self.depth, stack.as_deref());
        storage.map(Some).map_err(|error| error.0)
    }
}

impl Plan {
    /// The plan at `path`, checked.
    ///
    /// # Errors
    /// The first mistake, with its line if it is known.
    pub fn read(path: &Path) -> Result<Plan, DescriptionError> {
        let text = traces::read_text(path).map_err(|error| refused(path, None, format!("cannot be read: {error}")))?;
        let mut plan: Plan = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].lines().count().max(1));
            refused(path, line, error.message().to_owned())
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for vm in &mut plan.vms {
            for file in [&mut vm.capture, &mut vm.profile].into_iter().flatten() {
                *file = folder.join(&*file);
            }
        }
        for lun in &mut plan.luns {
            let built = lun.build(folder).map_err(|problem| format!("LUN {}: {problem}", lun.name));
            lun.storage = built.map_err(|problem| refused(path, None, problem))?;
        }
        plan.check().map_err(|problem| refused(path, None, problem))?;
        plan.path = path.to_owned();
        Ok(plan)
    }

    /// What else is wrong with the plan, as an error.
    pub fn refused(&self, problem: String) -> UsageError {
        UsageError(refused(&self.path, None, problem).to_string())
    }

    fn check(&self) -> Result<(), String> {
        let twice = |kind: &str, names: Vec<&String>| {
            let mut seen = BTreeSet::new();
            let again = names.into_iter().find(|name| !seen.insert(*name));
            again.map_or(Ok(()), |name| Err(format!("two {kind} are called {name}")))
        };
        if self.vms.is_empty() || self.luns.is_empty() {
            return Err("it needs at least one [[vm]] and one [[lun]]".to_owned());
        }
        twice("VMs", self.vms.iter().map(|vm| &vm.name).collect())?;
        twice("LUNs", self.luns.iter().map(|lun| &lun.name).collect())?;
        for vm in &self.vms {
            let source = vm.source()?;
            if let (Source::Profile(_), Some(lun)) = (source, self.luns.iter().find(|lun| lun.storage.is_some())) {
                return Err(format!(
                    "VM {}: a profile holds no single requests to replay on the drive of LUN {}; name the VM's \
                     capture, or leave out all drives and use profiles of one storage (iocast predict --drive), which \
                     then stands for all LUNs",
                    vm.name, lun.name
                ));
            }
            let limits = vm.limits();
            let all = [
                limits.read_response_ns,
                limits.read_p99_ns,
                limits.write_response_ns,
                limits.read_iops,
                limits.write_iops,
            ];
            if all.into_iter().flatten().any(|limit| !limit.is_finite() || limit <= 0.0) {
                return Err(format!("VM {}: each limit must be above 0", vm.name));
            }
        }
        let captures = self.vms.iter().any(|vm| vm.capture.is_some());
        if !captures && (self.start > Nanos::ZERO || self.end.is_some()) {
            return Err("start and end select a part of a capture, and all VMs are given as profiles".to_owned());
        }
        self.apart().map(drop)
    }

    /// Pairs of VMs that must not share a LUN.
    ///
    /// # Errors
    /// A group that names an unknown VM, or a VM twice.
    pub fn apart(&self) -> Result<Vec<(usize, usize)>, String> {
        let mut pairs = BTreeSet::new();
        for group in &self.separate {
            let number = |name: &String| {
                let found = self.vms.iter().position(|vm| vm.name == *name);
                found.ok_or_else(|| format!("separate names {name:?}, which is no VM of the plan"))
            };
            let numbers = group.iter().map(number).collect::<Result<Vec<usize>, String>>()?;
            for (nth, &one) in numbers.iter().enumerate() {
                for &other in &numbers[nth + 1..] {
                    if one == other {
                        return Err(format!("separate names {:?} twice in one group", self.vms[one].name));
                    }
                    pairs.insert((one.min(other), one.max(other)));
                }
            }
        }
        Ok(pairs.into_iter().collect())
    }
}
