//! How the walk loses PDU boundaries and finds them again. While they are lost, each packet that begins with a
//! plausible header gives a *candidate*. The walk accepts it when a header follows at the position that its length
//! implies.

use super::super::pdu::{self, HEADER_BYTES, Header};
use super::super::reassembly::{PacketRef, StreamChunk};
use super::super::sequence_numbers::{NumberFit, SequenceNumbers};
use super::proof::Kept;
use super::{ConnectionState, LOST_PACKETS_MAX, PduHandler, PduWalk, State};

/// A candidate: a plausible header at the beginning of a packet. It is accepted if a header follows its PDU, and
/// rejected if something else does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) header: Header,
    pub(super) at: PacketRef,
    /// Whether the candidate's PDU has ended, and in which packet if that was captured.
    pub(super) ended: Option<Option<PacketRef>>,
    /// Whether its sequence numbers fit. If so, it is also accepted when its PDU ends with a packet, or the following
    /// bytes were not captured.
    pub(super) near: bool,
    /// Whether this candidate is the only evidence of the connection's digests.
    pub(super) found_digests: bool,
}

impl PduWalk {
    /// Searches for a candidate at the beginning of a packet.
    pub(super) fn resynchronise<H: PduHandler>(
        &mut self,
        chunk: &StreamChunk<'_>,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) -> bool {
        let header = chunk.payload.first_chunk::<HEADER_BYTES>();
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
        if !self.check_digest(header, &chunk.payload[HEADER_BYTES..], shared) {
            self.counts.skipped_packets += 1;
            return false;
        }
        let found_digests = unknown && shared.digests.header.is_some();
        self.counts.found += 1;
        let near = fit == NumberFit::Near;
        let StreamChunk { at, offset, .. } = *chunk;
        self.proof.keep([at.frame, offset as u64, HEADER_BYTES as u64], Kept::Header, 1, handler);
        self.proof.link(handler);
        self.candidate = Some(Candidate { header: *header, at, ended: None, near, found_digests });
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
        self.report(&found.header, found.at, shared, handler);
        // Its data have passed already.
        self.stop_data(shared, handler);
        if let Some(ended) = found.ended
            && std::mem::take(&mut self.notify_end)
        {
            handler.end(ended);
        }
    }

    /// Decides on the candidate while the following bytes are unknown. `may_be_header` says whether they can be a
    /// header.
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

    /// Whether the captured part of the next header can be a header.
    pub(super) fn part_may_be_header(&self, shared: &ConnectionState) -> bool {
        let digest = if self.had_data { shared.digests.data } else { shared.digests.header };
        digest.is_none() || pdu::may_begin(&self.part[..self.part_bytes], self.direction)
    }

    /// Loses the PDU boundaries. `may_be_header` says whether the bytes at the next header's position can be a header.
    pub(super) fn lose_boundaries<H: PduHandler>(
        &mut self,
        may_be_header: bool,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        self.stop_data(shared, handler);
        self.decide_candidate(may_be_header, shared, handler);
        if self.candidate.take().is_some_and(|found| found.found_digests) {
            shared.digests.header = None;
        }
        self.proof.break_chain(shared, handler);
        (self.state, self.never_lost, self.part_bytes, self.skipped_packets_in_a_row) = (State::Lost, false, 0, 0);
        self.digest_left = 0;
    }
}
