//! The tail of a Parquet log: the records that are in no row group yet, in files beside the log.
//!
//! A segment has the records of as many requests as a row group. It is appended to in order of completion, and removed
//! when the row group is written. The operating system keeps what a killed server has appended.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use traces::formats::parquet::ROWS_PER_GROUP;
use traces::{Flags, Lba, Observed, Operation, Record, Request, Sectors, StreamId, Timestamp, VmId};
use traces::{WriteError, WriteProblem};

const ROWS: u64 = ROWS_PER_GROUP as u64;
/// The length of a record: eight numbers of eight bytes.
const RECORD_BYTES: usize = 64;

/// The tail while its log is written.
pub(super) struct Tail {
    log: PathBuf,
    /// Segments of which records are missing, by number.
    open: BTreeMap<u64, Segment>,
}

struct Segment {
    path: PathBuf,
    /// `None` until it could be created.
    file: Option<File>,
    /// Bytes of whole records in the file.
    saved: u64,
    unsaved: Vec<u8>,
    records: u64,
}

impl Segment {
    /// Appends the unsaved records. If that fails, the next time is another attempt. A full disk may have space again,
    /// and if it has not, the log, which is on the same file system, reports it.
    fn save(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).open(&self.path)?),
        };
        let appended = file.write_all(&self.unsaved);
        if appended.is_err() {
            // A part of a record would displace the next one.
            let _ = file.set_len(self.saved);
            return appended;
        }
        self.saved += self.unsaved.len() as u64;
        self.unsaved.clear();
        Ok(())
    }
}

impl Tail {
    /// Removes the tail of an older log at this path.
    pub(super) fn begin(log: &Path) -> Result<Tail, WriteError> {
        for (_, segment) in segments(log).map_err(|error| WriteError::new(log, WriteProblem::Io(error)))? {
            fs::remove_file(&segment).map_err(|error| WriteError::new(&segment, WriteProblem::Io(error)))?;
        }
        Ok(Tail { log: log.to_owned(), open: BTreeMap::new() })
    }

    /// Adds the record of a request, of which `number` others arrived before.
    pub(super) fn put(&mut self, number: u64, record: &Record) {
        let index = number / ROWS;
        let segment = self.open.entry(index).or_insert_with(|| Segment {
            path: path(&self.log, index),
            file: None,
            saved: 0,
            unsaved: Vec::new(),
            records: 0,
        });
        segment.unsaved.extend(encoded(number, record));
        segment.records += 1;
    }

    /// Appends the records so far to their files.
    pub(super) fn save(&mut self) {
        for segment in self.open.values_mut().filter(|segment| !segment.unsaved.is_empty()) {
            let _ = segment.save();
        }
        self.open.retain(|_, segment| segment.records < ROWS);
    }
}

/// Removes the segments of requests before `number`. Their records are in the log.
pub(super) fn remove_before(log: &Path, number: u64) {
    for (index, segment) in segments(log).unwrap_or_default() {
        if (index + 1) * ROWS <= number {
            // A segment that stays is ignored when its log is recovered.
            let _ = fs::remove_file(segment);
        }
    }
}

/// Removes all segments.
pub(super) fn remove_all(log: &Path) -> io::Result<()> {
    segments(log)?.into_iter().try_for_each(|(_, segment)| fs::remove_file(segment))
}

/// Whether the log has a tail.
pub(super) fn exists(log: &Path) -> io::Result<bool> {
    Ok(!segments(log)?.is_empty())
}

/// The records of the tail of a killed server's log, of the request with number `begin` and later ones, in order of
/// arrival.
pub(super) fn records(log: &Path, begin: u64) -> io::Result<Vec<Record>> {
    let mut found = BTreeMap::new();
    for (_, segment) in segments(log)? {
        // The last record may be cut off. Its reply was not sent.
        let bytes = fs::read(segment)?;
        found.extend(
            bytes.as_chunks::<RECORD_BYTES>().0.iter().filter_map(decoded).filter(|&(number, _)| number >= begin),
        );
    }
    Ok(found.into_values().collect())
}

fn path(log: &Path, index: u64) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".tail-{index}"));
    PathBuf::from(name)
}

/// The segments beside a log, with their numbers.
fn segments(log: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = format!("{}.tail-", log.file_name().unwrap_or_default().to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(index) = name.strip_prefix(&prefix).and_then(|index| index.parse().ok()) {
            found.push((index, path));
        }
    }
    Ok(found)
}

fn encoded(number: u64, Record { request, observed }: &Record) -> [u8; RECORD_BYTES] {
    let time = |time: Option<Timestamp>| time.map_or(u64::MAX, Timestamp::as_ns);
    let kind = u64::from(request.operation as u8) | u64::from(request.flags.bits()) << 8;
    let words = [
        number,
        request.arrival.as_ns(),
        request.lba.sector(),
        request.sectors().count() | u64::from(request.stream.0) << 32,
        kind | u64::from(request.vm.0) << 16 | u64::from(observed.error as u32) << 32,
        time(observed.issued),
        time(observed.completed),
        // A segment may have zeros where a host crashed.
        !number,
    ];
    let mut bytes = [0; RECORD_BYTES];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn decoded(bytes: &[u8; RECORD_BYTES]) -> Option<(u64, Record)> {
    let word = |index: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[index]);
    let time = |index| Some(word(index)).filter(|&ns| ns != u64::MAX).map(Timestamp::from_ns);
    let (extent, kind) = (word(3), word(4));
    let operation = Operation::from_number(kind as u8).filter(|_| word(7) == !word(0))?;
    let length = Sectors::new(extent & u64::from(u32::MAX));
    let mut request = Request::new(Timestamp::from_ns(word(1)), operation, Lba::new(word(2)), length);
    request.stream = StreamId((extent >> 32) as u32);
    request.vm = VmId((kind >> 16) as u16);
    request.flags = Flags::from_bits_truncate((kind >> 8) as u8);
    let observed = Observed { inserted: None, issued: time(5), completed: time(6), error: (kind >> 32) as i32 };
    Some((word(0), Record { request, observed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        let mut request =
            Request::new(Timestamp::from_ns(number), Operation::Discard, Lba::new(u64::MAX), Request::SECTORS_MAX);
        (request.stream, request.vm, request.flags) = (StreamId(u32::MAX), VmId(u16::MAX), Flags::FUA);
        let observed = Observed { inserted: None, issued: None, completed: Some(Timestamp::from_ns(7)), error: -5 };
        Record { request, observed }
    }

    #[test]
    fn tail_keeps_saved_records_until_their_row_group_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.parquet");
        fs::write(path(&log, 3), "older").unwrap();
        let mut tail = Tail::begin(&log).unwrap();
        // The last request of the first segment completes after the second segment has begun.
        for number in (0..ROWS - 1).chain([ROWS]) {
            tail.put(number, &record(number));
        }
        assert_eq!(records(&log, 0).unwrap(), []);
        tail.save();
        tail.put(ROWS - 1, &record(ROWS - 1));
        tail.save();
        let all: Vec<Record> = (0..=ROWS).map(record).collect();
        assert!(records(&log, 0).unwrap() == all);
        assert_eq!(records(&log, ROWS - 1).unwrap(), all[all.len() - 2..]);
        remove_before(&log, ROWS);
        assert_eq!(records(&log, 0).unwrap(), [record(ROWS)]);
        // A kill in the middle of an append, and a crash of the host.
        for garbage in [&[7; 40][..], &[0; 2 * RECORD_BYTES]] {
            OpenOptions::new().append(true).open(path(&log, 1)).unwrap().write_all(garbage).unwrap();
            assert_eq!(records(&log, 0).unwrap(), [record(ROWS)]);
        }
        remove_all(&log).unwrap();
        assert_eq!(segments(&log).unwrap(), []);
    }

    #[test]
    fn records_that_could_not_be_saved_are_saved_later() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.parquet");
        let mut tail = Tail::begin(&log).unwrap();
        tail.put(0, &record(0));
        fs::create_dir(path(&log, 0)).unwrap();
        tail.save();
        fs::remove_dir(path(&log, 0)).unwrap();
        tail.put(1, &record(1));
        tail.save();
        assert_eq!(records(&log, 0).unwrap(), [record(0), record(1)]);
    }
}
