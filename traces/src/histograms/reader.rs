//! Reads files of histograms line by line.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::LogHistogram;
use crate::error::{Place, Problem, ReadError};
use crate::input::Input;
use crate::results::histograms::{HISTOGRAMS_VERSION, OperationInSecond, SecondOfVm};

/// A line is at most this long. One in which all buckets of all histograms were hit has a quarter of it.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The longest name of a VM or device: that of a cgroup is a path.
const NAME_BYTES_MAX: usize = 4096;
/// The longest time that a line is of, in nanoseconds.
const LENGTH_NS_MAX: u64 = 1_000_000_000;
/// How every line begins.
const MARK: &[u8] = b"{\"histograms_version\":";
const REMEDY: &str = "--lenient leaves it out and counts it";

/// Whether an input that begins with these bytes is a file of histograms.
pub fn recognises(head: &[u8]) -> bool {
    head.starts_with(MARK)
}

/// Gives the lines of a file.
pub struct LineReader {
    input: Input,
    /// The number of the current line, from 1.
    number: u64,
    lenient: bool,
    line: Vec<u8>,
    is_cut: bool,
    skipped: BTreeMap<String, u64>,
}

/// The version alone, of a line that cannot be read.
#[derive(Deserialize)]
struct Version {
    histograms_version: u32,
}

impl LineReader {
    /// Opens a file; `lenient` counts malformed lines and skips them.
    ///
    /// # Errors
    /// As [`Input::open`]; a file that is empty, or no file of histograms.
    pub fn open(path: &Path, lenient: bool) -> Result<LineReader, ReadError> {
        let input = Input::open(path)?;
        let refuse = |problem| ReadError::new(path, Place::Whole, problem);
        if input.head().is_empty() {
            return Err(refuse(Problem::Empty)
                .remedy("a capture writes its first line after a second; leave the file out of the reading"));
        }
        // A file that was cut within its first line begins like one, too.
        let begins = input.head().len().min(MARK.len());
        if input.head()[..begins] != MARK[..begins] {
            let what = "this is no file of histograms: its first line does not begin with `{\"histograms_version\":`";
            let remedy = "name a file that `iocast capture block --histograms` wrote";
            return Err(refuse(Problem::Malformed(what.to_owned())).remedy(remedy));
        }
        Ok(LineReader { input, number: 0, lenient, line: Vec::new(), is_cut: false, skipped: BTreeMap::new() })
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// A malformed line, unless the read is lenient; a line of another version; the operating system's.
    pub fn next_line(&mut self) -> Result<Option<SecondOfVm>, ReadError> {
        while self.read_line()? {
            let is_whole = self.line.ends_with(b"\n");
            let (reason, why) = match serde_json::from_slice::<SecondOfVm>(&self.line) {
                Ok(second) if second.histograms_version == HISTOGRAMS_VERSION => match check(&second) {
                    Ok(()) => return Ok(Some(second)),
                    Err(why) => ("implausible line", why),
                },
                Ok(other) => return Err(self.of_version(other.histograms_version)),
                Err(_) if !is_whole => {
                    self.is_cut = true;
                    return Ok(None);
                }
                Err(error) => {
                    if let Ok(Version { histograms_version }) = serde_json::from_slice(&self.line)
                        && histograms_version != HISTOGRAMS_VERSION
                    {
                        return Err(self.of_version(histograms_version));
                    }
                    ("malformed line", format!("this is no line of histograms ({error})"))
                }
            };
            self.refuse(reason, why)?;
        }
        Ok(None)
    }

    /// Whether the last line was cut short, as a killed capture leaves it.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Lines that were left out, by reason.
    pub fn skipped(&self) -> &BTreeMap<String, u64> {
        &self.skipped
    }

    /// Bytes of the file that have been read, for progress.
    pub fn consumed_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }

    /// Reads the next line, with the line feed if it has one; false at the end.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        loop {
            self.number += 1;
            self.line.clear();
            match (&mut self.input).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut self.line) {
                Ok(0) => return Ok(false),
                Ok(LINE_BYTES_MAX) if !self.line.ends_with(b"\n") => {
                    self.refuse("line that is too long", format!("a line of more than {LINE_BYTES_MAX} bytes"))?;
                    if !self.skip_rest()? {
                        return Ok(false);
                    }
                }
                Ok(_) => return Ok(true),
                Err(error) if self.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_cut = true;
                    return Ok(false);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Goes past the line feed that ends a line; false at the end of the file.
    fn skip_rest(&mut self) -> Result<bool, ReadError> {
        loop {
            self.line.clear();
            let read = (&mut self.input).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut self.line);
            match read.map_err(|error| self.failed(error))? {
                0 => return Ok(false),
                _ if self.line.ends_with(b"\n") => return Ok(true),
                _ => {}
            }
        }
    }

    fn failed(&self, error: io::Error) -> ReadError {
        ReadError::io(self.input.path(), Place::Line(self.number), error)
    }

    /// Counts the current line as left out, or fails at it.
    pub(super) fn refuse(&mut self, reason: &str, why: String) -> Result<(), ReadError> {
        if self.lenient {
            *self.skipped.entry(reason.to_owned()).or_default() += 1;
            return Ok(());
        }
        Err(ReadError::malformed(self.input.path(), Place::Line(self.number), why).remedy(REMEDY))
    }

    fn of_version(&self, version: u32) -> ReadError {
        let what = format!("histograms of version {version}; this program reads version {HISTOGRAMS_VERSION}");
        ReadError::new(self.input.path(), Place::Line(self.number), Problem::Version(what))
            .remedy("read them with the program that wrote them")
    }
}

/// What is implausible in a line.
fn check(second: &SecondOfVm) -> Result<(), String> {
    if second.length_ns == 0 || second.length_ns > LENGTH_NS_MAX {
        return Err(format!("length_ns is {}, expected 1 to {LENGTH_NS_MAX}", second.length_ns));
    }
    for (key, name) in [("device", &second.device), ("vm", &second.vm)] {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("the name `{key}` has {} bytes, expected 1 to {NAME_BYTES_MAX}", name.len()));
        }
    }
    let SecondOfVm { read, write, discard, flush, .. } = second;
    for (name, of) in [("read", read), ("write", write), ("discard", discard), ("flush", flush)] {
        let Some(OperationInSecond { requests, d2c_ns, sectors, .. }) = of else { continue };
        for (key, stored) in [("d2c_ns", d2c_ns), ("sectors", sectors)] {
            let mut histogram = LogHistogram::default();
            let no_bucket = |least| format!("{name}.{key}: {least} begins no further bucket, or counts nothing");
            histogram.add_stored(stored).map_err(no_bucket)?;
            if histogram.count() != *requests {
                return Err(format!("{name}.{key} counts {}, but {name}.requests is {requests}", histogram.count()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> SecondOfVm {
        let read = OperationInSecond {
            requests: 3,
            bytes: 12_288,
            d2c_sum_ns: 300,
            d2c_max_ns: 150,
            d2c_ns: vec![(72, 1), (76, 1), (144, 1)],
            sectors: vec![(8, 3)],
        };
        SecondOfVm {
            histograms_version: HISTOGRAMS_VERSION,
            start_unix_ns: 1_795_000_000_000_000_000,
            length_ns: 1_000_000_000,
            device: "sda".to_owned(),
            vm: "web".to_owned(),
            read: Some(read),
            ..SecondOfVm::default()
        }
    }

    fn line(second: &SecondOfVm) -> String {
        serde_json::to_string(second).unwrap() + "\n"
    }

    /// The lines of a file with this text, and the reader at its end.
    fn read(text: &[u8], lenient: bool) -> Result<(Vec<SecondOfVm>, LineReader), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut reader = LineReader::open(&path, lenient).map_err(|error| error.to_string())?;
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().map_err(|error| error.to_string())? {
            lines.push(line);
        }
        Ok((lines, reader))
    }

    #[test]
    fn lines_are_read_as_they_were_written_and_a_cut_one_is_counted() {
        let hostile = SecondOfVm { vm: "\u{1b}[2J\u{202e}".to_owned(), begins: true, ..second() };
        let text = line(&second()) + &line(&hostile);
        assert!(recognises(text.as_bytes()));
        let (lines, reader) = read(text.as_bytes(), false).unwrap();
        assert_eq!((lines, reader.is_cut()), (vec![second(), hostile], false));
        // Wherever a capture was killed.
        for cut in 1..line(&second()).len() - 1 {
            let (lines, reader) = read(&[text.as_bytes(), &text.as_bytes()[..cut]].concat(), false).unwrap();
            assert_eq!((lines.len(), reader.is_cut()), (2, true), "{cut}");
            let (none, reader) = read(&text.as_bytes()[..cut], false).unwrap();
            assert_eq!((none.len(), reader.is_cut()), (0, true), "{cut}");
        }
    }

    #[test]
    fn a_malformed_line_is_an_error_with_file_line_and_remedy_or_counted() {
        let changed = |change: &dyn Fn(&mut SecondOfVm)| {
            let mut second = second();
            change(&mut second);
            line(&second)
        };
        let operation = |change: fn(&mut OperationInSecond)| changed(&|second| change(second.read.as_mut().unwrap()));
        let long = format!("{{\"histograms_version\":1,{}\n", " ".repeat(2 * LINE_BYTES_MAX));
        for (bad, said) in [
            ("\n".to_owned(), "this is no line of histograms (EOF"),
            ("{\"histograms_version\":1}\n".to_owned(), "missing field `start_unix_ns`"),
            (line(&second()).replace("12288", "-1"), "invalid value"),
            (line(&second()).replace("web", "\u{1}"), "control character"),
            (changed(&|second| second.length_ns = 0), "length_ns is 0"),
            (changed(&|second| second.length_ns = u64::MAX), "length_ns is 18446744073709551615"),
            (changed(&|second| second.vm = "x".repeat(5_000)), "`vm` has 5000 bytes"),
            (changed(&|second| second.device.clear()), "`device` has 0 bytes"),
            (operation(|read| read.d2c_ns[1].0 = 77), "read.d2c_ns: 77 begins no further bucket"),
            (operation(|read| read.d2c_ns[0].1 = 0), "read.d2c_ns: 72 begins no further bucket"),
            (operation(|read| read.requests = 4), "read.d2c_ns counts 3, but read.requests is 4"),
            (operation(|read| read.sectors[0].1 = 2), "read.sectors counts 2"),
            (long, "a line of more than 1048576 bytes"),
        ] {
            let text = line(&second()) + &bad + &line(&second());
            let why = read(text.as_bytes(), false).map(drop).unwrap_err();
            assert!(why.contains("x.jsonl at line 2: ") && why.contains(said) && why.ends_with(REMEDY), "{why}");
            let (lines, reader) = read(text.as_bytes(), true).unwrap();
            assert_eq!((lines.len(), reader.skipped().values().sum::<u64>()), (2, 1), "{said}");
        }
        let (lines, reader) = read((line(&second()) + &" ".repeat(3 * LINE_BYTES_MAX)).as_bytes(), true).unwrap();
        assert_eq!((lines.len(), reader.skipped().len()), (1, 1), "a line without an end");
    }

    #[test]
    fn other_versions_and_other_files_are_refused_with_a_remedy() {
        let newer = line(&second()).replace("_version\":1,", "_version\":2,");
        for text in [newer, "{\"histograms_version\":2}\n".to_owned()] {
            let why = read(text.as_bytes(), true).map(drop).unwrap_err();
            assert!(why.contains("at line 1: unsupported version: histograms of version 2;"), "{why}");
        }
        let why = read(b"{\"x\":1}\n", true).map(drop).unwrap_err();
        assert!(why.contains("this is no file of histograms") && why.contains("--histograms"), "{why}");
        assert!(read(b"", true).map(drop).unwrap_err().contains("the input is empty"));
        assert!(!recognises(b"{\"x\":1}"));
    }

    #[test]
    fn compressed_files_are_read_and_cut_ones_as_far_as_they_go() {
        let text = line(&second()).repeat(1_000);
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert_eq!(read(&zstd, false).unwrap().0.len(), 1_000);
        let cut = &zstd[..zstd.len() - 4];
        assert!(read(cut, false).map(drop).unwrap_err().contains("the input ends in the middle of"));
        assert!(read(cut, true).unwrap().1.is_cut());
    }
}
