//! Puts one direction of a TCP connection in order by sequence numbers modulo 2³² (RFC 9293, section 3.4). Early
//! segments are held, repeated bytes are dropped, and bytes that do not arrive within bounds become a gap.

/// The most segments that one direction holds before it gives up a gap.
const HELD_SEGMENTS_MAX: usize = 256;
/// The most captured bytes that one direction holds.
const HELD_SEGMENT_BYTES_MAX: usize = 1 << 20;
/// A sequence step above any window, in bytes: another connection on the same ports, whose opening was not captured.
const SEQUENCE_STEP_MAX: i32 = 1 << 26;

/// A reference to a captured packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRef {
    /// Number of the packet in its file, from 1.
    pub frame: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: u64,
}

/// Consecutive bytes of the stream, in order.
#[derive(Clone, Copy, Debug)]
pub struct StreamChunk<'a> {
    /// The packet that carried them.
    pub at: PacketRef,
    /// Their number on the wire.
    pub length: u32,
    /// The captured bytes, from the first on.
    pub payload: &'a [u8],
    /// Offset of the first in the packet.
    pub offset: usize,
}

impl<'a> StreamChunk<'a> {
    /// The chunk without its first bytes.
    fn without_first(self, bytes: u32) -> StreamChunk<'a> {
        StreamChunk {
            length: self.length - bytes,
            payload: self.payload.get(bytes as usize..).unwrap_or_default(),
            offset: self.offset + bytes as usize,
            ..self
        }
    }
}

/// Receives a stream in order.
pub trait StreamSink {
    /// The stream begins: at its very beginning if `opened`, else in the middle.
    fn begins(&mut self, opened: bool);
    /// `bytes` bytes were not captured.
    fn gap(&mut self, bytes: u32);
    /// The next bytes.
    fn chunk(&mut self, chunk: StreamChunk<'_>);
    /// A packet is held until the bytes before it arrive.
    fn held(&mut self, _frame: u64) {}
    /// A held packet is processed.
    fn released(&mut self, _frame: u64) {}
}

/// Counts of TCP segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounts {
    /// Segments with payload.
    pub segments: u64,
    /// Of these, segments without new bytes.
    pub repeated: u64,
    /// Of these, segments that came early.
    pub early: u64,
    /// Of these, segments captured in part.
    pub cut: u64,
    /// Bytes that were never captured.
    pub missing_bytes: u64,
    /// Gaps that the missing bytes form.
    pub gaps: u64,
}

impl ReassemblyCounts {
    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &ReassemblyCounts) {
        self.segments += other.segments;
        self.repeated += other.repeated;
        self.early += other.early;
        self.cut += other.cut;
        self.missing_bytes += other.missing_bytes;
        self.gaps += other.gaps;
    }
}

#[derive(Debug)]
struct HeldSegment {
    sequence: u32,
    at: PacketRef,
    length: u32,
    payload: Vec<u8>,
    offset: usize,
}

/// The reassembly of one direction.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// The next sequence number; `None` before the first segment.
    next: Option<u32>,
    /// Held segments, sorted by sequence number.
    held: Vec<HeldSegment>,
    held_bytes: usize,
    /// The counts of this stream.
    pub counts: ReassemblyCounts,
}

impl Reassembler {
    /// Whether segments are held.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The packet of the first held segment.
    pub fn first_held(&self) -> Option<u64> {
        self.held.first().map(|held| held.at.frame)
    }

    /// Whether the stream began with the SYN of this number, and nothing has followed.
    pub fn is_opened_at(&self, sequence: u32) -> bool {
        self.next == Some(sequence.wrapping_add(1))
    }

    /// Forgets the stream but keeps its counts.
    pub fn restart(&mut self) {
        *self = Reassembler { counts: self.counts, ..Reassembler::default() };
    }

    /// Opens the connection; `sequence` is the SYN's number.
    pub fn open(&mut self, sequence: u32, sink: &mut impl StreamSink) {
        let next = sequence.wrapping_add(1);
        if self.next == Some(next) {
            return;
        }
        self.flush(sink);
        self.next = Some(next);
        sink.begins(true);
    }

    /// Adds a segment with payload.
    pub fn segment(&mut self, sequence: u32, chunk: StreamChunk<'_>, sink: &mut impl StreamSink) {
        self.counts.segments += 1;
        if chunk.payload.len() < chunk.length as usize {
            self.counts.cut += 1;
        }
        let next = match self.next {
            Some(next) if (sequence.wrapping_sub(next) as i32).unsigned_abs() < SEQUENCE_STEP_MAX.unsigned_abs() => {
                next
            }
            _ => {
                self.flush(sink);
                self.next = Some(sequence);
                sink.begins(false);
                sequence
            }
        };
        let ahead = sequence.wrapping_sub(next) as i32;
        if ahead > 0 {
            self.counts.early += 1;
            return self.hold(sequence, chunk, sink);
        }
        self.take(sequence, chunk, sink);
        if !self.held.is_empty() {
            self.drain(sink);
        }
    }

    /// Passes on the new bytes of a segment that begins at the next number or before.
    fn take(&mut self, sequence: u32, chunk: StreamChunk<'_>, sink: &mut impl StreamSink) {
        let old = self.next.unwrap_or(sequence).wrapping_sub(sequence);
        if old >= chunk.length {
            self.counts.repeated += 1;
            return;
        }
        self.next = Some(sequence.wrapping_add(chunk.length));
        sink.chunk(if old == 0 { chunk } else { chunk.without_first(old) });
    }

    fn hold(&mut self, sequence: u32, chunk: StreamChunk<'_>, sink: &mut impl StreamSink) {
        sink.held(chunk.at.frame);
        self.held_bytes += chunk.payload.len();
        let place = self.held.partition_point(|held| sequence.wrapping_sub(held.sequence) as i32 >= 0);
        let StreamChunk { at, length, payload, offset } = chunk;
        self.held.insert(place, HeldSegment { sequence, at, length, payload: payload.to_vec(), offset });
        while self.held.len() > HELD_SEGMENTS_MAX || self.held_bytes > HELD_SEGMENT_BYTES_MAX {
            self.give_up(sink);
        }
    }

    /// Passes on the held segments that are next in order.
    fn drain(&mut self, sink: &mut impl StreamSink) {
        let mut done = 0;
        while let (Some(next), Some(held)) = (self.next, self.held.get(done)) {
            if (held.sequence.wrapping_sub(next) as i32) > 0 {
                break;
            }
            let HeldSegment { sequence, at, length, offset, .. } = *held;
            let payload = std::mem::take(&mut self.held[done].payload);
            self.held_bytes -= payload.len();
            self.take(sequence, StreamChunk { at, length, payload: &payload, offset }, sink);
            sink.released(at.frame);
            done += 1;
        }
        self.held.drain(..done);
    }

    /// Gives up the bytes before the first held segment: they become a gap.
    pub fn give_up(&mut self, sink: &mut impl StreamSink) {
        let (Some(next), Some(first)) = (self.next, self.held.first()) else { return };
        let missing = first.sequence.wrapping_sub(next);
        self.counts.gaps += 1;
        self.counts.missing_bytes += u64::from(missing);
        self.next = Some(first.sequence);
        sink.gap(missing);
        self.drain(sink);
    }

    /// Ends the stream: held segments are passed on, with gaps.
    pub fn flush(&mut self, sink: &mut impl StreamSink) {
        while !self.held.is_empty() {
            self.give_up(sink);
        }
    }
}
