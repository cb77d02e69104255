//! The rules that send a request, and the one by which the next request of a queue goes.

use traces::RequestId;

use super::Bfq;
use super::ids::QueueId;
use crate::entry::RuleInfo;

pub(super) const INJECTED: usize = 0;
pub(super) const IDLED: usize = 1;
pub(super) const EXPIRED: usize = 2;
pub(super) const IN_SERVICE: usize = 3;
pub(super) const NEW_TURN: usize = 4;
pub(super) const RULES: &[RuleInfo] = &[
    RuleInfo::new("injected", "one of another queue, while the queue in service is empty and waited for"),
    RuleInfo::new(
        "idled",
        "the one that the device idled for: the next of the queue in service, before the wait was over",
    ),
    RuleInfo::new("expired", "the oldest of its queue, which had expired when the queue's next request was chosen"),
    RuleInfo::new("in service", "any other of the queue in service but the first of its turn"),
    RuleInfo::new("new turn", "the first of a turn"),
];

impl Bfq {
    /// The rule by which this request of a queue goes, which is `served` or sends it meanwhile.
    pub(super) fn rule_of_next(&mut self, queue: QueueId, id: RequestId, served: bool) -> usize {
        let turn = &mut self.queues[queue].turn;
        if !served {
            return INJECTED;
        }
        let rule = std::mem::replace(&mut turn.rule, IN_SERVICE);
        if turn.expired.take() == Some(id) { EXPIRED } else { rule }
    }
}
