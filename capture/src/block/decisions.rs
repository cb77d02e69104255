//! The settings of a scheduler and its queue, recorded beside its decisions.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::device::BlockDevice;

/// Queue settings that determine how much choice the scheduler has.
const SETTINGS: [&str; 7] =
    ["nr_requests", "nomerges", "rotational", "read_ahead_kb", "max_sectors_kb", "wbt_lat_usec", "rq_affinity"];

/// The scheduler of a device with its tunables, and its queue's settings, from sysfs.
pub fn describe_queue(device: &BlockDevice) -> Value {
    let queue = device.folder.join("queue");
    let read = |name: &str| fs::read_to_string(queue.join(name)).ok().map(|text| text.trim().to_owned());
    let schedulers = read("scheduler").unwrap_or_default();
    let chosen = schedulers.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let mut tunables = BTreeMap::new();
    for entry in fs::read_dir(queue.join("iosched")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(value) = read(&format!("iosched/{name}")) {
            tunables.insert(name, value);
        }
    }
    let settings: BTreeMap<&str, String> = SETTINGS.into_iter().filter_map(|name| Some((name, read(name)?))).collect();
    let number = |path: &str| fs::read_to_string(device.folder.join(path)).ok()?.trim().parse::<u64>().ok();
    json!({
        "schema_version": 1,
        "device": device.name,
        "number": super::device::spelt(device.number),
        "capacity_sectors": device.capacity.count(),
        "scheduler": chosen.unwrap_or(schedulers.as_str()),
        "tunables": tunables,
        "queue": settings,
        // The driver's tags, which are not the scheduler's nr_requests. The kernel does not show whether they were cut
        // (by nr_requests under `none`).
        "nr_tags": number("mq/0/nr_tags"),
        // SCSI devices only.
        "queue_depth": number("device/queue_depth"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_tunables_and_queue_limits_are_described() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("queue");
        fs::create_dir_all(queue.join("iosched")).unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] kyber\n").unwrap();
        fs::write(queue.join("iosched/fifo_batch"), "16\n").unwrap();
        fs::write(queue.join("nr_requests"), "256\n").unwrap();
        fs::create_dir_all(folder.path().join("mq/0")).unwrap();
        fs::write(folder.path().join("mq/0/nr_tags"), "4\n").unwrap();
        let device = BlockDevice::described_by(folder.path());
        let found = describe_queue(&device);
        assert_eq!(found["scheduler"], "mq-deadline");
        assert_eq!(found["tunables"]["fifo_batch"], "16");
        assert_eq!((&found["queue"]["nr_requests"], &found["number"]), (&json!("256"), &json!("8:0")));
        assert_eq!((&found["nr_tags"], &found["queue_depth"]), (&json!(4), &Value::Null));
    }
}
