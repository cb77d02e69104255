//! The measured distributions: how a profile writes them, and how the one for a request is found.

use std::fmt::Write;

use serde::Deserialize;
use toml::Spanned;
use traces::spec::Settings;
use traces::{Operation, Sectors};

use crate::description::{BuildError, DriveDescription, PartBuilder};
use crate::drive::DriveModel;
use crate::empirical::EmpiricalDrive;
use crate::empirical::classes::{ClassBound, Condition, DISTANCES, QUEUES, SIZES};
use crate::empirical::fit::SAMPLES_MIN;
use crate::empirical::quantiles::{QUANTILES, Quantiles};
use crate::profile::Profile;
use crate::section::{ProfileError, Section, Sections};

/// The section of an empirical drive.
pub(super) const SECTIONS: &[Section] = &[Section::of::<CellsText>("empirical")];
/// The profile whose service times a drive has that is named by its model alone.
const DEFAULT_PROFILE: &str = "qemu-virtio";

/// The distribution of the times of requests that have something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmpiricalCell {
    /// The condition that they have in common.
    pub condition: Condition,
    /// How many there were.
    pub samples: u64,
    /// Their times.
    pub quantiles: Quantiles,
}

/// All cells, with one for any request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmpiricalCells {
    cells: Vec<EmpiricalCell>,
    /// The cell that stands for each finest condition.
    finest: Vec<u16>,
}

impl EmpiricalCells {
    /// The cells of a model; `None` if there is none for any request, whose condition is the default.
    pub fn new(cells: Vec<EmpiricalCell>) -> Option<EmpiricalCells> {
        let cell = |condition: Condition| cells.iter().position(|cell| cell.condition == condition);
        let standing_in = |finest: Condition| finest.fallbacks().find_map(cell).map(|index| index as u16);
        let finest = Condition::finest().map(standing_in).collect::<Option<Vec<u16>>>()?;
        Some(EmpiricalCells { cells, finest })
    }

    /// Every cell.
    pub fn iter(&self) -> impl Iterator<Item = &EmpiricalCell> {
        self.cells.iter()
    }

    /// The cell for a request: the finest that is there ([`Condition::fallbacks`]).
    pub fn of(&self, operation: Operation, sectors: Sectors, distance: Sectors, queue_length: u32) -> &EmpiricalCell {
        let condition = Condition::of(operation, sectors, distance, queue_length);
        &self.cells[usize::from(self.finest[condition.index()])]
    }

    /// Checks the section of a profile.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    fn from_text(text: &CellsText) -> Result<EmpiricalCells, ProfileError> {
        let refuse = |offset, problem: String| Err(ProfileError::at(offset, problem));
        if text.source.get_ref().trim().is_empty() {
            return refuse(text.source.span().start, "the source is empty: say where the numbers come from".to_owned());
        }
        let mut cells: Vec<EmpiricalCell> = Vec::new();
        for (index, cell) in text.cells.get_ref().iter().enumerate() {
            let offset = cell.span().start;
            let cell = match cell.get_ref().check() {
                Ok(cell) => cell,
                Err(problem) => return refuse(offset, format!("cell {index}: {problem}")),
            };
            if cells.iter().any(|before| before.condition == cell.condition) {
                return refuse(offset, format!("cell {index}: there is one of the same condition before"));
            }
            cells.push(cell);
        }
        let problem = "there is no cell without a condition, to fall back to";
        EmpiricalCells::new(cells).ok_or_else(|| ProfileError::at(text.cells.span().start, problem))
    }

    /// The section `[empirical]` of a profile without its source.
    pub fn to_text(&self) -> String {
        let mut text = String::from("cells = [\n");
        for EmpiricalCell { condition, samples, quantiles } in &self.cells {
            text.push_str("  { ");
            if let Some(operation) = condition.operation {
                let _ = write!(text, "operation = \"{operation}\", ");
            }
            for (key, classes, class) in named(condition) {
                if let Some(class) = class {
                    let _ = write!(text, "{key} = \"{}\", ", classes[usize::from(class)].0);
                }
            }
            let _ = writeln!(text, "samples = {samples}, quantiles_ns = {:?} }},", quantiles.as_ns());
        }
        text.push_str("]\n");
        text
    }
}

/// The service times of a profile, or else of the default one.
pub(super) fn describe(sections: Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError> {
    match sections {
        Some(mut sections) => Ok(Box::new(EmpiricalCells::from_text(&sections.take("empirical"))?)),
        None => Ok(Profile::shipped_among(&[super::MODEL], DEFAULT_PROFILE).description),
    }
}

impl DriveDescription for EmpiricalCells {
    fn build(&self, settings: &Settings, _: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        Ok(Box::new(EmpiricalDrive::new(settings, self)))
    }
}

/// The conditions that are classes, by the names they have in a profile.
fn named(condition: &Condition) -> [(&'static str, &'static [ClassBound], Option<u8>); 3] {
    [
        ("sectors", SIZES, condition.size),
        ("distance", DISTANCES, condition.distance),
        ("queue", QUEUES, condition.queue),
    ]
}

/// `[empirical]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellsText {
    source: Spanned<String>,
    cells: Spanned<Vec<Spanned<CellText>>>,
}

/// One of `cells`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellText {
    operation: Option<Operation>,
    sectors: Option<String>,
    distance: Option<String>,
    queue: Option<String>,
    samples: u64,
    quantiles_ns: Vec<u64>,
}

impl CellText {
    fn check(&self) -> Result<EmpiricalCell, String> {
        let condition = Condition {
            operation: self.operation,
            size: class("sectors", SIZES, self.sectors.as_deref())?,
            distance: class("distance", DISTANCES, self.distance.as_deref())?,
            queue: class("queue", QUEUES, self.queue.as_deref())?,
        };
        if !condition.is_known() {
            let known = "operation; operation and queue; those and sectors; those and distance";
            return Err(format!("no request falls back to this combination, but to: {known}"));
        }
        let least = if condition.queue.is_some() { SAMPLES_MIN } else { 1 };
        if self.samples < least {
            return Err(format!("samples = {} are fewer than {least}", self.samples));
        }
        let quantiles = Quantiles::new(&self.quantiles_ns).ok_or_else(|| {
            format!(
                "quantiles_ns must be {QUANTILES} times, none below the one before, but are {}",
                self.quantiles_ns.len()
            )
        })?;
        Ok(EmpiricalCell { condition, samples: self.samples, quantiles })
    }
}

fn class(key: &str, classes: &[ClassBound], given: Option<&str>) -> Result<Option<u8>, String> {
    let Some(given) = given else { return Ok(None) };
    let names = || classes.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let index = classes.iter().position(|(name, _)| *name == given);
    index.map(|index| Some(index as u8)).ok_or_else(|| format!("{key} = \"{given}\" is none of {}", names()))
}
