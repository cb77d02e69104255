//! Packets in, records of a trace out: one pass, in memory that does not grow with the capture.

use std::collections::{BTreeMap, HashMap};

use traces::results::SCHEMA_VERSION;
use traces::results::wire::{PacketFigures, PduFigures, TcpFigures, WireCapture};
use traces::{Record, TraceMeta};

use super::cdb;
use super::frames::{Endpoint, Frame, Segment, dissect};
use super::login_text;
use super::packets::{FileCounts, Packet};
use super::pdu::{self, Direction, Header};
use super::pdu_walk::{ConnectionState, Digests, PayloadInterest, PduHandler, PduWalk};
use super::reassembly::{PacketRef, Reassembler, ReassemblyCounts, StreamChunk, StreamSink};
use super::tasks::{ConnectionTasks, WireState};

/// The port that is iSCSI's (RFC 7143, section 16).
pub const PORT: u16 = 3260;
/// Bytes of a login's text that are read.
const TEXT_BYTES_MAX: u32 = 8192;

/// How packets are taken apart.
#[derive(Clone, Debug)]
pub struct AnalysisOptions {
    /// Ports of targets.
    pub ports: Vec<u16>,
    /// Which digests there are; what is `None` is found out.
    pub digests: Digests,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions { ports: vec![PORT], digests: Digests::default() }
    }
}

/// Is told which bytes of which packet are headers, by frame number and place in the captured frame.
pub trait PacketObserver {
    /// These bytes are a header, or data that names addresses and sizes only.
    fn keep(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// These bytes are text of a login.
    fn text(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// It is not yet known what this packet holds.
    fn held(&mut self, _frame: u64) {}
    /// It is.
    fn released(&mut self, _frame: u64) {}
}

impl PacketObserver for () {}

struct Connection {
    initiator: Endpoint,
    target: Endpoint,
    streams: [Reassembler; 2],
    walks: [PduWalk; 2],
    shared: ConnectionState,
    tasks: ConnectionTasks,
    login: Login,
    /// Whether each direction has ended.
    ended: [bool; 2],
}

/// What a login has told so far.
#[derive(Debug, Default)]
struct Login {
    /// Whether data of a login is awaited, by direction.
    awaited: [bool; 2],
    /// Whether the response whose text is awaited is the last.
    last: bool,
    readable: bool,
    header_digest: bool,
    data_digest: bool,
}

/// What packets were, beside those that were taken apart.
#[derive(Clone, Debug, Default)]
struct PacketTotals {
    packets: PacketFigures,
    first_ns: u64,
    last_ns: u64,
    newest_ns: u64,
}

/// Takes packets apart.
pub struct Analysis {
    options: AnalysisOptions,
    connections: Vec<Connection>,
    /// By initiator and target.
    known: HashMap<(Endpoint, Endpoint), usize>,
    recent: Option<usize>,
    state: WireState,
    seen: PacketTotals,
    stream_names: BTreeMap<u32, String>,
    /// Segments that are held in all streams.
    holding: bool,
    records: u64,
    finished: bool,
}

/// One direction of a connection with everything that it needs.
struct DirectionSink<'a, K> {
    walk: &'a mut PduWalk,
    shared: &'a mut ConnectionState,
    talk: DirectionHandler<'a, K>,
}

struct DirectionHandler<'a, K> {
    direction: Direction,
    initiator: Endpoint,
    target: Endpoint,
    tasks: &'a mut ConnectionTasks,
    login: &'a mut Login,
    state: &'a mut WireState,
    keep: &'a mut K,
    digests_are_given: bool,
}

impl<K: PacketObserver> StreamSink for DirectionSink<'_, K> {
    fn begins(&mut self, opened: bool) {
        self.walk.begin(opened, self.shared, &mut self.talk);
    }

    fn gap(&mut self, bytes: u32) {
        self.walk.gap(bytes, self.shared, &mut self.talk);
    }

    fn piece(&mut self, piece: StreamChunk<'_>) {
        self.walk.piece(piece, self.shared, &mut self.talk);
    }

    fn held(&mut self, frame: u64) {
        self.talk.keep.held(frame);
    }

    fn released(&mut self, frame: u64) {
        self.talk.keep.released(frame);
    }
}

impl<K: PacketObserver> PduHandler for DirectionHandler<'_, K> {
    fn header(&mut self, at: PacketRef, header: &Header, shared: &mut ConnectionState) -> PayloadInterest {
        self.number(header);
        match pdu::opcode(header) {
            pdu::LOGIN_REQUEST => self.login_request(header),
            pdu::LOGIN_RESPONSE => self.login_response(header, shared),
            _ if self.direction == Direction::ToTarget => self.tasks.request(at, header, self.state),
            _ => self.tasks.response(at, header, self.state),
        }
    }

    fn data(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState) {
        let direction = self.direction.index();
        if std::mem::take(&mut self.login.awaited[direction]) {
            return self.login_text(data, complete, shared);
        }
        self.tasks.data(direction, data, complete, self.state);
    }

    fn end(&mut self, at: Option<PacketRef>) {
        self.tasks.ended(at, self.state);
    }

    fn keep(&mut self, frame: u64, offset: usize, bytes: usize) {
        self.keep.keep(frame, offset, bytes);
    }

    fn text(&mut self, frame: u64, offset: usize, bytes: usize) {
        self.keep.text(frame, offset, bytes);
    }

    fn held(&mut self, frame: u64) {
        self.keep.held(frame);
    }

    fn released(&mut self, frame: u64) {
        self.keep.released(frame);
    }
}

impl<K: PacketObserver> DirectionHandler<'_, K> {
    /// Takes note of a PDU's place among the session's commands.
    fn number(&mut self, header: &Header) {
        if pdu::is_login(header) {
            return;
        }
        let session = *self.tasks.session.get_or_insert_with(|| self.state.sessions.add());
        match self.direction {
            Direction::ToTarget if pdu::has_command_number(header) && !pdu::is_immediate(header) => {
                self.state.sessions.seen(session, pdu::u32_at(header, 24));
            }
            Direction::ToTarget => {}
            Direction::ToInitiator => self.state.sessions.expects(session, pdu::u32_at(header, 28)),
        }
    }

    fn login_request(&mut self, header: &Header) -> PayloadInterest {
        let identifier: [u8; 6] = header[8..14].try_into().unwrap_or_default();
        let handle = pdu::u16_at(header, 14);
        if self.tasks.session.is_none() || handle != 0 {
            let (initiator, target) = (self.initiator.address, self.target.address);
            self.tasks.session = Some(self.state.sessions.join(initiator, target, identifier, handle));
        }
        if let Some(session) = self.tasks.session {
            self.state.sessions.begins(session, pdu::u32_at(header, 24));
        }
        self.await_text(header)
    }

    fn login_response(&mut self, header: &Header, shared: &mut ConnectionState) -> PayloadInterest {
        if let Some(session) = self.tasks.session {
            self.state.sessions.named(session, pdu::u16_at(header, 14));
        }
        // Goes on to the full feature phase.
        self.login.last = header[1] & 0x83 == 0x83 && header[36] == 0;
        let wanted = self.await_text(header);
        if wanted.data_bytes == 0 && self.login.last {
            self.logged_in(shared);
        }
        wanted
    }

    fn await_text(&mut self, header: &Header) -> PayloadInterest {
        let data_bytes = pdu::data_bytes(header).min(TEXT_BYTES_MAX);
        self.login.awaited[self.direction.index()] = data_bytes > 0;
        PayloadInterest { data_bytes, ..PayloadInterest::default() }
    }

    fn login_text(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState) {
        let login = &mut *self.login;
        match self.direction {
            Direction::ToTarget => {
                for (key, name) in
                    [("InitiatorName", &mut self.tasks.initiator), ("TargetName", &mut self.tasks.target)]
                {
                    if let Some(value) = login_text::value(data, key) {
                        value.clone_into(name);
                    }
                }
            }
            Direction::ToInitiator => {
                login.readable |= login_text::pairs(data).next().is_some();
                login.header_digest |= login_text::value(data, "HeaderDigest") == Some("CRC32C");
                login.data_digest |= login_text::value(data, "DataDigest") == Some("CRC32C");
                if login.last && complete {
                    self.logged_in(shared);
                }
            }
        }
    }

    /// From here on digests are as the login said, if it could be read.
    fn logged_in(&mut self, shared: &mut ConnectionState) {
        if self.login.readable && !self.digests_are_given {
            let Login { header_digest, data_digest, .. } = *self.login;
            shared.digests = Digests { header: Some(header_digest), data: Some(data_digest) };
        }
    }
}

impl Analysis {
    /// Begins.
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

    /// Takes in the next packet. False if it is none of a target's connection.
    pub fn packet(&mut self, packet: &Packet<'_>, keep: &mut impl PacketObserver) -> bool {
        let time_ns = self.clock(packet);
        match dissect(packet.link, packet.bytes, packet.wire_bytes) {
            Frame::Segment(segment) => {
                let ports = &self.options.ports;
                // A connection whose two ports are targets' is from whoever opens it.
                let direction = match (ports.contains(&segment.from.port), ports.contains(&segment.to.port)) {
                    (_, true) => Direction::ToTarget,
                    (true, false) => Direction::ToInitiator,
                    (false, false) => {
                        self.seen.packets.other += 1;
                        return false;
                    }
                };
                let at = PacketRef { frame: packet.number, time_ns };
                self.segment(&segment, direction, at, keep);
                return true;
            }
            Frame::Fragment => self.seen.packets.fragments += 1,
            Frame::Cut => self.seen.packets.cut_headers += 1,
            Frame::Other => self.seen.packets.other += 1,
        }
        false
    }

    /// Counts a packet, and its time, which never goes back.
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

    fn segment(&mut self, segment: &Segment<'_>, direction: Direction, at: PacketRef, keep: &mut impl PacketObserver) {
        let (initiator, target) = match direction {
            Direction::ToTarget => (segment.from, segment.to),
            Direction::ToInitiator => (segment.to, segment.from),
        };
        let index = self.connection(initiator, target);
        let given = self.options.digests;
        let connection = &mut self.connections[index];
        if segment.syn && direction == Direction::ToTarget && !connection.streams[0].is_opened_at(segment.sequence) {
            connection.close(&mut self.state, given, keep);
        }
        let way = direction.index();
        let (mut line, stream) = connection.line(direction, &mut self.state, given, keep);
        if segment.syn {
            stream.open(segment.sequence, &mut line);
        }
        if segment.length > 0 {
            let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
            let Segment { length, payload, payload_at, .. } = *segment;
            stream.segment(sequence, StreamChunk { at, length, payload, offset: payload_at }, &mut line);
        }
        let holds = stream.holds();
        if direction == Direction::ToTarget {
            connection.tasks.is_behind(holds, &mut self.state);
        }
        if segment.ends {
            connection.ended[way] = true;
            if connection.ended == [true; 2] {
                connection.close(&mut self.state, given, keep);
            }
        }
        self.reset();
        self.holding =
            holds || self.holding && self.connections.iter().any(|one| one.streams.iter().any(Reassembler::holds));
    }

    /// Tells a session's other connections what was carried out on one.
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

    /// The next record, as long as none can come before it; after [`Analysis::finish`] every one.
    pub fn record(&mut self) -> Option<Record> {
        if self.holding && !self.finished {
            return None;
        }
        let record = self.state.reorder.next(self.finished)?;
        self.records += 1;
        Some(record)
    }

    /// There are no more packets.
    pub fn finish(&mut self, keep: &mut impl PacketObserver) {
        for connection in &mut self.connections {
            connection.close(&mut self.state, self.options.digests, keep);
        }
        self.finished = true;
    }

    /// What is known of the trace.
    pub fn meta(&self) -> TraceMeta {
        self.state.meta(&self.stream_names)
    }

    /// What was seen.
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
        let mut figures = summary(&self.state, Summary { file, records: self.records });
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

/// What an engine knows beside its state.
pub(super) struct Summary<'a> {
    pub(super) file: &'a FileCounts,
    pub(super) records: u64,
}

/// The figures that come from the state.
pub(super) fn summary(state: &WireState, Summary { file, records }: Summary<'_>) -> WireCapture {
    let mut commands = state.counts.clone();
    commands.lost = state.sessions.lost();
    let mut opcodes = BTreeMap::new();
    for (&opcode, &count) in &state.opcodes {
        let name = match cdb::name(opcode) {
            "other" => format!("opcode {opcode:#04x}"),
            name => name.to_owned(),
        };
        *opcodes.entry(name).or_default() += count;
    }
    let packets = PacketFigures {
        dropped: file.dropped,
        other_blocks: file.other_blocks,
        untimed: file.untimed,
        truncated: file.truncated,
        ..PacketFigures::default()
    };
    WireCapture {
        schema_version: SCHEMA_VERSION,
        engine: "iocast".to_owned(),
        packets,
        commands,
        units: state.units.figures(),
        opcodes,
        records,
        ..WireCapture::default()
    }
}

impl Connection {
    fn new(initiator: Endpoint, target: Endpoint, number: u32, digests: Digests) -> Connection {
        let tasks = ConnectionTasks::new(initiator.to_string(), target.to_string(), number);
        Connection {
            initiator,
            target,
            streams: Default::default(),
            walks: [PduWalk::new(Direction::ToTarget), PduWalk::new(Direction::ToInitiator)],
            shared: ConnectionState { digests, ..ConnectionState::default() },
            tasks,
            login: Login::default(),
            ended: [false; 2],
        }
    }

    fn line<'a, K: PacketObserver>(
        &'a mut self,
        direction: Direction,
        state: &'a mut WireState,
        given: Digests,
        keep: &'a mut K,
    ) -> (DirectionSink<'a, K>, &'a mut Reassembler) {
        let way = direction.index();
        let talk = DirectionHandler {
            direction,
            initiator: self.initiator,
            target: self.target,
            tasks: &mut self.tasks,
            login: &mut self.login,
            state,
            keep,
            digests_are_given: given != Digests::default(),
        };
        (DirectionSink { walk: &mut self.walks[way], shared: &mut self.shared, talk }, &mut self.streams[way])
    }

    /// It has ended, or the capture has; another may begin on the same ports.
    fn close<K: PacketObserver>(&mut self, state: &mut WireState, given: Digests, keep: &mut K) {
        const BOTH: [Direction; 2] = [Direction::ToTarget, Direction::ToInitiator];
        // Packet by packet, as they were captured: what one direction says tells whether the other's numbers fit.
        while let Some((_, direction)) = BOTH
            .into_iter()
            .filter_map(|direction| Some((self.streams[direction.index()].first_held()?, direction)))
            .min_by_key(|&(frame, _)| frame)
        {
            let (mut line, stream) = self.line(direction, state, given, keep);
            stream.give_up(&mut line);
            self.tasks.is_behind(self.streams[0].holds(), state);
        }
        for direction in BOTH {
            let (mut line, stream) = self.line(direction, state, given, keep);
            line.walk.finish(line.shared, &mut line.talk);
            stream.restart();
            self.tasks.is_behind(false, state);
        }
        self.tasks.close(state);
        self.tasks = ConnectionTasks::new(self.initiator.to_string(), self.target.to_string(), self.tasks.stream);
        self.shared = ConnectionState { digests: given, ..ConnectionState::default() };
        self.login = Login::default();
        self.ended = [false; 2];
    }
}
