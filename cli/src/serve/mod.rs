//! `iocast serve`: a modelled drive for real clients. nbdkit runs the plugin of package `serve`. This command checks
//! the settings, starts nbdkit, shows the plugin's status lines and ends the server.

mod listen;
mod program;
mod tables;

use std::io::{BufRead, BufReader, IsTerminal, stderr};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use ::serve::{Description, Export, ImagePlacement, StatusLine, VmBy};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use traces::Lba;
use traces::results::serving::Serving;

use crate::arguments::{Serve, ServeMap, ServeVmBy};
use crate::error::UsageError;
use crate::output;
use crate::output_format::OutputFormat;
use listen::Listen;

pub fn run(arguments: &Serve) -> Result<()> {
    let mut description = described(arguments)?;
    let listen: Listen = Listen::of(arguments)?;
    for (file, option) in [(&arguments.log, "--log"), (&arguments.report, "--report")] {
        check_new(file.as_deref(), option, arguments.force)?;
    }
    let (nbdkit, plugin) = (program::nbdkit()?, program::plugin()?);
    let (urgency, note) = program::urgency(arguments.urgency)?;
    listen.prepare()?;
    // Check here as well as in the plugin, so that errors appear before a process is started.
    let checked = ::serve::check(description.clone())?;
    let lines = banner(&description, &checked, &listen);
    drop(checked);
    // The check has created the image.
    description.opening.create = None;
    if let Some(note) = note {
        eprintln!("iocast: note: {note}");
    }

    let mut command = Command::new(&urgency[0]);
    command.args(&urgency[1..]).arg(&nbdkit).args(["--foreground", "--threads"]);
    command.arg(arguments.threads.to_string()).args(listen.options()).arg(&plugin);
    command.args(description.to_pairs().iter().map(|(key, value)| format!("{key}={value}")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for interrupts")?;
    let child = command.spawn().with_context(|| format!("cannot start {}", nbdkit.display()))?;
    let served = serve(child, signals, &lines);
    listen.clean_up();
    let report = served?;

    if let Some(path) = &arguments.report {
        let mut text = serde_json::to_string_pretty(&report)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&report)?,
        format => output::print(&tables::render(&report, format))?,
    }
    if let Some(error) = report.log_error {
        bail!("the log is not complete: {error}");
    }
    if let Some(error) = report.image_error {
        bail!("the image may not survive a crash of this host: {error}");
    }
    Ok(())
}

/// The description of the served drive. Its paths are absolute, so that nbdkit may run in any folder.
fn described(arguments: &Serve) -> Result<Description> {
    let usage = |error: ::serve::SettingError| UsageError::from_display(error);
    let drive = arguments.drive.parse().map_err(UsageError::from_display)?;
    let mut description = Description::new(drive, arguments.image.parse().map_err(usage)?);
    if let ::serve::ImageSource::Path(path) = &mut description.image {
        *path = std::path::absolute(&*path).with_context(|| path.display().to_string())?;
    }
    description.scheduler = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    description.depth = arguments.depth.unwrap_or(u32::MAX);
    description.opening.create = arguments.create;
    description.opening.allow_writes = arguments.allow_writes;
    description.placement = match arguments.map {
        ServeMap::Exact => ImagePlacement::At(Lba::new(arguments.place.count())),
        ServeMap::Scale => ImagePlacement::Spread,
    };
    let exports = arguments.exports.iter().map(|text| text.parse().map_err(usage));
    description.exports = exports.collect::<Result<Vec<Export>>>()?;
    description.vm_by = match arguments.vm_by {
        ServeVmBy::Export => VmBy::Export,
        ServeVmBy::Connection => VmBy::Connection,
    };
    description.log = match &arguments.log {
        Some(path) => Some(std::path::absolute(path).with_context(|| path.display().to_string())?),
        None => None,
    };
    description.live = stderr().is_terminal();
    description.ends_with_input = true;
    Ok(description)
}

/// Checks that an output file does not exist yet, unless `force`, and that its folder exists.
fn check_new(path: Option<&Path>, option: &str, force: bool) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    ensure!(
        force || !path.exists(),
        UsageError(format!("{option} {}: it exists; --force overwrites it", path.display()))
    );
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{option} {}: there is no folder {}", path.display(), folder.display());
    Ok(())
}

/// The lines that name the drive, and each export's URI and size.
fn banner(description: &Description, checked: &::serve::Checked, listen: &Listen) -> Vec<String> {
    let capacity = checked.capacity().bytes();
    let mut lines = vec![format!("{} of {capacity} bytes, scheduler {}", description.drive, description.scheduler)];
    for export in checked.exports() {
        lines.push(format!("{} ({} bytes)", listen.uri(&export.name), export.length.bytes()));
    }
    lines
}

/// Serves until nbdkit ends. A signal closes nbdkit's standard input, which ends it.
fn serve(mut child: Child, mut signals: Signals, banner: &[String]) -> Result<Serving> {
    let mut input = child.stdin.take();
    let handle = signals.handle();
    let stop = thread::spawn(move || {
        for _ in signals.forever() {
            drop(input.take());
        }
    });
    let report = child.stdout.take().map(|out| follow_status(out, banner));
    handle.close();
    let _ = stop.join();
    let status = child.wait().context("cannot wait for nbdkit")?;
    match report {
        Some(Ok(Some(report))) => Ok(report),
        Some(Err(error)) => Err(error),
        _ => bail!("nbdkit ended before it was ready ({status}); its message is above"),
    }
}

/// Shows the plugin's status lines until standard output ends. Returns the final figures if the plugin printed them.
fn follow_status(out: ChildStdout, banner: &[String]) -> Result<Option<Serving>> {
    let mut spinner: Option<ProgressBar> = None;
    let mut ended = None;
    for line in BufReader::new(out).lines() {
        let line = line.context("cannot read the plugin's status lines")?;
        match serde_json::from_str(&line).context("the plugin is of another version of iocast")? {
            StatusLine::Ready => banner.iter().for_each(|line| eprintln!("iocast: serving {line}")),
            StatusLine::Progress(report) => {
                let spinner = spinner.get_or_insert_with(|| {
                    let spinner = ProgressBar::new_spinner();
                    spinner.enable_steady_tick(Duration::from_millis(200));
                    spinner
                });
                spinner.set_message(tables::line(&report));
            }
            StatusLine::Ended(report) => ended = Some(*report),
        }
    }
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    Ok(ended)
}
