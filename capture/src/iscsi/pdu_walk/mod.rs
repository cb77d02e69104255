//! Walks from PDU to PDU along one direction of a connection (RFC 7143), by the lengths in the headers. Data are
//! skipped and need not have been captured; a header may span packets. If a header lies beyond the snap length or in a
//! gap, the walk loses the PDU boundaries. It finds them again (`resync`) where a packet begins with a header whose
//! fields and sequence numbers all fit, and only a header follows its PDU. Which bytes are certainly no user data is a
//! stricter question (`proof`).

mod header;
mod payload;
mod proof;
mod resync;

use traces::results::wire::PduFigures;

use super::pdu::{Direction, HEADER_BYTES, Header};
use super::reassembly::{PacketRef, StreamChunk};
use super::sequence_numbers::SequenceNumbers;
use proof::Proof;
use resync::Candidate;

/// Bytes of a header with its digest.
const HEADER_AND_DIGEST_BYTES: usize = HEADER_BYTES + 4;
/// Packets without a PDU boundary after which the connection's sequence numbers are forgotten.
const LOST_PACKETS_MAX: u32 = 4096;

/// The digests of a connection; `None` while unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Whether a CRC32C follows each header.
    pub header: Option<bool>,
    /// Whether a CRC32C follows each data segment.
    pub data: Option<bool>,
}

/// State that both directions of a connection share.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionState {
    /// The connection's digests.
    pub digests: Digests,
    /// The connection's sequence numbers.
    pub numbers: SequenceNumbers,
    /// How often the place in either direction's stream was uncertain.
    pub breaks: u64,
}

/// The handler's interest in the rest of a PDU.
#[derive(Clone, Copy, Debug, Default)]
pub struct PayloadInterest {
    /// The number of data bytes to pass to the handler.
    pub data_bytes: u32,
    /// Whether these bytes should hold no user data. [`PduHandler::data`] judges them.
    pub no_user_data: bool,
    /// Whether to report the end of the PDU.
    pub notify_end: bool,
}

/// Receives the PDUs that the walk finds.
pub trait PduHandler {
    /// A PDU whose header begins in the packet `at`.
    fn header(&mut self, at: PacketRef, header: &Header, shared: &mut ConnectionState) -> PayloadInterest;
    /// The requested data, or its captured part. Returns whether they hold no user data.
    fn data(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState) -> bool;
    /// The last byte of the PDU lies in the packet `at`; `None` if it was not captured.
    fn end(&mut self, at: Option<PacketRef>);
    /// These bytes of a packet are a header, or data without user data.
    fn header_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// These bytes of a packet are text of a login.
    fn login_bytes(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// It is not yet decided whether this packet holds a header.
    fn held(&mut self, _frame: u64) {}
    /// It is decided whether this packet holds a header.
    fn released(&mut self, _frame: u64) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Inside a PDU, with this many bytes left to the next header.
    Within(u64),
    /// The position of the next header is unknown.
    Lost,
}

/// The walk along one direction of a connection.
#[derive(Debug)]
pub struct PduWalk {
    direction: Direction,
    state: State,
    /// Whether the PDU boundaries were never lost since the connection was opened.
    never_lost: bool,
    /// The captured part of a header that spans packets.
    part: [u8; HEADER_AND_DIGEST_BYTES],
    part_bytes: usize,
    part_at: PacketRef,
    /// The packet of the part's fifth byte. The header begins there if the first four bytes are a digest.
    part_after_digest_at: PacketRef,
    candidate: Option<Candidate>,
    /// Whether the previous PDU had data.
    had_data: bool,
    /// The requested data so far; the bytes to skip before it; the bytes still to come.
    data: Vec<u8>,
    data_skip: u32,
    data_left: u32,
    /// The length of the PDU's data.
    data_bytes: usize,
    data_no_user_data: bool,
    data_text: bool,
    /// Whether additional headers follow the PDU's header.
    has_additional: bool,
    /// Bytes of the digest after the data. They are counted separately, so that a PDU ends with its data whether or not
    /// the digest is known.
    digest_left: u64,
    /// Whether to report the end of the PDU.
    notify_end: bool,
    skipped_packets_in_a_row: u32,
    proof: Proof,
    /// Counts of PDUs, lost and found boundaries.
    pub counts: PduFigures,
}

impl PduWalk {
    /// A walk that knows nothing of the direction yet.
    pub fn new(direction: Direction) -> PduWalk {
        PduWalk {
            direction,
            state: State::Lost,
            never_lost: false,
            part: [0; HEADER_AND_DIGEST_BYTES],
            part_bytes: 0,
            part_at: PacketRef::default(),
            part_after_digest_at: PacketRef::default(),
            candidate: None,
            had_data: false,
            data: Vec::new(),
            data_skip: 0,
            data_left: 0,
            data_bytes: 0,
            data_no_user_data: false,
            data_text: false,
            has_additional: false,
            digest_left: 0,
            notify_end: false,
            skipped_packets_in_a_row: 0,
            proof: Proof::default(),
            counts: PduFigures::default(),
        }
    }

    /// The stream begins. It begins with a PDU if the connection was `opened` within the capture.
    pub fn begin<H: PduHandler>(&mut self, opened: bool, shared: &mut ConnectionState, handler: &mut H) {
        self.finish(shared, handler);
        *self = PduWalk { counts: self.counts, data: std::mem::take(&mut self.data), ..PduWalk::new(self.direction) };
        if opened {
            (self.state, self.never_lost, self.proof) = (State::Within(0), true, Proof::of_opened());
        }
    }

    /// `bytes` bytes of the stream were not captured.
    pub fn gap<H: PduHandler>(&mut self, bytes: u32, shared: &mut ConnectionState, handler: &mut H) {
        self.stop_data(shared, handler);
        self.proof.break_chain(shared, handler);
        if matches!(self.state, State::Within(left) if (1..=u64::from(bytes)).contains(&left)) {
            self.pass_end(None, handler);
        }
        match self.state {
            State::Within(left) if self.part_bytes == 0 && left >= u64::from(bytes) => {
                self.state = State::Within(left - u64::from(bytes));
            }
            State::Within(left) if self.part_bytes == 0 && left + self.digest_left >= u64::from(bytes) => {
                let digest = std::mem::take(&mut self.digest_left);
                self.state = State::Within(left + digest - u64::from(bytes));
            }
            State::Within(_) => {
                self.counts.lost_by_gap += 1;
                self.lose_boundaries(self.part_may_be_header(shared), shared, handler);
            }
            State::Lost => {}
        }
    }

    /// The next bytes of the stream.
    pub fn chunk<H: PduHandler>(&mut self, chunk: StreamChunk<'_>, shared: &mut ConnectionState, handler: &mut H) {
        let length = chunk.length as usize;
        let mut at = 0;
        loop {
            let State::Within(left) = self.state else {
                // The walk searches for a header at the beginning of a packet only.
                if at > 0 || !self.resynchronise(&chunk, shared, handler) {
                    return;
                }
                at = HEADER_BYTES;
                continue;
            };
            let step = left.min((length - at) as u64);
            if step > 0 {
                if self.data_left > 0 || self.data_skip > 0 {
                    self.take_data(&chunk, at, step as usize, shared, handler);
                }
                at += step as usize;
                self.state = State::Within(left - step);
            }
            if left > step {
                return;
            }
            self.pass_end(Some(chunk.at), handler);
            let digest = std::mem::take(&mut self.digest_left);
            if digest > 0 {
                self.state = State::Within(digest);
                continue;
            }
            if at == length {
                return self.decide_candidate(true, shared, handler);
            }
            match self.next_header(&chunk, at, shared, handler) {
                Some(behind) => at = behind,
                None => return,
            }
        }
    }

    /// The stream has ended.
    pub fn finish<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        self.lose_boundaries(self.part_may_be_header(shared), shared, handler);
    }
}

#[cfg(test)]
mod tests;
