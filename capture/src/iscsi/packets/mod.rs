//! Files of captured packets: pcap and pcapng, plain or compressed, read as a stream in bounded memory.
//!
//! The layouts follow the IETF drafts "PCAP Capture File Format" (draft-ietf-opsawg-pcap) and "PCAP Next Generation
//! Capture File Format" (draft-ietf-opsawg-pcapng). A packet borrows from the read buffer and is never copied.

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

/// The longest accepted packet; a greater length means a damaged file. It is above any snap length in use (256 KiB).
pub(crate) const PACKET_BYTES_MAX: u32 = 1 << 24;

/// The link-layer header of an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// `LINKTYPE_ETHERNET`, 1.
    Ethernet,
    /// Four bytes that name the address family, in either byte order: `LINKTYPE_NULL` 0 and `LINKTYPE_LOOP` 108.
    Loopback,
    /// No link-layer header, IPv4 or IPv6: `LINKTYPE_RAW` 101 (and 12, 14), `LINKTYPE_IPV4` 228, `LINKTYPE_IPV6` 229.
    Ip,
    /// `LINKTYPE_LINUX_SLL`, 113, which `tcpdump -i any` writes.
    LinuxCooked,
    /// `LINKTYPE_LINUX_SLL2`, 276.
    LinuxCooked2,
}

impl LinkType {
    /// Names and numbers of the supported link types.
    pub const SUPPORTED: &str =
        "Ethernet (1), loopback (0, 108), raw IP (12, 14, 101, 228, 229), Linux cooked (113, 276)";

    /// The link type with this number of the pcap registry, if it is supported.
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

/// One packet, borrowed until the next one is read.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Counted from 1, as Wireshark numbers frames.
    pub number: u64,
    /// When it was captured, in nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// Its link type.
    pub link: LinkType,
    /// The number of the link type as the file gives it.
    pub link_number: u16,
    /// Its length on the wire.
    pub wire_bytes: u32,
    /// Its captured bytes.
    pub bytes: &'a [u8],
}

/// Counts of a file beside its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Packets that the capturing program reports as dropped (pcapng interface statistics).
    pub dropped: u64,
    /// Blocks without packets, or of an unknown kind.
    pub other_blocks: u64,
    /// Packets without a time (pcapng simple packet blocks), which are skipped.
    pub untimed: u64,
    /// Whether the last packet or block was cut off and skipped.
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
    /// Opens `path`, or standard input for `-`. With `lenient`, a last packet that is cut off counts as the end of the
    /// file.
    ///
    /// # Errors
    /// The file cannot be opened, is no file of packets, or has an unsupported link type.
    pub fn open(path: &Path, lenient: bool) -> Result<PacketReader, ReadError> {
        PacketReader::from_reader(path, Box::new(Input::open(path)?), lenient)
    }

    /// Reads from any reader; `path` is the name in messages.
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

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The first violation of the format, or a last packet that is cut off unless `lenient`.
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

    /// The counts so far.
    pub fn counts(&self) -> &FileCounts {
        &self.counts
    }

    /// Decompressed bytes consumed so far.
    pub fn position_bytes(&self) -> u64 {
        self.window.offset()
    }

    /// The name of the file.
    pub fn path(&self) -> &PathBuf {
        self.window.path()
    }
}

/// The header of a packet whose bytes come next in the window.
struct PacketHeader {
    time_ns: u64,
    link: LinkType,
    link_number: u16,
    wire_bytes: u32,
    captured: usize,
}

/// The byte order of a file.
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
            .malformed(format!("packets have link type {number}, which is not supported"))
            .remedy(format!("capture on an IP interface; supported are {}", LinkType::SUPPORTED))
    })
}
