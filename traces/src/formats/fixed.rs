//! Shared part of the binary formats with records of one size: a reader that turns a record parser into a
//! [`TraceReader`].

use std::io::{self, Read};

use crate::error::{Place, Problem, ReadError};
use crate::formats::check::{Bad, Order};
use crate::input::Input;
use crate::record::Record;
use crate::trace::{Losses, TraceMeta, TraceReader};

/// How many records are read at once.
const RECORDS_PER_READ: usize = 2_048;

/// Parses the records of one format.
pub(crate) trait RecordParser: Send {
    /// Bytes in each of its records.
    fn record_bytes(&self) -> usize;

    /// The request in a record of that many bytes.
    fn parse(&mut self, record: &[u8]) -> Result<Record, Bad>;
}

/// Streams a format of records of one size.
pub(crate) struct FixedReader<P> {
    input: Input,
    parser: P,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold input, and where in it the next record begins.
    filled: usize,
    at: usize,
    /// Where in the input the buffer begins.
    offset: u64,
    meta: TraceMeta,
    losses: Losses,
    order: Order,
    lenient: bool,
    /// Whether a lenient read has come to where the input was cut off.
    truncated: bool,
}

impl<P: RecordParser> FixedReader<P> {
    /// Reads `input`, of which nothing has been read yet.
    pub(crate) fn new(input: Input, parser: P, meta: TraceMeta, lenient: bool) -> Self {
        FixedReader {
            input,
            buffer: vec![0; RECORDS_PER_READ * parser.record_bytes()],
            parser,
            filled: 0,
            at: 0,
            offset: 0,
            meta,
            losses: Losses::default(),
            order: Order::default(),
            lenient,
            truncated: false,
        }
    }

    fn fail(&self, problem: Problem) -> ReadError {
        ReadError::new(self.input.path(), Place::Byte(self.offset + self.at as u64), problem)
    }

    /// Reads on until the buffer is full or the input ends; false if there is no whole record.
    fn refill(&mut self) -> Result<bool, ReadError> {
        self.offset += self.filled as u64;
        (self.filled, self.at) = (0, 0);
        while self.filled < self.buffer.len() && !self.truncated {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // All that could be decompressed is used; the size of the rest is unknown.
                Err(error) if self.lenient && error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.losses.skip("the rest of a truncated input");
                    self.truncated = true;
                }
                Err(error) => {
                    let place = Place::Byte(self.offset + self.filled as u64);
                    return Err(ReadError::io(self.input.path(), place, error));
                }
            }
        }
        let over = self.filled % self.parser.record_bytes();
        if over > 0 && self.lenient {
            self.losses.skip("an incomplete record at the end");
            self.filled -= over;
        }
        Ok(self.filled > 0)
    }
}

impl<P: RecordParser> TraceReader for FixedReader<P> {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let bytes = self.parser.record_bytes();
        loop {
            if self.at == self.filled && !self.refill()? {
                return Ok(None);
            }
            if self.filled - self.at < bytes {
                return Err(self.fail(Problem::Truncated("a record".to_owned())).remedy("--lenient ignores it"));
            }
            let parsed = self.parser.parse(&self.buffer[self.at..self.at + bytes]);
            match parsed.and_then(|record| self.order.admit(&record).map(|()| record)) {
                Ok(record) => {
                    self.at += bytes;
                    return Ok(Some(record));
                }
                Err(bad) if self.lenient => {
                    self.at += bytes;
                    self.losses.skip(bad.reason);
                }
                Err(bad) => {
                    return Err(self.fail(bad.problem).remedy("--lenient counts and skips such records"));
                }
            }
        }
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }
}

/// A number of `N` bytes, the lowest first, at `at` in a record.
#[inline]
pub(crate) fn little_endian<const N: usize>(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&record[at..at + N]);
    u64::from_le_bytes(bytes)
}
