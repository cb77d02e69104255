//! The record of a blktrace capture: 48 bytes in the byte order of the machine that wrote it, then
//! `pdu_len` bytes of payload. Source: Linux 6.1, `include/uapi/linux/blktrace_api.h` (layout and
//! numbers).

use crate::events::Event;
use crate::request::Priority;

/// Bytes of a record without its payload.
pub const RECORD_BYTES: usize = 48;

/// The upper 24 bits of a record's first word.
pub const MAGIC: u32 = 0x6561_7400;

/// The lower 8 bits of a record's first word: the only version that is read or written.
pub const VERSION: u8 = 7;

/// The byte order of a capture: that of the machine it was taken on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first (x86, ARM).
    #[default]
    Little,
    /// Most significant byte first (s390, older POWER).
    Big,
}

impl ByteOrder {
    /// The byte order of a capture that begins with `head`, `None` if that is not blktrace's magic.
    pub fn of(head: &[u8]) -> Option<ByteOrder> {
        let first = head.first_chunk::<4>()?;
        if u32::from_le_bytes(*first) & 0xffff_ff00 == MAGIC {
            Some(ByteOrder::Little)
        } else if u32::from_be_bytes(*first) & 0xffff_ff00 == MAGIC {
            Some(ByteOrder::Big)
        } else {
            None
        }
    }

    /// The name in metadata.
    pub const fn name(self) -> &'static str {
        match self {
            ByteOrder::Little => "little-endian",
            ByteOrder::Big => "big-endian",
        }
    }
}

/// Length and version of a record, before it is known to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) magic: u32,
    pub(super) payload: usize,
}

impl Header {
    pub(super) fn decode(record: &[u8; RECORD_BYTES], order: ByteOrder) -> Header {
        Header { magic: word(record, 0, order), payload: usize::from(half(record, 46, order)) }
    }
}

/// Reads a record without its payload.
pub(super) fn decode(record: &[u8; RECORD_BYTES], order: ByteOrder) -> Event {
    Event {
        sequence: word(record, 4, order),
        time: long(record, 8, order),
        sector: long(record, 16, order),
        bytes: word(record, 24, order),
        action: word(record, 28, order),
        pid: word(record, 32, order),
        device: word(record, 36, order),
        cpu: word(record, 40, order),
        error: half(record, 44, order),
        priority: Priority::NONE,
        cgroup: 0,
    }
}
/// Appends `event` and its payload to `out`.
///
/// # Panics
/// If `payload` is longer than 65,535 bytes: its length is a 16-bit field.
pub fn encode(event: &Event, payload: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    let length = u16::try_from(payload.len()).expect("a payload's length is a 16-bit field");
    let words = [event.bytes, event.action, event.pid, event.device, event.cpu];
    let magic = MAGIC | u32::from(VERSION);
    match order {
        ByteOrder::Little => {
            out.extend(magic.to_le_bytes());
            out.extend(event.sequence.to_le_bytes());
            out.extend(event.time.to_le_bytes());
            out.extend(event.sector.to_le_bytes());
            out.extend(words.into_iter().flat_map(u32::to_le_bytes));
            out.extend(event.error.to_le_bytes());
            out.extend(length.to_le_bytes());
        }
        ByteOrder::Big => {
            out.extend(magic.to_be_bytes());
            out.extend(event.sequence.to_be_bytes());
            out.extend(event.time.to_be_bytes());
            out.extend(event.sector.to_be_bytes());
            out.extend(words.into_iter().flat_map(u32::to_be_bytes));
            out.extend(event.error.to_be_bytes());
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(payload);
}

/// The fixed-size field at `at`. Callers pass constants, so the copy is a single load.
fn field<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

fn half(record: &[u8; RECORD_BYTES], at: usize, order: ByteOrder) -> u16 {
    let bytes = field(record, at);
    if order == ByteOrder::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

fn word(record: &[u8; RECORD_BYTES], at: usize, order: ByteOrder) -> u32 {
    let bytes = field(record, at);
    if order == ByteOrder::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn long(record: &[u8; RECORD_BYTES], at: usize, order: ByteOrder) -> u64 {
    let bytes = field(record, at);
    if order == ByteOrder::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::{Category, action};

    /// The third record of a capture of a virtio disk, a Q of 8 sectors at 285104, as `xxd` shows it.
    const QUEUED: [u8; 48] = [
        0x07, 0x74, 0x61, 0x65, 0x01, 0, 0, 0, 0x33, 0xc8, 0x73, 0x8b, 0x02, 0, 0, 0, 0xb0, 0x59, 0x04, 0, 0, 0, 0, 0,
        0x00, 0x10, 0, 0, 0x01, 0x00, 0x11, 0x00, 0x7b, 0, 0, 0, 0x10, 0x00, 0xe0, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_real_record_decodes_to_what_blkparse_prints() {
        let event = decode(&QUEUED, ByteOrder::Little);
        assert_eq!((event.code(), event.sector, event.sectors(), event.pid), (action::QUEUE, 285_104, 8, 123));
        assert_eq!((event.device >> 20, event.device & 0xf_ffff), (254, 16));
        assert_eq!(event.category(), Category::READ | Category::QUEUE);
        let mut bytes = Vec::new();
        encode(&event, &[], ByteOrder::Little, &mut bytes);
        assert_eq!(bytes, QUEUED);
    }

    #[test]
    fn both_byte_orders_are_recognised_whatever_the_version() {
        assert_eq!(ByteOrder::of(&QUEUED), Some(ByteOrder::Little));
        assert_eq!(ByteOrder::of(&[0x65, 0x61, 0x74, 0x06]), Some(ByteOrder::Big));
        assert_eq!(ByteOrder::of(&[0x07, 0x74, 0x61]), None);
        assert_eq!(ByteOrder::of(&[0x07, 0x74, 0x61, 0x66]), None);
    }

    proptest! {
        #[test]
        fn written_and_read_is_the_same(
            numbers in any::<(u32, u64, u64, u32, u32, u32, u32, u32, u16)>(),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            big in any::<bool>(),
        ) {
            let (sequence, time, sector, bytes, action, pid, device, cpu, error) = numbers;
            let event = Event { sequence, time, sector, bytes, action, pid, device, cpu, error, ..Event::default() };
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let mut written = Vec::new();
            encode(&event, &payload, order, &mut written);
            prop_assert_eq!(ByteOrder::of(&written), Some(order));
            let record = written.first_chunk().unwrap();
            prop_assert_eq!(decode(record, order), event);
            let header = Header { magic: MAGIC | u32::from(VERSION), payload: payload.len() };
            prop_assert_eq!(Header::decode(record, order), header);
            prop_assert_eq!(&written[RECORD_BYTES..], &payload[..]);
        }
    }
}
