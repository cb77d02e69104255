//! How the walk finds PDU boundaries again after it has lost them.

use super::super::pdu::{self, HEADER_BYTES, Header};
use super::super::reassembly::{PacketRef, StreamChunk};
use super::super::sequence_numbers::{NumberFit, SequenceNumbers};
use super::{ConnectionState, LOST_PACKETS_MAX, PduHandler, PduWalk, State};

/// A header that was found where a packet begins. It is believed if another follows where its length says, and not if
/// something else does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) header: Header,
    pub(super) at: PacketRef,
    pub(super) offset: usize,
    /// Whether it has, and in which packet if that was captured.
    pub(super) ended: Option<Option<PacketRef>>,
    /// Whether its numbers fit, so that it is believed too if its PDU ends with a packet, or what follows was not captured.
    pub(super) near: bool,
    /// Whether its digest, or that it has none, is all that is known of digests.
    pub(super) found_digests: bool,
}

impl PduWalk {
    /// Looks for a header at the beginning of a packet while the chain is lost.
    pub(super) fn resynchronise<H: PduHandler>(
        &mut self,
        piece: &StreamChunk<'_>,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> bool {
        let header = piece.payload.first_chunk::<HEADER_BYTES>();
        let found = header.filter(|header| pdu::is_plausible(header, self.direction));
        let fit = found.map_or(NumberFit::Far, |header| shared.numbers.fit(header, self.direction));
        let Some(header) = found.filter(|_| fit != NumberFit::Far) else {
            self.counts.skipped_packets += 1;
            self.skipped_packets_in_a_row += 1;
            if self.skipped_packets_in_a_row == LOST_PACKETS_MAX {
                shared.numbers = SequenceNumbers::default();
                self.skipped_packets_in_a_row = 0;
            }
            return false;
        };
        let unknown = shared.digests.header.is_none();
        if !self.check_digest(header, &piece.payload[HEADER_BYTES..], shared) {
            self.counts.skipped_packets += 1;
            return false;
        }
        let found_digests = unknown && shared.digests.header.is_some();
        self.counts.found += 1;
        let near = fit == NumberFit::Near;
        if near {
            handler.header_bytes(piece.at.frame, piece.offset, HEADER_BYTES);
        } else {
            handler.held(piece.at.frame);
        }
        let StreamChunk { at, offset, .. } = *piece;
        self.candidate = Some(Candidate { header: *header, at, offset, ended: None, near, found_digests });
        (self.data_left, self.notify_end) = (0, false);
        self.enter_pdu(header, shared);
        true
    }

    pub(super) fn accept_candidate<H: PduHandler>(
        &mut self,
        found: &Candidate,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        if !found.near {
            handler.header_bytes(found.at.frame, found.offset, HEADER_BYTES);
            handler.released(found.at.frame);
        }
        self.report(&found.header, found.at, shared, handler);
        // Its data has passed already.
        self.stop_data(shared, handler);
        if let Some(ended) = found.ended
            && std::mem::take(&mut self.notify_end)
        {
            handler.end(ended);
        }
    }

    /// Decides on what was found as long as nobody knows what follows: it may be a header, or cannot.
    pub(super) fn decide_candidate<H: PduHandler>(
        &mut self,
        may_be_header: bool,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        match self.candidate {
            Some(found) if found.near && may_be_header => {
                self.candidate = None;
                self.accept_candidate(&found, shared, handler);
            }
            _ => {}
        }
    }

    /// Whether what was found is held back from whoever keeps headers.
    pub(super) fn candidate_is_uncertain(&self) -> bool {
        self.candidate.is_some_and(|candidate| !candidate.near)
    }

    /// Whether what has come of the next header may be one.
    pub(super) fn part_may_be_header(&self, shared: &ConnectionState) -> bool {
        let digest = if self.had_data { shared.digests.data } else { shared.digests.header };
        digest.is_none() || pdu::may_begin(&self.part[..self.part_bytes], self.direction)
    }

    /// Loses the chain: where something stands that is no header, or where nobody knows whether what stands there `may_be_header`.
    pub(super) fn lose_boundaries<H: PduHandler>(
        &mut self,
        may_be_header: bool,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        self.stop_data(shared, handler);
        self.decide_candidate(may_be_header, shared, handler);
        if let Some(found) = self.candidate.take() {
            if !found.near {
                handler.released(found.at.frame);
            }
            if found.found_digests {
                shared.digests.header = None;
            }
        }
        (self.state, self.never_lost, self.part_bytes, self.skipped_packets_in_a_row) = (State::Lost, false, 0, 0);
        self.digest_left = 0;
    }
}
