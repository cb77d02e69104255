//! `iocast capture block`: records the requests of block devices while they are in use.

use std::path::Path;

use anyhow::{Result, ensure};
use capture::block::{BlockDevice, CaptureOptions, Output};

use crate::arguments::capture::{Block, VmBy};
use crate::capture::running;
use crate::error::UsageError;
use crate::needs::{self, Use, uses};

pub fn run(arguments: &Block) -> Result<()> {
    let devices = arguments.devices.iter().map(|path| BlockDevice::find(path)).collect::<Result<Vec<_>, _>>()?;
    ensure!(
        devices.len() == 1 || arguments.vm_by == VmBy::Device || arguments.histograms,
        UsageError(
            "--vm-by cgroup and process accept one device only: addresses of several could not be distinguished".into()
        )
    );
    let mut numbers: Vec<u32> = devices.iter().map(|device| device.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    ensure!(numbers.len() == devices.len(), UsageError("a device is named twice".to_owned()));
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let ending = match (arguments.raw, arguments.histograms) {
        (true, _) => "",
        (_, true) => ".jsonl",
        _ => ".parquet",
    };
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}{ending}", names.join("-")));
    let output = Output::parse(&output);
    if let Some((path, why)) = output.file().and_then(|path| Some((path, named_otherwise(path, arguments)?))) {
        return Err(UsageError(format!("{}: {why}", path.display())).into());
    }
    ensure!(
        arguments.rotate.is_none() || output.file().is_some(),
        UsageError("--rotate needs files, but the trace goes to a stream".to_owned())
    );
    let of_histograms = arguments.histograms.then_some(uses::CAPTURE_BLOCK_HISTOGRAMS);
    let needed = of_histograms.or(arguments.backend.as_deref().and_then(of_backend));
    needs::check(&needed.into_iter().collect::<Vec<_>>())?;
    let options = CaptureOptions {
        devices,
        // The only backend that supplies some of the events only.
        backend: if arguments.histograms { Some("tracefs".to_owned()) } else { arguments.backend.clone() },
        output: output.clone(),
        raw: arguments.raw,
        raw_too: arguments.raw_too.clone(),
        decisions_only: false,
        histograms: arguments.histograms,
        force: arguments.force,
        allow_self_capture: arguments.allow_self_capture,
        vm_by: arguments.vm_by.into(),
        layer: arguments.layer,
        buffer_kib: arguments.buffer.bytes.div_ceil(1024).max(1),
        seconds: arguments.until.seconds.map(|time| std::time::Duration::from_nanos(time.as_ns())),
        size_bytes: arguments.until.max_size,
        free_bytes: arguments.until.min_free,
        rotate: arguments.rotate,
        keep: arguments.keep,
        cpu_percent: arguments.max_cpu,
        rate: arguments.max_rate,
    };
    let summary = running::run(&options)?;
    running::report(&summary, &options, arguments.output_format, output != Output::Standard)
}

/// Why a file is not to be named so: what it holds could not be told from its name.
fn named_otherwise(path: &Path, arguments: &Block) -> Option<&'static str> {
    let extension = path.extension();
    if arguments.histograms {
        let what = "histograms are written as lines of JSON; name it .jsonl";
        return extension.is_none_or(|extension| extension != "jsonl").then_some(what);
    }
    let what = "a capture is written as Parquet; name it .parquet, and convert it afterwards (iocast convert)";
    (!arguments.raw && extension.is_some_and(|extension| extension != "parquet")).then_some(what)
}

/// The run with this backend and no other.
fn of_backend(name: &str) -> Option<Use> {
    let of_name = [
        ("blktrace", uses::CAPTURE_BLOCK_BLKTRACE),
        ("tracefs", uses::CAPTURE_BLOCK_TRACEFS),
        ("blk-tracer", uses::CAPTURE_BLOCK_BLK_TRACER),
    ];
    of_name.into_iter().find(|(backend, _)| *backend == name).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_has_needs_of_its_own() {
        for row in capture::block::BACKENDS {
            let run = of_backend(row.name).unwrap();
            assert!(run.when.is_some_and(|when| when.ends_with(row.name)), "{run}");
            assert!(needs::NEEDS.iter().any(|need| need.needed.contains(&run)), "{run}");
        }
    }
}
