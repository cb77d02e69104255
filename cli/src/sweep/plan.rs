//! The plan of a sweep: a TOML file with traces, schedulers, drives, and what else is varied.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use replay::sources::Pacing;
use replay::stack::StackSpec;
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use traces::described::line_of;
use traces::quantity::parse_nanos;
use traces::spec::{Spec, did_you_mean, library};
use traces::{DescriptionError, Nanos};

use super::columns::FIGURES;
use super::ranges::Varied;
use super::task::with_folder;
use crate::arguments::MapArgument;
use crate::catalog::{Entry, Filter, entries, parse_dates, parse_pattern};

/// A plan as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Patterns of paths, relative to the plan's folder.
    #[serde(default)]
    traces: Vec<Spanned<String>>,
    /// The folder of a catalogue, and which partitions of it are wanted.
    catalog: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
    date: Option<Spanned<String>>,
    /// Patterns of paths that are left out.
    #[serde(default)]
    except: Vec<Spanned<String>>,
    #[serde(default)]
    schedulers: Vec<Spanned<Varied>>,
    #[serde(default)]
    stacks: Vec<Spanned<String>>,
    drives: Vec<Spanned<String>>,
    /// Seeds of the drives that draw their times.
    #[serde(default)]
    seeds: Vec<u64>,
    pacing: Option<Spanned<String>>,
    map: Option<Spanned<String>>,
    depth: Option<Spanned<u32>>,
    #[serde(default)]
    windows: Vec<Spanned<Window>>,
    pub pairs: Option<Pairs>,
    quantities: Option<Vec<Spanned<String>>>,
}

/// A part of each trace, or of some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    #[serde(default, deserialize_with = "time")]
    pub start: Nanos,
    #[serde(default, deserialize_with = "some_time")]
    pub end: Option<Nanos>,
    pub limit: Option<u64>,
    /// The pattern of the traces that have this window; all if there is none.
    pub traces: Option<String>,
}

/// Which two traces share a drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// Whether each trace is replayed alone, too.
    #[serde(default = "yes")]
    pub alone: bool,
    /// Only traces with at least this number of requests per second are paired.
    #[serde(default)]
    pub busier_than_iops: f64,
    /// At most this number of pairs, drawn from all that are left.
    pub most: Option<u64>,
    /// The seed by which they are drawn.
    #[serde(default = "one")]
    pub seed: u64,
}

fn yes() -> bool {
    true
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

/// A window and the traces that have it.
#[derive(Clone, Debug, Default)]
pub struct WindowOf {
    pub start: Nanos,
    pub end: Option<Nanos>,
    pub limit: Option<u64>,
    /// Their numbers; all if there are none.
    pub traces: Option<Vec<u32>>,
}

/// What a plan varies, checked. Paths are relative to its folder.
#[derive(Debug)]
pub struct Checked {
    /// The plan's folder, absolute.
    pub folder: String,
    pub traces: Vec<String>,
    pub schedulers: Vec<String>,
    pub stacks: Vec<String>,
    /// With the seeds.
    pub drives: Vec<String>,
    pub pacing: String,
    pub map: String,
    pub depth: Option<u32>,
    pub windows: Vec<WindowOf>,
    pub pairs: Option<Pairs>,
    pub quantities: Option<String>,
}

/// The plan's text, for the lines of its mistakes.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    fn refused(&self, span: Option<Range<usize>>, problem: String) -> DescriptionError {
        let line = span.map(|span| line_of(self.text, span.start));
        DescriptionError { what: "plan of a sweep", name: self.path.display().to_string(), line, problem }
    }

    fn at<T>(&self, of: &Spanned<T>, problem: impl std::fmt::Display) -> DescriptionError {
        self.refused(Some(of.span()), problem.to_string())
    }
}

/// Reads and checks the plan at `path`.
///
/// # Errors
/// The first mistake, with its line if it is known.
pub fn read(path: &Path) -> Result<Checked, DescriptionError> {
    let read = traces::read_text(path);
    let text = Text { path, text: read.as_deref().unwrap_or_default() };
    if let Err(error) = &read {
        return Err(text.refused(None, format!("cannot be read: {error}")));
    }
    let plan: Plan =
        toml::from_str(text.text).map_err(|error| text.refused(error.span(), error.message().to_owned()))?;
    let folder = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
    let folder = std::path::absolute(folder)
        .map_err(|error| text.refused(None, format!("its folder cannot be found: {error}")))?;
    // Without the slash at the end.
    let folder: PathBuf = folder.components().collect();
    let Some(name) = folder.to_str().map(str::to_owned) else {
        return Err(text.refused(None, "its folder's name is no UTF-8; tasks hold it as text".to_owned()));
    };
    let schedulings = plan.schedulers.len() + plan.stacks.len();
    if schedulings == 0 || plan.drives.is_empty() {
        return Err(
            text.refused(None, "it needs at least one of `drives`, and one of `schedulers` or `stacks`".to_owned())
        );
    }
    if let Some(depth) = plan.depth.as_ref().filter(|depth| *depth.get_ref() == 0) {
        return Err(text.at(depth, "depth 0 lets no request through; it is at least 1"));
    }
    let traces = plan.traces(&text, &folder)?;
    Ok(Checked {
        schedulers: plan.schedulers(&text)?,
        stacks: plan.stacks(&text, &folder)?,
        drives: plan.drives(&text, &folder)?,
        pacing: plan.pacing(&text)?,
        map: plan.map(&text)?,
        depth: plan.depth.as_ref().map(|depth| *depth.get_ref()),
        windows: plan.windows(&text, &traces)?,
        quantities: plan.quantities(&text)?,
        pairs: plan.pairs,
        folder: name,
        traces,
    })
}

/// The names that a pattern fits, relative to `folder`.
pub fn matches(folder: &Path, pattern: &str) -> Result<Vec<String>, String> {
    // The folder's own name may hold characters that have a meaning in a pattern.
    let inside = PathBuf::from(glob::Pattern::escape(&folder.display().to_string())).join(pattern);
    let found = glob::glob(&inside.display().to_string()).map_err(|error| format!("no pattern of paths: {error}"))?;
    let mut names = Vec::new();
    for path in found {
        let path = path.map_err(|error| error.to_string())?;
        let name = path.strip_prefix(folder).unwrap_or(&path);
        let name = name.to_str().ok_or_else(|| format!("{}: the name is no UTF-8; rename the file", name.display()))?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// The numbers of the traces that a pattern fits, at least one.
pub fn fitting(pattern: &str, traces: &[String]) -> Result<Vec<u32>, String> {
    let parsed = glob::Pattern::new(pattern).map_err(|error| format!("no pattern of paths: {error}"))?;
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let numbered = (0_u32..).zip(traces);
    let fitting: Vec<u32> =
        numbered.filter(|(_, name)| parsed.matches_with(name, options)).map(|(number, _)| number).collect();
    if fitting.is_empty() { Err(format!("no trace fits `{pattern}`")) } else { Ok(fitting) }
}

impl Plan {
    fn traces(&self, text: &Text<'_>, folder: &Path) -> Result<Vec<String>, DescriptionError> {
        let mut names = Vec::new();
        for pattern in &self.traces {
            if pattern.get_ref().is_empty() {
                return Err(text.at(pattern, "a pattern of paths is empty"));
            }
            let found = matches(folder, pattern.get_ref()).map_err(|problem| text.at(pattern, problem))?;
            if found.is_empty() {
                let problem = format!(
                    "no file fits `{}` in {}; `*` stands for any part of a name, `**` for any folders",
                    pattern.get_ref(),
                    folder.display()
                );
                return Err(text.at(pattern, problem));
            }
            names.extend(found);
        }
        names.extend(self.catalogued(text, folder)?);
        for pattern in &self.except {
            let out = matches(folder, pattern.get_ref()).map_err(|problem| text.at(pattern, problem))?;
            names.retain(|name| !out.contains(name));
        }
        names.sort();
        names.dedup();
        if names.is_empty() {
            return Err(
                text.refused(None, "`traces` and `catalog` name nothing, or `except` leaves nothing of it".to_owned())
            );
        }
        Ok(names)
    }

    /// The traces of the catalogue, with their paths as the plan writes its folder.
    fn catalogued(&self, text: &Text<'_>, folder: &Path) -> Result<Vec<String>, DescriptionError> {
        let Some(catalog) = &self.catalog else {
            let alone = [&self.host, &self.device, &self.date].into_iter().find_map(Option::as_ref);
            let problem = "it chooses traces of a `catalog`, and the plan names none";
            return alone.map_or(Ok(Vec::new()), |filter| Err(text.at(filter, problem)));
        };
        let pattern = |of: &Option<Spanned<String>>| {
            of.as_ref().map(|of| parse_pattern(of.get_ref()).map_err(|problem| text.at(of, problem))).transpose()
        };
        let dates = |of: &Spanned<String>| parse_dates(of.get_ref()).map_err(|problem| text.at(of, problem));
        let filter = Filter {
            host: pattern(&self.host)?,
            device: pattern(&self.device)?,
            date: self.date.as_ref().map(dates).transpose()?,
        };
        let found = entries(&folder.join(catalog.get_ref()), &filter)
            .map_err(|error| text.at(catalog, format!("{error:#}")))?;
        if found.is_empty() {
            return Err(text.at(catalog, "no partition of the catalogue passes `host`, `device` and `date`"));
        }
        let named = |entry: Entry| {
            let name = entry.path.strip_prefix(folder).unwrap_or(&entry.path);
            let not_text = || text.at(catalog, format!("{}: the name is no UTF-8; rename the file", name.display()));
            name.to_str().map(str::to_owned).ok_or_else(not_text)
        };
        found.into_iter().map(named).collect()
    }

    fn schedulers(&self, text: &Text<'_>) -> Result<Vec<String>, DescriptionError> {
        let (mut specs, mut known): (Vec<String>, BTreeSet<String>) = Default::default();
        for of in &self.schedulers {
            for spec in of.get_ref().specs().map_err(|problem| text.at(of, problem))? {
                if library(&spec.name).is_some() {
                    let problem = "a scheduler in a shared library can end the process and all tasks in it; use it in \
                                   `iocast compare`";
                    return Err(text.at(of, problem));
                }
                schedulers::build(&spec).map_err(|problem| text.at(of, problem))?;
                if !known.insert(spec.to_string()) {
                    return Err(text.at(of, format!("the scheduler `{spec}` is there twice")));
                }
                specs.push(spec.to_string());
            }
        }
        Ok(specs)
    }

    fn stacks(&self, text: &Text<'_>, folder: &Path) -> Result<Vec<String>, DescriptionError> {
        let mut stacks = Vec::new();
        for of in &self.stacks {
            let stack = of.get_ref();
            let path = if StackSpec::is_file(stack) { folder.join(stack).display().to_string() } else { stack.clone() };
            StackSpec::of(&path).map_err(|problem| text.at(of, problem))?;
            if stacks.contains(stack) {
                return Err(text.at(of, format!("the stack `{stack}` is there twice")));
            }
            stacks.push(stack.clone());
        }
        Ok(stacks)
    }

    /// The drives; one that draws its times is there once for each seed.
    fn drives(&self, text: &Text<'_>, folder: &Path) -> Result<Vec<String>, DescriptionError> {
        let mut drives = Vec::new();
        for of in &self.drives {
            let spec: Spec = of.get_ref().parse().map_err(|problem| text.at(of, problem))?;
            let local = with_folder(spec.clone(), folder);
            // Tasks name the drive as the command line does, where these characters have a meaning.
            if local != spec && folder.to_string_lossy().contains([':', ',']) {
                let problem = "a profile cannot be in a folder whose path has `:` or `,`; rename the folder";
                return Err(text.at(of, problem));
            }
            let built = drive_models::build(&local).map_err(|problem| text.at(of, problem))?;
            let draws = built.settings.iter().any(|(name, _)| name == SEED);
            let is_given = spec.given.iter().any(|(name, _)| name == SEED);
            let seeds = if draws && !is_given { &self.seeds[..] } else { &[] };
            let with = |seed: &u64| {
                let mut spec = spec.clone();
                spec.given.push((SEED.to_owned(), seed.to_string()));
                spec.to_string()
            };
            let each = if seeds.is_empty() { vec![spec.to_string()] } else { seeds.iter().map(with).collect() };
            for drive in each {
                if drives.contains(&drive) {
                    return Err(text.at(of, format!("the drive `{drive}` is there twice")));
                }
                drives.push(drive);
            }
        }
        Ok(drives)
    }

    fn pacing(&self, text: &Text<'_>) -> Result<String, DescriptionError> {
        let Some(of) = &self.pacing else { return Ok("recorded".to_owned()) };
        of.get_ref().parse::<Pacing>().map_err(|problem| text.at(of, problem))?;
        Ok(of.get_ref().clone())
    }

    fn map(&self, text: &Text<'_>) -> Result<String, DescriptionError> {
        let Some(of) = &self.map else { return Ok(MapArgument::Exact.to_string()) };
        let known: Vec<String> = MapArgument::value_variants().iter().map(ToString::to_string).collect();
        if !known.contains(of.get_ref()) {
            let hint = did_you_mean(of.get_ref(), known.iter().map(String::as_str));
            return Err(text.at(of, format!("`{}` is none of {}{hint}", of.get_ref(), known.join(", "))));
        }
        Ok(of.get_ref().clone())
    }

    fn windows(&self, text: &Text<'_>, traces: &[String]) -> Result<Vec<WindowOf>, DescriptionError> {
        let mut windows = Vec::new();
        for (number, of) in self.windows.iter().enumerate() {
            if self.windows[..number].iter().any(|other| other.get_ref() == of.get_ref()) {
                return Err(text.at(of, "the window is there twice"));
            }
            let Window { start, end, limit, traces: pattern } = of.get_ref().clone();
            if end.is_some_and(|end| end <= start) {
                return Err(text.at(of, "`end` must be later than `start`"));
            }
            let fitting = pattern.as_ref().map(|pattern| fitting(pattern, traces)).transpose();
            let fitting = fitting.map_err(|problem| text.at(of, problem))?;
            windows.push(WindowOf { start, end, limit, traces: fitting });
        }
        Ok(if windows.is_empty() { vec![WindowOf::default()] } else { windows })
    }

    fn quantities(&self, text: &Text<'_>) -> Result<Option<String>, DescriptionError> {
        let Some(wanted) = &self.quantities else { return Ok(None) };
        let known = || FIGURES.iter().map(|figure| figure.name.as_str());
        for of in wanted {
            if !known().any(|name| name == of.get_ref()) {
                let hint = did_you_mean(of.get_ref(), known());
                let problem = format!("no result has a quantity `{}`{hint}; docs/scale.md lists them", of.get_ref());
                return Err(text.at(of, problem));
            }
        }
        let names: Vec<&str> = wanted.iter().map(|of| of.get_ref().as_str()).collect();
        Ok(Some(names.join(",")))
    }
}

/// The tunable of drives that draw their times.
const SEED: &str = "seed";
