//! From PDU to PDU along one direction of a connection: by the lengths in the headers, past data that need not have been
//! captured. A header may straddle packets. Where one lies beyond the snap length, or in a gap, the chain is lost, and found
//! again where a packet begins with a header whose every field and sequence number fits, and nothing but a header follows.

use traces::results::wire::PduFigures;

use super::digest::crc32c;
use super::pdu::{self, Direction, HEADER_BYTES, Header};
use super::reassembly::{PacketRef, StreamChunk};
use super::sequence_numbers::{NumberFit, SequenceNumbers};

/// Bytes of a header with its digest.
const HEADER_AND_DIGEST: usize = HEADER_BYTES + 4;
/// Packets after which the numbers of a connection that was lost are no longer believed.
const FORGET_AFTER: u32 = 4096;

/// Which digests a connection has; `None` as long as it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// CRC32C behind each header.
    pub header: Option<bool>,
    /// CRC32C behind each data segment.
    pub data: Option<bool>,
}

/// What both directions of a connection share.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionState {
    /// Its digests.
    pub digests: Digests,
    /// Its sequence numbers.
    pub numbers: SequenceNumbers,
}

/// What whoever takes a header wants of the rest of its PDU.
#[derive(Clone, Copy, Debug, Default)]
pub struct PayloadInterest {
    /// So many bytes of its data.
    pub data_bytes: u32,
    /// Whether these tell nothing of what users store.
    pub harmless: bool,
    /// To be told when it has passed.
    pub end: bool,
}

/// Takes what the walk finds.
pub trait PduHandler {
    /// A PDU whose header begins in the packet `at`.
    fn header(&mut self, at: PacketRef, header: &Header, shared: &mut ConnectionState) -> PayloadInterest;
    /// The data that was asked for, or what was captured of it.
    fn data(&mut self, data: &[u8], complete: bool, shared: &mut ConnectionState);
    /// The last byte of the PDU passed in the packet `at`; `None` where that was not captured.
    fn end(&mut self, at: Option<PacketRef>);
    /// These bytes of a packet are a header, or harmless data.
    fn keep(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// These bytes of a packet are text of a login.
    fn text(&mut self, _frame: u64, _offset: usize, _bytes: usize) {}
    /// A packet may turn out to hold a header.
    fn held(&mut self, _frame: u64) {}
    /// It is decided what it holds.
    fn released(&mut self, _frame: u64) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Inside a PDU; so many bytes to the next header.
    Within(u64),
    /// Nobody knows where the next header is.
    Lost,
}

/// A header that was found where a packet begins. It is believed if another follows where its length says, and not if
/// something else does.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    header: Header,
    at: PacketRef,
    offset: usize,
    /// Whether it has, and in which packet if that was captured.
    ended: Option<Option<PacketRef>>,
    /// Whether its numbers fit, so that it is believed too if its PDU ends with a packet, or what follows was not captured.
    near: bool,
    /// Whether its digest, or that it has none, is all that is known of digests.
    told_digests: bool,
}

/// One direction.
#[derive(Debug)]
pub struct PduWalk {
    direction: Direction,
    state: State,
    /// Whether the chain was never lost since the connection was opened.
    unbroken: bool,
    /// The part of a header that has come.
    part: [u8; HEADER_AND_DIGEST],
    part_bytes: usize,
    part_at: PacketRef,
    /// The packet of its fifth byte, with which it begins if there is a digest before it.
    part_behind_digest_at: PacketRef,
    candidate: Option<Candidate>,
    /// Whether the PDU before had data, and whether it was one of a login.
    had_data: bool,
    /// Of the data that was asked for: what has come, bytes before it, bytes that are to come.
    data: Vec<u8>,
    data_skip: u32,
    data_left: u32,
    /// All of the PDU's data.
    data_bytes: usize,
    data_harmless: bool,
    data_text: bool,
    /// Bytes of the digest behind the data. It counts apart, so that a PDU ends with its data whether it is known of or not.
    digest_left: u64,
    /// Whether the end of the PDU is to be told.
    tell_end: bool,
    skipped_in_a_row: u32,
    /// What was counted.
    pub counts: PduFigures,
}

impl PduWalk {
    /// A direction of which nothing is known.
    pub fn new(direction: Direction) -> PduWalk {
        PduWalk {
            direction,
            state: State::Lost,
            unbroken: false,
            part: [0; HEADER_AND_DIGEST],
            part_bytes: 0,
            part_at: PacketRef::default(),
            part_behind_digest_at: PacketRef::default(),
            candidate: None,
            had_data: false,
            data: Vec::new(),
            data_skip: 0,
            data_left: 0,
            data_bytes: 0,
            data_harmless: false,
            data_text: false,
            digest_left: 0,
            tell_end: false,
            skipped_in_a_row: 0,
            counts: PduFigures::default(),
        }
    }

    /// The stream begins: with a PDU if the connection was `opened`.
    pub fn begin<H: PduHandler>(&mut self, opened: bool, shared: &mut ConnectionState, handler: &mut H) {
        self.finish(shared, handler);
        *self = PduWalk { counts: self.counts, data: std::mem::take(&mut self.data), ..PduWalk::new(self.direction) };
        if opened {
            (self.state, self.unbroken) = (State::Within(0), true);
        }
    }

    /// So many bytes were not captured.
    pub fn gap<H: PduHandler>(&mut self, bytes: u32, shared: &mut ConnectionState, handler: &mut H) {
        self.stop_data(shared, handler);
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
                self.lose(self.may_go_on(shared), shared, handler);
            }
            State::Lost => {}
        }
    }

    /// The next bytes of the stream.
    pub fn piece<H: PduHandler>(&mut self, piece: StreamChunk<'_>, shared: &mut ConnectionState, handler: &mut H) {
        let length = piece.length as usize;
        let mut at = 0;
        loop {
            let State::Within(left) = self.state else {
                // Only where a packet begins may a header be looked for.
                if at > 0 || !self.look(&piece, shared, handler) {
                    return;
                }
                at = HEADER_BYTES;
                continue;
            };
            let step = left.min((length - at) as u64);
            if step > 0 {
                if self.data_left > 0 || self.data_skip > 0 {
                    self.take_data(&piece, at, step as usize, shared, handler);
                }
                at += step as usize;
                self.state = State::Within(left - step);
            }
            if left > step {
                return;
            }
            self.pass_end(Some(piece.at), handler);
            let digest = std::mem::take(&mut self.digest_left);
            if digest > 0 {
                self.state = State::Within(digest);
                continue;
            }
            if at == length {
                return self.settle(true, shared, handler);
            }
            match self.next_header(&piece, at, shared, handler) {
                Some(behind) => at = behind,
                None => return,
            }
        }
    }

    /// Nothing more comes.
    pub fn finish<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        self.lose(self.may_go_on(shared), shared, handler);
    }

    fn pass_end<H: PduHandler>(&mut self, at: Option<PacketRef>, handler: &mut H) {
        if let Some(candidate) = &mut self.candidate {
            candidate.ended.get_or_insert(at);
        }
        if std::mem::take(&mut self.tell_end) {
            handler.end(at);
        }
    }

    /// Takes the header at `at`, or as much of it as there is. Where it ends in the piece; `None` if it does not, or the
    /// chain is lost.
    fn next_header<H: PduHandler>(
        &mut self,
        piece: &StreamChunk<'_>,
        at: usize,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> Option<usize> {
        let captured = piece.payload.get(at..).unwrap_or_default();
        if self.part_bytes == 0
            && let Some(header) = captured.first_chunk::<HEADER_BYTES>()
        {
            let behind = &captured[HEADER_BYTES..];
            if !self.may_stand_behind_a_digest(header, shared) {
                self.accept(header, piece.at, behind, shared, handler)?;
                handler.keep(piece.at.frame, piece.offset + at, HEADER_BYTES);
                return Some(at + HEADER_BYTES);
            }
        }
        // It lies in two packets or more, or stands behind a digest that was not known of.
        let wanted = if self.part_bytes >= HEADER_BYTES { HEADER_AND_DIGEST } else { HEADER_BYTES };
        let missing = wanted - self.part_bytes;
        let there = captured.len().min(missing);
        if self.part_bytes == 0 {
            self.part_at = piece.at;
        }
        if (self.part_bytes..self.part_bytes + there).contains(&4) {
            self.part_behind_digest_at = piece.at;
        }
        self.part[self.part_bytes..self.part_bytes + there].copy_from_slice(&captured[..there]);
        if !self.is_in_doubt() {
            handler.keep(piece.at.frame, piece.offset + at, there);
        }
        self.part_bytes += there;
        if there < missing {
            if captured.len() < piece.length as usize - at {
                self.counts.lost_by_cut += 1;
                self.lose(self.may_go_on(shared), shared, handler);
            }
            return None;
        }
        let header: Header = *self.part.first_chunk().unwrap_or(&[0; HEADER_BYTES]);
        if wanted == HEADER_BYTES && self.may_stand_behind_a_digest(&header, shared) {
            return Some(at + there);
        }
        let behind = &captured[there..];
        self.counts.straddling += u64::from(self.part_at.frame != piece.at.frame);
        if wanted == HEADER_BYTES {
            self.part_bytes = 0;
            self.accept(&header, self.part_at, behind, shared, handler)?;
        } else {
            self.accept_shifted(&header, piece.at, behind, shared, handler)?;
        }
        Some(at + there)
    }

    /// Whether what stands where a header must is none, and a digest that is not known of may stand before it.
    fn may_stand_behind_a_digest(&self, header: &Header, shared: &ConnectionState) -> bool {
        let unknown = if self.had_data { shared.digests.data } else { shared.digests.header };
        unknown.is_none() && self.part_bytes < HEADER_AND_DIGEST && !pdu::is_plausible(header, self.direction)
    }

    /// Decides what the first bytes of `part` are: a digest with a header behind it, or a header nevertheless.
    fn accept_shifted<H: PduHandler>(
        &mut self,
        first: &Header,
        at: PacketRef,
        behind: &[u8],
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> Option<()> {
        let second: Header = *self.part.last_chunk().unwrap_or(first);
        let begun = std::mem::replace(&mut self.part_at, at);
        self.part_bytes = 0;
        if pdu::is_plausible(&second, self.direction) {
            let unknown = if self.had_data { &mut shared.digests.data } else { &mut shared.digests.header };
            *unknown = Some(true);
            return self.accept(&second, self.part_behind_digest_at, behind, shared, handler);
        }
        let four: [u8; 4] = *self.part.last_chunk().unwrap_or(&[0; 4]);
        self.accept(first, begun, &four, shared, handler)?;
        // Four bytes too many were taken.
        match self.state {
            State::Within(left) if left >= 4 => {
                if self.data_skip >= 4 {
                    self.data_skip -= 4;
                } else {
                    self.stop_data(shared, handler);
                }
                self.state = State::Within(left - 4);
            }
            _ => {
                self.part[..4].copy_from_slice(&four);
                self.part_bytes = 4;
            }
        }
        Some(())
    }

    /// Takes a header where one must be; `None` if it is none.
    fn accept<H: PduHandler>(
        &mut self,
        header: &Header,
        at: PacketRef,
        behind: &[u8],
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> Option<()> {
        let believed = if self.unbroken {
            pdu::is_possible(header, self.direction)
        } else {
            pdu::is_plausible(header, self.direction)
                && shared.numbers.fit(header, self.direction) != NumberFit::Far
                && self.candidate.is_none_or(|before| SequenceNumbers::follows(&before.header, header, self.direction))
        };
        if !believed || !self.check_digest(header, behind, shared) {
            self.counts.lost_by_content += 1;
            self.lose(false, shared, handler);
            return None;
        }
        if let Some(before) = self.candidate.take() {
            self.believe(&before, shared, handler);
        }
        self.emit(header, at, shared, handler);
        self.go_on(header, shared);
        Some(())
    }

    /// Whether the digest behind the header, if there is one, is right. Finds out whether there is one.
    fn check_digest(&mut self, header: &Header, behind: &[u8], shared: &mut ConnectionState) -> bool {
        let extra = pdu::additional_bytes(header);
        if extra > 0 || pdu::is_login(header) || shared.digests.header == Some(false) {
            return true;
        }
        let Some(digest) = behind.first_chunk::<4>() else { return true };
        let right = u32::from_le_bytes(*digest) == crc32c(header);
        match shared.digests.header {
            None => {
                shared.digests.header = Some(right);
                true
            }
            Some(_) => {
                self.counts.wrong_digests += u64::from(!right);
                right || self.unbroken
            }
        }
    }

    fn emit<H: PduHandler>(&mut self, header: &Header, at: PacketRef, shared: &mut ConnectionState, handler: &mut H) {
        self.counts.pdus += 1;
        shared.numbers.note(header, self.direction);
        let wanted = handler.header(at, header, shared);
        self.data.clear();
        self.data_left = wanted.data_bytes.min(pdu::data_bytes(header));
        self.data_bytes = pdu::data_bytes(header) as usize;
        self.data_harmless = wanted.harmless;
        self.data_text = pdu::is_login(header);
        self.tell_end = wanted.end;
    }

    /// Goes on behind a header.
    fn go_on(&mut self, header: &Header, shared: &ConnectionState) {
        let digests = if pdu::is_login(header) { Digests::default() } else { shared.digests };
        let before = pdu::additional_bytes(header) + if digests.header == Some(true) { 4 } else { 0 };
        let data = pdu::data_bytes(header);
        let digest = if data > 0 && digests.data == Some(true) { 4 } else { 0 };
        self.data_skip = before;
        self.had_data = data > 0;
        self.digest_left = digest;
        self.state = State::Within(u64::from(before) + u64::from(data.next_multiple_of(4)));
    }

    fn take_data<H: PduHandler>(
        &mut self,
        piece: &StreamChunk<'_>,
        at: usize,
        step: usize,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        let skip = (self.data_skip as usize).min(step);
        if skip > 0 && !self.is_in_doubt() {
            // Additional headers and the digest.
            let there = piece.payload.len().saturating_sub(at).min(skip);
            handler.keep(piece.at.frame, piece.offset + at, there);
        }
        self.data_skip -= skip as u32;
        let wanted = (step - skip).min(self.data_left as usize);
        if wanted == 0 {
            return;
        }
        let from = (at + skip).min(piece.payload.len());
        let there = &piece.payload[from..(at + skip + wanted).min(piece.payload.len())];
        self.data.extend_from_slice(there);
        if self.data_harmless {
            handler.keep(piece.at.frame, piece.offset + from, there.len());
        } else if self.data_text && wanted == self.data_bytes && there.len() == wanted {
            // All of it lies in this packet, so that nothing of it is out of context.
            handler.text(piece.at.frame, piece.offset + from, there.len());
        }
        self.data_left -= wanted as u32;
        if there.len() < wanted {
            self.stop_data(shared, handler);
        } else if self.data_left == 0 {
            handler.data(&self.data, true, shared);
        }
    }

    /// No more of the data that was asked for will come.
    fn stop_data<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        if std::mem::take(&mut self.data_left) > 0 {
            handler.data(&self.data, false, shared);
        }
    }

    /// Whether what was found is held back from whoever keeps headers.
    fn is_in_doubt(&self) -> bool {
        self.candidate.is_some_and(|candidate| !candidate.near)
    }

    fn believe<H: PduHandler>(&mut self, found: &Candidate, shared: &mut ConnectionState, handler: &mut H) {
        if !found.near {
            handler.keep(found.at.frame, found.offset, HEADER_BYTES);
            handler.released(found.at.frame);
        }
        self.emit(&found.header, found.at, shared, handler);
        // Its data has passed already.
        self.stop_data(shared, handler);
        if let Some(ended) = found.ended
            && std::mem::take(&mut self.tell_end)
        {
            handler.end(ended);
        }
    }

    /// Decides on what was found as long as nobody knows what follows: it may be a header, or cannot.
    fn settle<H: PduHandler>(&mut self, may_be: bool, shared: &mut ConnectionState, handler: &mut H) {
        match self.candidate {
            Some(found) if found.near && may_be => {
                self.candidate = None;
                self.believe(&found, shared, handler);
            }
            _ => {}
        }
    }

    /// Whether what has come of the next header may be one.
    fn may_go_on(&self, shared: &ConnectionState) -> bool {
        let digest = if self.had_data { shared.digests.data } else { shared.digests.header };
        digest.is_none() || pdu::may_begin(&self.part[..self.part_bytes], self.direction)
    }

    /// Loses the chain: where something stands that is no header, or where nobody knows whether what stands there `may_be`.
    fn lose<H: PduHandler>(&mut self, may_be: bool, shared: &mut ConnectionState, handler: &mut H) {
        self.stop_data(shared, handler);
        self.settle(may_be, shared, handler);
        if let Some(found) = self.candidate.take() {
            if !found.near {
                handler.released(found.at.frame);
            }
            if found.told_digests {
                shared.digests.header = None;
            }
        }
        (self.state, self.unbroken, self.part_bytes, self.skipped_in_a_row) = (State::Lost, false, 0, 0);
        self.digest_left = 0;
    }

    /// Looks for a header at the beginning of a packet while the chain is lost.
    fn look<H: PduHandler>(&mut self, piece: &StreamChunk<'_>, shared: &mut ConnectionState, handler: &mut H) -> bool {
        let header = piece.payload.first_chunk::<HEADER_BYTES>();
        let found = header.filter(|header| pdu::is_plausible(header, self.direction));
        let fit = found.map_or(NumberFit::Far, |header| shared.numbers.fit(header, self.direction));
        let Some(header) = found.filter(|_| fit != NumberFit::Far) else {
            self.counts.skipped_packets += 1;
            self.skipped_in_a_row += 1;
            if self.skipped_in_a_row == FORGET_AFTER {
                shared.numbers = SequenceNumbers::default();
                self.skipped_in_a_row = 0;
            }
            return false;
        };
        let unknown = shared.digests.header.is_none();
        if !self.check_digest(header, &piece.payload[HEADER_BYTES..], shared) {
            self.counts.skipped_packets += 1;
            return false;
        }
        let told_digests = unknown && shared.digests.header.is_some();
        self.counts.found += 1;
        let near = fit == NumberFit::Near;
        if near {
            handler.keep(piece.at.frame, piece.offset, HEADER_BYTES);
        } else {
            handler.held(piece.at.frame);
        }
        let StreamChunk { at, offset, .. } = *piece;
        self.candidate = Some(Candidate { header: *header, at, offset, ended: None, near, told_digests });
        (self.data_left, self.tell_end) = (0, false);
        self.go_on(header, shared);
        true
    }
}

#[cfg(test)]
mod tests;
