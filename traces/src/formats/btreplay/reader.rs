//! Reads the record files of all processors, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use std::path::PathBuf;

use super::{BUNCH_HEADER_BYTES, BUNCH_PACKETS_MAX, FORMAT, Header, PACKET_BYTES, VERSIONS, word};
use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Order, extent};
use crate::input::Input;
use crate::record::Record;
use crate::request::{Operation, Request};
use crate::trace::{Losses, ReadOptions, TraceMeta, TraceReader};
use crate::units::{Lba, SECTOR_BYTES, Sectors, Timestamp};

/// A capture of record files.
pub(super) struct BtreplayReader {
    files: Vec<RecordFile>,
    /// When the next request of each file arrives, and the file.
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
    meta: TraceMeta,
    losses: Losses,
}

impl BtreplayReader {
    /// Opens the files of the processors given.
    ///
    /// # Errors
    /// A fault in the header or first bunch of any.
    pub(super) fn open(paths: &[(u32, PathBuf)], options: &ReadOptions) -> Result<BtreplayReader, ReadError> {
        let layer = options.layer.unwrap_or(FORMAT.layer);
        let mut reader = BtreplayReader {
            files: Vec::new(),
            heads: BinaryHeap::new(),
            meta: TraceMeta::new(FORMAT.name, layer, "blktrace's, as recorded"),
            losses: Losses::default(),
        };
        for (cpu, path) in paths {
            let file = RecordFile::open(path, *cpu, options.lenient)?;
            let version = file.header.version;
            let dotted = format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
            reader.meta.provenance.insert("btrecord_version".to_owned(), dotted);
            reader.files.push(file);
            reader.advance(reader.files.len() - 1)?;
        }
        Ok(reader)
    }

    /// Reads the next request of a file.
    fn advance(&mut self, index: usize) -> Result<(), ReadError> {
        let file = &mut self.files[index];
        file.next = file.read(&mut self.losses)?;
        self.heads.extend(file.next.map(|record| Reverse((record.request.arrival, index))));
        Ok(())
    }
}

impl TraceReader for BtreplayReader {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(Reverse((_, index))) = self.heads.pop() else { return Ok(None) };
        let record = self.files[index].next;
        self.advance(index)?;
        Ok(record)
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.input.consumed_bytes()).sum()
    }
}

/// The file of one processor.
struct RecordFile {
    input: Input,
    cpu: u16,
    header: Header,
    /// Where in the file the next byte is.
    offset: u64,
    /// When the requests of the bunch arrive, how many it has, and how many of them are to come.
    time: Timestamp,
    bunch: u64,
    left: u64,
    bunches: u64,
    packets: u64,
    order: Order,
    next: Option<Record>,
    lenient: bool,
    ended: bool,
}

impl RecordFile {
    fn open(path: &std::path::Path, cpu: u32, lenient: bool) -> Result<RecordFile, ReadError> {
        let mut input = Input::open(path)?;
        let fail = |problem| ReadError::new(path, Place::Whole, problem);
        if input.head().is_empty() {
            return Err(fail(Problem::Empty));
        }
        let cpu = u16::try_from(cpu).map_err(|_| fail(Problem::Malformed(format!("there is no CPU {cpu}"))))?;
        let mut bytes = [0; Header::BYTES];
        input.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => fail(Problem::Truncated("the header".to_owned())),
            _ => ReadError::io(path, Place::Whole, error),
        })?;
        let header = Header::decode(&bytes);
        if !VERSIONS.contains(&header.version) {
            let byte_order =
                if VERSIONS.contains(&header.version.swap_bytes()) { ", of a big-endian machine" } else { "" };
            let what = format!("expected 0x10000 or 0x903, found {:#x}{byte_order}", header.version);
            return Err(ReadError::new(path, Place::Byte(0), Problem::Version(what)));
        }
        Ok(RecordFile {
            input,
            cpu,
            header,
            offset: Header::BYTES as u64,
            time: Timestamp::ZERO,
            bunch: 0,
            left: 0,
            bunches: 0,
            packets: 0,
            order: Order::default(),
            next: None,
            lenient,
            ended: false,
        })
    }

    fn fail(&self, place: u64, problem: Problem) -> ReadError {
        ReadError::new(self.input.path(), Place::Byte(place), problem)
    }

    /// The next request that can be used.
    fn read(&mut self, losses: &mut Losses) -> Result<Option<Record>, ReadError> {
        while !self.ended {
            if self.left == 0 && !self.begin_bunch(losses)? {
                break;
            }
            let place = self.offset;
            let Some(packet) = self.take::<PACKET_BYTES>("a request", losses)? else { break };
            self.left -= 1;
            self.packets += 1;
            let record = parse(&packet, self.time, self.cpu).and_then(|record| {
                self.order.admit(&record)?;
                Ok(record)
            });
            match record {
                Ok(record) => return Ok(Some(record)),
                Err(bad) if self.lenient => losses.skip(bad.reason),
                Err(bad) => {
                    let error = self.fail(place, bad.problem);
                    return Err(error.remedy("--lenient counts and skips such requests"));
                }
            }
        }
        Ok(None)
    }

    /// Reads the next bunch's header; false at the end of the file.
    fn begin_bunch(&mut self, losses: &mut Losses) -> Result<bool, ReadError> {
        let place = self.offset;
        if self.at_end().map_err(|error| ReadError::io(self.input.path(), Place::Byte(place), error))? {
            self.ended = true;
            self.check_counts(losses)?;
            return Ok(false);
        }
        let Some(head) = self.take::<BUNCH_HEADER_BYTES>("the header of a bunch", losses)? else { return Ok(false) };
        let (count, time) = (word(&head, 0), word(&head, 1));
        if count == 0 || count > BUNCH_PACKETS_MAX as u64 {
            // Where the next bunch begins is not known any more.
            let what = format!("a bunch of {count} requests, expected 1 to {BUNCH_PACKETS_MAX}");
            return Err(self.fail(place, Problem::Malformed(what)));
        }
        (self.bunch, self.left, self.time) = (count, count, Timestamp::from_ns(time));
        self.bunches += 1;
        Ok(true)
    }

    /// Whether there is nothing more to read. Compressed data that is cut off is not the end.
    fn at_end(&mut self) -> io::Result<bool> {
        match io::BufRead::fill_buf(&mut self.input) {
            Ok(rest) => Ok(rest.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.lenient => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next bytes; `None` at a cut that a lenient read puts up with.
    fn take<const N: usize>(&mut self, what: &str, losses: &mut Losses) -> Result<Option<[u8; N]>, ReadError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            let place = self.offset + filled as u64;
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if self.lenient => return Ok(self.give_up(losses)),
                Ok(0) => return Err(self.fail(self.offset, Problem::Truncated(what.to_owned()))),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.lenient => {
                    return Ok(self.give_up(losses));
                }
                Err(error) => return Err(ReadError::io(self.input.path(), Place::Byte(place), error)),
            }
        }
        self.offset += N as u64;
        Ok(Some(bytes))
    }

    /// Ends the read at a cut.
    fn give_up<T>(&mut self, losses: &mut Losses) -> Option<T> {
        self.ended = true;
        losses.skip("the rest of a truncated input");
        None
    }

    /// Compares the requests read with the header, which as btrecord writes it lacks the last bunch.
    fn check_counts(&mut self, losses: &mut Losses) -> Result<(), ReadError> {
        let Header { bunches, packets, .. } = self.header;
        let all = (self.bunches, self.packets);
        let but_last = (self.bunches.saturating_sub(1), self.packets - self.bunch);
        if (bunches, packets) == all || (bunches, packets) == but_last {
            return Ok(());
        }
        if self.lenient {
            losses.skip("the rest of a truncated input");
            return Ok(());
        }
        let what = format!(
            "the bunches: the header counts {bunches} with {packets} requests, there are {} with {}",
            self.bunches, self.packets
        );
        Err(self.fail(self.offset, Problem::Truncated(what)).remedy("--lenient takes what there is"))
    }
}

fn parse(packet: &[u8; PACKET_BYTES], time: Timestamp, cpu: u16) -> Result<Record, Bad> {
    let (sector, bytes, direction) = (word(packet, 0), word(packet, 1), word(packet, 2) & u64::from(u32::MAX));
    let operation = match (direction, bytes) {
        (1, _) => Operation::Read,
        (0, 0) => Operation::Flush,
        (0, _) => Operation::Write,
        _ => return Err(Bad::unsupported(format!("a direction of {direction}, expected 0 (write) or 1 (read)"))),
    };
    if !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Bad::malformed(format!("{bytes} bytes, no whole sectors")));
    }
    let (lba, sectors) = match operation {
        Operation::Flush => (Lba::ZERO, Sectors::ZERO),
        _ => extent(sector, bytes / SECTOR_BYTES)?,
    };
    let mut request = Request::new(time, operation, lba, sectors);
    request.cpu = cpu;
    Ok(Record::arrived(request))
}
