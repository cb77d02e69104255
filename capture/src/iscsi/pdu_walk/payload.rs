//! The rest of a PDU after its header: additional headers, digests and data.

use super::super::pdu::{self, Header};
use super::super::reassembly::{PacketRef, StreamChunk};
use super::proof::Kept;
use super::{ConnectionState, Digests, PduHandler, PduWalk, State};

impl PduWalk {
    pub(super) fn report<H: PduHandler>(
        &mut self,
        header: &Header,
        at: PacketRef,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        self.counts.pdus += 1;
        shared.numbers.note(header, self.direction);
        let wanted = handler.header(at, header, shared);
        self.data.clear();
        self.data_left = wanted.data_bytes.min(pdu::data_bytes(header));
        self.data_bytes = pdu::data_bytes(header) as usize;
        self.data_no_user_data = wanted.no_user_data;
        self.data_text = pdu::is_login(header);
        self.notify_end = wanted.notify_end;
    }

    /// Enters the PDU after its header.
    pub(super) fn enter_pdu(&mut self, header: &Header, shared: &ConnectionState) {
        let digests = if pdu::is_login(header) { Digests::default() } else { shared.digests };
        let before = pdu::additional_bytes(header) + if digests.header == Some(true) { 4 } else { 0 };
        let data = pdu::data_bytes(header);
        let digest = if data > 0 && digests.data == Some(true) { 4 } else { 0 };
        self.data_skip = before;
        self.has_additional = pdu::additional_bytes(header) > 0;
        self.had_data = data > 0;
        self.digest_left = digest;
        self.state = State::Within(u64::from(before) + u64::from(data.next_multiple_of(4)));
    }

    pub(super) fn take_data<H: PduHandler>(
        &mut self,
        chunk: &StreamChunk<'_>,
        at: usize,
        step: usize,
        shared: &mut ConnectionState,
        handler: &mut H,
    ) {
        let skip = (self.data_skip as usize).min(step);
        if skip > 0 {
            // Additional headers and the header digest. If the length of additional headers is wrong, the next header
            // does not follow.
            let there = chunk.payload.len().saturating_sub(at).min(skip);
            let bytes = [chunk.at.frame, (chunk.offset + at) as u64, there as u64];
            self.proof.keep(bytes, Kept::Header, u64::from(self.has_additional), handler);
        }
        self.data_skip -= skip as u32;
        let wanted = (step - skip).min(self.data_left as usize);
        if wanted == 0 {
            return;
        }
        let from = (at + skip).min(chunk.payload.len());
        let there = &chunk.payload[from..(at + skip + wanted).min(chunk.payload.len())];
        self.data.extend_from_slice(there);
        let bytes = [chunk.at.frame, (chunk.offset + from) as u64, there.len() as u64];
        if self.data_no_user_data {
            self.proof.keep_if_judged(bytes, handler);
        } else if self.data_text && wanted == self.data_bytes && there.len() == wanted {
            // The text is complete in this packet, so that no key or value is cut.
            self.proof.keep(bytes, Kept::LoginText, 0, handler);
        }
        self.data_left -= wanted as u32;
        if there.len() < wanted {
            self.stop_data(shared, handler);
        } else if self.data_left == 0 {
            let harmless = handler.data(&self.data, true, shared);
            self.proof.judge(harmless, handler);
        }
    }

    /// Ends the requested data early.
    pub(super) fn stop_data<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        if std::mem::take(&mut self.data_left) > 0 {
            handler.data(&self.data, false, shared);
            self.proof.judge(false, handler);
        }
    }

    pub(super) fn pass_end<H: PduHandler>(&mut self, at: Option<PacketRef>, handler: &mut H) {
        if let Some(candidate) = &mut self.candidate {
            candidate.ended.get_or_insert(at);
        }
        if std::mem::take(&mut self.notify_end) {
            handler.end(at);
        }
    }
}
