//! One TCP connection between an initiator and a target: its two directions, and the result of its login.

use super::super::frames::Endpoint;
use super::super::login_text;
use super::super::pdu::{self, Direction, Header};
use super::super::pdu_walk::{ConnectionState, Digests, PayloadInterest, PduHandler, PduWalk};
use super::super::reassembly::{PacketRef, Reassembler, StreamChunk, StreamSink};
use super::super::tasks::{ConnectionTasks, WireState};
use super::PacketObserver;

/// The most bytes of a login PDU's text that are read.
const LOGIN_TEXT_BYTES_MAX: u32 = 8192;

pub(super) struct Connection {
    pub(super) initiator: Endpoint,
    pub(super) target: Endpoint,
    pub(super) streams: [Reassembler; 2],
    pub(super) walks: [PduWalk; 2],
    shared: ConnectionState,
    pub(super) tasks: ConnectionTasks,
    login: Login,
    /// Whether each direction has ended.
    pub(super) ended: [bool; 2],
}

/// The login's negotiation so far.
#[derive(Debug, Default)]
struct Login {
    /// Whether text of a login PDU is awaited, by direction.
    awaited: [bool; 2],
    /// Whether the response with the awaited text ends the login.
    last: bool,
    readable: bool,
    header_digest: bool,
    data_digest: bool,
}

/// One direction of a connection: receives the reassembled stream and passes PDUs on.
pub(super) struct DirectionSink<'a, K> {
    walk: &'a mut PduWalk,
    shared: &'a mut ConnectionState,
    handler: DirectionHandler<'a, K>,
}

struct DirectionHandler<'a, K> {
    direction: Direction,
    initiator: Endpoint,
    target: Endpoint,
    tasks: &'a mut ConnectionTasks,
    login: &'a mut Login,
    state: &'a mut WireState,
    observer: &'a mut K,
    digests_are_given: bool,
}

impl Connection {
    pub(super) fn new(initiator: Endpoint, target: Endpoint, number: u32, digests: Digests) -> Connection {
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

    pub(super) fn sink<'a, K: PacketObserver>(
        &'a mut self,
        direction: Direction,
        state: &'a mut WireState,
        given: Digests,
        observer: &'a mut K,
    ) -> (DirectionSink<'a, K>, &'a mut Reassembler) {
        let way = direction.index();
        let handler = DirectionHandler {
            direction,
            initiator: self.initiator,
            target: self.target,
            tasks: &mut self.tasks,
            login: &mut self.login,
            state,
            observer,
            digests_are_given: given != Digests::default(),
        };
        (DirectionSink { walk: &mut self.walks[way], shared: &mut self.shared, handler }, &mut self.streams[way])
    }

    /// Ends the connection, because it or the capture has ended. Another may begin on the same ports.
    pub(super) fn close<K: PacketObserver>(&mut self, state: &mut WireState, given: Digests, observer: &mut K) {
        const BOTH: [Direction; 2] = [Direction::ToTarget, Direction::ToInitiator];
        // Held segments are taken in order of capture. PDUs of one direction show whether the numbers of the other fit.
        while let Some((_, direction)) = BOTH
            .into_iter()
            .filter_map(|direction| Some((self.streams[direction.index()].first_held()?, direction)))
            .min_by_key(|&(frame, _)| frame)
        {
            let (mut sink, stream) = self.sink(direction, state, given, observer);
            stream.give_up(&mut sink);
            self.tasks.set_request_gap(self.streams[0].holds(), state);
        }
        for direction in BOTH {
            let (mut sink, stream) = self.sink(direction, state, given, observer);
            sink.walk.finish(sink.shared, &mut sink.handler);
            stream.restart();
            self.tasks.set_request_gap(false, state);
        }
        self.tasks.close(state);
        self.tasks = ConnectionTasks::new(self.initiator.to_string(), self.target.to_string(), self.tasks.stream);
        self.shared = ConnectionState { digests: given, ..ConnectionState::default() };
        self.login = Login::default();
        self.ended = [false; 2];
    }
}

impl<K: PacketObserver> StreamSink for DirectionSink<'_, K> {
    fn begins(&mut self, opened: bool) {
        self.walk.begin(opened, self.shared, &mut self.handler);
    }

    fn gap(&mut self, bytes: u32) {
        self.walk.gap(bytes, self.shared, &mut self.handler);
    }

    fn chunk(&mut self, chunk: StreamChunk<'_>) {
        self.walk.chunk(chunk, self.shared, &mut self.handler);
    }

    fn held(&mut self, frame: u64) {
        self.handler.observer.held(frame);
    }

    fn released(&mut self, frame: u64) {
        self.handler.observer.released(frame);
    }
}

impl<K: PacketObserver> PduHandler for DirectionHandler<'_, K> {
    fn header(&mut self, at: PacketRef, header: &Header, shared: &mut ConnectionState) -> PayloadInterest {
        self.number(header);
        self.tasks.breaks = shared.breaks;
        match pdu::opcode(header) {
            pdu::LOGIN_REQUEST => self.login_request(header),
            pdu::LOGIN_RESPONSE => self.login_response(header, shared),
            _ if self.direction == Direction::ToTarget => self.tasks.request(at, header, self.state),
            _ => self.tasks.response(at, header, self.state),
        }
    }

    fn data(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState) -> bool {
        let direction = self.direction.index();
        if std::mem::take(&mut self.login.awaited[direction]) {
            self.login_text(data, complete, shared);
            return false;
        }
        self.tasks.data(direction, data, complete, self.state)
    }

    fn end(&mut self, at: Option<PacketRef>) {
        self.tasks.ended(at, self.state);
    }

    fn header_bytes(&mut self, frame: u64, offset: usize, bytes: usize) {
        self.observer.header_bytes(frame, offset, bytes);
    }

    fn login_bytes(&mut self, frame: u64, offset: usize, bytes: usize) {
        self.observer.login_bytes(frame, offset, bytes);
    }

    fn held(&mut self, frame: u64) {
        self.observer.held(frame);
    }

    fn released(&mut self, frame: u64) {
        self.observer.released(frame);
    }
}

impl<K: PacketObserver> DirectionHandler<'_, K> {
    /// Records a PDU's command number for its session.
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
        // The login ends: the next stage is the full feature phase.
        self.login.last = header[1] & 0x83 == 0x83 && header[36] == 0;
        let wanted = self.await_text(header);
        if wanted.data_bytes == 0 && self.login.last {
            self.logged_in(shared);
        }
        wanted
    }

    fn await_text(&mut self, header: &Header) -> PayloadInterest {
        let data_bytes = pdu::data_bytes(header).min(LOGIN_TEXT_BYTES_MAX);
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

    /// The login is complete. If its text could be read, it decides the digests.
    fn logged_in(&mut self, shared: &mut ConnectionState) {
        if self.login.readable && !self.digests_are_given {
            let Login { header_digest, data_digest, .. } = *self.login;
            shared.digests = Digests { header: Some(header_digest), data: Some(data_digest) };
        }
    }
}
