//! The record of a blktrace capture: 48 bytes in the byte order of the machine that wrote it, then
//! `pdu_len` bytes of payload. Source: Linux 6.1, `include/uapi/linux/blktrace_api.h` (layout and
//! numbers) and `kernel/trace/blktrace.c` (what is written when).

use bitflags::bitflags;

use crate::request::Flags;
use crate::units::SECTOR_BYTES;

/// Bytes of a record without its payload.
pub const RECORD_BYTES: usize = 48;

/// The upper 24 bits of a record's first word.
pub const MAGIC: u32 = 0x6561_7400;

/// The lower 8 bits of a record's first word: the only version that is read or written.
pub const VERSION: u8 = 7;

/// What happened: the lower 8 bits of [`Event::action`], `__BLK_TA_*`. A plain number and not an
/// enum, because a capture of a newer kernel may hold numbers that are not known here.
pub mod action {
    /// Q: a bio was queued.
    pub const QUEUE: u8 = 1;
    /// M: a bio (or, in newer kernels, a request) was merged to the end of a request.
    pub const BACK_MERGE: u8 = 2;
    /// F: a bio was merged to the front of a request.
    pub const FRONT_MERGE: u8 = 3;
    /// G: a request was allocated for a bio.
    pub const GET_REQUEST: u8 = 4;
    /// S: a bio waits for a request.
    pub const SLEEP: u8 = 5;
    /// R: the device was busy, an issued request was taken back.
    pub const REQUEUE: u8 = 6;
    /// D: a request was issued to the driver.
    pub const ISSUE: u8 = 7;
    /// C: a request, or a bio of a device without requests, completed.
    pub const COMPLETE: u8 = 8;
    /// P: a task began to collect requests.
    pub const PLUG: u8 = 9;
    /// U: the collected requests were passed on.
    pub const UNPLUG: u8 = 10;
    /// UT: the same, because the task went to sleep.
    pub const UNPLUG_TIMER: u8 = 11;
    /// I: a request was given to the scheduler.
    pub const INSERT: u8 = 12;
    /// X: a bio was split.
    pub const SPLIT: u8 = 13;
    /// B: a bio's pages were copied; older kernels only.
    pub const BOUNCE: u8 = 14;
    /// A: a bio came from another device, e.g. a partition.
    pub const REMAP: u8 = 15;
    /// A request was given up; no longer written.
    pub const ABORT: u8 = 16;
    /// Data of the driver's own.
    pub const DRIVER_DATA: u8 = 17;
    /// Bit of [`super::Event::action`]: the payload begins with the number of a cgroup (8 bytes).
    pub const CGROUP: u32 = 1 << 8;
}

/// What a notify record says: the lower 8 bits of [`Event::action`], `__BLK_TN_*`.
pub mod notify {
    /// The payload is the name of the process, at most 16 bytes.
    pub const PROCESS: u8 = 0;
    /// The payload is the wall-clock time: seconds and nanoseconds, 4 bytes each.
    pub const TIMESTAMP: u8 = 1;
    /// The payload is free text.
    pub const MESSAGE: u8 = 2;
}

bitflags! {
    /// The upper 16 bits of [`Event::action`], `BLK_TC_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Category: u16 {
        /// Every operation that moves no data to the device.
        const READ = 1;
        /// Every operation with an odd number: writes, discards, zeroing, zone commands.
        const WRITE = 1 << 1;
        /// `REQ_PREFLUSH` and `REQ_OP_FLUSH`; in old kernels a barrier.
        const FLUSH = 1 << 2;
        /// `REQ_SYNC`.
        const SYNC = 1 << 3;
        /// Q, G, M, F, I, P and U.
        const QUEUE = 1 << 4;
        /// R.
        const REQUEUE = 1 << 5;
        /// D.
        const ISSUE = 1 << 6;
        /// C.
        const COMPLETE = 1 << 7;
        /// An event of a request of the block layer.
        const FS = 1 << 8;
        /// An event of a passed-through command, e.g. one of SCSI, with no address.
        const PASSTHROUGH = 1 << 9;
        /// A notify record.
        const NOTIFY = 1 << 10;
        /// `REQ_RAHEAD`.
        const AHEAD = 1 << 11;
        /// `REQ_META`.
        const META = 1 << 12;
        /// `REQ_OP_DISCARD` and secure erase.
        const DISCARD = 1 << 13;
        /// Data of the driver's own.
        const DRIVER_DATA = 1 << 14;
        /// `REQ_FUA`.
        const FUA = 1 << 15;
    }
}

impl Category {
    /// The bits as they stand in [`Event::action`].
    pub const fn in_action(self) -> u32 {
        (self.bits() as u32) << 16
    }
}

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

/// One event, as the kernel wrote it but for magic, version and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Number of the event on its CPU, from 1; 0 in notify records.
    pub sequence: u32,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// [`action`] or [`notify`] in the lower 8 bits, [`Category`] in the upper 16.
    pub action: u32,
    /// The process that was running, not always the one that asked.
    pub pid: u32,
    /// Device number: major in the upper 12 bits, minor in the lower 20.
    pub device: u32,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The negative error number of a completion, in two's complement.
    pub error: u16,
}

/// Length and version of a record, before it is known to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) magic: u32,
    pub(super) payload: usize,
}

impl Event {
    /// What happened, [`action`] or [`notify`].
    pub const fn code(&self) -> u8 {
        self.action as u8
    }

    /// Its category bits.
    pub const fn category(&self) -> Category {
        Category::from_bits_retain((self.action >> 16) as u16)
    }

    /// Whether a category bit is set.
    pub const fn is(&self, category: Category) -> bool {
        self.action & category.in_action() != 0
    }

    /// Its length in sectors; a part of a sector counts as one.
    pub const fn sectors(&self) -> u64 {
        (self.bytes as u64).div_ceil(SECTOR_BYTES)
    }

    /// The first sector behind it.
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors())
    }

    /// Its properties as flags of a request.
    pub fn flags(&self) -> Flags {
        const OF_CATEGORY: [(Category, Flags); 5] = [
            (Category::SYNC, Flags::SYNC),
            (Category::FUA, Flags::FUA),
            (Category::FLUSH, Flags::PREFLUSH),
            (Category::META, Flags::META),
            (Category::AHEAD, Flags::AHEAD),
        ];
        let mut flags = Flags::empty();
        for (category, flag) in OF_CATEGORY {
            flags.set(flag, self.is(category));
        }
        flags
    }

    /// The error number of a completion as Linux's `errno.h` has it, 0 for success.
    pub fn errno(&self) -> i32 {
        i32::from(self.error as i16).abs()
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
        }
    }
}

impl Header {
    pub(super) fn decode(record: &[u8; RECORD_BYTES], order: ByteOrder) -> Header {
        Header { magic: word(record, 0, order), payload: usize::from(half(record, 46, order)) }
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

    /// The third record of a capture of a virtio disk, a Q of 8 sectors at 285104, as `xxd` shows it.
    const QUEUED: [u8; 48] = [
        0x07, 0x74, 0x61, 0x65, 0x01, 0, 0, 0, 0x33, 0xc8, 0x73, 0x8b, 0x02, 0, 0, 0, 0xb0, 0x59, 0x04, 0, 0, 0, 0, 0,
        0x00, 0x10, 0, 0, 0x01, 0x00, 0x11, 0x00, 0x7b, 0, 0, 0, 0x10, 0x00, 0xe0, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_real_record_decodes_to_what_blkparse_prints() {
        let event = Event::decode(&QUEUED, ByteOrder::Little);
        assert_eq!((event.code(), event.sector, event.sectors(), event.pid), (action::QUEUE, 285_104, 8, 123));
        assert_eq!((event.device >> 20, event.device & 0xf_ffff), (254, 16));
        assert_eq!(event.category(), Category::READ | Category::QUEUE);
        let mut bytes = Vec::new();
        encode(&event, &[], ByteOrder::Little, &mut bytes);
        assert_eq!(bytes, QUEUED);
    }

    #[test]
    fn error_numbers_are_positive() {
        assert_eq!(Event { error: (-5i16) as u16, ..Event::default() }.errno(), 5);
        assert_eq!(Event { error: i16::MIN as u16, ..Event::default() }.errno(), 32_768);
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
            let event = Event { sequence, time, sector, bytes, action, pid, device, cpu, error };
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let mut written = Vec::new();
            encode(&event, &payload, order, &mut written);
            prop_assert_eq!(ByteOrder::of(&written), Some(order));
            let record = written.first_chunk().unwrap();
            prop_assert_eq!(Event::decode(record, order), event);
            let header = Header { magic: MAGIC | u32::from(VERSION), payload: payload.len() };
            prop_assert_eq!(Header::decode(record, order), header);
            prop_assert_eq!(&written[RECORD_BYTES..], &payload[..]);
        }
    }
}
