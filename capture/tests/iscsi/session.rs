//! Generates a full session, with each PDU in packets of its own. Also converts packets to IPv6, VLAN tags and IP
//! fragments.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{DirectionStream, RawPacket, header, put};

/// The most bytes of a segment, so that data take several.
const SEGMENT_BYTES_MAX: usize = 600;
/// Bytes of the Ethernet header and of the IPv4 header that [`DirectionStream::packet`] writes.
const ETHERNET_BYTES: usize = 14;
const NETWORK_BYTES: usize = 20;
/// Logical unit numbers in commands: two peripheral devices of bus 0, and one with flat addressing (SAM-5, section
/// 4.7).
const LUNS: [u16; 3] = [0, 2, 0x4000 | 300];
/// The most commands that the initiator has outstanding, and the number of tags. Tags are few, so that they are reused
/// soon.
const OUTSTANDING_MAX: usize = 8;
const TAGS: u32 = 12;

/// Task management: function and response (RFC 7143, sections 11.5.1 and 11.6.1). ABORT TASK, LOGICAL UNIT RESET; ABORT
/// TASK of a task that has already ended; ABORT TASK SET; both kinds refused, so that the tasks continue.
const ABORTS: [(u8, u8); 6] = [(1, 0), (5, 0), (1, 1), (2, 0), (1, 5), (5, 255)];

/// Settings of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionScript {
    pub seed: u64,
    pub connections: usize,
    pub commands: usize,
    /// Whether commands are aborted occasionally: one by one, all of a logical unit, too late, or in vain.
    pub aborts: bool,
}

#[derive(Clone, Copy)]
struct Command {
    connection: usize,
    tag: u32,
    lun: u16,
    opcode: u8,
    blocks: u32,
}

/// A session while it is generated.
struct SessionGenerator {
    random: Xoshiro256PlusPlus,
    packets: Vec<RawPacket>,
    time_ns: u64,
    ways: Vec<[DirectionStream; 2]>,
    /// The next status number of each connection, and the session's next command number.
    status_numbers: Vec<u32>,
    command_number: u32,
    next_tag: u32,
    outstanding: Vec<Command>,
}

/// Generates the packets of a session.
pub fn generate(script: SessionScript) -> Vec<RawPacket> {
    let mut session = SessionGenerator {
        random: Xoshiro256PlusPlus::seed_from_u64(script.seed),
        packets: Vec::new(),
        time_ns: 1_700_000_000_000_000_000,
        ways: Vec::new(),
        status_numbers: Vec::new(),
        command_number: u32::MAX - 20,
        next_tag: 0,
        outstanding: Vec::new(),
    };
    (0..script.connections).for_each(|connection| session.open(connection));
    for number in 0..script.commands {
        session.command();
        while session.outstanding.len() >= OUTSTANDING_MAX || session.random.random_bool(0.5) {
            let Some(pick) = session.pick() else { break };
            let command = session.outstanding.swap_remove(pick);
            session.answer(command);
        }
        if script.aborts && number % 5 == 4 {
            session.abort(number / 5 % ABORTS.len());
        }
    }
    while let Some(command) = session.outstanding.pop() {
        session.answer(command);
    }
    session.packets
}

impl SessionGenerator {
    fn pick(&mut self) -> Option<usize> {
        (!self.outstanding.is_empty()).then(|| self.random.random_range(0..self.outstanding.len()))
    }

    /// Opens a connection and logs in. The first login begins the session; others name it by its handle (RFC 7143,
    /// section 6.3.1).
    fn open(&mut self, connection: usize) {
        let (initiator, target) = ((0x0a00_0001, 40_000 + connection as u16), (0x0a00_0002, 3260));
        let mut ways = [
            DirectionStream::new(initiator, target, self.random.random()),
            DirectionStream::new(target, initiator, self.random.random()),
        ];
        for (way, flags) in ways.iter_mut().zip([2, 0x12]) {
            self.packets.push(way.packet(self.time_ns, flags, &[]));
            way.sequence = way.sequence.wrapping_add(1);
        }
        self.ways.push(ways);
        self.status_numbers.push(self.random.random());
        let handle = if connection == 0 { 0 } else { 7 };
        let text = b"InitiatorName=iqn.2026-11.example:vm\0TargetName=iqn.2026-11.example:disk\0";
        let mut request = header(0x43, 0x87, text.len(), 0xffff_0000);
        request[8..16].copy_from_slice(&[0x80, 1, 2, 3, 4, 5, 0, handle]);
        put(&mut request, 20, (connection as u32) << 16);
        put(&mut request, 24, self.command_number);
        self.send(connection, 0, &request, text);
        let mut response = header(0x23, 0x87, 0, 0xffff_0000);
        response[8..16].copy_from_slice(&[0x80, 1, 2, 3, 4, 5, 0, 7]);
        self.number(connection, &mut response, true);
        self.send(connection, 1, &response, b"HeaderDigest=None\0DataDigest=None\0");
    }

    /// Sends a PDU in packets of its own.
    fn send(&mut self, connection: usize, direction: usize, head: &[u8; 48], data: &[u8]) {
        let mut bytes = [&head[..], data].concat();
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        for segment in bytes.chunks(SEGMENT_BYTES_MAX) {
            self.time_ns += self.random.random_range(1_000..50_000u64);
            let way = &mut self.ways[connection][direction];
            self.packets.push(way.packet(self.time_ns, 0x18, segment));
            way.sequence = way.sequence.wrapping_add(segment.len() as u32);
        }
    }

    /// Sets the numbers of a target's PDU. A status uses up a number.
    fn number(&mut self, connection: usize, head: &mut [u8; 48], is_status: bool) {
        put(head, 24, if is_status { self.status_numbers[connection] } else { 0 });
        put(head, 28, self.command_number);
        put(head, 32, self.command_number.wrapping_add(64));
        self.status_numbers[connection] = self.status_numbers[connection].wrapping_add(u32::from(is_status));
    }

    /// Sets the numbers of an initiator's PDU. An immediate PDU does not use up its command number.
    fn count(&mut self, connection: usize, head: &mut [u8; 48]) {
        put(head, 24, self.command_number);
        put(head, 28, self.status_numbers[connection]);
        self.command_number = self.command_number.wrapping_add(u32::from(head[0] & 0x40 == 0));
    }

    fn tag(&mut self) -> u32 {
        loop {
            self.next_tag = (self.next_tag + 1) % TAGS;
            if self.outstanding.iter().all(|one| one.tag != self.next_tag) {
                return self.next_tag;
            }
        }
    }

    fn data(&mut self, blocks: u32) -> Vec<u8> {
        (0..blocks * 512).map(|_| self.random.random()).collect()
    }

    /// Sends a command on a random connection to a random unit. Its data come with it or on request.
    fn command(&mut self) {
        let connection = self.random.random_range(0..self.ways.len());
        let lun = LUNS[self.random.random_range(0..LUNS.len())];
        let lba = self.random.random_range(0..1u64 << 20);
        let blocks = self.random.random_range(1..=8u32);
        let opcode =
            [0x00, 0x08, 0x28, 0x28, 0x2a, 0x2a, 0x35, 0x88, 0x8a, 0xa8, 0xaa][self.random.random_range(0..11)];
        let (reads, writes) = (matches!(opcode, 8 | 0x28 | 0x88 | 0xa8), matches!(opcode, 0x2a | 0x8a | 0xaa));
        let tag = self.tag();
        let mut head = header(1, 0x81 | u8::from(reads) << 6 | u8::from(writes) << 5, 0, tag);
        head[8..10].copy_from_slice(&lun.to_be_bytes());
        put(&mut head, 20, if reads || writes { blocks * 512 } else { 0 });
        self.count(connection, &mut head);
        let cdb = &mut head[32..];
        cdb[0] = opcode;
        let (lba_at, blocks_at) = match opcode {
            _ if !reads && !writes => (0..0, 0..0),
            0x08 => (1..4, 4..5),
            0x28 | 0x2a => (2..6, 7..9),
            0xa8 | 0xaa => (2..6, 6..10),
            _ => (2..10, 10..14),
        };
        let (lba_bytes, blocks_bytes) = (lba_at.len(), blocks_at.len());
        cdb[lba_at].copy_from_slice(&lba.to_be_bytes()[8 - lba_bytes..]);
        cdb[blocks_at].copy_from_slice(&blocks.to_be_bytes()[4 - blocks_bytes..]);
        let data = if writes { self.data(blocks) } else { Vec::new() };
        let immediate = self.random.random_bool(0.5);
        self.send(connection, 0, &head, if immediate { &data } else { &[] });
        if writes && !immediate {
            let mut ready = header(0x31, 0x80, 0, tag);
            ready[8..10].copy_from_slice(&lun.to_be_bytes());
            put(&mut ready, 20, tag);
            self.number(connection, &mut ready, false);
            put(&mut ready, 24, self.status_numbers[connection]);
            put(&mut ready, 44, blocks * 512);
            self.send(connection, 1, &ready, &[]);
            let mut out = header(5, 0x80, 0, tag);
            out[8..10].copy_from_slice(&lun.to_be_bytes());
            put(&mut out, 20, tag);
            put(&mut out, 28, self.status_numbers[connection]);
            self.send(connection, 0, &out, &data);
        }
        self.outstanding.push(Command { connection, tag, lun, opcode, blocks });
    }

    /// Ends a command: by a status with the data, by one after them, or by an error status alone.
    fn answer(&mut self, Command { connection, tag, opcode, blocks, .. }: Command) {
        let status = [0, 0, 0, 0, 0, 0, 2, 8, 0x18, 0x28][self.random.random_range(0..10usize)];
        let reads = matches!(opcode, 8 | 0x28 | 0x88 | 0xa8) && status == 0;
        let with_data = reads && self.random.random_bool(0.5);
        if reads {
            let data = self.data(blocks);
            let mut head = header(0x25, if with_data { 0x81 } else { 0x80 }, 0, tag);
            head[9] = 0;
            put(&mut head, 20, u32::MAX);
            self.number(connection, &mut head, with_data);
            self.send(connection, 1, &head, &data);
        }
        if !with_data {
            let mut head = header(0x21, 0x80, 0, tag);
            (head[3], head[9]) = (status, 0);
            self.number(connection, &mut head, true);
            // Sense data of a medium error (SPC-4, section 4.5.3).
            let sense = [0, 18, 0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0];
            self.send(connection, 1, &head, if status == 2 { &sense } else { &[] });
        }
    }

    /// Sends one of [`ABORTS`]. A function on a logical unit ends its tasks on all connections of the session. One more
    /// command follows before the response, and is not ended.
    fn abort(&mut self, which: usize) {
        let Some(pick) = self.pick() else { return };
        let victim = self.outstanding[pick];
        let (function, response) = ABORTS[which];
        let connection = victim.connection;
        let tag = 0x100 + self.tag();
        let mut head = header(if self.random.random_bool(0.5) { 0x42 } else { 2 }, 0x80 | function, 0, tag);
        head[8..10].copy_from_slice(&victim.lun.to_be_bytes());
        put(&mut head, 20, if function == 1 { victim.tag } else { u32::MAX });
        self.count(connection, &mut head);
        self.send(connection, 0, &head, &[]);
        if response == 1 {
            self.outstanding.swap_remove(pick);
            self.answer(victim);
        }
        let before = self.outstanding.len();
        self.command();
        let ended = |one: &Command| match (function, response) {
            (1, 0) => one.tag == victim.tag,
            (_, 0) => one.lun == victim.lun,
            _ => false,
        };
        let newer = self.outstanding.split_off(before);
        self.outstanding.retain(|one| !ended(one));
        self.outstanding.extend(newer);
        let mut head = header(0x22, 0x80, 0, tag);
        (head[2], head[9]) = (response, 0);
        self.number(connection, &mut head, true);
        self.send(connection, 1, &head, &[]);
    }
}

/// Adds VLAN tags to a packet, the outermost first; `kinds` are their EtherTypes (IEEE 802.1Q).
pub fn tagged(packet: &RawPacket, kinds: &[u16]) -> RawPacket {
    let tags: Vec<u8> =
        kinds.iter().enumerate().flat_map(|(at, kind)| [(kind >> 8) as u8, *kind as u8, 0, 5 + at as u8]).collect();
    let bytes = [&packet.bytes[..12], &tags, &packet.bytes[12..]].concat();
    RawPacket { bytes, ..*packet }
}

/// Converts a packet to IPv6, optionally with a header of hop-by-hop options (RFC 8200, sections 3 and 4.3).
pub fn version_6(packet: &RawPacket, options: bool) -> RawPacket {
    let (addresses, segment) = packet.bytes[ETHERNET_BYTES + 12..].split_at(8);
    let extension: &[u8] = if options { &[6, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
    let payload_bytes = (extension.len() + segment.len()) as u16;
    let mut bytes = packet.bytes[..12].to_vec();
    bytes.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
    bytes.extend_from_slice(&payload_bytes.to_be_bytes());
    bytes.extend_from_slice(&[if options { 0 } else { 6 }, 64]);
    for address in addresses.chunks(4) {
        bytes.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(address);
    }
    bytes.extend_from_slice(extension);
    bytes.extend_from_slice(segment);
    RawPacket { bytes, ..*packet }
}

/// Splits a packet into IPv4 fragments of 256 bytes (RFC 791, section 3.2); `number` identifies the packet.
pub fn fragmented(packet: &RawPacket, number: u16) -> Vec<RawPacket> {
    const FRAGMENT_BYTES: usize = 256;
    let (head, payload) = packet.bytes.split_at(ETHERNET_BYTES + NETWORK_BYTES);
    let last = payload.len().div_ceil(FRAGMENT_BYTES) - 1;
    let fragment = |(index, part): (usize, &[u8])| {
        let mut bytes = [head, part].concat();
        let ip = &mut bytes[ETHERNET_BYTES..];
        let offset = (index * FRAGMENT_BYTES / 8) as u16 | if index < last { 0x2000 } else { 0 };
        ip[2..4].copy_from_slice(&((NETWORK_BYTES + part.len()) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&number.to_be_bytes());
        ip[6..8].copy_from_slice(&offset.to_be_bytes());
        RawPacket { time_ns: packet.time_ns + index as u64, bytes }
    };
    payload.chunks(FRAGMENT_BYTES).enumerate().map(fragment).collect()
}
