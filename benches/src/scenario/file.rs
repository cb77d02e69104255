//! A scenario's file: TOML, read and checked before anything is replayed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use drive_models::BuiltDrive;
use replay::Limits;
use replay::rotational;
use replay::sources::TimeWindow;
use replay::stack::StackSpec;
use schedulers::Registry;
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use traces::described::line_of;
use traces::origin::short_name;
use traces::quantity::{parse_bytes, parse_nanos, parse_sectors};
use traces::spec::{Spec, library, nearest};
use traces::trace::ReadOptions;
use traces::{DescriptionError, Nanos, Sectors, Timestamp, formats};
use workloads::Until;
use workloads::plan::{CACHE, GuestPlan, GuestSettings, Named};

use super::expected::{self, Problem, Table, unknown_figure};
use super::figures::names;
use super::{Bound, Candidate, Limit, Load, Scenario, Scheduling, Trace};

/// The file as it is written. The tables `[[scheduler]]` are read by [`expected::read`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    drive: Spanned<String>,
    pacing: Option<Spanned<String>>,
    depth: Option<Spanned<u32>>,
    look_ahead: Option<Spanned<bool>>,
    stack: Option<Spanned<String>>,
    #[serde(rename = "in")]
    layer: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    limit: Option<u64>,
    seeds: Option<Spanned<Vec<u64>>>,
    guest_capacity: Option<Spanned<String>>,
    guest_cache: Option<Spanned<String>>,
    guest_journal: Option<Spanned<bool>>,
    #[serde(default)]
    vm: Vec<Spanned<Vm>>,
    #[serde(default)]
    scheduler: Vec<IgnoredAny>,
    #[serde(default)]
    bound: Vec<Spanned<BoundText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vm {
    name: Option<Spanned<String>>,
    trace: Option<Spanned<String>>,
    workload: Option<Spanned<String>>,
    place: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundText {
    scheduler: Spanned<String>,
    figure: Spanned<String>,
    at_most: Option<Spanned<f64>>,
    at_least: Option<Spanned<f64>>,
    of: Option<Spanned<String>>,
    reason: String,
}

impl Scenario {
    /// Reads and checks the scenario at `path`, whose schedulers are among `known`.
    ///
    /// # Errors
    /// The first mistake, with its line: invalid TOML, something that does not exist, with similar names, keys that
    /// have no effect, a scenario that checks nothing.
    pub fn read(path: &Path, known: &Registry) -> Result<Scenario, DescriptionError> {
        let text = traces::read_text(path).map_err(|error| fail(path, None, error.to_string()))?;
        Scenario::parse(path, &text, known)
    }

    /// As [`Scenario::read`], of the file's text.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(path: &Path, text: &str, known: &Registry) -> Result<Scenario, DescriptionError> {
        let at = |(span, problem): Problem| fail(path, Some(line_of(text, span.start)), problem);
        let file: File = toml::from_str(text).map_err(|error| {
            fail(path, error.span().map(|span| line_of(text, span.start)), error.message().to_owned())
        })?;
        let reading = Reading { text, folder: path.parent().unwrap_or(Path::new("")), known };
        let scenario = reading.scenario(path, file).map_err(at)?;
        if scenario.bounds.is_empty() && scenario.schedulers.iter().all(|scheduler| scheduler.figures.is_empty()) {
            let problem = "it checks nothing: state a figure of a scheduler, or a [[bound]]";
            return Err(fail(path, None, problem.to_owned()));
        }
        Ok(scenario)
    }
}

fn fail(path: &Path, line: Option<usize>, problem: String) -> DescriptionError {
    DescriptionError { what: "scenario", name: path.display().to_string(), line, problem }
}

/// What the parts of a file are read with.
struct Reading<'a> {
    text: &'a str,
    /// Where paths begin.
    folder: &'a Path,
    known: &'a Registry,
}

/// An error about a value, at its place.
fn of<T>(value: &Spanned<T>, error: impl std::fmt::Display) -> Problem {
    (value.span(), error.to_string())
}

/// The value as `parse` reads it, where one is given.
fn parsed<T, E: std::fmt::Display>(
    value: Option<&Spanned<String>>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Problem> {
    value.map(|value| parse(value.get_ref()).map_err(|error| of(value, error))).transpose()
}

impl Reading<'_> {
    fn scenario(&self, path: &Path, file: File) -> Result<Scenario, Problem> {
        let drive = self.drive(&file.drive)?;
        let built = drive_models::build(&drive).map_err(|error| of(&file.drive, error))?;
        let seeds = self.seeds(&file)?;
        let load = self.load(&file, seeds[0])?;
        let vms = vms(&load, &built).map_err(|(vm, problem)| (file.vm[vm].span(), problem))?;
        let figures = names(&vms);
        let tables = expected::read(self.text, &figures, seeds.len())?;
        if tables.is_empty() || file.scheduler.is_empty() {
            return Err((0..0, "it has no [[scheduler]]".to_owned()));
        }
        let schedulers = self.schedulers(tables, &file)?;
        let bounds = file.bound.into_iter().map(|bound| self.bound(bound.into_inner(), &schedulers, &figures));
        let bounds = bounds.collect::<Result<_, _>>()?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (path, question) = (path.to_owned(), file.question);
        Ok(Scenario { name, path, question, seeds, schedulers, bounds, vms, load })
    }

    /// A path of the file as it is from where the program runs; names of shipped parts stay.
    fn in_folder(&self, name: &str, endings: &[&str]) -> String {
        match endings.iter().any(|ending| name.ends_with(ending)) {
            true => self.folder.join(name).display().to_string(),
            false => name.to_owned(),
        }
    }

    fn drive(&self, text: &Spanned<String>) -> Result<Spec, Problem> {
        let mut drive: Spec = text.get_ref().parse().map_err(|error| of(text, error))?;
        drive.name = self.in_folder(&drive.name, &[".toml"]);
        Ok(drive)
    }

    fn seeds(&self, file: &File) -> Result<Vec<u64>, Problem> {
        let Some(seeds) = &file.seeds else { return Ok(vec![1]) };
        if seeds.get_ref().is_empty() {
            return Err(of(seeds, "name at least one seed, or leave `seeds` out for seed 1"));
        }
        if file.vm.iter().all(|vm| vm.get_ref().workload.is_none()) {
            return Err(of(seeds, "`seeds` has no effect: only workloads draw random numbers, and these are traces"));
        }
        Ok(seeds.get_ref().clone())
    }

    /// The VMs: traces or guests, but not both.
    fn load(&self, file: &File, seed: u64) -> Result<Load, Problem> {
        let window = TimeWindow {
            from: parsed(file.from.as_ref(), parse_nanos)?.unwrap_or(Nanos::ZERO),
            to: parsed(file.to.as_ref(), parse_nanos)?,
            limit: file.limit,
        };
        let (mut traces, mut named): (Vec<Trace>, Vec<Named>) = (Vec::new(), Vec::new());
        for vm in &file.vm {
            let Vm { name, trace, workload, place } = vm.get_ref();
            let at = parsed(place.as_ref(), parse_sectors)?;
            match (trace, workload) {
                (Some(trace), None) => traces.push(self.trace(vm.span(), trace, name.as_ref(), at, &traces)?),
                (None, Some(workload)) => {
                    let what = self.in_folder(workload.get_ref(), &[".toml", ".fio"]);
                    named.push(Named { name: name.as_ref().map(|name| name.get_ref().clone()), what, place: at });
                }
                _ => return Err((vm.span(), "a VM has either a `trace` or a `workload`".to_owned())),
            }
        }
        let without_effect =
            |key: &str, span: Range<usize>, of: &str| Err((span, format!("`{key}` has no effect: it is for {of}")));
        match (traces.is_empty(), named.is_empty()) {
            (true, true) => Err((0..0, "it has no [[vm]] with a trace or a workload".to_owned())),
            (false, false) => Err((
                file.vm[0].span(),
                "VMs have traces or workloads, not both: traces have recorded times, workloads wait for the drive"
                    .to_owned(),
            )),
            (false, true) => {
                let guests = [("guest_capacity", &file.guest_capacity), ("guest_cache", &file.guest_cache)].into_iter();
                if let Some((key, span)) = guests.filter_map(|(key, value)| Some((key, value.as_ref()?.span()))).next()
                {
                    return without_effect(key, span, "workloads");
                }
                if let Some(journal) = &file.guest_journal {
                    return without_effect("guest_journal", journal.span(), "workloads");
                }
                let Some(pacing) = parsed(file.pacing.as_ref(), str::parse)? else {
                    return Err((0..0, "traces need a `pacing`: recorded, scaled=F, asap=N or closed".to_owned()));
                };
                Ok(Load::Traces { traces, pacing, window })
            }
            (true, false) => {
                for (key, value) in [("pacing", &file.pacing), ("from", &file.from)] {
                    if let Some(value) = value {
                        return without_effect(key, value.span(), "traces; workloads wait for the drive");
                    }
                }
                let cache = parsed(file.guest_cache.as_ref(), parse_bytes)?;
                let settings = GuestSettings {
                    seed,
                    capacity: parsed(file.guest_capacity.as_ref(), parse_sectors)?,
                    cache_bytes: cache.unwrap_or_else(|| parse_bytes(CACHE).expect("it is a size")),
                    keeps_journal: file.guest_journal.as_ref().is_none_or(|journal| *journal.get_ref()),
                };
                let until = Until { requests: window.limit, time: window.to.map(|end| Timestamp::ZERO + end) };
                Ok(Load::Guests { named, settings, until })
            }
        }
    }

    fn trace(
        &self,
        at: Range<usize>,
        trace: &Spanned<String>,
        name: Option<&Spanned<String>>,
        place: Option<Sectors>,
        others: &[Trace],
    ) -> Result<Trace, Problem> {
        let path: PathBuf = self.folder.join(trace.get_ref());
        // A capture of several files may be named by their stem, which is no file.
        if !path.exists() && formats::recognise(&path, &ReadOptions::default()).is_err() {
            return Err(of(
                trace,
                format!("{} does not exist; a path begins at the scenario's folder", path.display()),
            ));
        }
        let name = name.map_or_else(|| short_name(&path), |name| name.get_ref().clone());
        let place = place.unwrap_or(Sectors::ZERO);
        if others.iter().any(|other| other.name == name) {
            return Err((at, format!("two VMs are named `{name}`; give one another `name`")));
        }
        if let Some(other) = others.iter().find(|other| other.place == place) {
            return Err((at, format!("VMs {} and {name} lie at one place; give one another `place`", other.name)));
        }
        Ok(Trace { name, path, place })
    }

    fn scheduling(&self, file: &File, built: &BuiltDrive) -> Result<Scheduling, Problem> {
        let Some(stack) = &file.stack else {
            if let Some(layer) = &file.layer {
                return Err(of(layer, "`in` names a layer of a stack; name the `stack`, too"));
            }
            let depth = file.depth.as_ref().map(|depth| match *depth.get_ref() {
                0 => Err(of(depth, "depth 0 lets no request through; it is at least 1")),
                depth => Ok(depth),
            });
            let depth = depth.transpose()?.unwrap_or(built.queue_depth());
            let look_ahead = file.look_ahead.as_ref().is_some_and(|on| *on.get_ref());
            return Ok(Scheduling::Stage(Limits { depth, look_ahead, ..Limits::default() }));
        };
        let limits = [
            ("depth", file.depth.as_ref().map(Spanned::span)),
            ("look_ahead", file.look_ahead.as_ref().map(Spanned::span)),
        ];
        if let Some((key, span)) = limits.into_iter().find_map(|(key, span)| Some((key, span?))) {
            return Err((span, format!("`{key}` has no effect: each layer of the stack has its own")));
        }
        let described = StackSpec::of_among(&self.in_folder(stack.get_ref(), &[".toml"]), self.known);
        let described = described.map_err(|error| of(stack, error))?;
        let layer = file.layer.as_ref();
        let index = described.layer(layer.map(|layer| layer.get_ref().as_str()));
        let index = index.map_err(|error| of(layer.unwrap_or(stack), error))?;
        Ok(Scheduling::Stack(described, index))
    }

    /// The schedulers, each with its drive.
    fn schedulers(&self, tables: Vec<Table>, file: &File) -> Result<Vec<Candidate>, Problem> {
        let mut candidates: Vec<Candidate> = Vec::new();
        // Where one says whether the drive turns, that is what is compared.
        let states_rotation =
            |table: &Table| table.spec.parse().is_ok_and(|spec| rotational::is_stated(&spec, self.known));
        let is_compared = tables.iter().any(states_rotation);
        for table in tables {
            let fail = |error: &dyn std::fmt::Display| (table.at.clone(), error.to_string());
            let name = match &table.drive {
                Some(drive) => format!("{} on {}", table.spec, drive.get_ref()),
                None => table.spec.clone(),
            };
            if candidates.iter().any(|other| other.name == name) {
                return Err(fail(&format!("scheduler `{name}` is named twice")));
            }
            let mut scheduler: Spec = table.spec.parse().map_err(|error| fail(&error))?;
            if let Some((prefix, path)) = library(&scheduler.name) {
                scheduler.name = format!("{prefix}{}", self.folder.join(path).display());
            }
            self.known.build(&scheduler).map_err(|error| fail(&error))?;
            let text = table.drive.as_ref().unwrap_or(&file.drive);
            let drive = self.drive(text)?;
            let built = drive_models::build(&drive).map_err(|error| of(text, error))?;
            let scheduling = self.scheduling(file, &built)?;
            let scheduler = if is_compared { scheduler } else { rotational::set_for(scheduler, &built, self.known) };
            let Table { tolerance, figures, reason, .. } = table;
            candidates.push(Candidate { name, scheduler, drive, scheduling, tolerance, figures, reason });
        }
        Ok(candidates)
    }

    fn bound(&self, bound: BoundText, schedulers: &[Candidate], figures: &[String]) -> Result<Bound, Problem> {
        let BoundText { scheduler, figure, at_most, at_least, of: other, reason } = bound;
        for named in [Some(&scheduler), other.as_ref()].into_iter().flatten() {
            let name = named.get_ref();
            if schedulers.iter().all(|candidate| candidate.name != *name) {
                let all = || schedulers.iter().map(|candidate| candidate.name.as_str());
                let near = match nearest(name, all()) {
                    near if near.is_empty() => all().map(str::to_owned).collect(),
                    near => near,
                };
                let near = near.join(", ");
                return Err(of(named, format!("no [[scheduler]] here is `{name}`; did you mean {near}?")));
            }
        }
        if !figures.contains(figure.get_ref()) {
            return Err(of(&figure, unknown_figure(figure.get_ref(), figures)));
        }
        if reason.trim().is_empty() {
            return Err(of(&scheduler, "a bound needs a `reason`: why must it hold?"));
        }
        let (limit, at) = match (at_most, at_least) {
            (Some(most), None) => (Limit::AtMost(*most.get_ref()), most.span()),
            (None, Some(least)) => (Limit::AtLeast(*least.get_ref()), least.span()),
            _ => return Err(of(&scheduler, "a bound has either `at_most` or `at_least`")),
        };
        Ok(Bound {
            scheduler: scheduler.into_inner(),
            figure: figure.into_inner(),
            limit,
            of: other.map(Spanned::into_inner),
            reason: reason.trim().to_owned(),
            line: line_of(self.text, at.start),
        })
    }
}

/// Names of the VMs, in the order of their numbers. An error comes with the first table `[[vm]]` that causes it.
fn vms(load: &Load, built: &BuiltDrive) -> Result<Vec<String>, (usize, String)> {
    let (named, settings, until) = match load {
        Load::Traces { traces, .. } => return Ok(traces.iter().map(|trace| trace.name.clone()).collect()),
        Load::Guests { named, settings, until } => (named, settings, until),
    };
    let plan = |count: usize| GuestPlan::new(&named[..count], *settings, *until, built.drive.capacity());
    plan(named.len()).map(|plan| plan.names()).map_err(|error| {
        let without_it = (1..named.len()).find(|&count| plan(count).is_err()).unwrap_or(named.len());
        (without_it - 1, error.to_string())
    })
}
