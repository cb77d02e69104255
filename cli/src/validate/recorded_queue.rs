//! The settings of the scheduler and its queue that `iocast capture decisions` records beside a capture.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use traces::quantity::parse_nanos;
use traces::spec::{Spec, Tunable, Unit};

use crate::error::UsageError;

/// A part of STEM.queue.json.
#[derive(Deserialize)]
struct RecordedQueue {
    scheduler: String,
    /// The files of `queue/iosched`.
    tunables: BTreeMap<String, String>,
    /// Files of `queue`.
    queue: BTreeMap<String, String>,
}

/// The scheduler of `spec` as it was set in the capture, unless `spec` sets a tunable itself. States which settings were
/// taken over. `spec` itself if no settings were recorded, or another scheduler's.
///
/// # Errors
/// An unknown scheduler, settings that cannot be read, a recorded value that the scheduler does not accept.
pub fn as_captured(spec: &Spec, stem: &Path) -> Result<Spec> {
    let mut path = stem.as_os_str().to_owned();
    path.push(".queue.json");
    let path = PathBuf::from(path);
    if !path.exists() {
        return Ok(spec.clone());
    }
    let name = || path.display().to_string();
    let text = traces::read_text(&path).with_context(name)?;
    let recorded: RecordedQueue = serde_json::from_str(&text).with_context(name)?;
    let entry = schedulers::registry::find(&spec.name).map_err(UsageError::from_display)?;
    if recorded.scheduler != entry.name {
        eprintln!("iocast: warning: the capture was made under {}, not {}", recorded.scheduler, entry.name);
        return Ok(spec.clone());
    }
    let taken = taken_over(spec, entry.tunables, &recorded);
    let mut captured = spec.clone();
    captured.given.extend(taken);
    schedulers::build(&captured).map_err(UsageError::from_display).with_context(name)?;
    if captured != *spec {
        note!("iocast: with the settings of {}: {captured}", path.display());
    }
    Ok(captured)
}

/// The recorded tunables that differ from the defaults and that `spec` does not set.
fn taken_over(spec: &Spec, tunables: &[Tunable], recorded: &RecordedQueue) -> Vec<(String, String)> {
    let is_given = |name: &str| spec.given.iter().any(|(given, _)| given == name);
    // bfq shows its idle time in two units.
    let is_shown_twice = |name: &str| name == "slice_idle_us" && recorded.tunables.contains_key("slice_idle");
    let taken = |tunable: &Tunable| {
        let name = tunable.name;
        let text = recorded.tunables.get(name).or_else(|| recorded.queue.get(name))?;
        let value = as_spelt(tunable, text);
        let is_default = match tunable.unit {
            Unit::Time => parse_nanos(&value).ok() == parse_nanos(tunable.default).ok(),
            _ => value == tunable.default,
        };
        (!is_default && !is_given(name) && !is_shown_twice(name)).then(|| (name.to_owned(), value))
    };
    tunables.iter().filter_map(taken).collect()
}

/// A value of sysfs as one would write it in a specification.
fn as_spelt(tunable: &Tunable, text: &str) -> String {
    match tunable.unit {
        Unit::Time if tunable.name.ends_with("_nsec") => format!("{text}ns"),
        // The files of `iosched` are in milliseconds where their names give no unit.
        Unit::Time => format!("{text}ms"),
        Unit::Switch => if text == "0" { "off" } else { "on" }.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(spec: &str, recorded: &str) -> Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("dd");
        std::fs::write(folder.path().join("dd.queue.json"), recorded).unwrap();
        as_captured(&spec.parse().unwrap(), &stem).map(|spec| spec.to_string())
    }

    #[test]
    fn recorded_settings_are_taken_over_unless_they_are_given() {
        let deadline = r#"{"scheduler": "mq-deadline", "queue": {"rotational": "1"}, "tunables": {
            "fifo_batch": "1", "read_expire": "500", "write_expire": "9000", "front_merges": "0", "unknown": "7"}}"#;
        assert_eq!(
            captured("mq-deadline", deadline).unwrap(),
            "mq-deadline:write_expire=9000ms,fifo_batch=1,front_merges=off"
        );
        assert_eq!(
            captured("mq-deadline:fifo_batch=4,front_merges=on", deadline).unwrap(),
            "mq-deadline:fifo_batch=4,front_merges=on,write_expire=9000ms"
        );
        assert_eq!(captured("kyber", deadline).unwrap(), "kyber");
        let kyber =
            r#"{"scheduler": "kyber", "queue": {}, "tunables": {"read_lat_nsec": "2000000", "write_lat_nsec": "5"}}"#;
        assert_eq!(captured("kyber", kyber).unwrap(), "kyber:write_lat_nsec=5ns");
        let bfq = r#"{"scheduler": "bfq", "queue": {"rotational": "1"},
            "tunables": {"slice_idle": "8", "slice_idle_us": "8000", "low_latency": "1"}}"#;
        assert_eq!(captured("bfq", bfq).unwrap(), "bfq:rotational=on");
    }

    #[test]
    fn settings_that_cannot_be_read_are_an_error_with_their_file() {
        let damaged = captured("kyber", "{").unwrap_err();
        assert!(format!("{damaged:#}").contains("dd.queue.json"), "{damaged:#}");
        let refused = r#"{"scheduler": "kyber", "queue": {}, "tunables": {"read_lat_nsec": "much"}}"#;
        let refused = captured("kyber", refused).unwrap_err();
        assert!(format!("{refused:#}").contains("dd.queue.json: "), "{refused:#}");
        assert_eq!(as_captured(&"kyber".parse().unwrap(), Path::new("none")).unwrap().to_string(), "kyber");
    }
}
