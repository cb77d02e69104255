//! Headers at the positions where the walk expects them. A header may span packets, or follow a digest that the login
//! did not reveal.

use super::super::digest::crc32c;
use super::super::pdu::{self, HEADER_BYTES, Header};
use super::super::reassembly::{PacketRef, StreamChunk};
use super::super::sequence_numbers::{NumberFit, SequenceNumbers};
use super::proof::Kept;
use super::{ConnectionState, HEADER_AND_DIGEST_BYTES, PduHandler, PduWalk, State};

impl PduWalk {
    /// Takes the header at `at`, or its captured part. Returns the end of the header in the chunk; `None` if the header
    /// is incomplete, or the boundaries are lost.
    pub(super) fn next_header<H: PduHandler>(
        &mut self,
        chunk: &StreamChunk<'_>,
        at: usize,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> Option<usize> {
        let captured = chunk.payload.get(at..).unwrap_or_default();
        if self.part_bytes == 0
            && let Some(header) = captured.first_chunk::<HEADER_BYTES>()
        {
            let behind = &captured[HEADER_BYTES..];
            if !self.may_follow_unknown_digest(header, shared) {
                let bytes = [chunk.at.frame, (chunk.offset + at) as u64, HEADER_BYTES as u64];
                self.proof.keep(bytes, Kept::Header, 1, handler);
                self.accept(header, chunk.at, behind, shared, handler)?;
                return Some(at + HEADER_BYTES);
            }
        }
        // The header spans packets, or follows a digest that was not known.
        let wanted = if self.part_bytes >= HEADER_BYTES { HEADER_AND_DIGEST_BYTES } else { HEADER_BYTES };
        let missing = wanted - self.part_bytes;
        let there = captured.len().min(missing);
        if self.part_bytes == 0 {
            self.part_at = chunk.at;
        }
        if (self.part_bytes..self.part_bytes + there).contains(&4) {
            self.part_after_digest_at = chunk.at;
        }
        self.part[self.part_bytes..self.part_bytes + there].copy_from_slice(&captured[..there]);
        self.proof.keep([chunk.at.frame, (chunk.offset + at) as u64, there as u64], Kept::Header, 1, handler);
        self.part_bytes += there;
        if there < missing {
            if captured.len() < chunk.length as usize - at {
                self.counts.lost_by_cut += 1;
                self.lose_boundaries(self.part_may_be_header(shared), shared, handler);
            }
            return None;
        }
        let header: Header = *self.part.first_chunk().unwrap_or(&[0; HEADER_BYTES]);
        if wanted == HEADER_BYTES && self.may_follow_unknown_digest(&header, shared) {
            return Some(at + there);
        }
        let behind = &captured[there..];
        self.counts.straddling += u64::from(self.part_at.frame != chunk.at.frame);
        if wanted == HEADER_BYTES {
            self.part_bytes = 0;
            self.accept(&header, self.part_at, behind, shared, handler)?;
        } else {
            self.accept_after_digest(&header, chunk.at, behind, shared, handler)?;
        }
        Some(at + there)
    }

    /// Whether the bytes at a header's position are no header, and a digest of unknown presence may precede the header.
    pub(super) fn may_follow_unknown_digest(&self, header: &Header, shared: &ConnectionState) -> bool {
        let unknown = if self.had_data { shared.digests.data } else { shared.digests.header };
        unknown.is_none() && self.part_bytes < HEADER_AND_DIGEST_BYTES && !pdu::is_plausible(header, self.direction)
    }

    /// Decides whether the first bytes of `part` are a digest with a header behind it, or a header after all.
    pub(super) fn accept_after_digest<H: PduHandler>(
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
            return self.accept(&second, self.part_after_digest_at, behind, shared, handler);
        }
        let four: [u8; 4] = *self.part.last_chunk().unwrap_or(&[0; 4]);
        self.accept(first, begun, &four, shared, handler)?;
        // The four bytes taken for a digest belong to the PDU or to the next header.
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

    /// Takes a header at a position where one must be. `None` if it is no header.
    pub(super) fn accept<H: PduHandler>(
        &mut self,
        header: &Header,
        at: PacketRef,
        behind: &[u8],
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> Option<()> {
        let fits = pdu::is_plausible(header, self.direction)
            && shared.numbers.fit(header, self.direction) != NumberFit::Far
            && self.candidate.is_none_or(|before| SequenceNumbers::follows(&before.header, header, self.direction));
        let believed = if self.never_lost { pdu::is_possible(header, self.direction) } else { fits };
        let wrong_digests = self.counts.wrong_digests;
        if !believed || !self.check_digest(header, behind, shared) {
            self.counts.lost_by_content += 1;
            self.lose_boundaries(false, shared, handler);
            return None;
        }
        if fits && self.counts.wrong_digests == wrong_digests {
            self.proof.link(handler);
        } else {
            self.proof.break_chain(shared, handler);
        }
        if let Some(before) = self.candidate.take() {
            self.accept_candidate(&before, shared, handler);
        }
        self.report(header, at, shared, handler);
        self.enter_pdu(header, shared);
        Some(())
    }

    /// Whether the digest after the header is correct, if there is one. Also determines whether there is one.
    pub(super) fn check_digest(&mut self, header: &Header, behind: &[u8], shared: &mut ConnectionState) -> bool {
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
                right || self.never_lost
            }
        }
    }
}
