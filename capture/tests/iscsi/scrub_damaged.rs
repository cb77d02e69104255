//! Captures that begin in mid-stream, have gaps, or hold damaged PDUs: whatever the analysis makes of them, no user data
//! survive scrubbing.

use iocast_capture::iscsi::ScrubOptions;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{
    ConversationPlan, DirectionStream, RawPacket, SECRETS, analysed, file, generate, header, plain, put,
};
use crate::scrub::scrubbed;

/// Bytes before the payload of a generated packet: Ethernet, IPv4 and TCP.
const HEADERS_BYTES: usize = 54;

fn conversation(seed: u64, login: bool, digests: [bool; 2]) -> Vec<RawPacket> {
    let [header_digest, data_digest] = digests;
    let plan = ConversationPlan {
        seed,
        connections: 2,
        commands: 40,
        header_digest,
        data_digest,
        login,
        segment_max: 1448,
        batch: 4,
        fault: None,
    };
    generate(&plan).packets
}

fn leaks(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|window| SECRETS.iter().any(|secret| window == *secret))
}

/// Scrubs the packets with either treatment of logins, and looks for secrets.
fn check(packets: &[RawPacket], snaplen: usize, what: &str) {
    for keep_login in [false, true] {
        let clean = scrubbed(file(packets, snaplen), ScrubOptions { keep_login, rename: None });
        assert!(!leaks(&clean), "{what}, keep_login {keep_login}");
    }
}

/// The conversations that every kind of damage is tried on.
fn each(mut check: impl FnMut(&[RawPacket], &mut Xoshiro256PlusPlus, &str)) {
    for (seed, login, digests) in [
        (1, true, [false, false]),
        (2, true, [true, true]),
        (3, false, [false, false]),
        (4, false, [true, false]),
        (5, true, [false, true]),
    ] {
        let packets = conversation(seed, login, digests);
        assert!(leaks(&file(&packets, usize::MAX)));
        check(&packets, &mut Xoshiro256PlusPlus::seed_from_u64(seed), &format!("seed {seed}"));
    }
}

/// The packet without the first `bytes` bytes of its payload.
fn without_first(packet: &RawPacket, bytes: usize) -> RawPacket {
    let mut cut = packet.clone();
    cut.bytes.drain(HEADERS_BYTES..HEADERS_BYTES + bytes);
    let sequence = u32::from_be_bytes(cut.bytes[38..42].try_into().unwrap()).wrapping_add(bytes as u32);
    cut.bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    let total = (cut.bytes.len() - 14) as u16;
    cut.bytes[16..18].copy_from_slice(&total.to_be_bytes());
    cut
}

#[test]
fn no_data_survive_a_beginning_or_an_end_at_any_packet() {
    each(|packets, _, what| {
        for at in 0..packets.len() {
            check(&packets[at..], usize::MAX, &format!("{what}, from packet {at}"));
            check(&packets[..at], usize::MAX, &format!("{what}, to packet {at}"));
        }
    });
}

#[test]
fn no_data_survive_a_beginning_at_any_byte() {
    each(|packets, random, what| {
        for _ in 0..200 {
            let at = random.random_range(0..packets.len());
            let payload = packets[at].bytes.len() - HEADERS_BYTES;
            // Data imitate PDUs at multiples of 16 bytes.
            let bytes = random.random_range(0..=payload) / 4 * 4;
            let mut rest = packets[at..].to_vec();
            rest[0] = without_first(&rest[0], bytes);
            check(&rest, usize::MAX, &format!("{what}, from byte {bytes} of packet {at}"));
        }
    });
}

#[test]
fn no_data_survive_gaps_and_short_snap_lengths() {
    each(|packets, random, what| {
        for round in 0..60 {
            let share = [0.01, 0.05, 0.2, 0.5][round % 4];
            let left: Vec<RawPacket> = packets.iter().filter(|_| !random.random_bool(share)).cloned().collect();
            let snaplen = if round % 3 == 0 { random.random_range(60..400) } else { usize::MAX };
            check(&left, snaplen, &format!("{what}, round {round}"));
        }
    });
}

#[test]
fn packet_that_ends_within_its_tcp_options_is_written() {
    let mut packet = conversation(1, true, [false, false])[0].clone();
    packet.bytes.truncate(HEADERS_BYTES);
    // 60 bytes of TCP header, of which 20 are there, and no payload.
    packet.bytes[46] = 0xf0;
    packet.bytes[16..18].copy_from_slice(&80u16.to_be_bytes());
    let clean = scrubbed(file(&[packet.clone()], usize::MAX), ScrubOptions::default());
    assert_eq!(clean.len(), file(&[packet], usize::MAX).len());
}

#[test]
fn no_data_survive_damaged_headers() {
    each(|packets, random, what| {
        for round in 0..120 {
            let mut damaged = packets.to_vec();
            for _ in 0..random.random_range(1..6) {
                let packet = random.random_range(0..damaged.len());
                let Some(payload) = damaged[packet].bytes.get_mut(HEADERS_BYTES..) else { continue };
                // Mostly the fields that say what the PDU is and how long: opcode, flags, lengths, command.
                let at = [0, 1, 4, 5, 6, 7, 32, random.random_range(0..64)][random.random_range(0..8)];
                let Some(byte) = payload.get_mut(at) else { continue };
                *byte ^= if random.random_bool(0.5) { 1 << random.random_range(0..8) } else { random.random::<u8>() };
            }
            check(&damaged, usize::MAX, &format!("{what}, round {round}"));
        }
    });
}

/// Data that imitate reads with these command numbers, one behind the other, with secrets in their fields.
fn imitated(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let read = |number: u32| {
        let mut read = header(1, 0xc1, 0, u32::from_be_bytes(*SECRETS[1]));
        put(&mut read, 20, 4096);
        put(&mut read, 24, number);
        put(&mut read, 28, 7);
        (read[32], read[40]) = (0x28, 8);
        read[34..38].copy_from_slice(SECRETS[0]);
        read
    };
    numbers.flat_map(read).collect()
}

#[test]
fn no_data_survive_that_imitate_pdus_where_the_stream_begins_or_goes_on() {
    for seed in 0..30 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut way = DirectionStream::new((0x0a00_0001, 40_000), (0x0a00_0002, 3260), random.random());
        let (mut packets, mut number) = (Vec::new(), 1);
        for packet in 0..20 {
            let chain = random.random_range(1..4);
            let mut payload = imitated(number..number + chain);
            number += chain;
            payload.extend(SECRETS.map(|secret| *secret).concat().repeat(random.random_range(0..50)));
            let captured = way.packet(1_700_000_000_000_000_000 + packet, 0x10, &payload);
            way.sequence = way.sequence.wrapping_add(payload.len() as u32 + random.random_range(0..2) * 100 + 1);
            packets.push(captured);
        }
        check(&packets, usize::MAX, &format!("seed {seed}"));
    }
}

#[test]
fn headers_are_kept_again_once_several_follow_one_another() {
    let packets = conversation(3, false, [false, false]);
    let whole = file(&packets[5..], usize::MAX);
    let commands = |file: Vec<u8>| plain(&analysed(file).0);
    let clean = scrubbed(whole.clone(), ScrubOptions::default());
    let (before, after) = (commands(whole), commands(clean));
    assert!(after.len() * 10 >= before.len() * 8 && before.len() > 30, "{} of {}", after.len(), before.len());
}
