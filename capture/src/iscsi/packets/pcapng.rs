//! pcapng: sections of blocks. Each interface has its own link type and clock.

use traces::ReadError;

use super::{ByteOrder, FileCounts, LinkType, PACKET_BYTES_MAX, PacketHeader, ReadWindow, link};

const SECTION_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_BLOCK: u32 = 1;
const OBSOLETE_PACKET_BLOCK: u32 = 2;
const SIMPLE_PACKET_BLOCK: u32 = 3;
const STATISTICS_BLOCK: u32 = 5;
const PACKET_BLOCK: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The most interfaces of one section.
const INTERFACES_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Result<LinkType, u16>,
    link_number: u16,
    resolution: Resolution,
    offset_s: i64,
}

/// The unit of an interface's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// 10 to the power of minus this many seconds.
    Decimal(u8),
    /// 2 to the power of minus this many seconds.
    Binary(u8),
}

impl Resolution {
    fn ns(self, time: u64) -> Option<u64> {
        let time = u128::from(time);
        let ns = match self {
            Resolution::Decimal(9) => return Some(time as u64),
            Resolution::Decimal(digits @ 0..9) => time * 10u128.pow(9 - u32::from(digits)),
            Resolution::Decimal(digits) => time / 10u128.checked_pow(u32::from(digits) - 9)?,
            Resolution::Binary(bits) => (time * 1_000_000_000) >> bits.min(127),
        };
        u64::try_from(ns).ok()
    }
}

#[derive(Default)]
pub(super) struct Pcapng {
    order: ByteOrder,
    interfaces: Vec<Interface>,
    /// Bytes after the last packet: padding, options and the closing length.
    trailing_bytes: u64,
}

impl Pcapng {
    pub(super) fn next(
        &mut self,
        window: &mut ReadWindow,
        number: u64,
        counts: &mut FileCounts,
    ) -> Result<Option<PacketHeader>, ReadError> {
        loop {
            let trailing_bytes = std::mem::take(&mut self.trailing_bytes);
            if !window.pass_over(trailing_bytes)? {
                return Err(window.truncated(format!("the block of packet {}", number - 1)));
            }
            if !window.has(12)? {
                if window.is_empty() {
                    return Ok(None);
                }
                return Err(window.truncated("the header of a block"));
            }
            let head = window.bytes(12);
            if self.order.u32(head) == SECTION_BLOCK {
                self.order = match &head[8..12] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => ByteOrder::Big,
                    bytes if ByteOrder::Little.u32(bytes) == BYTE_ORDER_MAGIC => ByteOrder::Little,
                    _ => return Err(window.malformed("a section begins without the byte-order magic 1a2b3c4d")),
                };
                self.interfaces.clear();
            }
            let (kind, length) = (self.order.u32(&head[0..]), self.order.u32(&head[4..]));
            if length < 12 || length % 4 != 0 {
                let what =
                    format!("a block of kind {kind:#x} has the length {length}, expected a multiple of 4 from 12");
                return Err(window.malformed(what).remedy("the file is damaged from there on"));
            }
            let found = match kind {
                PACKET_BLOCK => self.packet(window, number, length, false)?,
                OBSOLETE_PACKET_BLOCK => self.packet(window, number, length, true)?,
                _ => {
                    self.other(window, kind, length, counts)?;
                    None
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn packet(
        &mut self,
        window: &mut ReadWindow,
        number: u64,
        length: u32,
        obsolete: bool,
    ) -> Result<Option<PacketHeader>, ReadError> {
        const HEADER: u32 = 28;
        if length < HEADER + 4 {
            return Err(window.malformed(format!("the block of packet {number} is only {length} bytes long")));
        }
        if !window.has(HEADER as usize)? {
            return Err(window.truncated(format!("the block of packet {number}")));
        }
        let head = window.bytes(HEADER as usize);
        let field = |at: usize| self.order.u32(&head[at..at + 4]);
        let interface = if obsolete { u32::from(self.order.u16(&head[8..])) } else { field(8) };
        let time = u64::from(field(12)) << 32 | u64::from(field(16));
        let (captured, wire_bytes) = (field(20), field(24));
        if captured > length - HEADER - 4 || captured > PACKET_BYTES_MAX {
            let what = format!("packet {number} of {captured} bytes does not fit its block of {length}");
            return Err(window.malformed(what).remedy("the file is damaged from there on"));
        }
        let Some(&Interface { link: kind, link_number, resolution, offset_s }) =
            self.interfaces.get(interface as usize)
        else {
            let there_are = self.interfaces.len();
            let what = format!("packet {number} is of interface {interface}, the section describes {there_are}");
            return Err(window.malformed(what));
        };
        let kind = kind.or_else(|number| link(window, number))?;
        let time_ns = resolution.ns(time).and_then(|ns| {
            let ns = i128::from(ns) + i128::from(offset_s) * 1_000_000_000;
            u64::try_from(ns).ok()
        });
        let Some(time_ns) = time_ns else {
            return Err(window.malformed(format!("the time of packet {number} is beyond the year 2554 or before 1970")));
        };
        if !window.has((HEADER + captured) as usize)? {
            return Err(window.truncated(format!("packet {number}")));
        }
        window.pass(HEADER as usize);
        self.trailing_bytes = u64::from(length - HEADER - captured);
        let wire_bytes = wire_bytes.max(captured);
        Ok(Some(PacketHeader { time_ns, link: kind, link_number, wire_bytes, captured: captured as usize }))
    }

    fn other(
        &mut self,
        window: &mut ReadWindow,
        kind: u32,
        length: u32,
        counts: &mut FileCounts,
    ) -> Result<(), ReadError> {
        if !matches!(kind, INTERFACE_BLOCK | STATISTICS_BLOCK) || length > PACKET_BYTES_MAX {
            match kind {
                SECTION_BLOCK => {}
                SIMPLE_PACKET_BLOCK => counts.untimed += 1,
                _ => counts.other_blocks += 1,
            }
            if !window.pass_over(u64::from(length))? {
                return Err(window.truncated(format!("a block of kind {kind:#x}")));
            }
            return Ok(());
        }
        if !window.has(length as usize)? {
            return Err(window.truncated(format!("a block of kind {kind:#x}")));
        }
        let block = window.bytes(length as usize);
        let body = &block[8..block.len() - 4];
        match kind {
            INTERFACE_BLOCK => {
                let interface = self.interface(body).map_err(|what| window.malformed(what))?;
                self.interfaces.push(interface);
            }
            _ => {
                // Statistics of an interface: option 5 counts the packets that it dropped.
                let options = body.get(12..).unwrap_or_default();
                if let Some(value) = self.option(options, 5).filter(|value| value.len() == 8) {
                    let (first, second) = (self.order.u32(value), self.order.u32(&value[4..]));
                    counts.dropped += match self.order {
                        ByteOrder::Little => u64::from(second) << 32 | u64::from(first),
                        ByteOrder::Big => u64::from(first) << 32 | u64::from(second),
                    };
                }
            }
        }
        window.pass(length as usize);
        Ok(())
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, String> {
        if body.len() < 8 {
            return Err("the description of an interface is cut short".to_owned());
        }
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(format!("a section describes more than {INTERFACES_MAX} interfaces"));
        }
        let number = self.order.u16(body);
        let options = &body[8..];
        let resolution = match self.option(options, 9).and_then(|value| value.first().copied()) {
            None => Resolution::Decimal(6),
            Some(value) if value & 0x80 != 0 => Resolution::Binary(value & 0x7f),
            Some(value) => Resolution::Decimal(value),
        };
        let offset_s = self.option(options, 14).filter(|value| value.len() == 8).map_or(0, |value| {
            let (first, second) = (self.order.u32(value), self.order.u32(&value[4..]));
            let (low, high) = if self.order == ByteOrder::Little { (first, second) } else { (second, first) };
            (u64::from(high) << 32 | u64::from(low)) as i64
        });
        // An unsupported link type is an error only if a packet has it.
        let link = LinkType::from_number(number).ok_or(number);
        Ok(Interface { link, link_number: number, resolution, offset_s })
    }

    /// The value of the first option with this code.
    fn option<'a>(&self, mut options: &'a [u8], code: u16) -> Option<&'a [u8]> {
        while options.len() >= 4 {
            let (found, length) = (self.order.u16(options), usize::from(self.order.u16(&options[2..])));
            if found == 0 {
                return None;
            }
            let value = options.get(4..4 + length)?;
            if found == code {
                return Some(value);
            }
            options = options.get(4 + length.next_multiple_of(4)..)?;
        }
        None
    }
}
