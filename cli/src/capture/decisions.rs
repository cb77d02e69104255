//! `iocast capture decisions`: records the decisions of a device's scheduler.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use capture::block::{AttributeBy, BlockDevice, CaptureOptions, Output, describe_queue};

use crate::arguments::capture::Decisions;
use crate::capture::running;

pub fn run(arguments: &Decisions) -> Result<()> {
    let device = BlockDevice::find(&arguments.device)?;
    let queue = describe_queue(&device);
    if queue["scheduler"] == "none" {
        eprintln!(
            "iocast: warning: {} has no scheduler and thus no decisions (set one: echo mq-deadline > \
             /sys/block/{}/queue/scheduler)",
            device.name, device.name
        );
    }
    let stem = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}-decisions", device.name)));
    let options = CaptureOptions {
        devices: vec![device],
        // The only backend that records I/O priorities.
        backend: Some("tracefs".to_owned()),
        output: Output::File(stem.clone()),
        raw: true,
        raw_too: None,
        decisions_only: true,
        force: arguments.force,
        allow_self_capture: false,
        vm_by: AttributeBy::Device,
        layer: None,
        buffer_kib: arguments.buffer.bytes.div_ceil(1024).max(1),
        seconds: arguments.until.seconds.map(|time| Duration::from_nanos(time.as_ns())),
        size_bytes: arguments.until.max_size,
        free_bytes: arguments.until.min_free,
        rotate: None,
        cpu_percent: None,
        rate: None,
    };
    let mut summary = running::run(&options)?;
    let mut path = stem.clone().into_os_string();
    path.push(".queue.json");
    let path = PathBuf::from(path);
    let text = serde_json::to_string_pretty(&queue)?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    summary.files.push(path.display().to_string());
    let scheduler = queue["scheduler"].as_str().unwrap_or_default();
    eprintln!("iocast: iocast validate decisions {} --scheduler {scheduler}", stem.display());
    running::report(&summary, arguments.output_format, true)
}
