//! Files of captured packets: pcap and pcapng, plain or compressed, read as a stream in bounded memory.
//!
//! The layouts are those of the IETF drafts "PCAP Capture File FileFormat" (draft-ietf-opsawg-pcap) and "PCAP Next
//! Generation Capture File FileFormat" (draft-ietf-opsawg-pcapng). A packet is lent out of the read buffer, never copied.

mod pcap;
mod pcapng;
mod read_window;
mod writer;

use std::io::Read;
use std::path::{Path, PathBuf};

use traces::input::Input;
use traces::{Place, Problem, ReadError};

use read_window::ReadWindow;
pub use writer::PacketWriter;

/// The longest packet that is taken for one; a longer length is damage. Above any snap length in use (256 KiB).
pub(crate) const PACKET_BYTES_MAX: u32 = 1 << 24;

/// What stands before the network layer in each packet of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// `LINKTYPE_ETHERNET`, 1.
    Ethernet,
    /// Four bytes that name the family, in either byte order: `LINKTYPE_NULL` 0 and `LINKTYPE_LOOP` 108.
    Loopback,
    /// IPv4 or IPv6 at once: `LINKTYPE_RAW` 101 (and 12, 14), `LINKTYPE_IPV4` 228, `LINKTYPE_IPV6` 229.
    Ip,
    /// `LINKTYPE_LINUX_SLL`, 113: what `-i any` gives.
    LinuxCooked,
    /// `LINKTYPE_LINUX_SLL2`, 276.
    LinuxCooked2,
}

impl LinkType {
    /// SequenceNumbers and names of the link types that are read.
    pub const READ: &str = "Ethernet (1), loopback (0, 108), raw IP (12, 14, 101, 228, 229), Linux cooked (113, 276)";

    /// The link type with this number of the pcap registry, if it is read.
    pub fn from_number(number: u16) -> Option<LinkType> {
        match number {
            1 => Some(LinkType::Ethernet),
            0 | 108 => Some(LinkType::Loopback),
            12 | 14 | 101 | 228 | 229 => Some(LinkType::Ip),
            113 => Some(LinkType::LinuxCooked),
            276 => Some(LinkType::LinuxCooked2),
            _ => None,
        }
    }
}

/// One packet, lent until the next one is read.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Counted from 1, as Wireshark numbers frames.
    pub number: u64,
    /// When it was captured, nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// Its link type.
    pub link: LinkType,
    /// The number of the link type as the file gives it.
    pub link_number: u16,
    /// Its length on the wire.
    pub wire_bytes: u32,
    /// As much of it as was captured.
    pub bytes: &'a [u8],
}

/// What a file of packets tells beside the packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Packets that the capturing program says it dropped (pcapng interface statistics).
    pub dropped: u64,
    /// Blocks of a kind that holds no packets, or that is not known.
    pub other_blocks: u64,
    /// Packets without a time (pcapng simple packet blocks), which are passed over.
    pub untimed: u64,
    /// Whether the last packet or block was cut off, and passed over.
    pub truncated: bool,
}

enum FileFormat {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Reads a file of packets.
pub struct PacketReader {
    window: ReadWindow,
    format: FileFormat,
    lenient: bool,
    number: u64,
    counts: FileCounts,
}

impl PacketReader {
    /// Opens `path`, `-` for standard input. `lenient` takes a last packet that is cut off for the end.
    ///
    /// # Errors
    /// What cannot be opened, what is no file of packets, a link type that is not read.
    pub fn open(path: &Path, lenient: bool) -> Result<PacketReader, ReadError> {
        PacketReader::from_reader(path, Box::new(Input::open(path)?), lenient)
    }

    /// The same over any reader; `path` is the name used in messages.
    ///
    /// # Errors
    /// As [`PacketReader::open`].
    pub fn from_reader(path: &Path, input: Box<dyn Read + Send>, lenient: bool) -> Result<PacketReader, ReadError> {
        let mut window = ReadWindow::new(path, input);
        if !window.has(4)? {
            let problem = if window.is_empty() { Problem::Empty } else { Problem::Truncated("the first bytes".into()) };
            return Err(ReadError::new(path, Place::Whole, problem));
        }
        let format = match window.bytes(4) {
            [0x0a, 0x0d, 0x0d, 0x0a] => FileFormat::Pcapng(pcapng::Pcapng::default()),
            _ => FileFormat::Pcap(pcap::Pcap::begin(&mut window)?),
        };
        Ok(PacketReader { window, format, lenient, number: 0, counts: FileCounts::default() })
    }

    /// The next packet, `None` at the end.
    ///
    /// # Errors
    /// The first place that is not as the format says; a last packet that is cut off, unless lenient.
    pub fn packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        self.window.release();
        let found = match &mut self.format {
            FileFormat::Pcap(pcap) => pcap.next(&mut self.window, self.number + 1),
            FileFormat::Pcapng(pcapng) => pcapng.next(&mut self.window, self.number + 1, &mut self.counts),
        };
        let found = match found {
            Err(ReadError { problem: Problem::Truncated(_), .. }) if self.lenient => {
                self.counts.truncated = true;
                None
            }
            Err(error @ ReadError { problem: Problem::Truncated(_), .. }) => {
                return Err(error.remedy("--lenient takes the packets before it"));
            }
            other => other?,
        };
        let Some(PacketHeader { time_ns, link, link_number, wire_bytes, captured }) = found else { return Ok(None) };
        self.number += 1;
        let bytes = self.window.lend(captured);
        Ok(Some(Packet { number: self.number, time_ns, link, link_number, wire_bytes, bytes }))
    }

    /// What the file told beside packets, so far.
    pub fn counts(&self) -> &FileCounts {
        &self.counts
    }

    /// Bytes (decompressed) consumed so far.
    pub fn position_bytes(&self) -> u64 {
        self.window.offset()
    }

    /// The name of the file.
    pub fn path(&self) -> &PathBuf {
        self.window.path()
    }
}

/// A packet that lies next in the window.
struct PacketHeader {
    time_ns: u64,
    link: LinkType,
    link_number: u16,
    wire_bytes: u32,
    captured: usize,
}

/// SequenceNumbers in the byte order of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ByteOrder {
    #[default]
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, bytes: &[u8]) -> u16 {
        let bytes = [bytes[0], bytes[1]];
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: &[u8]) -> u32 {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// The link type, or an error that names it.
fn link(window: &ReadWindow, number: u16) -> Result<LinkType, ReadError> {
    LinkType::from_number(number).ok_or_else(|| {
        window
            .malformed(format!("packets have link type {number}, which is not read"))
            .remedy(format!("capture on an IP interface; read are {}", LinkType::READ))
    })
}
