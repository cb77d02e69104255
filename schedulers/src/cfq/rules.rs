//! The rules that send a request, and the one by which the next request of a queue goes.

use super::Cfq;
use crate::entry::RuleInfo;

pub(super) const ALIAS: usize = 0;
pub(super) const IDLED: usize = 1;
pub(super) const SLICE: usize = 2;
pub(super) const EXPIRED: usize = 3;
pub(super) const COOPERATOR: usize = 4;
pub(super) const PREEMPTION: usize = 5;
pub(super) const NEW_SLICE: usize = 6;
/// 3.5 has all but the first: its queues hold several requests at a sector.
pub(super) const RULES: &[RuleInfo] = &[
    RuleInfo::new("alias", "a request whose place in the sector order another one took at the same sector"),
    RuleInfo::new(
        "idled",
        "the request that the device idled for: the next of the active queue, before the wait was over",
    ),
    RuleInfo::new("slice", "any other of the active queue but the first of its slice"),
    RuleInfo::new("expired", "the first of a slice: the oldest of its queue, which has expired"),
    RuleInfo::new("cooperator", "any other first of a slice that was handed over, because its queue works close by"),
    RuleInfo::new("preemption", "any other first of a slice that another queue was preempted for"),
    RuleInfo::new("new slice", "the first of any other slice"),
];

impl Cfq {
    /// The rule by which the next request of the active queue goes; whether that `has_expired`.
    pub(super) fn rule_of_next(&mut self, number: usize, has_expired: bool) -> usize {
        if std::mem::take(&mut self.has_idled) {
            IDLED
        } else if self.queues[number].slice_sent > 0 {
            SLICE
        } else if has_expired {
            EXPIRED
        } else {
            self.slice_rule
        }
    }
}
