use super::super::digest::crc32c;
use super::super::pdu;
use super::*;

/// Task tags of the reported headers, and the packets in which their PDUs ended.
#[derive(Default)]
struct Reported {
    tags: Vec<u32>,
    ends: Vec<u64>,
}

impl PduHandler for Reported {
    fn header(&mut self, _at: PacketRef, header: &Header, _shared: &mut ConnectionState) -> PayloadInterest {
        self.tags.push(pdu::task_tag(header));
        PayloadInterest { notify_end: true, ..PayloadInterest::default() }
    }

    fn data(&mut self, _data: &[u8], _complete: bool, _shared: &mut ConnectionState) -> bool {
        false
    }

    fn end(&mut self, at: Option<PacketRef>) {
        self.ends.extend(at.map(|at| at.frame));
    }
}

/// A write command with `bytes` bytes of immediate data.
fn write(number: u32, bytes: u32) -> Vec<u8> {
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1], header[32]) = (pdu::COMMAND, 0xa1, 0x2a);
    for (at, value) in [(4, bytes), (16, number), (20, bytes), (24, number), (28, 7)] {
        header[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    [&header[..], &vec![0xee; bytes as usize]].concat()
}

const NONE: [u32; 0] = [];

/// Walks packets whose PDU boundaries are lost; `captured` bytes of each were captured.
fn walked(packets: &[Vec<u8>], captured: usize) -> Reported {
    let digests = Digests { header: Some(false), data: Some(false) };
    let mut shared = ConnectionState { digests, ..ConnectionState::default() };
    // Command 1 has been seen.
    shared.numbers.note(write(1, 0).first_chunk().unwrap(), Direction::ToTarget);
    let (mut walk, mut reported) = (PduWalk::new(Direction::ToTarget), Reported::default());
    for (frame, packet) in packets.iter().enumerate() {
        let at = PacketRef { frame: frame as u64, time_ns: 0 };
        let payload = &packet[..packet.len().min(captured)];
        walk.chunk(StreamChunk { at, length: packet.len() as u32, payload, offset: 0 }, &mut shared, &mut reported);
    }
    reported
}

#[test]
fn candidate_is_reported_once_its_end_or_the_next_header_is_seen() {
    let whole = write(2, 500);
    let [first, rest] = [whole[..300].to_vec(), whole[300..].to_vec()];
    let with = |more: &[u8]| [&rest[..], more].concat();
    // Its data are incomplete.
    assert_eq!(walked(std::slice::from_ref(&first), 1000).tags, NONE);
    // Its PDU ends with a packet.
    let ended = walked(&[first.clone(), rest.clone()], 1000);
    assert_eq!((ended.tags, ended.ends), (vec![2], vec![1]));
    let followed = walked(&[first.clone(), with(&write(3, 0))], 1000);
    assert_eq!((followed.tags, followed.ends), (vec![2, 3], vec![1, 1]));
    assert_eq!(walked(&[first.clone(), with(&[0xee; 60])], 1000).tags, NONE);
    // The captured part of the next header can be one, cannot be one, or is empty.
    assert_eq!(walked(&[first.clone(), with(&write(3, 0))], 274).tags, [2]);
    assert_eq!(walked(&[first.clone(), with(&[0xee; 60])], 274).tags, NONE);
    assert_eq!(walked(&[first, with(&[0xee; 60])], 100).tags, [2]);
    // The number of the last command, repeated.
    assert_eq!(walked(&[write(1, 0)], 1000).tags, NONE);
}

#[test]
fn rejected_candidate_leaves_the_digests_unknown() {
    let (mut walk, mut reported, mut shared) =
        (PduWalk::new(Direction::ToTarget), Reported::default(), ConnectionState::default());
    let mut take = |packet: &[u8], shared: &mut ConnectionState, reported: &mut Reported| {
        let at = PacketRef::default();
        walk.chunk(StreamChunk { at, length: packet.len() as u32, payload: packet, offset: 0 }, shared, reported);
        shared.digests.header
    };
    let digested = |number| {
        let header = write(number, 0);
        let digest = crc32c(&header).to_le_bytes();
        [&header[..], &digest].concat()
    };
    assert_eq!(take(&[&write(9, 0)[..], &[0xee; 70]].concat(), &mut shared, &mut reported), None);
    assert_eq!(take(&[digested(1), digested(2)].concat(), &mut shared, &mut reported), Some(true));
    assert_eq!(reported.tags, [1, 2]);
}
