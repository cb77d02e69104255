//! Generated iSCSI conversations whose truth is known: PDUs of several connections, cut into segments at random,
//! captured out of order, twice, or in part.

use iocast_capture::iscsi::{Analysis, AnalysisOptions, PacketReader};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::wire::WireCapture;
use traces::{Operation, Record, TraceMeta};

use crate::decoys::{self, DecoyFault, Known};

/// Settings of a conversation.
#[derive(Clone, Debug)]
pub struct ConversationPlan {
    pub seed: u64,
    pub connections: usize,
    pub commands: usize,
    pub header_digest: bool,
    pub data_digest: bool,
    /// Whether a login is captured.
    pub login: bool,
    /// The most bytes of a segment.
    pub segment_max: usize,
    /// The most commands and answers that are sent before segments are cut.
    pub batch: usize,
    /// The fault in PDUs that user data imitate, also at the beginnings of packets. `None`: data are random and imitate
    /// commands occasionally.
    pub fault: Option<DecoyFault>,
}

/// The truth of one command: address, length, operation, packet of its first byte, packet of its end.
pub type Truth = (u64, u64, Operation, u64, u64);

/// A packet before it is written.
#[derive(Clone, Debug)]
pub struct RawPacket {
    pub time_ns: u64,
    pub bytes: Vec<u8>,
}

pub struct Conversation {
    pub packets: Vec<RawPacket>,
    /// In order of the commands' first bytes.
    pub truth: Vec<Truth>,
}

pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    // Bit by bit, as in the standard.
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

/// One direction of a connection.
pub struct DirectionStream {
    from: (u32, u16),
    to: (u32, u16),
    pub sequence: u32,
    /// Bytes that wait to be cut into segments, and the marks in them: (offset, command, whether it is an end).
    bytes: Vec<u8>,
    marks: Vec<(usize, usize, bool)>,
    /// Offsets in them where data imitate a header.
    decoys: Vec<usize>,
}

impl DirectionStream {
    /// A direction between two addresses and ports; its first byte has this sequence number.
    pub fn new(from: (u32, u16), to: (u32, u16), sequence: u32) -> DirectionStream {
        DirectionStream { from, to, sequence, bytes: Vec::new(), marks: Vec::new(), decoys: Vec::new() }
    }

    /// A packet over Ethernet and IPv4 at the current position in the stream.
    pub fn packet(&self, time_ns: u64, flags: u8, payload: &[u8]) -> RawPacket {
        let mut bytes = vec![0u8; 12];
        bytes.extend_from_slice(&[8, 0]);
        let total = 40 + payload.len();
        let mut ip = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
        ip.extend_from_slice(&self.from.0.to_be_bytes());
        ip.extend_from_slice(&self.to.0.to_be_bytes());
        bytes.extend_from_slice(&ip);
        bytes.extend_from_slice(&self.from.1.to_be_bytes());
        bytes.extend_from_slice(&self.to.1.to_be_bytes());
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend_from_slice(payload);
        RawPacket { time_ns, bytes }
    }
}

#[derive(Clone, Copy)]
struct Outstanding {
    command: usize,
    tag: u32,
    blocks: u32,
    operation: Operation,
}

struct Connection {
    ways: [DirectionStream; 2],
    command_number: u32,
    status_number: u32,
    tag: u32,
    outstanding: Vec<Outstanding>,
    /// Tags of responses that are not sent yet and cannot be reused.
    unsent: Vec<u32>,
}

pub fn header(opcode: u8, flags: u8, data: usize, tag: u32) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (opcode, flags);
    header[4..8].copy_from_slice(&(data as u32).to_be_bytes());
    header[9] = 1;
    header[16..20].copy_from_slice(&tag.to_be_bytes());
    header
}

pub fn put(header: &mut [u8; 48], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Appends a PDU. Returns the offsets of its beginning, and of its end without a digest.
fn push(way: &mut DirectionStream, plan: &ConversationPlan, header: &[u8; 48], data: &[u8]) -> (usize, usize) {
    let begin = way.bytes.len();
    way.bytes.extend_from_slice(header);
    let login = matches!(header[0] & 0x3f, 3 | 0x23);
    if plan.header_digest && !login {
        way.bytes.extend_from_slice(&crc32c(header));
    }
    let mut end = way.bytes.len();
    if !data.is_empty() {
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(4), 0);
        way.bytes.extend_from_slice(&data);
        end = way.bytes.len();
        if plan.data_digest && !login {
            way.bytes.extend_from_slice(&crc32c(&data));
        }
    }
    (begin, end)
}

/// Generates a conversation.
pub fn generate(plan: &ConversationPlan) -> Conversation {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut packets = Vec::new();
    let mut truth: Vec<(u64, u64, Operation, u64, u64)> = Vec::new();
    let mut time = 1_700_000_000_000_000_000u64;
    let mut connections: Vec<Connection> = (0..plan.connections)
        .map(|index| {
            let (initiator, target) = ((0x0a00_0001, 40_000 + index as u16), (0x0a00_0002, 3260));
            let way = |from, to, random: &mut Xoshiro256PlusPlus| {
                // Near the maximum, so that numbers wrap.
                DirectionStream::new(from, to, if index % 2 == 0 { u32::MAX - 3_000 } else { random.random() })
            };
            Connection {
                ways: [way(initiator, target, &mut random), way(target, initiator, &mut random)],
                command_number: u32::MAX - 20,
                status_number: random.random(),
                tag: 0,
                outstanding: Vec::new(),
                unsent: Vec::new(),
            }
        })
        .collect();
    for connection in &mut connections {
        if plan.login {
            for way in &mut connection.ways {
                packets.push(way.packet(time, 2, &[]));
                way.sequence = way.sequence.wrapping_add(1);
            }
            login(connection, plan);
            for direction in 0..2 {
                send(&mut connection.ways[direction], plan, &mut random, &mut time, &mut packets, &mut truth, true);
            }
        }
    }
    let mut sent = 0;
    while sent < plan.commands || connections.iter().any(|one| !one.outstanding.is_empty()) {
        let pick = random.random_range(0..connections.len());
        let connection = &mut connections[pick];
        for _ in 0..random.random_range(1..=plan.batch) {
            if sent < plan.commands && connection.outstanding.len() < 32 && random.random_bool(0.6) {
                command(connection, plan, &mut random, sent, &mut truth);
                sent += 1;
            } else if !connection.outstanding.is_empty() {
                // Commands are sent before their answers.
                send(&mut connection.ways[0], plan, &mut random, &mut time, &mut packets, &mut truth, false);
                answer(connection, plan, &mut random);
            }
        }
        for direction in 0..2 {
            send(&mut connection.ways[direction], plan, &mut random, &mut time, &mut packets, &mut truth, false);
        }
        connection.unsent.clear();
    }
    truth.sort_by_key(|&(_, _, _, frame, _)| frame);
    Conversation { packets, truth }
}

fn login(connection: &mut Connection, plan: &ConversationPlan) {
    let digest = |on: bool| if on { "CRC32C" } else { "None" };
    let request = b"InitiatorName=iqn.2026-11.example:vm\0TargetName=iqn.2026-11.example:disk\0CHAP_R=0xsecret\0";
    let mut begin = header(0x43, 0x87, request.len(), 0xffff_0000);
    begin[9] = 0;
    put(&mut begin, 24, connection.command_number);
    push(&mut connection.ways[0], plan, &begin, request);
    let text = format!("HeaderDigest={}\0DataDigest={}\0", digest(plan.header_digest), digest(plan.data_digest));
    let mut end = header(0x23, 0x87, text.len(), 0xffff_0000);
    end[9] = 0;
    end[15] = connection.ways[0].from.1 as u8;
    put(&mut end, 24, connection.status_number);
    put(&mut end, 28, connection.command_number);
    put(&mut end, 32, connection.command_number.wrapping_add(64));
    connection.status_number = connection.status_number.wrapping_add(1);
    push(&mut connection.ways[1], plan, &end, text.as_bytes());
}

fn command(
    connection: &mut Connection,
    plan: &ConversationPlan,
    random: &mut Xoshiro256PlusPlus,
    number: usize,
    truth: &mut Vec<Truth>,
) {
    let operation = [Operation::Read, Operation::Write, Operation::Flush][random.random_range(0..5usize).min(3) % 3];
    let blocks = if operation == Operation::Flush { 0 } else { random.random_range(1..=24u32) };
    let lba = if operation == Operation::Flush { 0 } else { random.random_range(0..1u64 << 30) };
    let wide = random.random_bool(0.3);
    connection.tag = connection.tag.wrapping_add(1) % 48;
    while connection
        .outstanding
        .iter()
        .map(|one| one.tag)
        .chain(connection.unsent.iter().copied())
        .any(|tag| tag == connection.tag)
    {
        connection.tag = (connection.tag + 1) % 48;
    }
    let tag = connection.tag;
    let immediate = operation == Operation::Write && random.random_bool(0.7);
    let (data, decoys) = if immediate { data_of(connection, plan, random, blocks) } else { (Vec::new(), Vec::new()) };
    let flags = match operation {
        Operation::Read => 0xc1,
        Operation::Write => 0xa1,
        _ => 0x81,
    };
    let mut head = header(1, flags, data.len(), tag);
    put(&mut head, 20, blocks * 512);
    put(&mut head, 24, connection.command_number);
    put(&mut head, 28, connection.status_number);
    connection.command_number = connection.command_number.wrapping_add(1);
    let cdb = &mut head[32..];
    match (operation, wide) {
        (Operation::Flush, _) => cdb[0] = 0x35,
        (_, false) => {
            cdb[0] = if operation == Operation::Read { 0x28 } else { 0x2a };
            cdb[2..6].copy_from_slice(&(lba as u32).to_be_bytes());
            cdb[7..9].copy_from_slice(&(blocks as u16).to_be_bytes());
        }
        (_, true) => {
            cdb[0] = if operation == Operation::Read { 0x88 } else { 0x8a };
            cdb[2..10].copy_from_slice(&lba.to_be_bytes());
            cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
        }
    }
    let way = &mut connection.ways[0];
    let (begin, end) = push(way, plan, &head, &data);
    way.decoys.extend(decoys.iter().map(|at| end - data.len() + at));
    let index = truth.len();
    way.marks.push((begin, index, false));
    truth.push((lba, u64::from(blocks), operation, 0, 0));
    if operation == Operation::Write && !immediate {
        let (data, decoys) = data_of(connection, plan, random, blocks);
        let mut out = header(5, 0x80, data.len(), tag);
        put(&mut out, 20, number as u32);
        put(&mut out, 28, connection.status_number);
        let way = &mut connection.ways[0];
        let (_, end) = push(way, plan, &out, &data);
        way.decoys.extend(decoys.iter().map(|at| end - data.len() + at));
    }
    connection.outstanding.push(Outstanding { command: index, tag, blocks, operation });
}

fn answer(connection: &mut Connection, plan: &ConversationPlan, random: &mut Xoshiro256PlusPlus) {
    let pick = random.random_range(0..connection.outstanding.len());
    let Outstanding { command, tag, blocks, operation } = connection.outstanding.swap_remove(pick);
    let numbers = |head: &mut [u8; 48], connection: &Connection| {
        put(head, 24, connection.status_number);
        put(head, 28, connection.command_number);
        put(head, 32, connection.command_number.wrapping_add(32));
    };
    let with_data = operation == Operation::Read;
    let combined = with_data && random.random_bool(0.6);
    let mut end = 0;
    if with_data {
        let (data, decoys) = data_of(connection, plan, random, blocks);
        let mut head = header(0x25, if combined { 0x81 } else { 0x80 }, data.len(), tag);
        head[9] = 0;
        numbers(&mut head, connection);
        if !combined {
            put(&mut head, 24, 0);
        }
        let way = &mut connection.ways[1];
        end = push(way, plan, &head, &data).1;
        way.decoys.extend(decoys.iter().map(|at| end - data.len() + at));
    }
    if !combined {
        let mut head = header(0x21, 0x80, 0, tag);
        head[9] = 0;
        numbers(&mut head, connection);
        end = push(&mut connection.ways[1], plan, &head, &[]).1;
    }
    connection.status_number = connection.status_number.wrapping_add(1);
    connection.ways[1].marks.push((end, command, true));
    connection.unsent.push(tag);
}

/// Data of `blocks` blocks, and the offsets of imitated PDUs in them.
fn data_of(
    connection: &Connection,
    plan: &ConversationPlan,
    random: &mut Xoshiro256PlusPlus,
    blocks: u32,
) -> (Vec<u8>, Vec<usize>) {
    let bytes = blocks as usize * 512;
    let Some(fault) = plan.fault else { return (payload(random, bytes), Vec::new()) };
    let Connection { command_number, status_number, outstanding, .. } = connection;
    let known = |random: &mut Xoshiro256PlusPlus| {
        let used = outstanding.get(random.random_range(0..2 * outstanding.len() + 1)).map(|one| one.tag);
        let command_number = command_number.wrapping_add(random.random_range(0..3));
        let status_number = *status_number;
        let tag = used.unwrap_or_else(|| random.random_range(0..1000));
        Known { command_number, status_number, tag, header_digest: plan.header_digest }
    };
    decoys::data(fault, known, bytes, random)
}

/// Parts of a secret that all data hold, also where they imitate a PDU. Nothing else holds them.
pub const SECRETS: [&[u8; 4]; 2] = [b"#Sec", b"ret!"];

/// Data, some of which imitate a PDU.
fn payload(random: &mut Xoshiro256PlusPlus, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    random.fill_bytes(&mut data);
    data.chunks_exact_mut(16).for_each(|part| part[8..].copy_from_slice(&SECRETS.map(|secret| *secret).concat()));
    if random.random_bool(0.3) {
        let mut head = header(1, 0xc1, 0, random.random());
        put(&mut head, 20, 4096);
        put(&mut head, 24, random.random());
        head[32] = 0x28;
        head[34..38].copy_from_slice(SECRETS[0]);
        head[40] = 8;
        for at in (0..bytes.saturating_sub(48)).step_by(256) {
            data[at..at + 48].copy_from_slice(&head);
        }
    }
    data
}

fn send(
    way: &mut DirectionStream,
    plan: &ConversationPlan,
    random: &mut Xoshiro256PlusPlus,
    time: &mut u64,
    packets: &mut Vec<RawPacket>,
    truth: &mut [Truth],
    whole: bool,
) {
    let bytes = std::mem::take(&mut way.bytes);
    let marks = std::mem::take(&mut way.marks);
    let decoys = std::mem::take(&mut way.decoys);
    // Long pauses let every complete record be emitted at once.
    *time += if plan.fault.is_some() && !bytes.is_empty() { 2_000_000_000 } else { 0 };
    let mut at = 0;
    while at < bytes.len() {
        let mut step =
            if whole { bytes.len() } else { random.random_range(1..=plan.segment_max).min(bytes.len() - at) };
        let next = decoys.partition_point(|&decoy| decoy <= at);
        if decoys[..next].last() == Some(&at) {
            step = if random.random_bool(0.2) { decoys::CUT_BYTES } else { step.max(decoys::DECOY_DISTANCE_BYTES_MIN) }
                .min(bytes.len() - at);
        }
        // The next packet begins with a decoy.
        if let Some(&decoy) = decoys.get(next).filter(|_| random.random_bool(0.7)) {
            step = step.min(decoy - at);
        }
        *time += random.random_range(1_000..50_000u64);
        packets.push(way.packet(*time, 0x10, &bytes[at..at + step]));
        way.sequence = way.sequence.wrapping_add(step as u32);
        let frame = packets.len() as u64;
        for &(place, command, is_end) in &marks {
            if is_end && place > at && place <= at + step {
                truth[command].4 = frame;
            } else if !is_end && place >= at && place < at + step {
                truth[command].3 = frame;
            }
        }
        at += step;
    }
}

/// The packets as a pcap file in this order, cut to `snaplen`.
pub fn file(packets: &[RawPacket], snaplen: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for field in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    for packet in packets {
        let captured = packet.bytes.len().min(snaplen);
        let fields = [
            (packet.time_ns / 1_000_000_000) as u32,
            (packet.time_ns % 1_000_000_000) as u32,
            captured as u32,
            packet.bytes.len() as u32,
        ];
        for field in fields {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(&packet.bytes[..captured]);
    }
    file
}

/// The packets as pcapng, of either byte order with two interfaces (clocks of 1 us and 2⁻²⁰ s) and an unknown block.
pub fn pcapng(packets: &[RawPacket], big: bool) -> Vec<u8> {
    let u32s = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let u16s = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = 12 + body.len().next_multiple_of(4) as u32;
        out.extend_from_slice(&u32s(kind));
        out.extend_from_slice(&u32s(length));
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&u32s(length));
    };
    let section = [&u32s(0x1a2b_3c4d)[..], &u16s(1), &u16s(0), &[0xff; 8]].concat();
    block(0x0a0d_0d0a, &section);
    block(1, &[&u16s(1)[..], &u16s(0), &u32s(0)].concat());
    block(1, &[&u16s(1)[..], &u16s(0), &u32s(0), &u16s(9), &u16s(1), &[0x80 | 20, 0, 0, 0], &u32s(0)].concat());
    block(0x0bad_cafe, b"whatever this is");
    for (index, packet) in packets.iter().enumerate() {
        let interface = index as u32 % 2;
        let units = match interface {
            0 => packet.time_ns / 1000,
            _ => ((u128::from(packet.time_ns) << 20) / 1_000_000_000) as u64,
        };
        let length = packet.bytes.len() as u32;
        let fields = [interface, (units >> 32) as u32, units as u32, length, length];
        let head: Vec<u8> = fields.into_iter().flat_map(u32s).collect();
        block(6, &[&head, &packet.bytes[..]].concat());
    }
    let dropped = if big { 3u64.to_be_bytes() } else { 3u64.to_le_bytes() };
    block(5, &[&u32s(0)[..], &u32s(0), &u32s(0), &u16s(5), &u16s(8), &dropped, &u32s(0)].concat());
    out
}

/// All records and figures of a file.
pub fn analysed(file: Vec<u8>) -> (Vec<Record>, WireCapture) {
    let (records, figures, _) = analysed_with_meta(file);
    (records, figures)
}

/// The same, with the trace's metadata.
pub fn analysed_with_meta(file: Vec<u8>) -> (Vec<Record>, WireCapture, TraceMeta) {
    let reader = PacketReader::from_reader(std::path::Path::new("x.pcap"), Box::new(std::io::Cursor::new(file)), false);
    let mut reader = reader.unwrap();
    let mut analysis = Analysis::new(AnalysisOptions::default());
    let mut records = Vec::new();
    while let Some(packet) = reader.packet().unwrap() {
        analysis.packet(&packet, &mut ());
        records.extend(std::iter::from_fn(|| analysis.record()));
    }
    analysis.finish(&mut ());
    records.extend(std::iter::from_fn(|| analysis.record()));
    (records, analysis.figures(reader.counts()), analysis.meta())
}

/// The truth in the form of records: address, sectors, operation, arrival and completion.
pub type Plain = (u64, u64, Operation, u64, Option<u64>);

/// Records in that form.
pub fn plain(records: &[Record]) -> Vec<Plain> {
    let one = |record: &Record| {
        let request = &record.request;
        let completed = record.observed.completed.map(|time| time.as_ns());
        (request.lba.sector(), request.sectors().count(), request.operation, request.arrival.as_ns(), completed)
    };
    records.iter().map(one).collect()
}

impl Conversation {
    /// The truth in that form, on a clock that starts at the first packet.
    pub fn plain(&self) -> Vec<Plain> {
        let zero = self.packets[0].time_ns;
        let time = |frame: u64| self.packets[frame as usize - 1].time_ns - zero;
        let one =
            |&(lba, sectors, operation, begin, end): &Truth| (lba, sectors, operation, time(begin), Some(time(end)));
        self.truth.iter().map(one).collect()
    }
}
