//! `iocast capture decisions`: records the decisions of a device's scheduler.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use capture::block::{BlockDevice, CaptureOptions, Output, StopReason, describe_queue};
use replay::Decisions;
use replay::decisions::DecisionsError;
use serde_json::Value;
use traces::formats;
use traces::trace::ReadOptions;
use traces::whole_file::write_whole;

use crate::arguments::capture as arguments;
use crate::capture::running;
use crate::needs::{self, uses};

pub fn run(arguments: &arguments::Decisions) -> Result<()> {
    let device = BlockDevice::find(&arguments.device)?;
    needs::check(&[uses::CAPTURE_DECISIONS])?;
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
        // The only backend that records I/O priorities.
        backend: Some("tracefs".to_owned()),
        raw: true,
        decisions_only: true,
        force: arguments.force,
        buffer_kib: arguments.buffer.bytes.div_ceil(1024).max(1),
        seconds: arguments.until.seconds.map(|time| Duration::from_nanos(time.as_ns())),
        size_bytes: arguments.until.max_size,
        free_bytes: arguments.until.min_free,
        ..CaptureOptions::new(vec![device], Output::File(stem.clone()))
    };
    let mut summary = running::run(&options)?;
    let mut path = stem.clone().into_os_string();
    path.push(".queue.json");
    let path = PathBuf::from(path);
    let text = serde_json::to_string_pretty(&queue)?;
    write_whole(&path, text.as_bytes())?;
    summary.files.push(path.display().to_string());
    if summary.failure.is_none() && summary.stopped_by != StopReason::DeviceGone && summary.events > 0 {
        summary.failure = why_none(&stem, &queue)?;
    }
    let scheduler = queue["scheduler"].as_str().unwrap_or_default();
    if summary.failure.is_none() && summary.events > 0 {
        eprintln!("iocast: iocast validate decisions {} --scheduler {scheduler}", stem.display());
    }
    running::report(&summary, &options, arguments.output_format, true)
}

/// Why the capture holds no decision; `None` at its first one.
fn why_none(stem: &Path, queue: &Value) -> Result<Option<String>> {
    let fifo = schedulers::build(&"fifo".parse()?)?.scheduler;
    let options = ReadOptions { lenient: true, ..ReadOptions::default() };
    let Some(open) = formats::recognise(stem, &options)?.open_events else { return Ok(None) };
    let mut reader = open(stem, &options)?;
    // The number of candidates does not depend on the scheduler.
    let mut decisions = Decisions::new("fifo", fifo);
    while decisions.decisions() == 0 && reader.next_watched(&mut decisions)?.is_some() {}
    Ok(match decisions.finish() {
        Ok(agreement) if agreement.decisions > 0 => None,
        Ok(_) => Some(never_two_waited(queue)),
        Err(DecisionsError::NoInsertions) => Some(no_insertions(queue)),
        Err(error) => Some(format!("0 decisions: {error}")),
    })
}

/// The capture holds requests that passed the scheduler one by one.
fn never_two_waited(queue: &Value) -> String {
    let (depth, load) = match device_depth(queue) {
        Some(depth) => {
            (format!("{depth}"), format!("keep more requests outstanding, as with fio --iodepth={}", 2 * depth))
        }
        None => ("each".to_owned(), "keep more requests outstanding (fio --iodepth)".to_owned()),
    };
    format!(
        "0 decisions: never did two requests wait in the scheduler, because the device takes {depth} at once; {load}, \
         or let the device take fewer: {}",
        fewer_tags(queue)
    )
}

/// The capture holds no request that passed the scheduler.
fn no_insertions(queue: &Value) -> String {
    let device = queue["device"].as_str().unwrap_or_default();
    match queue["scheduler"].as_str().unwrap_or_default() {
        "none" => format!(
            "0 decisions: {device} has no scheduler, and requests bypass `none`; choose one: echo mq-deadline > \
             /sys/block/{device}/queue/scheduler"
        ),
        scheduler => format!(
            "0 decisions: no request of {device} was inserted into {scheduler}; capture while reads and writes of the \
             device are running, not flushes only"
        ),
    }
}

/// The requests that the device takes at once: the driver's tags, or fewer of a SCSI device.
fn device_depth(queue: &Value) -> Option<u64> {
    [&queue["nr_tags"], &queue["queue_depth"]].into_iter().filter_map(Value::as_u64).min()
}

/// The commands that leave the device four tags and set the scheduler again. The tags follow nr_requests only while
/// there is no scheduler.
fn fewer_tags(queue: &Value) -> String {
    let text = |name: &str| queue[name].as_str().unwrap_or_default();
    let folder = format!("/sys/block/{}/queue", text("device"));
    format!(
        "echo none > {folder}/scheduler; echo 4 > {folder}/nr_requests; echo {} > {folder}/scheduler",
        text("scheduler")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reason_names_the_depth_that_helps() {
        let queue = |tags: Value, depth: Value| -> Value {
            json!({ "device": "sdb", "scheduler": "kyber", "nr_tags": tags, "queue_depth": depth })
        };
        let why = never_two_waited(&queue(json!(128), json!(32)));
        assert!(why.contains("the device takes 32 at once") && why.contains("fio --iodepth=64"), "{why}");
        assert!(
            why.ends_with("echo 4 > /sys/block/sdb/queue/nr_requests; echo kyber > /sys/block/sdb/queue/scheduler")
        );
        assert!(never_two_waited(&queue(json!(128), Value::Null)).contains("fio --iodepth=256"));
        assert!(never_two_waited(&queue(Value::Null, Value::Null)).contains("(fio --iodepth)"));
        assert!(
            no_insertions(&json!({ "device": "sdb", "scheduler": "none" }))
                .contains("echo mq-deadline > /sys/block/sdb")
        );
        assert!(no_insertions(&queue(json!(4), Value::Null)).contains("inserted into kyber"));
    }
}
