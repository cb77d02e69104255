//! Commands and the PDUs that end them, matched by connection and initiator task tag.

mod management;
mod pairing;

use std::collections::{BTreeMap, HashMap, VecDeque};

use traces::results::wire::CommandFigures;
use traces::{Layer, Lba, Operation, Record, Request, SECTOR_BYTES, Sectors, StreamId, Timestamp, TraceMeta};

use super::cdb::{self, CdbRequest};
use super::logical_units::LogicalUnits;
use super::pdu::{self, Header, NO_TAG};
use super::pdu_walk::PayloadInterest;
use super::reassembly::PacketRef;
use super::reorder::{RecordHandle, ReorderBuffer};
use super::sessions::Sessions;
use management::{ManagementRequest, SessionReset};
use pairing::{FinalPdu, HeldReply};

/// The most commands that are kept after their tag was reused; their response may still be held.
const SUPERSEDED_MAX: usize = 1024;
/// Bytes of an UNMAP list that are read: 255 ranges, more than targets accept.
const UNMAP_BYTES_MAX: u32 = 4096;
/// Bytes of READ CAPACITY's answer that are read.
const CAPACITY_BYTES: u32 = 12;

/// Linux's error numbers for SCSI statuses and responses.
const EIO: i32 = 5;
const EBUSY: i32 = 16;
const EBADE: i32 = 52;
const ECANCELED: i32 = 125;

/// State that all connections share.
#[derive(Debug, Default)]
pub struct WireState {
    /// Records that wait to be emitted in order.
    pub reorder: ReorderBuffer,
    /// The logical units.
    pub units: LogicalUnits,
    /// Sessions and their command numbers.
    pub sessions: Sessions,
    /// Counts of commands.
    pub counts: CommandFigures,
    /// Commands by opcode.
    pub opcodes: BTreeMap<u8, u64>,
    /// The time of the first packet.
    pub zero_ns: Option<u64>,
    /// Session-wide resets that the session's other connections have not applied yet.
    pub resets: Vec<SessionReset>,
}

impl WireState {
    /// A packet's time on the trace's clock.
    pub fn time(&self, at: PacketRef) -> Timestamp {
        Timestamp::from_ns(at.time_ns.saturating_sub(self.zero_ns.unwrap_or(at.time_ns)))
    }
}

impl WireState {
    /// The metadata of the trace, with the names of its connections.
    pub fn meta(&self, streams: &BTreeMap<u32, String>) -> TraceMeta {
        let mut meta = TraceMeta::new("iscsi", Layer::Wire, "realtime");
        meta.clock.zero_unix_ns = self.zero_ns.and_then(|zero| i64::try_from(zero).ok());
        meta.vms = self.units.names();
        meta.address_space = self.units.address_space();
        meta.capacity_sectors = self.units.capacity();
        meta.streams = streams.clone();
        meta
    }
}

#[derive(Clone, Copy, Debug)]
struct ScsiTask {
    frame: u64,
    place: Option<RecordHandle>,
    unit: Option<usize>,
    access: CdbRequest,
    /// Whether an UNMAP's list has been read.
    listed: bool,
    /// [`ConnectionTasks::breaks`] when the command was sent.
    breaks: u64,
}

/// Data that are awaited from one direction.
#[derive(Clone, Copy, Debug, Default)]
enum AwaitedData {
    #[default]
    Nothing,
    Unmap(u32),
    Capacity(u32),
}

/// The tasks of one connection.
#[derive(Debug, Default)]
pub struct ConnectionTasks {
    /// Name or address of the initiator.
    pub initiator: String,
    /// Name or address of the target.
    pub target: String,
    /// The connection's number, from 1.
    pub stream: u32,
    /// Its session.
    pub session: Option<usize>,
    /// How often the place in the connection's streams was uncertain so far. After that another command may have a known
    /// tag.
    pub breaks: u64,
    pending: HashMap<u32, ScsiTask>,
    superseded: VecDeque<(u32, ScsiTask)>,
    early: VecDeque<FinalPdu>,
    held_replies: VecDeque<HeldReply>,
    /// Whether segments of the initiator are missing before captured ones.
    has_request_gap: bool,
    management: Vec<ManagementRequest>,
    units: Vec<(u64, Option<usize>)>,
    awaited: [AwaitedData; 2],
    ending: Option<FinalPdu>,
    /// The next command and status numbers, and the last packets that showed missing ones.
    next_command: Option<u32>,
    next_status: Option<u32>,
    command_missed_at: u64,
    status_missed_at: u64,
    /// Further ranges of UNMAP lists: the command's packet, and the record of each range.
    parts: Vec<(u64, RecordHandle)>,
}

impl ConnectionTasks {
    /// The tasks of a connection. Its ends go by address until a login gives their names.
    pub fn new(initiator: String, target: String, stream: u32) -> ConnectionTasks {
        ConnectionTasks { initiator, target, stream, ..ConnectionTasks::default() }
    }

    /// Handles an initiator's PDU outside a login.
    pub fn request(&mut self, at: PacketRef, header: &Header, state: &mut WireState) -> PayloadInterest {
        let tag = pdu::task_tag(header);
        self.settle_before(at.frame, state);
        if pdu::has_command_number(header) && !pdu::is_immediate(header) {
            let number = pdu::u32_at(header, 24);
            if record_number(&mut self.next_command, number, number.wrapping_add(1)) {
                self.command_missed_at = at.frame;
            }
        }
        match pdu::opcode(header) {
            pdu::COMMAND => return self.command(at, header, tag, state),
            pdu::DATA_OUT => {
                state.counts.data_out += 1;
                let begins = pdu::u32_at(header, 40) == 0;
                let unmap = self.pending.get(&tag).is_some_and(|task| task.access == CdbRequest::Unmap && !task.listed);
                if begins && unmap {
                    return self.await_data(0, AwaitedData::Unmap(tag), UNMAP_BYTES_MAX.min(pdu::data_bytes(header)));
                }
            }
            pdu::TASK_REQUEST => self.management_request(at, header),
            _ => {}
        }
        PayloadInterest::default()
    }

    /// Handles a target's PDU outside a login.
    pub fn response(&mut self, at: PacketRef, header: &Header, state: &mut WireState) -> PayloadInterest {
        let tag = pdu::task_tag(header);
        let expected = pdu::u32_at(header, 28);
        if !self.has_request_gap {
            self.expects(expected, at.frame);
        }
        if pdu::carries_status_number(header) {
            let number = pdu::u32_at(header, 24);
            let next = number.wrapping_add(u32::from(pdu::counts_as_status(header)));
            if record_number(&mut self.next_status, number, next) {
                self.status_missed_at = at.frame;
            }
        }
        match pdu::opcode(header) {
            pdu::R2T => state.counts.ready_to_transfer += 1,
            pdu::DATA_IN => state.counts.data_in += 1,
            pdu::TASK_RESPONSE => {
                self.take(HeldReply::Management { tag, response: header[2], frame: at.frame }, state);
            }
            _ => {}
        }
        let mut wanted = PayloadInterest::default();
        if pdu::opcode(header) == pdu::DATA_IN
            && pdu::u32_at(header, 40) == 0
            && matches!(self.pending.get(&tag), Some(ScsiTask { access: CdbRequest::Capacity { .. }, .. }))
        {
            wanted = self.await_data(1, AwaitedData::Capacity(tag), CAPACITY_BYTES);
        }
        if pdu::is_final(header) && tag != NO_TAG {
            let error = if pdu::opcode(header) == pdu::RESPONSE && header[2] != 0 { EIO } else { error(header[3]) };
            let status_missed_at = self.status_missed_at;
            self.ending = Some(FinalPdu { tag, frame: at.frame, end: None, error, expected, status_missed_at });
            wanted.notify_end = true;
        }
        wanted
    }

    fn await_data(&mut self, direction: usize, what: AwaitedData, bytes: u32) -> PayloadInterest {
        if bytes == 0 {
            return PayloadInterest::default();
        }
        self.awaited[direction] = what;
        let (AwaitedData::Unmap(tag) | AwaitedData::Capacity(tag)) = what else { return PayloadInterest::default() };
        let no_user_data = self.pending.get(&tag).is_some_and(|task| task.breaks == self.breaks);
        PayloadInterest { data_bytes: bytes, no_user_data, notify_end: false }
    }

    fn command(&mut self, at: PacketRef, header: &Header, tag: u32, state: &mut WireState) -> PayloadInterest {
        state.counts.commands += 1;
        *state.opcodes.entry(header[32]).or_default() += 1;
        let unit = self.unit(lun(header), state);
        let access = cdb::parse(&header[32..]);
        if let Some(unit) = unit {
            state.units.unit(unit).figures.commands += 1;
        } else {
            state.counts.inexpressible += 1;
        }
        let place = unit.and_then(|unit| self.record(at, header, unit, access, state));
        let task = ScsiTask { frame: at.frame, place, unit, access, listed: false, breaks: self.breaks };
        if let Some(old) = self.pending.insert(tag, task) {
            self.superseded.push_back((tag, old));
            if self.superseded.len() > SUPERSEDED_MAX
                && let Some((_, task)) = self.superseded.pop_front()
            {
                state.counts.reused_tags += 1;
                self.end_unanswered(task, state);
            }
        }
        let immediate = pdu::data_bytes(header);
        if access == CdbRequest::Unmap && immediate > 0 {
            return self.await_data(0, AwaitedData::Unmap(tag), immediate.min(UNMAP_BYTES_MAX));
        }
        self.answer_early(tag, at, state);
        PayloadInterest::default()
    }

    fn unit(&mut self, lun: u64, state: &mut WireState) -> Option<usize> {
        if let Some(&(_, unit)) = self.units.iter().find(|(known, _)| *known == lun) {
            return unit;
        }
        let unit = state.units.find(&self.initiator, &self.target, lun);
        self.units.push((lun, unit));
        unit
    }

    /// Adds a command's record, if the command is an access.
    fn record(
        &self,
        at: PacketRef,
        header: &Header,
        index: usize,
        access: CdbRequest,
        state: &mut WireState,
    ) -> Option<RecordHandle> {
        let arrival = state.time(at);
        let unit = state.units.unit(index);
        let mut request = match access {
            CdbRequest::Blocks { operation, block, blocks, flags, to_end, transfers_blocks } => {
                if transfers_blocks && !matches!(unit.block, Some((_, true))) {
                    learn_block(&mut unit.block, u64::from(pdu::u32_at(header, 20)), u64::from(blocks));
                }
                let size = u64::from(unit.block.map_or(512, |(bytes, _)| bytes)) / SECTOR_BYTES;
                let blocks = match (to_end, unit.blocks) {
                    (false, _) => u64::from(blocks),
                    (true, Some(end)) => end.saturating_sub(block),
                    (true, None) => u64::MAX,
                };
                if blocks == 0 {
                    state.counts.empty += 1;
                    return None;
                }
                let Some((lba, sectors)) = range(block, blocks, size) else {
                    state.counts.inexpressible += 1;
                    return None;
                };
                let figures = &mut unit.figures;
                match operation {
                    Operation::Read => {
                        figures.reads += 1;
                        figures.read_bytes += sectors.bytes();
                    }
                    Operation::Write => {
                        figures.writes += 1;
                        figures.written_bytes += sectors.bytes();
                    }
                    Operation::Flush | Operation::Discard => figures.discards += 1,
                }
                let mut request = Request::new(arrival, operation, lba, sectors);
                request.flags = flags;
                request
            }
            CdbRequest::Flush => {
                unit.figures.flushes += 1;
                Request::new(arrival, Operation::Flush, Lba::ZERO, Sectors::ZERO)
            }
            // Reserves a record in order of arrival until the list is read.
            CdbRequest::Unmap => Request::new(arrival, Operation::Discard, Lba::ZERO, Sectors::ZERO),
            CdbRequest::Capacity { .. } | CdbRequest::Other => return None,
        };
        (request.vm, request.stream) = (state.units.vm(index), StreamId(self.stream));
        let mut record = Record::arrived(request);
        record.observed.issued = Some(arrival);
        Some(state.reorder.open(record))
    }

    /// Handles data that were awaited from a direction. Returns whether they are what was awaited: addresses and sizes.
    pub fn data(&mut self, direction: usize, data: &[u8], complete: bool, state: &mut WireState) -> bool {
        match std::mem::take(&mut self.awaited[direction]) {
            AwaitedData::Nothing => false,
            AwaitedData::Capacity(tag) => {
                let Some(&ScsiTask { unit: Some(unit), access: CdbRequest::Capacity { address_bytes }, .. }) =
                    self.pending.get(&tag)
                else {
                    return false;
                };
                let Some((blocks, bytes)) = cdb::capacity(data, address_bytes) else { return false };
                let unit = state.units.unit(unit);
                (unit.block, unit.blocks) = (Some((bytes, true)), Some(blocks));
                complete
            }
            AwaitedData::Unmap(tag) => {
                self.unmap(tag, data, complete, state);
                complete && cdb::is_unmap_list(data)
            }
        }
    }

    /// Makes one record per range of the list. All arrive with the command and complete with it.
    fn unmap(&mut self, tag: u32, list: &[u8], complete: bool, state: &mut WireState) {
        let Some(task) = self.pending.get_mut(&tag) else { return };
        let (Some(place), Some(index), true) = (task.place, task.unit, complete) else { return };
        let unit = state.units.unit(index);
        let size = u64::from(unit.block.map_or(512, |(bytes, _)| bytes)) / SECTOR_BYTES;
        let mut first = true;
        for (block, blocks) in cdb::descriptors(list) {
            let Some((lba, sectors)) = range(block, u64::from(blocks), size) else {
                state.counts.inexpressible += 1;
                continue;
            };
            state.units.unit(index).figures.discards += 1;
            if std::mem::take(&mut first) {
                let request = &mut state.reorder.record(place).request;
                request.lba = lba;
                request.set_sectors(sectors);
                task.listed = true;
                continue;
            }
            let mut record = *state.reorder.record(place);
            record.request.lba = lba;
            record.request.set_sectors(sectors);
            let other = state.reorder.open(record);
            self.parts.push((task.frame, other));
        }
    }

    /// The connection has ended: no more responses follow.
    pub fn close(&mut self, state: &mut WireState) {
        self.set_request_gap(false, state);
        state.counts.orphan_responses += self.early.len() as u64;
        self.early.clear();
        for (_, task) in std::mem::take(&mut self.superseded) {
            state.counts.reused_tags += 1;
            self.end_unanswered(task, state);
        }
        let mut pending: Vec<(u32, ScsiTask)> = self.pending.drain().collect();
        pending.sort_unstable_by_key(|(_, task)| task.frame);
        for (_, task) in pending {
            self.end_unanswered(task, state);
        }
        self.management.clear();
        (self.awaited, self.ending) = Default::default();
        self.units.clear();
    }

    fn end_unanswered(&mut self, task: ScsiTask, state: &mut WireState) {
        state.counts.unanswered += 1;
        self.end(task, state);
    }

    /// Ends a task: its record is final.
    fn end(&mut self, task: ScsiTask, state: &mut WireState) {
        let Some(place) = task.place else { return };
        if task.access == CdbRequest::Unmap && !task.listed {
            state.counts.unmaps_without_list += 1;
            return state.reorder.dropped(place);
        }
        if task.access == CdbRequest::Unmap {
            let observed = state.reorder.record(place).observed;
            self.parts.retain(|&(frame, part)| {
                if frame == task.frame {
                    state.reorder.record(part).observed = observed;
                    state.reorder.done(part);
                }
                frame != task.frame
            });
        }
        state.reorder.done(place);
    }
}

fn lun(header: &Header) -> u64 {
    u64::from(pdu::u32_at(header, 8)) << 32 | u64::from(pdu::u32_at(header, 12))
}

/// Records a number, after which `next` is expected. Returns whether numbers before it are missing.
fn record_number(expected: &mut Option<u32>, number: u32, next: u32) -> bool {
    let Some(known) = *expected else {
        *expected = Some(next);
        return false;
    };
    let ahead = number.wrapping_sub(known) as i32;
    if next.wrapping_sub(known) as i32 > 0 {
        *expected = Some(next);
    }
    ahead > 0
}

/// The error number for a SCSI status, as in Linux's block layer.
fn error(status: u8) -> i32 {
    match status {
        0 | 4 | 0x10 | 0x14 => 0,
        8 | 0x28 => EBUSY,
        0x18 => EBADE,
        0x40 => ECANCELED,
        _ => EIO,
    }
}

/// Converts blocks of `size` sectors to sectors. `None` if a request cannot express the range.
fn range(block: u64, blocks: u64, size: u64) -> Option<(Lba, Sectors)> {
    let (lba, sectors) = (block.checked_mul(size)?, blocks.checked_mul(size)?);
    lba.checked_add(sectors)?;
    (sectors <= Request::SECTORS_MAX.count()).then(|| (Lba::new(lba), Sectors::new(sectors)))
}

/// Derives the block size from a transfer of `bytes` bytes for `blocks` blocks.
fn learn_block(known: &mut Option<(u32, bool)>, bytes: u64, blocks: u64) {
    if blocks > 0
        && bytes.is_multiple_of(blocks)
        && (512..=65536).contains(&(bytes / blocks))
        && (bytes / blocks).is_power_of_two()
    {
        *known = Some(((bytes / blocks) as u32, false));
    }
}
