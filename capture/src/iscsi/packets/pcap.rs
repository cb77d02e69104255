//! The older format, pcap: a file header, then packets of one link type.

use traces::ReadError;

use super::{ByteOrder, LinkType, PACKET_BYTES_MAX, PacketHeader, ReadWindow, link};

const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

pub(super) struct Pcap {
    order: ByteOrder,
    /// Nanoseconds per unit of the fraction of a time.
    unit_ns: u64,
    link: LinkType,
    link_number: u16,
}

impl Pcap {
    pub(super) fn begin(window: &mut ReadWindow) -> Result<Pcap, ReadError> {
        let magic = window.bytes(4);
        let found = [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32(magic) {
            MAGIC_MICROSECONDS => Some((order, 1000)),
            MAGIC_NANOSECONDS => Some((order, 1)),
            _ => None,
        });
        let Some((order, unit_ns)) = found else {
            let shown: Vec<String> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(window
                .malformed(format!("this is no file of packets: it begins with {}", shown.join(" ")))
                .remedy(
                    "give a pcap or pcapng file (plain, gzip or zstd), as tcpdump, dumpcap and Wireshark write it",
                ));
        };
        if !window.has(FILE_HEADER_BYTES)? {
            return Err(window.truncated("the file's header"));
        }
        // The upper half of the field may hold the length of a frame check sequence.
        let link_number = order.u32(&window.bytes(FILE_HEADER_BYTES)[20..]) as u16;
        let link = link(window, link_number)?;
        window.pass(FILE_HEADER_BYTES);
        Ok(Pcap { order, unit_ns, link, link_number })
    }

    pub(super) fn next(&mut self, window: &mut ReadWindow, number: u64) -> Result<Option<PacketHeader>, ReadError> {
        if !window.has(PACKET_HEADER_BYTES)? {
            if window.is_empty() {
                return Ok(None);
            }
            return Err(window.truncated(format!("the header of packet {number}")));
        }
        let header = window.bytes(PACKET_HEADER_BYTES);
        let field = |at: usize| self.order.u32(&header[at..at + 4]);
        let (seconds, fraction, captured, wire_bytes) = (field(0), field(4), field(8), field(12));
        if captured > PACKET_BYTES_MAX {
            let what = format!("packet {number} would be {captured} bytes long");
            return Err(window
                .malformed(what)
                .remedy("the file is damaged from there on; `editcap` may recover later packets"));
        }
        let captured = captured as usize;
        if !window.has(PACKET_HEADER_BYTES + captured)? {
            return Err(window.truncated(format!("packet {number}")));
        }
        window.pass(PACKET_HEADER_BYTES);
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns;
        let (link, link_number) = (self.link, self.link_number);
        Ok(Some(PacketHeader { time_ns, link, link_number, wire_bytes: wire_bytes.max(captured as u32), captured }))
    }
}
