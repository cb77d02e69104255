//! Waiting requests in ascending order of a number (a sector or an age), with search, insertion and removal in O(log
//! n).
//!
//! The sequence is cut into leaves of at most 64 entries. A binary search finds the leaf. A change moves the entries of
//! one leaf at most; with up to a few dozen waiting requests that is one short copy. A full leaf is split by an
//! insertion, which also moves the directory of leaves. That happens at most once in 32 insertions. Leaves are never
//! joined: an empty one is kept for the next split.

use std::cell::Cell;

use traces::RequestId;

use crate::slots::Slots;

const LEAF_ENTRIES: usize = 64;

/// A request at its place: by key, and among equal keys the older (smaller age) first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) age: u64,
    pub(crate) id: u32,
}

impl Entry {
    pub(crate) fn id(&self) -> RequestId {
        RequestId(self.id)
    }

    /// Whether its place is before that of (key, age).
    fn is_before(&self, key: u64, age: u64) -> bool {
        wide(self.key, self.age) < wide(key, age)
    }
}

/// How many of `len` places, sorted so that all that hold lead, `hold`. The standard library's
/// search compiles to a branch on every step, and every other is mispredicted; this one does not.
fn count_leading(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut first, mut rest) = (0, len);
    while rest > 1 {
        let half = rest / 2;
        first += half & usize::from(holds(first + half - 1)).wrapping_neg();
        rest -= half;
    }
    first + usize::from(rest == 1 && holds(first))
}

fn wide(key: u64, age: u64) -> u128 {
    (u128::from(key) << 64) | u128::from(age)
}

/// The order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    leaves: Vec<Vec<Entry>>,
    spare: Vec<Vec<Entry>>,
    entries: Slots<Entry>,
    len: usize,
    /// The leaf and slot found by the last search: an entry that was found is mostly removed next.
    found: Cell<(usize, usize)>,
    /// The same of the last search by key: a sweep's next is mostly there still, or one further on.
    swept: Cell<(usize, usize)>,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a waiting request is in the order.
    pub(crate) fn entry(&self, id: RequestId) -> Entry {
        self.entries[id]
    }

    /// Adds a request; no two have both key and age in common.
    pub(crate) fn insert(&mut self, id: RequestId, key: u64, age: u64) {
        let entry = Entry { key, age, id: id.0 };
        self.entries.set(id, entry);
        self.len += 1;
        let (mut leaf, mut slot) = self.seek(key, age);
        if leaf == self.leaves.len() {
            if leaf == 0 {
                let leaf = self.new_leaf();
                self.leaves.push(leaf);
            }
            leaf = self.leaves.len() - 1;
            slot = self.leaves[leaf].len();
        }
        if self.leaves[leaf].len() == LEAF_ENTRIES {
            let mut upper = self.new_leaf();
            upper.extend(self.leaves[leaf].drain(LEAF_ENTRIES / 2..));
            self.leaves.insert(leaf + 1, upper);
            if slot > LEAF_ENTRIES / 2 {
                (leaf, slot) = (leaf + 1, slot - LEAF_ENTRIES / 2);
            }
        }
        self.leaves[leaf].insert(slot, entry);
    }

    /// Takes out a request that is in the order.
    pub(crate) fn remove(&mut self, id: RequestId) {
        let (leaf, slot) = self.place(id);
        let removed = self.leaves[leaf].remove(slot);
        assert!(removed.id == id.0, "request {} is not in the order", id.0);
        self.len -= 1;
        if self.leaves[leaf].is_empty() {
            let emptied = self.leaves.remove(leaf);
            self.spare.push(emptied);
        }
    }

    pub(crate) fn first(&self) -> Option<Entry> {
        self.leaves.first().map(|leaf| leaf[0])
    }

    /// The first whose key is at least `key`.
    pub(crate) fn at_or_after(&self, key: u64) -> Option<Entry> {
        let (leaf, slot) = self.where_last_swept(key).unwrap_or_else(|| self.seek(key, 0));
        self.found.set((leaf, slot));
        self.swept.set((leaf, slot));
        self.leaves.get(leaf).map(|leaf| leaf[slot])
    }

    /// The one with the largest key below `key`; among several the oldest.
    pub(crate) fn before(&self, key: u64) -> Option<Entry> {
        let mut descending = self.descending_before(key);
        let nearest = descending.next()?;
        match descending.next() {
            Some(next) if next.key == nearest.key => self.at_or_after(nearest.key),
            _ => Some(nearest),
        }
    }

    /// The one behind a request that is in the order.
    pub(crate) fn after(&self, id: RequestId) -> Option<Entry> {
        let Entry { key, age, .. } = self.entries[id];
        let (leaf, slot) = self.seek(key, age + 1);
        self.leaves.get(leaf).map(|leaf| leaf[slot])
    }

    /// All whose key is at least `key`, upwards.
    pub(crate) fn ascending_from(&self, key: u64) -> impl Iterator<Item = Entry> {
        let (leaf, slot) = self.seek(key, 0);
        let rest = self.leaves.get(leaf).map_or(&[][..], |leaf| &leaf[slot..]);
        rest.iter().chain(self.leaves.iter().skip(leaf + 1).flatten()).copied()
    }

    /// All whose key is below `key`, downwards; among equal keys the youngest comes first.
    pub(crate) fn descending_before(&self, key: u64) -> impl Iterator<Item = Entry> {
        let (leaf, slot) = self.seek(key, 0);
        let rest = self.leaves.get(leaf).map_or(&[][..], |leaf| &leaf[..slot]);
        rest.iter().rev().chain(self.leaves[..leaf].iter().rev().flat_map(|leaf| leaf.iter().rev())).copied()
    }

    /// The leaf and slot of the first entry whose key is at least `key`. They are known if that is where the last such
    /// search ended or, after an insertion before it, the next: neighbours around `key` prove it.
    fn where_last_swept(&self, key: u64) -> Option<(usize, usize)> {
        let (leaf, slot) = self.swept.get();
        let entries = self.leaves.get(leaf)?.as_slice();
        let is_there = |slot: usize| {
            let (below, here) = (entries.get(slot.wrapping_sub(1)), entries.get(slot));
            below.is_some_and(|entry| entry.key < key) && here.is_some_and(|entry| entry.key >= key)
        };
        [slot, slot + 1].into_iter().find(|&slot| is_there(slot)).map(|slot| (leaf, slot))
    }

    /// The leaf and slot of the first entry not before (key, age); the leaf behind the last if all are.
    fn seek(&self, key: u64, age: u64) -> (usize, usize) {
        let leaf = match self.leaves.as_slice() {
            [only] => usize::from(only[only.len() - 1].is_before(key, age)),
            leaves => count_leading(leaves.len(), |leaf| leaves[leaf][leaves[leaf].len() - 1].is_before(key, age)),
        };
        let slot =
            self.leaves.get(leaf).map_or(0, |leaf| count_leading(leaf.len(), |slot| leaf[slot].is_before(key, age)));
        self.found.set((leaf, slot));
        (leaf, slot)
    }

    /// The leaf and slot of a request that is in the order.
    fn place(&self, id: RequestId) -> (usize, usize) {
        let (leaf, slot) = self.found.get();
        if self.leaves.get(leaf).and_then(|leaf| leaf.get(slot)).is_some_and(|entry| entry.id == id.0) {
            return (leaf, slot);
        }
        let Entry { key, age, .. } = self.entries[id];
        self.seek(key, age)
    }

    fn new_leaf(&mut self) -> Vec<Entry> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(LEAF_ENTRIES))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of (key, age, id), through splits, emptied leaves and equal keys.
        #[test]
        fn order_equals_a_sorted_set_of_key_age_and_id(steps in prop::collection::vec((any::<bool>(), 0_u64..200, 0_usize..500), 1..900)) {
            let mut order = Order::default();
            let mut set: BTreeSet<(u64, u64, u32)> = BTreeSet::new();
            let mut free: Vec<u32> = Vec::new();
            for (age, (removes, key, pick)) in steps.into_iter().enumerate() {
                let age = age as u64;
                if removes && !set.is_empty() {
                    let gone = *set.iter().nth(pick % set.len()).unwrap();
                    set.remove(&gone);
                    order.remove(RequestId(gone.2));
                    free.push(gone.2);
                } else {
                    let id = free.pop().unwrap_or(set.len() as u32);
                    set.insert((key, age, id));
                    order.insert(RequestId(id), key, age);
                }
                let tuple = |e: Entry| (e.key, e.age, e.id);
                prop_assert_eq!(order.len(), set.len());
                prop_assert_eq!(order.first().map(tuple), set.first().copied());
                prop_assert_eq!(order.at_or_after(key).map(tuple), set.range((key, 0, 0)..).next().copied());
                let below = set.range(..(key, 0, 0)).next_back().map(|&(k, _, _)| k);
                let oldest = below.and_then(|k| set.range((k, 0, 0)..).next().copied());
                prop_assert_eq!(order.before(key).map(tuple), oldest);
                if let Some(&(k, a, id)) = set.iter().nth(pick % set.len().max(1)) {
                    prop_assert_eq!(order.after(RequestId(id)).map(tuple), set.range((k, a + 1, 0)..).next().copied());
                }
                let up: Vec<_> = order.ascending_from(key).map(tuple).collect();
                prop_assert_eq!(up, set.range((key, 0, 0)..).copied().collect::<Vec<_>>());
                let down: Vec<_> = order.descending_before(key).map(tuple).collect();
                prop_assert_eq!(down, set.range(..(key, 0, 0)).rev().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ascending_insertion_of_many_keeps_every_leaf_half_full() {
        let mut order = Order::default();
        for id in 0..100_000 {
            order.insert(RequestId(id), u64::from(id), u64::from(id));
        }
        assert!(order.leaves.len() <= 100_000 / (LEAF_ENTRIES / 2));
        assert_eq!(order.after(RequestId(31_415)).map(|entry| entry.id), Some(31_416));
    }
}
