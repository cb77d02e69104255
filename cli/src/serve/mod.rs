//! `iocast serve`: a modelled drive for real clients, over NBD, vhost-user and ublk.

mod listen;
mod statistics;
pub mod tables;

use std::path::Path;
use std::thread;
use std::time::Duration;

use ::serve::{Checked, Description, Export, ImagePlacement, ImageSource, Limits, ServedDrive, Server, VmBy, urgency};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use traces::Lba;
use traces::results::serving::Serving;
use traces::whole_file::write_whole;

use crate::arguments::{Serve, ServeMap, ServeVmBy, Urgency};
use crate::document::text;
use crate::error::UsageError;
use crate::needs::{self, uses};
use crate::output;
use crate::output_format::OutputFormat;
use crate::quiet;
use listen::{Address, Listen, Opened, addresses, place};
use statistics::{STANDARD_OUTPUT, Statistics};

pub fn run(arguments: &Serve) -> Result<()> {
    let description = described(arguments)?;
    let listens = addresses(arguments)?;
    let statistics = arguments.statistics.as_deref().filter(|path| *path != Path::new(STANDARD_OUTPUT));
    for (file, option) in
        [(arguments.log.as_deref(), "--log"), (arguments.report.as_deref(), "--report"), (statistics, "--statistics")]
    {
        check_new(file, option, arguments.force)?;
    }
    check_host(arguments, &listens, &description.image)?;
    let exports = description.exports.iter().map(|export| export.name.as_str()).collect::<Vec<&str>>();
    // Before an image is created for a server that cannot start.
    let addresses = listens.iter().map(|listen| Ok((listen.take()?, listen.export(&exports)?)));
    let addresses = addresses.collect::<Result<Vec<(Address, Option<usize>)>>>()?;
    let checked = ::serve::check(description.clone())?;
    let places = listens.iter().zip(&addresses).flat_map(|(listen, (_, at))| listen.places(*at, checked.exports()));
    let lines = [vec![banner(&description, &checked)], places.collect()].concat();
    let mut statistics = arguments.statistics.as_deref().map(Statistics::begin).transpose()?;
    let report = serve(checked, addresses, arguments, lines, statistics.as_mut())?;

    if let Some(path) = &arguments.report {
        let mut text = serde_json::to_string_pretty(&report)?;
        text.push('\n');
        write_whole(path, text.as_bytes())?;
    }
    let unwritten = statistics.and_then(|statistics| statistics.finish(&report));
    match arguments.output_format {
        _ if arguments.statistics.as_deref() == Some(Path::new(STANDARD_OUTPUT)) => {}
        OutputFormat::Json => output::print_json(&report)?,
        format => output::print(&text(&tables::document(&report).blocks, format))?,
    }
    if let Some(error) = report.log_error {
        bail!("the log is not complete: {error}");
    }
    if let Some(error) = report.image_error {
        bail!("the image {} may not survive a crash of this host: {error}", arguments.image);
    }
    if let Some(problem) = unwritten {
        bail!("--statistics: {problem}");
    }
    Ok(())
}

/// Checks what the server needs of this host, and warns of an image that may grow beyond memory or disk.
fn check_host(arguments: &Serve, listens: &[Listen], image: &ImageSource) -> Result<()> {
    let realtime = (arguments.urgency == Some(Urgency::Realtime)).then_some(uses::SERVE_REALTIME);
    let ublk = listens.iter().any(|listen| matches!(listen, Listen::Ublk(..))).then_some(uses::SERVE_UBLK);
    needs::check(&realtime.into_iter().chain(ublk).collect::<Vec<uses::Use>>())?;
    let doubt = match (image, arguments.create) {
        (ImageSource::Memory(length), _) => needs::memory_doubt("the image", length.bytes()),
        (ImageSource::Path(path), Some(length)) => needs::space_doubt("the image", path, length.bytes()),
        (ImageSource::Path(_), None) => None,
    };
    if let Some(doubt) = doubt {
        eprintln!("iocast: warning: {doubt}");
    }
    Ok(())
}

/// The description of the served drive.
fn described(arguments: &Serve) -> Result<Description> {
    let usage = |error: ::serve::SettingError| UsageError::from_display(error);
    let drive = arguments.drive.parse().map_err(UsageError::from_display)?;
    let mut description = Description::new(drive, arguments.image.parse().map_err(usage)?);
    if let ImageSource::Path(path) = &mut description.image {
        *path = std::path::absolute(&*path).with_context(|| path.display().to_string())?;
    }
    description.scheduler = arguments.scheduler.parse().map_err(UsageError::from_display)?;
    description.depth = arguments.depth;
    description.k = arguments.k;
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

/// The line that names the drive.
fn banner(description: &Description, checked: &Checked) -> String {
    let capacity = checked.capacity().bytes();
    format!("{} of {capacity} bytes, scheduler {}", description.drive, description.scheduler)
}

/// Serves until a signal. Returns the final figures.
fn serve(
    checked: Checked,
    mut addresses: Vec<(Address, Option<usize>)>,
    arguments: &Serve,
    mut lines: Vec<String>,
    statistics: Option<&mut Statistics>,
) -> Result<Serving> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for interrupts")?;
    let drive = ServedDrive::begin(checked)?;
    let limits = Limits { requests: arguments.threads, ..Limits::default() };
    let (mut listeners, mut block_devices) = (Vec::new(), Vec::new());
    for (address, export) in &mut addresses {
        match address.open(*export)? {
            Opened::Listener(listener) => listeners.push(listener),
            Opened::BlockDevice(control, number) => block_devices.push((control, number, export.unwrap_or(0))),
        }
    }
    let mut server = Server::new(drive, listeners, limits).context("cannot serve")?;
    for (control, number, export) in block_devices {
        let path = server.add_block_device(control, number, export).context("--listen ublk")?;
        lines.push(place(&path.display().to_string(), &server.exports()[export]));
    }
    let (stopper, handle) = (server.stopper(), signals.handle());
    let stop = thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    // Last, so that the log's thread does not have the priority.
    let asked = arguments.urgency.map(|urgency| match urgency {
        Urgency::Realtime => urgency::Urgency::Realtime,
        Urgency::Nice => urgency::Urgency::Nice,
        Urgency::Normal => urgency::Urgency::Normal,
    });
    if let Some(note) = urgency::take(asked).context("--urgency")? {
        note!("iocast: note: {note}");
    }
    lines.iter().for_each(|line| note!("iocast: serving {line}"));
    let served = run_server(&mut server, statistics);
    drop(addresses);
    handle.close();
    let _ = stop.join();
    // The log is completed even if serving failed.
    let report = server.into_drive().finish();
    served.context("serving ended")?;
    Ok(report)
}

/// Runs the server. Every second the figures so far go to the statistics, and on a terminal to a line.
fn run_server(server: &mut Server, mut statistics: Option<&mut Statistics>) -> std::io::Result<()> {
    let spinner = quiet::shows_progress().then(ProgressBar::new_spinner);
    if spinner.is_none() && statistics.is_none() {
        return server.run(None);
    }
    if let Some(spinner) = &spinner {
        spinner.enable_steady_tick(Duration::from_millis(200));
    }
    let served = server.run(Some(&mut |report: &Serving| {
        if let Some(spinner) = &spinner {
            spinner.set_message(tables::line(report));
        }
        if let Some(statistics) = &mut statistics {
            statistics.add(report);
        }
    }));
    if let Some(spinner) = &spinner {
        spinner.finish_and_clear();
    }
    served
}
