//! Writes a record file for `btreplay`.

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::{BUNCH_PACKETS_MAX, FORMAT, Header, PACKET_BYTES, VERSION};
use crate::error::{WriteError, WriteProblem};
use crate::formats::output::{Inexpressible, Ledger};
use crate::record::Record;
use crate::request::{Operation, Request};
use crate::trace::{TraceMeta, TraceWriter, WriteOptions, Written};
use crate::units::{Lba, Sectors, Timestamp};
use crate::whole_file::WholeFile;

/// The most that one system call moves (Linux, `MAX_RW_COUNT`), in sectors of 512 bytes. btreplay
/// stops at a request that is served in part.
const SECTORS_MAX: u64 = 0x7fff_f000 / 512;
/// Offsets in bytes have a sign.
const END_MAX: u64 = i64::MAX as u64 / 512;

/// Writes every request into a bunch with those that arrive at the same time, so that no time is lost. All go into the
/// file of one CPU, so that any host can replay it.
pub(super) struct BtreplayWriter {
    file: BufWriter<WholeFile>,
    ledger: Ledger,
    header: Header,
    /// When the requests of the bunch arrive, and their packets.
    arrival: Timestamp,
    packets: Vec<u8>,
}

impl BtreplayWriter {
    pub(super) fn create(path: &Path, options: &WriteOptions) -> Result<BtreplayWriter, WriteError> {
        let ledger = Ledger::new(path, FORMAT.name, options).of_one_device();
        let header = Header { version: VERSION, genesis: 0, bunches: 0, packets: 0 };
        let mut file = BufWriter::new(WholeFile::create(path)?);
        // Its counts are known at the end only.
        file.write_all(&header.encode()).map_err(|error| ledger.fail(WriteProblem::Io(error)))?;
        Ok(BtreplayWriter { file, ledger, header, arrival: Timestamp::ZERO, packets: Vec::new() })
    }

    fn put(&mut self, request: &Request, packet: &[u8; PACKET_BYTES]) -> Result<(), WriteError> {
        let full = self.packets.len() == BUNCH_PACKETS_MAX * PACKET_BYTES;
        if full || request.arrival != self.arrival {
            self.end_bunch()?;
        }
        if self.header.packets == 0 {
            self.header.genesis = request.arrival.as_ns();
        }
        self.arrival = request.arrival;
        self.packets.extend_from_slice(packet);
        self.header.packets += 1;
        Ok(())
    }

    fn end_bunch(&mut self) -> Result<(), WriteError> {
        if self.packets.is_empty() {
            return Ok(());
        }
        let count = (self.packets.len() / PACKET_BYTES) as u64;
        let head = [count, self.arrival.as_ns()].map(u64::to_le_bytes).concat();
        let put = self.file.write_all(&head).and_then(|()| self.file.write_all(&self.packets));
        put.map_err(|error| self.ledger.fail(WriteProblem::Io(error)))?;
        self.header.bunches += 1;
        self.packets.clear();
        Ok(())
    }
}

impl TraceWriter for BtreplayWriter {
    fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        self.ledger.admit(record)?;
        let packet = encode(&record.request);
        self.ledger.settle(packet.map(|_| ()))?;
        packet.map_or(Ok(()), |packet| self.put(&record.request, &packet))
    }

    fn finish(mut self: Box<Self>, _meta: &TraceMeta) -> Result<Written, WriteError> {
        self.end_bunch()?;
        let BtreplayWriter { mut file, ledger, header, .. } = *self;
        let fail = |error| ledger.fail(WriteProblem::Io(error));
        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&header.encode())).map_err(fail)?;
        file.into_inner().map_err(|error| fail(error.into_error()))?.finish()?;
        Ok(ledger.close())
    }
}

fn encode(request: &Request) -> Result<[u8; PACKET_BYTES], Inexpressible> {
    let (lba, sectors, read) = match request.operation {
        Operation::Read => (request.lba, request.sectors(), 1u64),
        Operation::Write => (request.lba, request.sectors(), 0),
        // As btrecord has it: an empty write.
        Operation::Flush => (Lba::ZERO, Sectors::ZERO, 0),
        // btrecord makes writes of them, which destroy data.
        Operation::Discard => return Err(Inexpressible("discards")),
    };
    if sectors.count() > SECTORS_MAX {
        return Err(Inexpressible("lengths of 2 GiB and more"));
    }
    if lba.saturating_add(sectors).sector() > END_MAX {
        return Err(Inexpressible("addresses beyond 8 EiB"));
    }
    let mut packet = [0; PACKET_BYTES];
    // The last word is 32 bits and as much padding.
    for (place, value) in packet.chunks_exact_mut(8).zip([lba.sector(), sectors.bytes(), read]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    Ok(packet)
}
