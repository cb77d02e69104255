//! Removes user data from captures: headers stay, data become zero.

use std::collections::VecDeque;
use std::io;

use super::analysis::{Analysis, PacketObserver};
use super::frames::{Frame, Segment, dissect};
use super::packets::{LinkType, Packet, PacketWriter};
use super::rename::Renamer;

/// The most packets, and the most bytes, that wait until their headers are known.
const QUEUED_PACKETS_MAX: usize = 1 << 14;
const QUEUED_BYTES_MAX: usize = 1 << 25;

/// How names are treated.
#[derive(Default)]
pub struct ScrubOptions {
    /// Keep the text of logins, without authentication.
    pub keep_login: bool,
    /// Rename initiators, targets and addresses.
    pub rename: Option<Renamer>,
}

/// Counts of scrubbed packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Packets written.
    pub packets: u64,
    /// Packets left out because they are not iSCSI.
    pub left_out: u64,
    /// Bytes of payload that were captured.
    pub payload_bytes: u64,
    /// Captured payload bytes that were kept: headers. All others are zero.
    pub kept_bytes: u64,
    /// TCP checksums that could not be recomputed because the packet was cut; they are zero.
    pub void_checksums: u64,
    /// Packets written before their headers were known; headers in them may be missing.
    pub written_undecided: u64,
}

struct QueuedPacket {
    number: u64,
    time_ns: u64,
    link: LinkType,
    link_number: u16,
    wire_bytes: u32,
    bytes: Vec<u8>,
    kept: Vec<(usize, usize)>,
    texts: Vec<(usize, usize)>,
    held: u32,
}

/// Zeroes user data, packet by packet.
pub struct Scrubber {
    options: ScrubOptions,
    writer: PacketWriter,
    queued: VecDeque<QueuedPacket>,
    queued_bytes: usize,
    spare: Vec<QueuedPacket>,
    /// The counts so far.
    pub counts: ScrubCounts,
}

impl PacketObserver for Scrubber {
    fn header_bytes(&mut self, frame: u64, offset: usize, bytes: usize) {
        if let Some(queued_packet) = self.find(frame).filter(|_| bytes > 0) {
            queued_packet.kept.push((offset, bytes));
        }
    }

    fn login_bytes(&mut self, frame: u64, offset: usize, bytes: usize) {
        if let Some(queued_packet) = self.find(frame) {
            queued_packet.texts.push((offset, bytes));
        }
    }

    fn held(&mut self, frame: u64) {
        if let Some(queued_packet) = self.find(frame) {
            queued_packet.held += 1;
        }
    }

    fn released(&mut self, frame: u64) {
        if let Some(queued_packet) = self.find(frame) {
            queued_packet.held = queued_packet.held.saturating_sub(1);
        }
    }
}

impl Scrubber {
    /// A scrubber that writes to `writer`.
    pub fn new(writer: PacketWriter, options: ScrubOptions) -> Scrubber {
        Scrubber {
            options,
            writer,
            queued: VecDeque::new(),
            queued_bytes: 0,
            spare: Vec::new(),
            counts: ScrubCounts::default(),
        }
    }

    fn find(&mut self, frame: u64) -> Option<&mut QueuedPacket> {
        let place = self.queued.binary_search_by_key(&frame, |queued_packet| queued_packet.number).ok()?;
        self.queued.get_mut(place)
    }

    /// Queues a packet and passes it to the analysis, which reports its headers.
    ///
    /// # Errors
    /// The output fails.
    pub fn packet(&mut self, packet: &Packet<'_>, analysis: &mut Analysis) -> io::Result<()> {
        let mut queued_packet = self.spare.pop().unwrap_or_else(|| QueuedPacket {
            number: 0,
            time_ns: 0,
            link: packet.link,
            link_number: 0,
            wire_bytes: 0,
            bytes: Vec::new(),
            kept: Vec::new(),
            texts: Vec::new(),
            held: 0,
        });
        queued_packet.bytes.extend_from_slice(packet.bytes);
        (queued_packet.number, queued_packet.time_ns) = (packet.number, packet.time_ns);
        (queued_packet.link, queued_packet.link_number, queued_packet.wire_bytes) =
            (packet.link, packet.link_number, packet.wire_bytes);
        self.queued_bytes += packet.bytes.len();
        self.queued.push_back(queued_packet);
        if !analysis.packet(packet, self) {
            self.counts.left_out += 1;
            if let Some(queued_packet) = self.queued.pop_back() {
                self.recycle(queued_packet);
            }
        }
        self.pass_on(false)
    }

    /// Flushes the written packets, so that they can be read.
    ///
    /// # Errors
    /// The output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Completes the file, after [`Analysis::finish`].
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> io::Result<ScrubCounts> {
        self.pass_on(true)?;
        self.writer.finish()?;
        Ok(self.counts)
    }

    fn recycle(&mut self, mut queued_packet: QueuedPacket) {
        self.queued_bytes -= queued_packet.bytes.len();
        queued_packet.bytes.clear();
        queued_packet.kept.clear();
        queued_packet.texts.clear();
        queued_packet.held = 0;
        self.spare.push(queued_packet);
    }

    /// Writes the packets at the front of the queue whose headers are known.
    fn pass_on(&mut self, all: bool) -> io::Result<()> {
        loop {
            let full = self.queued.len() > QUEUED_PACKETS_MAX || self.queued_bytes > QUEUED_BYTES_MAX;
            match self.queued.front() {
                Some(queued_packet) if queued_packet.held == 0 || full || all => {}
                _ => return Ok(()),
            }
            let Some(mut queued_packet) = self.queued.pop_front() else { return Ok(()) };
            self.counts.written_undecided += u64::from(queued_packet.held > 0 && !all);
            self.scrub(&mut queued_packet);
            let QueuedPacket { number, time_ns, link, link_number, wire_bytes, ref bytes, .. } = queued_packet;
            self.writer.write(&Packet { number, time_ns, link, link_number, wire_bytes, bytes })?;
            self.counts.packets += 1;
            self.recycle(queued_packet);
        }
    }

    fn scrub(&mut self, queued_packet: &mut QueuedPacket) {
        let Frame::Segment(Segment { payload_at, network_at, transport_at, length, payload, .. }) =
            dissect(queued_packet.link, &queued_packet.bytes, queued_packet.wire_bytes)
        else {
            return;
        };
        // TCP's options may be cut, too.
        let has_options = payload_at <= queued_packet.bytes.len();
        let (captured, whole) = (payload.len(), has_options && payload.len() == length as usize);
        self.counts.payload_bytes += captured as u64;
        for &(at, bytes) in &queued_packet.texts {
            let text = &mut queued_packet.bytes[at..at + bytes];
            if self.options.keep_login {
                clean(text, self.options.rename.as_ref());
            } else {
                keep_digests(text);
            }
        }
        queued_packet.kept.append(&mut queued_packet.texts);
        queued_packet.kept.sort_unstable();
        let mut from = payload_at;
        for &(at, bytes) in &queued_packet.kept {
            let range_end = at + bytes;
            let at = at.max(from);
            queued_packet.bytes[from..at].fill(0);
            let end = from.max(range_end);
            self.counts.kept_bytes += (end - at) as u64;
            from = end;
        }
        // Padding may follow the segment.
        let end = queued_packet.bytes.len();
        queued_packet.bytes[from.min(end)..].fill(0);
        if let Some(renamer) = &mut self.options.rename {
            rename_addresses(renamer, queued_packet.link, network_at, &mut queued_packet.bytes);
        }
        let transport_end = payload_at + captured;
        let valid = checksums(&mut queued_packet.bytes, network_at, transport_at, transport_end, whole);
        self.counts.void_checksums += u64::from(!valid);
    }
}

/// Keeps only the digest keys of a login's text, which readers of the capture need.
fn keep_digests(text: &mut [u8]) {
    for pair in text.split_mut(|&byte| byte == 0) {
        let offered = pair.strip_prefix(b"HeaderDigest=").or_else(|| pair.strip_prefix(b"DataDigest="));
        let is_digest = |offer: &[u8]| matches!(offer, b"None" | b"CRC32C");
        if !offered.is_some_and(|offered| offered.split(|&byte| byte == b',').all(is_digest)) {
            pair.fill(0);
        }
    }
}

/// The longest key of an authentication whose name stays: `SRP_GROUP`.
const AUTHENTICATION_KEY_BYTES_MAX: usize = 9;

/// Blanks the authentication in a login's text, and renames initiator and target.
fn clean(text: &mut [u8], renamer: Option<&Renamer>) {
    const NAMES: [&[u8]; 5] = [b"InitiatorName", b"TargetName", b"InitiatorAlias", b"TargetAlias", b"TargetAddress"];
    const PARAMETERS: [&[u8]; 22] = [
        b"SessionType",
        b"AuthMethod",
        b"HeaderDigest",
        b"DataDigest",
        b"InitialR2T",
        b"ImmediateData",
        b"MaxRecvDataSegmentLength",
        b"MaxBurstLength",
        b"FirstBurstLength",
        b"DefaultTime2Wait",
        b"DefaultTime2Retain",
        b"MaxOutstandingR2T",
        b"DataPDUInOrder",
        b"DataSequenceInOrder",
        b"ErrorRecoveryLevel",
        b"MaxConnections",
        b"TargetPortalGroupTag",
        b"OFMarker",
        b"IFMarker",
        b"TaskReporting",
        b"iSCSIProtocolLevel",
        b"SendTargets",
    ];
    for pair in text.split_mut(|&byte| byte == 0) {
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else {
            pair.fill(b'x');
            continue;
        };
        let (key, value) = pair.split_at_mut(equals);
        let value = &mut value[1..];
        if NAMES.contains(&&*key) {
            if let Some(renamer) = renamer {
                renamer.name(value);
            }
        } else if !PARAMETERS.contains(&&*key) {
            // CHAP_N, CHAP_R and every other key that is not known to be harmless. What is no key at all may be data.
            value.fill(b'x');
            if !key.starts_with(b"CHAP_") && !key.starts_with(b"SRP_") || key.len() > AUTHENTICATION_KEY_BYTES_MAX {
                key.fill(b'x');
            }
        }
    }
}

fn rename_addresses(renamer: &mut Renamer, link: LinkType, network_at: usize, bytes: &mut [u8]) {
    let (hardware, network) = bytes.split_at_mut(network_at);
    let macs: &[usize] = match link {
        LinkType::Ethernet => &[0, 6],
        LinkType::LinuxCooked => &[6],
        LinkType::LinuxCooked2 => &[12],
        LinkType::Loopback | LinkType::Ip => &[],
    };
    for &at in macs {
        if let Some(address) = hardware[at..].first_chunk_mut() {
            renamer.mac(address);
        }
    }
    if network[0] >> 4 == 4 {
        for at in [12, 16] {
            if let Some(address) = network[at..].first_chunk_mut() {
                renamer.ipv4(address);
            }
        }
    } else {
        for at in [8, 24] {
            if let Some(address) = network[at..].first_chunk_mut() {
                renamer.ipv6(address);
            }
        }
    }
}

/// Recomputes the checksums (RFC 1071). Returns false if TCP's cannot be recomputed; it is then zero.
fn checksums(bytes: &mut [u8], network_at: usize, transport_at: usize, end: usize, whole: bool) -> bool {
    let put = |bytes: &mut [u8], at: usize, sum: u16| bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let is_v4 = bytes[network_at] >> 4 == 4;
    if is_v4 {
        put(bytes, network_at + 10, 0);
        let header = network_at + usize::from(bytes[network_at] & 15) * 4;
        let sum = folded(sum(&bytes[network_at..header.min(bytes.len())]));
        put(bytes, network_at + 10, !sum);
    }
    put(bytes, transport_at + 16, 0);
    if !whole {
        return false;
    }
    let addresses = if is_v4 { network_at + 12..network_at + 20 } else { network_at + 8..network_at + 40 };
    let length = (end - transport_at) as u64;
    let total = sum(&bytes[addresses]) + 6 + (length >> 16) + (length & 0xffff) + sum(&bytes[transport_at..end]);
    put(bytes, transport_at + 16, !folded(total));
    true
}

fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    pairs.sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the 16-bit words of `parts` add up to all ones, in ones' complement arithmetic (RFC 1071, section 1).
    fn is_valid(parts: &[&[u8]]) -> bool {
        let mut sum = 0_u16;
        for word in parts.concat().chunks(2) {
            let (added, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
            sum = added + u16::from(carry);
        }
        sum == u16::MAX
    }

    #[test]
    fn checksums_are_valid_in_both_versions_of_ip() {
        // Odd lengths, and one beyond 16 bits.
        for data in [0, 1, 1447, 70_001] {
            for (network, addresses) in [(20, 12..20), (40, 8..40)] {
                let end = network + 20 + data;
                let mut bytes: Vec<u8> = (0..end).map(|at| (at * 37 % 251) as u8).collect();
                bytes[0] = if network == 20 { 0x45 } else { 0x60 };
                assert!(checksums(&mut bytes, 0, network, end, true));
                if network == 20 {
                    assert!(is_valid(&[&bytes[..20]]), "{data}");
                }
                // The pseudo-header: addresses, length, protocol 6.
                let length = ((end - network) as u32).to_be_bytes();
                assert!(is_valid(&[&bytes[addresses], &length, &[0, 6], &bytes[network..]]), "{network} {data}");
                assert!(!checksums(&mut bytes, 0, network, end, false));
                assert_eq!(bytes[network + 16..network + 18], [0, 0]);
            }
        }
    }
}
