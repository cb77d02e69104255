//! The rules that send a request, and the one by which a request goes.

use traces::RequestId;

use super::Anticipatory;
use crate::entry::RuleInfo;

pub(super) const ALIAS: usize = 0;
pub(super) const EXPIRED: usize = 1;
pub(super) const ANTICIPATED: usize = 2;
pub(super) const IN_VAIN: usize = 3;
pub(super) const BATCH: usize = 4;
pub(super) const NEW_BATCH: usize = 5;
pub(super) const RULES: &[RuleInfo] = &[
    RuleInfo::new("alias", "a request whose place in the sector order another one took at the same sector"),
    RuleInfo::new("expired", "the oldest of its class, which has expired"),
    RuleInfo::new("anticipated", "the request that ended the anticipation: of the awaited process, or near enough"),
    RuleInfo::new("in vain", "the first request after an anticipation whose time ran out"),
    RuleInfo::new("batch", "any other that is next in the batch that runs"),
    RuleInfo::new("new batch", "any other that begins a batch"),
];

impl Anticipatory {
    /// The rule by which this request goes, which has not expired.
    pub(super) fn rule_of(&self, chosen: RequestId) -> usize {
        if self.anticipated == Some(chosen) {
            ANTICIPATED
        } else if self.was_in_vain {
            IN_VAIN
        } else if self.begins_batch {
            NEW_BATCH
        } else {
            BATCH
        }
    }
}
