//! Captures without what users store: headers stay, data becomes zero.

use std::collections::VecDeque;
use std::io;

use super::analysis::{Analysis, Keep};
use super::frames::{Frame, Segment, dissect};
use super::packets::{Link, Packet, PacketWriter};
use super::rename::Renamer;

/// Packets and bytes that wait at most until it is known what they hold.
const WAITING_MAX: usize = 1 << 14;
const WAITING_BYTES_MAX: usize = 1 << 25;

/// What becomes of names.
#[derive(Default)]
pub struct ScrubOptions {
    /// Keep the text of logins, without what authenticates.
    pub keep_login: bool,
    /// Rename what is kept.
    pub rename: Option<Renamer>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Packets written.
    pub packets: u64,
    /// Packets that are not iSCSI, left out.
    pub left_out: u64,
    /// Bytes of payload that were captured.
    pub payload_bytes: u64,
    /// Bytes of it that stay: headers.
    pub kept_bytes: u64,
    /// Checksums of TCP that could not be made anew because the packet was cut, and are zero.
    pub void_checksums: u64,
    /// Packets written before it was known what they hold, so without headers that they may have had.
    pub hurried: u64,
}

struct Waiting {
    number: u64,
    time_ns: u64,
    link: Link,
    link_number: u16,
    wire_bytes: u32,
    bytes: Vec<u8>,
    kept: Vec<(usize, usize)>,
    texts: Vec<(usize, usize)>,
    held: u32,
}

/// Zeroes data, packet by packet.
pub struct Scrubber {
    options: ScrubOptions,
    writer: PacketWriter,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    spare: Vec<Waiting>,
    /// What was done so far.
    pub counts: ScrubCounts,
}

impl Keep for Scrubber {
    fn keep(&mut self, frame: u64, offset: usize, bytes: usize) {
        if let Some(waiting) = self.find(frame).filter(|_| bytes > 0) {
            waiting.kept.push((offset, bytes));
        }
    }

    fn text(&mut self, frame: u64, offset: usize, bytes: usize) {
        if let Some(waiting) = self.find(frame) {
            waiting.texts.push((offset, bytes));
        }
    }

    fn held(&mut self, frame: u64) {
        if let Some(waiting) = self.find(frame) {
            waiting.held += 1;
        }
    }

    fn released(&mut self, frame: u64) {
        if let Some(waiting) = self.find(frame) {
            waiting.held = waiting.held.saturating_sub(1);
        }
    }
}

impl Scrubber {
    /// Writes to `writer`.
    pub fn new(writer: PacketWriter, options: ScrubOptions) -> Scrubber {
        Scrubber {
            options,
            writer,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            spare: Vec::new(),
            counts: ScrubCounts::default(),
        }
    }

    fn find(&mut self, frame: u64) -> Option<&mut Waiting> {
        let place = self.waiting.binary_search_by_key(&frame, |waiting| waiting.number).ok()?;
        self.waiting.get_mut(place)
    }

    /// Takes in a packet and gives it to the analysis, which says what of it is a header.
    ///
    /// # Errors
    /// Those of the output.
    pub fn packet(&mut self, packet: &Packet<'_>, analysis: &mut Analysis) -> io::Result<()> {
        let mut waiting = self.spare.pop().unwrap_or_else(|| Waiting {
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
        waiting.bytes.extend_from_slice(packet.bytes);
        (waiting.number, waiting.time_ns) = (packet.number, packet.time_ns);
        (waiting.link, waiting.link_number, waiting.wire_bytes) = (packet.link, packet.link_number, packet.wire_bytes);
        self.waiting_bytes += packet.bytes.len();
        self.waiting.push_back(waiting);
        if !analysis.packet(packet, self) {
            self.counts.left_out += 1;
            if let Some(waiting) = self.waiting.pop_back() {
                self.recycle(waiting);
            }
        }
        self.pass_on(false)
    }

    /// Flushes what is written, so that it can be read.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Completes the file, after [`Analysis::finish`].
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<ScrubCounts> {
        self.pass_on(true)?;
        self.writer.finish()?;
        Ok(self.counts)
    }

    fn recycle(&mut self, mut waiting: Waiting) {
        self.waiting_bytes -= waiting.bytes.len();
        waiting.bytes.clear();
        waiting.kept.clear();
        waiting.texts.clear();
        waiting.held = 0;
        self.spare.push(waiting);
    }

    /// Writes the packets at the front of which everything is known.
    fn pass_on(&mut self, all: bool) -> io::Result<()> {
        loop {
            let full = self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX;
            match self.waiting.front() {
                Some(waiting) if waiting.held == 0 || full || all => {}
                _ => return Ok(()),
            }
            let Some(mut waiting) = self.waiting.pop_front() else { return Ok(()) };
            self.counts.hurried += u64::from(waiting.held > 0 && !all);
            self.scrub(&mut waiting);
            let Waiting { number, time_ns, link, link_number, wire_bytes, ref bytes, .. } = waiting;
            self.writer.write(&Packet { number, time_ns, link, link_number, wire_bytes, bytes })?;
            self.counts.packets += 1;
            self.recycle(waiting);
        }
    }

    fn scrub(&mut self, waiting: &mut Waiting) {
        let Frame::Segment(Segment { payload_at, network_at, transport_at, length, payload, .. }) =
            dissect(waiting.link, &waiting.bytes, waiting.wire_bytes)
        else {
            return;
        };
        let (captured, whole) = (payload.len(), payload.len() == length as usize);
        self.counts.payload_bytes += captured as u64;
        for &(at, bytes) in &waiting.texts {
            let text = &mut waiting.bytes[at..at + bytes];
            if self.options.keep_login {
                clean(text, self.options.rename.as_ref());
            } else {
                keep_digests(text);
            }
        }
        waiting.kept.append(&mut waiting.texts);
        waiting.kept.sort_unstable();
        let mut from = payload_at;
        for &(at, bytes) in &waiting.kept {
            let at = at.max(from);
            waiting.bytes[from..at].fill(0);
            from = from.max(at + bytes);
            self.counts.kept_bytes += bytes as u64;
        }
        // Behind the segment there may be padding.
        let end = waiting.bytes.len();
        waiting.bytes[from.min(end)..].fill(0);
        if let Some(renamer) = &mut self.options.rename {
            rename_addresses(renamer, waiting.link, network_at, &mut waiting.bytes);
        }
        let transport_end = payload_at + captured;
        let valid = checksums(&mut waiting.bytes, network_at, transport_at, transport_end, whole);
        self.counts.void_checksums += u64::from(!valid);
    }
}

/// Leaves of a login's text only which digests there are, which whoever reads the capture needs to know.
fn keep_digests(text: &mut [u8]) {
    for pair in text.split_mut(|&byte| byte == 0) {
        if !pair.starts_with(b"HeaderDigest=") && !pair.starts_with(b"DataDigest=") {
            pair.fill(0);
        }
    }
}

/// Takes out of a login's text what authenticates, and renames who they are.
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
            // CHAP_N, CHAP_R and whatever else is not known to be harmless.
            value.fill(b'x');
        }
    }
}

fn rename_addresses(renamer: &mut Renamer, link: Link, network_at: usize, bytes: &mut [u8]) {
    let (hardware, network) = bytes.split_at_mut(network_at);
    let macs: &[usize] = match link {
        Link::Ethernet => &[0, 6],
        Link::LinuxCooked => &[6],
        Link::LinuxCooked2 => &[12],
        Link::Loopback | Link::Ip => &[],
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

/// Makes the checksums anew (RFC 1071); false if that of TCP cannot be, and is zero.
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
