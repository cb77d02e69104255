//! A catalogue: traces as Parquet in folders `host=H/device=D/date=YYYY-MM-DD`, partitions as Apache Hive names them.
//! Polars, Spark and DuckDB read such folders as columns.

mod filter;
mod names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use chrono::DateTime;

pub use filter::{DateFilter, Filter, parse_date, parse_dates, parse_pattern};
pub use names::encoded;
use names::{DEFAULT, decoded};

/// The columns that the folders name, from the outermost on.
const COLUMNS: [&str; 3] = ["host", "device", "date"];
/// The ending of a trace's file.
const ENDING: &str = "parquet";
/// The most bytes of the name of a file or folder on Linux.
const NAME_BYTES_MAX: usize = 255;
const NS_PER_DAY: i128 = 86_400_000_000_000;

/// Where a trace belongs. A value that nobody knows is `None`, which readers show as NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    pub host: Option<String>,
    pub device: Option<String>,
    /// Of the first request, in UTC.
    pub date: Option<String>,
}

/// A file of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub partition: Partition,
    pub path: PathBuf,
}

/// A day of UTC, counted from 1970.
pub type Day = i64;

/// The day of a time that is `arrival_ns` after `zero_unix_ns`.
pub fn day(zero_unix_ns: i64, arrival_ns: u64) -> Day {
    let days = (i128::from(zero_unix_ns) + i128::from(arrival_ns)).div_euclid(NS_PER_DAY);
    // Sums of 64 bits are some hundred thousand days.
    days as Day
}

/// A day as YYYY-MM-DD.
pub fn date(day: Day) -> String {
    let seconds = day.saturating_mul(86_400);
    DateTime::from_timestamp(seconds, 0).map_or_else(String::new, |time| time.format("%Y-%m-%d").to_string())
}

impl Partition {
    fn values(&self) -> [Option<&str>; COLUMNS.len()] {
        [&self.host, &self.device, &self.date].map(Option::as_deref)
    }

    /// The values as they are shown and filtered.
    pub fn shown(&self) -> [&str; COLUMNS.len()] {
        self.values().map(|value| value.unwrap_or(DEFAULT))
    }

    /// The folder of the partition in the catalogue.
    ///
    /// # Errors
    /// A value whose folder would have a longer name than a file system takes.
    pub fn folder(&self, catalog: &Path) -> Result<PathBuf> {
        let mut folder = catalog.to_owned();
        for (column, value) in COLUMNS.into_iter().zip(self.values()) {
            let name = format!("{column}={}", value.map_or_else(|| DEFAULT.to_owned(), encoded));
            ensure!(
                name.len() <= NAME_BYTES_MAX,
                "the folder of {column} {} would have a name of {} bytes, and {NAME_BYTES_MAX} are the most; name a \
                 shorter one with --provenance {column}=NAME",
                value.unwrap_or_default(),
                name.len()
            );
            folder.push(name);
        }
        Ok(folder)
    }
}

/// The traces of a catalogue that pass the filter, in the order of their partitions. Files and folders with other names
/// are passed over, and so are names that begin with a point or an underscore, as all readers of such folders do.
///
/// # Errors
/// A folder that cannot be read, or holds no partition.
pub fn entries(catalog: &Path, filter: &Filter) -> Result<Vec<Entry>> {
    let mut found = vec![(Vec::new(), catalog.to_owned())];
    for column in COLUMNS {
        let mut below = Vec::new();
        for (values, folder) in found {
            for (name, path) in sorted(&folder)? {
                let Some(value) = name.strip_prefix(column).and_then(|rest| rest.strip_prefix('=')) else { continue };
                let value = (!value.is_empty() && value != DEFAULT).then(|| decoded(value));
                below.push(([&values[..], &[value]].concat(), path));
            }
        }
        found = below;
    }
    if found.is_empty() {
        bail!(
            "{}: there is no folder host=…/device=…/date=… in it; `iocast convert TRACE --catalog` makes them",
            catalog.display()
        );
    }
    let mut entries = Vec::new();
    for (values, folder) in found {
        let mut values = values.into_iter();
        let mut next = || values.next().flatten();
        let partition = Partition { host: next(), device: next(), date: next() };
        if !filter.passes(&partition) {
            continue;
        }
        for (name, path) in sorted(&folder)? {
            let is_trace = path.extension().is_some_and(|ending| ending == ENDING) && !name.starts_with(['.', '_']);
            if is_trace {
                entries.push(Entry { partition: partition.clone(), path });
            }
        }
    }
    entries.sort();
    Ok(entries)
}

/// The names and paths in a folder. A name that is no UTF-8 is none that iocast gave.
fn sorted(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let named = || folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(named)? {
        let entry = entry.with_context(named)?;
        found.extend(entry.file_name().into_string().ok().map(|name| (name, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// The path of a trace in its partition.
///
/// # Errors
/// As [`Partition::folder`]; a name that is too long for a file.
pub fn file(catalog: &Path, partition: &Partition, name: &str) -> Result<PathBuf> {
    let file = format!("{}.{ENDING}", encoded(name));
    ensure!(
        file.len() <= NAME_BYTES_MAX,
        "its file in the catalogue would have a name of {} bytes, and {NAME_BYTES_MAX} are the most; rename the trace",
        file.len()
    );
    Ok(partition.folder(catalog)?.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_of_utc() {
        let midnight = 1_795_305_600_000_000_000;
        assert_eq!(date(day(midnight, 0)), "2026-11-22");
        assert_eq!(date(day(midnight - 1, 0)), "2026-11-21");
        assert_eq!(date(day(midnight - 1, 1)), "2026-11-22");
        assert_eq!(date(day(-1, 0)), "1969-12-31");
        assert_eq!(date(day(i64::MAX, u64::MAX)).len(), 10);
        assert_eq!(date(day(i64::MIN, 0)), "1677-09-21");
    }

    #[test]
    fn partitions_come_back_from_their_folders_whatever_their_names_are() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["..", "/etc", "a/../b", "a=b%2F", "new\nline", "µ", "_x", ".x", "a@64g"];
        let mut written = Vec::new();
        for host in hosts.map(Some).into_iter().chain([None]) {
            let date = Some("2026-11-22".to_owned());
            let partition = Partition { host: host.map(str::to_owned), device: Some("sda".to_owned()), date };
            let path = file(folder.path(), &partition, host.unwrap_or("x")).unwrap();
            assert_eq!(path.strip_prefix(folder.path()).unwrap().components().count(), 4, "{path:?}");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            // Neither is a trace of the catalogue.
            fs::write(path.with_file_name("_hidden.parquet"), "").unwrap();
            fs::write(path.with_file_name("note.txt"), "").unwrap();
            written.push(Entry { partition, path });
        }
        written.sort();
        assert_eq!(entries(folder.path(), &Filter::default()).unwrap(), written);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 10);
        let long = Partition { host: Some("/".repeat(90)), ..Partition::default() };
        let error = long.folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("275 bytes") && error.contains("--provenance host=NAME"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let error = entries(empty.path(), &Filter::default()).unwrap_err().to_string();
        assert!(error.contains("iocast convert TRACE --catalog"), "{error}");
    }
}
