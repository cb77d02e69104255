//! Pairs each response with its task. The two directions of a connection are not always known equally far: while one
//! waits for a segment, the other proceeds. A response is therefore held until everything sent before it is known, and
//! a task whose tag was reused waits for its response.

use super::super::reassembly::PacketRef;
use super::{ConnectionTasks, ScsiTask, WireState, record_number};

/// The most responses that are kept for commands whose packet is still held.
const EARLY_RESPONSES_MAX: usize = 1024;
/// The most responses that wait until everything sent before them is known.
const HELD_REPLIES_MAX: usize = 1024;

/// A PDU that ends a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalPdu {
    pub tag: u32,
    /// The packet in which it begins.
    pub frame: u64,
    /// The packet in which it ends, if that was captured.
    pub end: Option<PacketRef>,
    pub error: i32,
    /// The command number that the target expects next.
    pub expected: u32,
    /// The last packet that showed a missing status number.
    pub status_missed_at: u64,
}

/// A target's reply that waits until everything sent before it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeldReply {
    /// A SCSI response, or the last data with the status.
    Response(FinalPdu),
    /// The response to a task management request.
    Management { tag: u32, response: u8, frame: u64 },
}

impl HeldReply {
    fn frame(&self) -> u64 {
        match self {
            HeldReply::Response(last) => last.frame,
            HeldReply::Management { frame, .. } => *frame,
        }
    }
}

impl ConnectionTasks {
    /// The last byte of the PDU that ends a task has passed; `None` if it was not captured.
    pub fn ended(&mut self, at: Option<PacketRef>, state: &mut WireState) {
        if let Some(last) = self.ending.take() {
            self.take(HeldReply::Response(FinalPdu { end: at, ..last }), state);
        }
    }

    /// Handles a target's reply, or holds it.
    pub(super) fn take(&mut self, reply: HeldReply, state: &mut WireState) {
        self.held_replies.push_back(reply);
        if !self.has_request_gap {
            self.settle_all(state);
        } else if self.held_replies.len() > HELD_REPLIES_MAX
            && let Some(first) = self.held_replies.pop_front()
        {
            self.settle(first, state);
        }
    }

    /// Sets whether segments of the initiator are missing before captured ones.
    pub fn set_request_gap(&mut self, behind: bool, state: &mut WireState) {
        self.has_request_gap = behind;
        if !behind {
            self.settle_all(state);
        }
    }

    fn settle_all(&mut self, state: &mut WireState) {
        while let Some(first) = self.held_replies.pop_front() {
            self.settle(first, state);
        }
    }

    /// Handles held replies from before packet `frame`: everything sent before it is known.
    pub(super) fn settle_before(&mut self, frame: u64, state: &mut WireState) {
        while self.held_replies.front().is_some_and(|first| first.frame() < frame)
            && let Some(first) = self.held_replies.pop_front()
        {
            self.settle(first, state);
        }
    }

    fn settle(&mut self, reply: HeldReply, state: &mut WireState) {
        let last = match reply {
            HeldReply::Management { tag, response, .. } => return self.management_response(tag, response, state),
            HeldReply::Response(last) => last,
        };
        self.expects(last.expected, last.frame);
        if !self.complete(last, state) {
            self.early.push_back(last);
            if self.early.len() > EARLY_RESPONSES_MAX {
                self.early.pop_front();
                state.counts.orphan_responses += 1;
            }
        }
    }

    /// The packet `frame` shows that the target expects this command next.
    pub(super) fn expects(&mut self, expected: u32, frame: u64) {
        if record_number(&mut self.next_command, expected, expected) {
            self.command_missed_at = frame;
        }
    }

    /// Ends a task whose response was captured before its command.
    pub(super) fn answer_early(&mut self, tag: u32, at: PacketRef, state: &mut WireState) {
        if let Some(place) = self.early.iter().position(|last| last.tag == tag && last.frame > at.frame)
            && let Some(last) = self.early.remove(place)
        {
            self.complete(last, state);
        }
    }

    /// Ends the task of `last`. Returns whether a task was found that was sent before it.
    fn complete(&mut self, last: FinalPdu, state: &mut WireState) -> bool {
        let before = |task: &ScsiTask| task.frame < last.frame;
        if self.pending.get(&last.tag).is_some_and(before) {
            if let Some(task) = self.pending.remove(&last.tag) {
                self.answer(task, last, state);
            }
            return true;
        }
        // The last task sent before it: earlier ones had their response before the tag was reused.
        let old = self.superseded.iter().rposition(|(tag, task)| *tag == last.tag && before(task));
        let Some((_, task)) = old.and_then(|old| self.superseded.remove(old)) else { return false };
        self.answer(task, last, state);
        true
    }

    /// Ends a task by a response with its tag. If a command and a status are both missing since the task began, the
    /// response may belong to the missing command. The task then counts as unanswered, and the response as orphaned.
    fn answer(&mut self, task: ScsiTask, last: FinalPdu, state: &mut WireState) {
        if task.frame < self.command_missed_at.min(last.status_missed_at) {
            state.counts.orphan_responses += 1;
            return self.end_unanswered(task, state);
        }
        match last.end {
            Some(end) => self.finish(task, end, last.error, state),
            None => self.end_unanswered(task, state),
        }
    }

    fn finish(&mut self, task: ScsiTask, end: PacketRef, error: i32, state: &mut WireState) {
        state.counts.paired += 1;
        state.counts.failed += u64::from(error != 0);
        if let Some(place) = task.place {
            let completed = state.time(end);
            let observed = &mut state.reorder.record(place).observed;
            (observed.completed, observed.error) = (Some(completed), error);
        }
        self.end(task, state);
    }
}
