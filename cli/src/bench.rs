//! `iocast bench init`: writes a project with a scheduler of the user's own, and a scenario over the user's traces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use drive_models::BuiltDrive;
use iocast_bench::scenario::Scenario;
use iocast_bench::template::{self, Draft, FILES, MANIFEST, Origin, scheduler};
use replay::sources::{AddressMap, Mapping, Pacing, TimeWindow};
use schedulers::Registry;
use traces::quantity::parse_nanos;
use traces::spec::{Spec, library, parse_list};
use traces::trace::ReadOptions;
use traces::whole_file::{WholeFile, write_whole};

use crate::arguments::{Bench, BenchInit, BenchWhat};
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::interrupts::remove_unfinished_outputs;
use crate::output;
use crate::output_format::OutputFormat;
use crate::vms::{self, Vm};

/// Where the traces lie, from the folder of the scenario.
const TRACES: &str = "../traces";
/// The packages that the project needs of a checkout.
const PACKAGES: [&str; 3] = ["schedulers", "traces", "benches"];

pub fn run(arguments: &Bench) -> Result<()> {
    match &arguments.what {
        BenchWhat::Init(arguments) => init(arguments),
    }
}

/// A project that is to be written.
struct Project {
    /// Files that the user goes on with: paths from the project's folder, and texts. Those that exist stay.
    own: Vec<(String, String)>,
    /// The scenario's path and text.
    scenario: (String, String),
    /// Names in the folder of the traces, and the files that are copied there.
    traces: Vec<(String, PathBuf)>,
}

fn init(arguments: &BenchInit) -> Result<()> {
    let manifest = manifest(arguments.iocast.as_deref())?;
    let vms = traces(arguments)?;
    let known = Registry::builtin().with(&scheduler::ENTRY);
    let mut schedulers: Vec<Spec> = parse_list(&arguments.schedulers).map_err(UsageError::from_display)?;
    for spec in &schedulers {
        begins_at_the_root(library(&spec.name).map(|(_, path)| path))?;
    }
    schedulers.push(Spec { name: scheduler::ENTRY.name.to_owned(), given: Vec::new() });
    let mut own: Vec<(String, String)> =
        FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    own.push((MANIFEST.to_owned(), manifest));
    let path = format!("scenarios/{}.toml", vms[0].name);
    let mut project = Project { own, scenario: (path, String::new()), traces: copies(&vms)? };
    let outputs: Vec<PathBuf> = project.paths().map(|path| arguments.folder.join(path)).collect();
    if !arguments.force {
        refuse_existing(&outputs, "another folder")?;
    }
    project.scenario.1 = scenario(arguments, &vms, &schedulers, &project.scenario.0, &known)?;
    let exists = |(path, _): &(String, String)| arguments.folder.join(path).exists();
    let (kept, own): (Vec<_>, Vec<_>) = project.own.into_iter().partition(exists);
    project.own = own;
    project.write(&arguments.folder)?;
    let list = |paths: &mut dyn Iterator<Item = PathBuf>| -> Vec<String> {
        paths.map(|path| arguments.folder.join(path).display().to_string()).collect()
    };
    let format = OutputFormat::Table;
    let mut text = output::written(&list(&mut project.paths()), format).trim_start().to_owned();
    if !kept.is_empty() {
        let kept = list(&mut kept.iter().map(|(path, _)| PathBuf::from(path))).join(", ");
        text.push_str(&output::sentence(&format!("As they were: {kept}. Remove one to have it written"), format));
    }
    let next = format!("Next: cd {} && cargo test && cargo bench", arguments.folder.display());
    output::print(&format!("{text}\n{}", output::sentence(&next, format)))
}

/// The manifest, which finds iocast in a checkout if one is named.
fn manifest(checkout: Option<&Path>) -> Result<String> {
    let Some(checkout) = checkout else { return Ok(template::manifest(Origin::Published)) };
    let lacks = |package: &str| !checkout.join(package).join(MANIFEST).is_file();
    if let Some(package) = PACKAGES.into_iter().find(|package| lacks(package)) {
        let error =
            format!("--iocast {}: it has no {package}/{MANIFEST}; name a checkout of iocast", checkout.display());
        return Err(UsageError(error).into());
    }
    let absolute = fs::canonicalize(checkout).with_context(|| checkout.display().to_string())?;
    let path = absolute.to_str().context("the path of --iocast is no text in UTF-8")?;
    Ok(template::manifest(Origin::Checkout(path)))
}

/// The VMs with the places of their disks on the drive.
fn traces(arguments: &BenchInit) -> Result<Vec<Vm>> {
    let drive: Spec = arguments.drive.parse().map_err(UsageError::from_display)?;
    begins_at_the_root(Some(drive.name.as_str()).filter(|name| name.ends_with(".toml")))?;
    let BuiltDrive { drive, .. } = drive_models::build(&drive).map_err(UsageError::from_display)?;
    arguments
        .pacing
        .parse::<Pacing>()
        .map_err(|error| UsageError(format!("--pacing {}: {error}", arguments.pacing)))?;
    let end = arguments.end.as_deref().map(parse_nanos).transpose();
    let to = end.map_err(|error| UsageError(format!("--end: {error}")))?;
    let window = TimeWindow { to, ..TimeWindow::default() };
    let named = vms::name_all(&arguments.traces, &[])?;
    if let Some(folder) = named.iter().find(|vm| vm.path.is_dir()) {
        let path = folder.path.display();
        let error = format!("{path} is a folder; `iocast convert {path} trace.parquet` makes one file of it");
        return Err(UsageError(error).into());
    }
    vms::gather(named, &ReadOptions::default(), Mapping::Exact, window, drive.capacity())
}

/// Refuses a path that would begin at another folder in the scenario than here.
fn begins_at_the_root(path: Option<&str>) -> Result<()> {
    match path.filter(|path| !Path::new(path).is_absolute()) {
        None => Ok(()),
        Some(path) => Err(UsageError(format!(
            "{path}: name its whole path, from / on; in a scenario a path begins at the scenario's folder"
        ))
        .into()),
    }
}

/// The files of the traces, by their names.
fn copies(vms: &[Vm]) -> Result<Vec<(String, PathBuf)>> {
    let mut copies: Vec<(String, PathBuf)> = Vec::new();
    for vm in vms {
        for path in (vm.format.members)(&vm.path)? {
            let name = file_name(&path)?;
            ensure!(
                copies.iter().all(|(other, _)| *other != name),
                UsageError(format!("two traces have a file {name}; give one of them another name"))
            );
            copies.push((name, path));
        }
    }
    Ok(copies)
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{}: its name is no text in UTF-8", path.display()))
}

/// The scenario's text with the figures that come out now.
fn scenario(arguments: &BenchInit, vms: &[Vm], schedulers: &[Spec], path: &str, known: &Registry) -> Result<String> {
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for vm in vms {
        let place = match vm.map {
            AddressMap::Shift { place } => place.count(),
            _ => 0,
        };
        let absolute = fs::canonicalize(&vm.path).or_else(|_| std::path::absolute(&vm.path));
        let absolute = absolute.with_context(|| vm.path.display().to_string())?;
        let Some(absolute) = absolute.to_str() else { bail!("{}: it is no text in UTF-8", vm.path.display()) };
        here.push((vm.name.clone(), absolute.to_owned(), place));
        there.push((vm.name.clone(), format!("{TRACES}/{}", file_name(&vm.path)?), place));
    }
    let names: Vec<&str> = vms.iter().map(|vm| vm.name.as_str()).collect();
    let draft = Draft {
        question: format!("Does my scheduler answer reads of {} sooner?", names.join(" and ")),
        drive: arguments.drive.clone(),
        pacing: arguments.pacing.clone(),
        end: arguments.end.clone(),
        vms: here,
        schedulers: schedulers.iter().map(Spec::to_string).collect(),
    };
    let path = arguments.folder.join(path);
    let drafted = Scenario::parse(&path, &draft.text(&[]), known).map_err(|error| UsageError(error.problem))?;
    Ok(Draft { vms: there, ..draft }.text(&drafted.measure(known)?))
}

impl Project {
    /// The paths of all files, from the project's folder.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let texts = self.own.iter().chain([&self.scenario]).map(|(path, _)| PathBuf::from(path));
        texts.chain(self.traces.iter().map(|(name, _)| Path::new("traces").join(name)))
    }

    fn write(&self, folder: &Path) -> Result<()> {
        remove_unfinished_outputs()?;
        for path in self.paths() {
            let parent = folder.join(path.parent().unwrap_or(Path::new("")));
            fs::create_dir_all(&parent).with_context(|| parent.display().to_string())?;
        }
        for (name, path) in &self.traces {
            let mut copy = WholeFile::create(&folder.join("traces").join(name))?;
            let named = || path.display().to_string();
            io::copy(&mut File::open(path).with_context(named)?, &mut copy).with_context(named)?;
            copy.finish()?;
        }
        for (path, text) in self.own.iter().chain([&self.scenario]) {
            write_whole(&folder.join(path), text.as_bytes())?;
        }
        Ok(())
    }
}
