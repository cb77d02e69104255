//! Finds the TCP segment in a captured frame. The snap length may cut a frame short, so lengths are taken from the
//! headers: Ethernet (with VLAN tags), Linux cooked, loopback, raw IP; IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293).
//! IP fragments are not reassembled.

use std::fmt;
use std::net::Ipv6Addr;

use super::packets::LinkType;

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// IPv6 address; an IPv4 address as ::ffff:a.b.c.d.
    pub address: u128,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.address);
        match address.to_ipv4_mapped() {
            Some(v4) => write!(f, "{v4}:{}", self.port),
            None => write!(f, "[{address}]:{}", self.port),
        }
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// Sequence number of its first byte, or of its SYN.
    pub sequence: u32,
    /// Whether it opens the connection (SYN).
    pub syn: bool,
    /// Whether it ends the connection (FIN or RST).
    pub ends: bool,
    /// Bytes of payload on the wire.
    pub length: u32,
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// Offset of the payload in the frame.
    pub payload_at: usize,
    /// Offset of the network layer's header in the frame.
    pub network_at: usize,
    /// Offset of TCP's header in the frame.
    pub transport_at: usize,
}

/// The content of a frame.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// A TCP segment.
    Segment(Segment<'a>),
    /// An IP fragment.
    Fragment,
    /// A frame that is cut before the end of TCP's header.
    Cut,
    /// Something else.
    Other,
}

const TCP: u8 = 6;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The most consecutive VLAN tags that are read.
const VLAN_TAGS_MAX: usize = 4;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Dissects a frame of `wire_bytes` bytes on the wire, of which `bytes` were captured.
pub fn dissect(link: LinkType, bytes: &[u8], wire_bytes: u32) -> Frame<'_> {
    let network_at = match link {
        LinkType::Ethernet => {
            let mut at = 12;
            let mut kind = u16_at(bytes, at);
            for _ in 0..VLAN_TAGS_MAX {
                if !matches!(kind, Some(0x8100 | 0x88a8 | 0x9100)) {
                    break;
                }
                at += 4;
                kind = u16_at(bytes, at);
            }
            if !matches!(kind, Some(IPV4 | IPV6)) {
                return Frame::Other;
            }
            at + 2
        }
        LinkType::LinuxCooked => {
            if !matches!(u16_at(bytes, 14), Some(IPV4 | IPV6)) {
                return Frame::Other;
            }
            16
        }
        LinkType::LinuxCooked2 => {
            if !matches!(u16_at(bytes, 0), Some(IPV4 | IPV6)) {
                return Frame::Other;
            }
            20
        }
        LinkType::Loopback => 4,
        LinkType::Ip => 0,
    };
    match bytes.get(network_at).map(|byte| byte >> 4) {
        Some(4) => ipv4(bytes, network_at, wire_bytes),
        Some(6) => ipv6(bytes, network_at, wire_bytes),
        _ => Frame::Other,
    }
}

fn ipv4(bytes: &[u8], at: usize, wire_bytes: u32) -> Frame<'_> {
    let Some(header) = bytes.get(at..at + 20) else { return Frame::Cut };
    if header[9] != TCP {
        return Frame::Other;
    }
    // More fragments follow, or this is not the first one.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Frame::Fragment;
    }
    let header_bytes = usize::from(header[0] & 15) * 4;
    // Zero if the network card segments the packet later.
    let total = match u16::from_be_bytes([header[2], header[3]]) {
        0 => (wire_bytes as usize).saturating_sub(at),
        total => usize::from(total),
    };
    let address = |at: usize| 0xffff_0000_0000 | u128::from(u32_at(header, at).unwrap_or_default());
    tcp(bytes, at, at + header_bytes, at + total, address(12), address(16))
}

fn ipv6(bytes: &[u8], at: usize, wire_bytes: u32) -> Frame<'_> {
    let Some(header) = bytes.get(at..at + 40) else { return Frame::Cut };
    let end = match u16::from_be_bytes([header[4], header[5]]) {
        0 => wire_bytes as usize,
        payload => at + 40 + usize::from(payload),
    };
    let (mut next, mut transport_at) = (header[6], at + 40);
    while next != TCP {
        let Some(extension) = bytes.get(transport_at..transport_at + 8) else {
            return if matches!(next, 0 | 43 | 44 | 51 | 60) { Frame::Cut } else { Frame::Other };
        };
        transport_at += match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => (usize::from(extension[1]) + 1) * 8,
            // Authentication.
            51 => (usize::from(extension[1]) + 2) * 4,
            // Fragment header; a fragment that is the whole packet counts as unfragmented.
            44 if extension[0] == TCP && u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 != 0 => {
                return Frame::Fragment;
            }
            44 => 8,
            _ => return Frame::Other,
        };
        next = extension[0];
    }
    let address = |at: usize| {
        let bytes: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
        u128::from_be_bytes(bytes)
    };
    tcp(bytes, at, transport_at, end, address(8), address(24))
}

fn tcp(bytes: &[u8], network_at: usize, at: usize, end: usize, from: u128, to: u128) -> Frame<'_> {
    let Some(header) = bytes.get(at..at + 20) else { return Frame::Cut };
    let payload_at = at + usize::from(header[12] >> 4) * 4;
    if payload_at < at + 20 || payload_at > end {
        return Frame::Other;
    }
    let flags = header[13];
    let length = (end - payload_at) as u32;
    let payload = bytes.get(payload_at..end.min(bytes.len())).unwrap_or_default();
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Frame::Segment(Segment {
        from: Endpoint { address: from, port: port(0) },
        to: Endpoint { address: to, port: port(2) },
        sequence: u32_at(header, 4).unwrap_or_default(),
        syn: flags & 2 != 0,
        ends: flags & 5 != 0,
        length,
        payload,
        payload_at,
        network_at,
        transport_at: at,
    })
}
