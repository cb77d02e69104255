//! Task management (RFC 7143, section 11.5), which ends tasks without a response of their own.

use super::super::pdu::{self, Header};
use super::super::reassembly::PacketRef;
use super::{ConnectionTasks, ECANCELED, ScsiTask, WireState, lun};

const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LOGICAL_UNIT_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
const TARGET_COLD_RESET: u8 = 7;

/// A requested function.
#[derive(Clone, Copy, Debug)]
pub struct ManagementRequest {
    tag: u32,
    /// The packet of the request; later tasks are not affected.
    frame: u64,
    function: u8,
    referenced: u32,
    lun: u64,
}

/// A completed function that ends tasks on every connection of its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionReset {
    /// The session.
    pub session: usize,
    /// The connection of the request, whose tasks have already ended.
    pub stream: u32,
    management: ManagementRequest,
}

impl ConnectionTasks {
    /// Records a requested function.
    pub(super) fn management_request(&mut self, at: PacketRef, header: &Header) {
        let tag = pdu::task_tag(header);
        let (function, referenced) = (header[1] & 0x7f, pdu::u32_at(header, 20));
        self.management.retain(|request| request.tag != tag);
        self.management.push(ManagementRequest { tag, frame: at.frame, function, referenced, lun: lun(header) });
    }

    /// Handles the response to a function.
    pub(super) fn management_response(&mut self, tag: u32, response: u8, state: &mut WireState) {
        let Some(index) = self.management.iter().position(|request| request.tag == tag) else { return };
        let management = self.management.remove(index);
        if response != 0 {
            return;
        }
        self.end_by(management, state);
        if let Some(session) = self.session.filter(|_| management.function != ABORT_TASK) {
            state.resets.push(SessionReset { session, stream: self.stream, management });
        }
    }

    /// Applies a function that was completed on another connection of the session.
    pub fn reset(&mut self, reset: &SessionReset, state: &mut WireState) {
        self.end_by(reset.management, state);
    }

    /// Ends this connection's tasks that the function covers.
    fn end_by(
        &mut self,
        ManagementRequest { frame, function, referenced, lun, .. }: ManagementRequest,
        state: &mut WireState,
    ) {
        let unit = self.units.iter().find(|(known, _)| *known == lun).and_then(|&(_, unit)| unit);
        let ended = |tag: u32, task: &ScsiTask| match function {
            ABORT_TASK => tag == referenced,
            ABORT_TASK_SET | CLEAR_TASK_SET | LOGICAL_UNIT_RESET => task.unit == unit && unit.is_some(),
            TARGET_WARM_RESET | TARGET_COLD_RESET => true,
            _ => false,
        };
        let pending = self.pending.iter().filter(|&(&tag, task)| task.frame < frame && ended(tag, task));
        let mut tags: Vec<u32> = pending.map(|(tag, _)| *tag).collect();
        tags.sort_unstable();
        for tag in tags {
            if let Some(task) = self.pending.remove(&tag) {
                state.counts.aborted += 1;
                if let Some(place) = task.place {
                    state.reorder.record(place).observed.error = ECANCELED;
                }
                self.end(task, state);
            }
        }
    }
}
