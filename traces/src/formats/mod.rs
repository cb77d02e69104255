//! Every format a trace is read from or written to: one file (or folder) per format, one row in
//! [`FORMATS`].

pub mod alibaba;
pub mod blkparse;
pub mod blkreplay;
pub mod blktrace;
pub mod btreplay;
mod capture;
pub(crate) mod check;
pub mod csv;
mod devices;
pub mod disksim_ascii;
pub mod disksim_validate;
pub mod fio_iolog;
pub mod fio_latency;
pub mod fiu;
mod fixed;
pub mod ftrace;
pub mod msr;
mod number;
pub mod oracle_general;
mod order;
mod output;
pub mod parquet;
mod per_cpu;
mod plausible;
pub mod replayer;
mod rows;
mod scale;
mod something_read;
pub mod spc;
pub mod tencent;
mod text;
pub mod trace_pipe_raw;
pub mod vscsi;

pub use check::IMPOSSIBLE_PERCENT_MAX;
pub use something_read::check_something_read;

use std::path::{Path, PathBuf};

use crate::error::{Place, Problem, ReadError, WriteError};
use crate::events::EventReader;
use crate::formats::replayer::Replayer;
use crate::formats::something_read::SomethingRead;
use crate::input::look_at;
use crate::spec::nearest;
use crate::trace::{ArrivalPoint, Layer, ReadOptions, TraceReader, TraceWriter, WriteOptions};

/// The result of opening a trace.
pub type Opened = Result<Box<dyn TraceReader>, ReadError>;

/// The result of opening a capture of events.
pub type EventsOpened = Result<Box<dyn EventReader>, ReadError>;

/// The result of beginning to write a trace.
pub type Created = Result<Box<dyn TraceWriter>, WriteError>;

/// A format that can be read, and perhaps written.
pub struct Format {
    /// Its name, for `--input-format` and in metadata.
    pub name: &'static str,
    /// Its description in one line.
    pub summary: &'static str,
    /// The units of its times, addresses and lengths.
    pub units: &'static str,
    /// Its traps, and the facts that it cannot express.
    pub traps: &'static str,
    /// The layer its traces are usually taken at.
    pub layer: Layer,
    /// Whether it holds issues beside arrivals, so that they can be taken for arrivals
    /// ([`ArrivalPoint::Issued`]).
    pub holds_issues: bool,
    /// Whether an input is of this format, from its name and its first decompressed bytes
    /// (at most [`crate::input::HEAD_BYTES`]).
    pub recognises: fn(&Path, &[u8]) -> bool,
    /// Endings of the names of its files (`parquet`, `csv`), by which a writer is chosen.
    pub extensions: &'static [&'static str],
    /// Opens a trace of this format. Only the bytes that its metadata needs are read.
    pub open: fn(&Path, &ReadOptions) -> Opened,
    /// The same, where it holds the block layer's events, so that they can be watched.
    pub open_events: Option<fn(&Path, &ReadOptions) -> EventsOpened>,
    /// The files a capture consists of, in order, when one of them (or their stem) is named.
    pub members: fn(&Path) -> Result<Vec<PathBuf>, ReadError>,
    /// Begins to write a trace of this format, where it is one that is written.
    pub create: Option<fn(&Path, &WriteOptions) -> Created>,
    /// The program that replays what is written.
    pub replayer: Option<Replayer>,
}

impl Format {
    /// The fields that most formats share: arrivals of the guest's queue, one file, read only. A row replaces at least
    /// the name, the texts, `recognises` and `open`.
    pub const READ_ONLY: Format = Format {
        name: "",
        summary: "",
        units: "",
        traps: "",
        layer: Layer::GuestQueue,
        holds_issues: false,
        recognises: |_, _| false,
        extensions: &[],
        open: |path, _| Err(ReadError::new(path, Place::Whole, Problem::UnknownFormat)),
        open_events: None,
        members: single_file,
        create: None,
        replayer: None,
    };

    /// Opens a trace of this format to be read to its end, at which it fails if it was skipped as a whole.
    ///
    /// # Errors
    /// Faults that the format's reader finds in its beginning.
    pub fn read(&self, path: &Path, options: &ReadOptions) -> Opened {
        Ok(Box::new(SomethingRead::new(path, (self.open)(path, options)?)))
    }
}

/// The format whose lines are service and think times ([`crate::trace::ThinkTime`]).
pub const OF_THINK_TIMES: &Format = &disksim_validate::FORMAT;

/// Every format, in the order in which an input is tried.
pub const FORMATS: &[Format] = &[
    parquet::FORMAT,
    csv::FORMAT,
    blktrace::FORMAT,
    trace_pipe_raw::FORMAT,
    blkparse::FORMAT,
    ftrace::FORMAT,
    btreplay::FORMAT,
    fio_iolog::FORMAT,
    fio_latency::FORMAT,
    blkreplay::FORMAT,
    disksim_ascii::FORMAT,
    disksim_validate::FORMAT,
    vscsi::FORMAT,
    msr::FORMAT,
    spc::FORMAT,
    fiu::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    oracle_general::FORMAT,
];

/// The formats that inputs are tried for: ours, and those of whoever makes it.
///
/// ```
/// use std::path::Path;
/// use iocast_traces::formats::{Format, Registry};
/// use iocast_traces::trace::ReadOptions;
///
/// // A format of one's own has an `open` of its own, too; this one never opens.
/// const MINE: &Format = &Format { name: "mine", recognises: |path, _| path.ends_with("t.mine"), ..Format::READ_ONLY };
/// let registry = Registry::builtin().with(MINE);
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("t.mine");
/// std::fs::write(&path, "anything")?;
/// assert_eq!(registry.recognise(&path, &ReadOptions::default())?.name, "mine");
/// let misspelt = ReadOptions { format: Some("mime".to_owned()), ..ReadOptions::default() };
/// assert!(registry.open(&path, &misspelt).err().unwrap().to_string().contains("did you mean mine?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    formats: Vec<&'static Format>,
}

impl Registry {
    /// The formats of this crate.
    pub fn builtin() -> Registry {
        Registry { formats: FORMATS.iter().collect() }
    }

    /// The same with one more, which is tried last.
    ///
    /// # Panics
    /// If there is a format of this name.
    #[must_use]
    pub fn with(mut self, format: &'static Format) -> Registry {
        let is_new = self.formats.iter().all(|known| known.name != format.name);
        assert!(is_new, "there is a format named {} already", format.name);
        self.formats.push(format);
        self
    }

    /// All rows.
    pub fn formats(&self) -> &[&'static Format] {
        &self.formats
    }

    /// The format of the trace at `path`: the one `options` names, else the first that recognises it.
    ///
    /// # Errors
    /// An input that cannot be opened, is empty, or is recognised by none; a format that does not hold
    /// the arrivals that `options` ask for.
    pub fn recognise(&self, path: &Path, options: &ReadOptions) -> Result<&'static Format, ReadError> {
        let format = match &options.format {
            Some(name) => self.named(path, name)?,
            None => self.detected(path)?,
        };
        if options.arrivals == ArrivalPoint::Issued && !format.holds_issues {
            let what = format!("a {} trace holds one kind of arrival, so --at issued has no meaning", format.name);
            return Err(ReadError::new(path, Place::Whole, Problem::Missing(what)).remedy(
                "it is for captures of the block layer; `iocast convert --at issued` makes a trace of their issues",
            ));
        }
        Ok(format)
    }

    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// As [`Registry::recognise`], and faults that the format's reader finds in its beginning.
    pub fn open(&self, path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
        self.recognise(path, options)?.read(path, options)
    }

    fn named(&self, path: &Path, name: &str) -> Result<&'static Format, ReadError> {
        self.formats.iter().copied().find(|format| format.name == name).ok_or_else(|| {
            let near = nearest(name, self.formats.iter().map(|format| format.name));
            let hint = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(", ")) };
            ReadError::new(path, Place::Whole, Problem::Malformed(format!("there is no format `{name}`")))
                .remedy(format!("{hint}there are {}", self.names()))
        })
    }

    fn detected(&self, path: &Path) -> Result<&'static Format, ReadError> {
        let fail = |problem| ReadError::new(path, Place::Whole, problem);
        let first = |head: &[u8]| self.formats.iter().copied().find(|format| (format.recognises)(path, head));
        // A capture of several files may be named by their stem, which is no file itself. All but one of its files may
        // be empty. A format may therefore know it by its name alone.
        let head = match look_at(path) {
            Ok(head) => head,
            Err(error) => return first(&[]).ok_or(error),
        };
        if head.is_empty() {
            return first(&[]).ok_or_else(|| fail(Problem::Empty));
        }
        first(&head).ok_or_else(|| {
            fail(Problem::UnknownFormat).remedy(format!("name it with --input-format: {}", self.names()))
        })
    }

    fn names(&self) -> String {
        self.formats.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
    }
}

/// As [`Registry::recognise`], among the formats of this crate.
///
/// # Errors
/// As [`Registry::recognise`].
pub fn recognise(path: &Path, options: &ReadOptions) -> Result<&'static Format, ReadError> {
    Registry::builtin().recognise(path, options)
}

/// Opens the trace at `path`.
///
/// # Errors
/// As [`recognise`], and faults that the format's reader finds in its beginning.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    recognise(path, options)?.read(path, options)
}

/// The members of a capture that is a single file.
pub fn single_file(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    Ok(vec![path.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_states_its_name_summary_units_and_traps() {
        for format in FORMATS {
            for text in [format.name, format.summary, format.units, format.traps] {
                assert!(!text.is_empty(), "format `{}`", format.name);
            }
        }
    }
}
