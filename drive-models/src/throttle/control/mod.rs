//! Changes of k: it rises when a completion arrives after its target and falls when many completions are held.
//!
//! The paper gives the directions and no numbers. Here both changes are factors, and both count only requests whose
//! target was computed with the current k. With several requests at the virtual disk, one that left before a change
//! says nothing about the effect of that change.

use super::report::ChangeCause;
use super::scale::ThrottleScale;

/// The rules of a dynamic k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The factor by which a late completion multiplies k, in thousandths, above 1000.
    pub raise: u64,
    /// The factor by which a long queue multiplies k, in thousandths, below 1000.
    pub lower: u64,
    /// How many held completions are a long queue; 0 is never.
    pub lower_at: u64,
    /// Where k stops to fall.
    pub least: ThrottleScale,
    /// Where k stops to rise.
    pub largest: ThrottleScale,
}

/// The k with which the target of a request was worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    k: ThrottleScale,
    /// How often k had changed.
    nth: u64,
}

/// The current k and the evidence for changing it.
#[derive(Debug)]
pub(super) struct Control {
    /// None for a fixed k.
    rules: Option<Rules>,
    now: Stamp,
    /// Held completions with the k in force.
    held: u64,
}

impl Control {
    pub(super) fn new(k: ThrottleScale, rules: Option<Rules>) -> Control {
        Control { rules, now: Stamp { k, nth: 0 }, held: 0 }
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.now
    }

    pub(super) fn k(&self) -> ThrottleScale {
        self.now.k
    }

    /// A completion has arrived after its target. Says whether k has risen.
    pub(super) fn late(&mut self, stamp: Stamp) -> Option<ChangeCause> {
        let rules = self.rules?;
        if stamp.k < self.now.k {
            return None;
        }
        let raised = self.now.k.raised(rules.raise).min(rules.largest);
        self.set(raised).then_some(ChangeCause::Late)
    }

    /// A completion is held from now on. Says whether k has fallen.
    pub(super) fn holds(&mut self, stamp: Stamp) -> Option<ChangeCause> {
        self.held += u64::from(stamp == self.now);
        let rules = self.rules?;
        if rules.lower_at == 0 || self.held < rules.lower_at {
            return None;
        }
        let lowered = self.now.k.lowered(rules.lower).max(rules.least);
        self.set(lowered).then_some(ChangeCause::LongQueue)
    }

    /// A completion is held no longer.
    pub(super) fn released(&mut self, stamp: Stamp) {
        self.held -= u64::from(stamp == self.now);
    }

    fn set(&mut self, k: ThrottleScale) -> bool {
        if k == self.now.k {
            return false;
        }
        self.now = Stamp { k, nth: self.now.nth + 1 };
        self.held = 0;
        true
    }
}

#[cfg(test)]
mod tests;
