//! Turns packets into the records of a trace: one pass, in memory that does not grow with the capture.

mod connection;
mod figures;

use std::collections::{BTreeMap, HashMap};

use traces::results::wire::{PacketFigures, PduFigures, TcpFigures, WireCapture};
use traces::{Record, TraceMeta};

use super::frames::{Endpoint, Frame, Segment, dissect};
use super::packets::{FileCounts, Packet};
use super::pdu::Direction;
use super::pdu_walk::Digests;
use super::reassembly::{PacketRef, Reassembler, ReassemblyCounts, StreamChunk};
use super::tasks::WireState;
use connection::Connection;
pub use figures::common_figures;

/// The TCP port of iSCSI (RFC 7143, section 16).
pub const PORT: u16 = 3260;

/// How packets are analysed.
#[derive(Clone, Debug)]
pub struct AnalysisOptions {
    /// TCP ports of targets.
    pub ports: Vec<u16>,
    /// The connections' digests; `None` means that they are determined from the capture.
    pub digests: Digests,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions { ports: vec![PORT], digests: Digests::default() }
    }
}

/// Learns which bytes of a packet are headers, by frame number and offset in the captured frame.
pub trait PacketObserver {
    /// These bytes are a header, or data that hold addresses and sizes only.
    fn header_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// These bytes are text of a login.
    fn login_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// It is not yet decided which bytes of this packet are headers.
    fn held(&mut self, _frame: u64) {}
    /// It is decided which bytes of this packet are headers.
    fn released(&mut self, _frame: u64) {}
}

impl PacketObserver for () {}

/// Counts and times of all packets.
#[derive(Clone, Debug, Default)]
struct PacketTotals {
    packets: PacketFigures,
    first_ns: u64,
    last_ns: u64,
    newest_ns: u64,
}

/// Analyses packets.
pub struct Analysis {
    options: AnalysisOptions,
    connections: Vec<Connection>,
    /// Index in `connections`, by initiator and target.
    known: HashMap<(Endpoint, Endpoint), usize>,
    recent: Option<usize>,
    state: WireState,
    seen: PacketTotals,
    stream_names: BTreeMap<u32, String>,
    /// Whether a segment waits for an earlier one in any stream.
    holding: bool,
    records: u64,
    finished: bool,
}

impl Analysis {
    /// An analysis that has seen no packet.
    pub fn new(options: AnalysisOptions) -> Analysis {
        Analysis {
            options,
            connections: Vec::new(),
            known: HashMap::new(),
            recent: None,
            state: WireState::default(),
            seen: PacketTotals::default(),
            stream_names: BTreeMap::new(),
            holding: false,
            records: 0,
            finished: false,
        }
    }

    /// Analyses the next packet. Returns false if it belongs to no target's connection.
    pub fn packet(&mut self, packet: &Packet<'_>, observer: &mut impl PacketObserver) -> bool {
        let time_ns = self.clock(packet);
        match dissect(packet.link, packet.bytes, packet.wire_bytes) {
            Frame::Segment(segment) => {
                let ports = &self.options.ports;
                // If both ports are targets' ports, the side that opens the connection is the initiator.
                let direction = match (ports.contains(&segment.from.port), ports.contains(&segment.to.port)) {
                    (_, true) => Direction::ToTarget,
                    (true, false) => Direction::ToInitiator,
                    (false, false) => {
                        self.seen.packets.other += 1;
                        return false;
                    }
                };
                let at = PacketRef { frame: packet.number, time_ns };
                self.segment(&segment, direction, at, observer);
                return true;
            }
            Frame::Fragment => self.seen.packets.fragments += 1,
            Frame::Cut => self.seen.packets.cut_headers += 1,
            Frame::Other => self.seen.packets.other += 1,
        }
        false
    }

    /// Counts a packet. Returns its time, which never goes back.
    fn clock(&mut self, packet: &Packet<'_>) -> u64 {
        let PacketTotals { packets, first_ns, last_ns, newest_ns } = &mut self.seen;
        packets.packets += 1;
        packets.wire_bytes += u64::from(packet.wire_bytes);
        packets.captured_bytes += packet.bytes.len() as u64;
        if packets.packets == 1 {
            *first_ns = packet.time_ns;
            self.state.zero_ns = Some(packet.time_ns);
        }
        if packet.time_ns < *newest_ns {
            packets.backwards += 1;
            packets.backwards_max_ns = packets.backwards_max_ns.max(*newest_ns - packet.time_ns);
        }
        *newest_ns = (*newest_ns).max(packet.time_ns);
        *last_ns = *newest_ns;
        let at = PacketRef { frame: packet.number, time_ns: *newest_ns };
        let now = self.state.time(at);
        self.state.reorder.now(now);
        at.time_ns
    }

    fn segment(
        &mut self,
        segment: &Segment<'_>,
        direction: Direction,
        at: PacketRef,
        observer: &mut impl PacketObserver,
    ) {
        let (initiator, target) = match direction {
            Direction::ToTarget => (segment.from, segment.to),
            Direction::ToInitiator => (segment.to, segment.from),
        };
        let index = self.connection(initiator, target);
        let given = self.options.digests;
        let connection = &mut self.connections[index];
        if segment.syn && direction == Direction::ToTarget && !connection.streams[0].is_opened_at(segment.sequence) {
            connection.close(&mut self.state, given, observer);
        }
        let way = direction.index();
        let (mut sink, stream) = connection.sink(direction, &mut self.state, given, observer);
        if segment.syn {
            stream.open(segment.sequence, &mut sink);
        }
        if segment.length > 0 {
            let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
            let Segment { length, payload, payload_at, .. } = *segment;
            stream.segment(sequence, StreamChunk { at, length, payload, offset: payload_at }, &mut sink);
        }
        let holds = stream.holds();
        if direction == Direction::ToTarget {
            connection.tasks.set_request_gap(holds, &mut self.state);
        }
        if segment.ends {
            connection.ended[way] = true;
            if connection.ended == [true; 2] {
                connection.close(&mut self.state, given, observer);
            }
        }
        self.reset();
        self.holding =
            holds || self.holding && self.connections.iter().any(|one| one.streams.iter().any(Reassembler::holds));
    }

    /// Applies a session-wide reset to the other connections of its session.
    fn reset(&mut self) {
        for reset in std::mem::take(&mut self.state.resets) {
            let others = self.connections.iter_mut().map(|connection| &mut connection.tasks);
            for tasks in others.filter(|tasks| tasks.session == Some(reset.session) && tasks.stream != reset.stream) {
                tasks.reset(&reset, &mut self.state);
            }
        }
    }

    fn connection(&mut self, initiator: Endpoint, target: Endpoint) -> usize {
        if let Some(index) = self.recent {
            let connection = &self.connections[index];
            if connection.initiator == initiator && connection.target == target {
                return index;
            }
        }
        let index = *self.known.entry((initiator, target)).or_insert_with(|| {
            let number = self.connections.len() as u32 + 1;
            self.stream_names.insert(number, initiator.to_string());
            self.connections.push(Connection::new(initiator, target, number, self.options.digests));
            self.connections.len() - 1
        });
        self.recent = Some(index);
        index
    }

    /// The next record, if no earlier one can follow. After [`Analysis::finish`], every remaining record.
    pub fn record(&mut self) -> Option<Record> {
        if self.holding && !self.finished {
            return None;
        }
        let record = self.state.reorder.next(self.finished)?;
        self.records += 1;
        Some(record)
    }

    /// Ends the analysis: there are no more packets.
    pub fn finish(&mut self, observer: &mut impl PacketObserver) {
        for connection in &mut self.connections {
            connection.close(&mut self.state, self.options.digests, observer);
        }
        self.finished = true;
    }

    /// The metadata of the trace.
    pub fn meta(&self) -> TraceMeta {
        self.state.meta(&self.stream_names)
    }

    /// The figures of the capture.
    pub fn figures(&self, file: &FileCounts) -> WireCapture {
        let (mut streams, mut walks) = (ReassemblyCounts::default(), PduFigures::default());
        for connection in &self.connections {
            connection.streams.iter().for_each(|stream| streams.add(&stream.counts));
            connection.walks.iter().for_each(|walk| walks.add(&walk.counts));
        }
        let mut packets = self.seen.packets.clone();
        packets.dropped = file.dropped;
        packets.other_blocks = file.other_blocks;
        packets.untimed = file.untimed;
        packets.truncated = file.truncated;
        let mut figures = common_figures(&self.state, file, self.records);
        (figures.first_packet_unix_ns, figures.last_packet_unix_ns) = (self.seen.first_ns, self.seen.last_ns);
        figures.packets = packets;
        figures.tcp = TcpFigures {
            connections: self.connections.len() as u64,
            segments: streams.segments,
            repeated: streams.repeated,
            early: streams.early,
            cut: streams.cut,
            gaps: streams.gaps,
            missing_bytes: streams.missing_bytes,
        };
        figures.pdus = walks;
        figures
    }
}
