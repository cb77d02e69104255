//! Finds the waiting requests that an arrival is adjacent to: by their end for a back merge, by their start for a front
//! merge. Linux uses the hash and the sort tree of its elevator for that (`block/elevator.c`).
//!
//! Both are exact-match look-ups by sector. So both are chained hash tables whose links are in vectors indexed by
//! request: no memory is allocated per request and removal is O(1). Of several requests with the same key, the one
//! inserted last is found first, as in the kernel.

use traces::{Lba, RequestId};

const NONE: u32 = u32::MAX;

/// One chained table from sector to waiting requests.
#[derive(Debug)]
struct Chains {
    heads: Vec<u32>,
    links: Vec<Link>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    key: u64,
    next: u32,
    previous: u32,
}

impl Chains {
    fn new() -> Chains {
        Chains { heads: vec![NONE; 64], links: Vec::new(), len: 0 }
    }

    fn bucket(&self, key: u64) -> usize {
        // Fibonacci hashing: addresses differ in their low bits or by strides; the high bits of the product depend on
        // all bits of the address.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.heads.len().trailing_zeros())) as usize
    }

    fn insert(&mut self, key: Lba, id: RequestId) {
        if self.len >= self.heads.len() {
            self.grow();
        }
        if id.index() >= self.links.len() {
            self.links.resize(id.index() + 1, Link { key: 0, next: NONE, previous: NONE });
        }
        self.len += 1;
        self.push(key.sector(), id.0);
    }

    fn push(&mut self, key: u64, id: u32) {
        let bucket = self.bucket(key);
        let head = self.heads[bucket];
        self.links[id as usize] = Link { key, next: head, previous: NONE };
        if head != NONE {
            self.links[head as usize].previous = id;
        }
        self.heads[bucket] = id;
    }

    fn remove(&mut self, id: RequestId) {
        let Link { key, next, previous } = self.links[id.index()];
        if previous == NONE {
            let bucket = self.bucket(key);
            self.heads[bucket] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        self.len -= 1;
    }

    fn grow(&mut self) {
        let mut newest_last = Vec::with_capacity(self.len);
        for &head in &self.heads {
            let from = newest_last.len();
            let mut id = head;
            while id != NONE {
                newest_last.push(id);
                id = self.links[id as usize].next;
            }
            newest_last[from..].reverse();
        }
        self.heads = vec![NONE; self.heads.len() * 4];
        for id in newest_last {
            self.push(self.links[id as usize].key, id);
        }
    }

    /// The requests with this key, the one inserted last first.
    fn find(&self, key: Lba) -> impl Iterator<Item = RequestId> {
        let key = key.sector();
        let mut id = self.heads[self.bucket(key)];
        std::iter::from_fn(move || {
            while id != NONE {
                let link = self.links[id as usize];
                let found = id;
                id = link.next;
                if link.key == key {
                    return Some(RequestId(found));
                }
            }
            None
        })
    }
}

/// The waiting requests by end and by start.
#[derive(Debug)]
pub(crate) struct MergeIndex {
    by_end: Chains,
    by_start: Chains,
}

impl MergeIndex {
    pub(crate) fn new() -> MergeIndex {
        MergeIndex { by_end: Chains::new(), by_start: Chains::new() }
    }

    pub(crate) fn insert(&mut self, id: RequestId, start: Lba, end: Lba) {
        self.by_end.insert(end, id);
        self.by_start.insert(start, id);
    }

    pub(crate) fn remove(&mut self, id: RequestId) {
        self.by_end.remove(id);
        self.by_start.remove(id);
    }

    /// Requests that end where `start` begins.
    pub(crate) fn ending_at(&self, start: Lba) -> impl Iterator<Item = RequestId> {
        self.by_end.find(start)
    }

    /// Requests that begin where `end` ends.
    pub(crate) fn starting_at(&self, end: Lba) -> impl Iterator<Item = RequestId> {
        self.by_start.find(end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn growing_the_table_keeps_the_newest_request_first() {
        let mut chains = Chains::new();
        for id in 0..1000 {
            chains.insert(Lba::new(u64::from(id % 3)), RequestId(id));
        }
        assert!(chains.heads.len() > 64, "it has grown");
        for key in 0..3u32 {
            let expected: Vec<_> = (0..1000).rev().filter(|id| id % 3 == key).map(RequestId).collect();
            assert_eq!(chains.find(Lba::new(u64::from(key))).collect::<Vec<_>>(), expected);
        }
    }

    proptest! {
                #[test]
        fn look_ups_agree_with_a_list_searched_newest_first(
            steps in prop::collection::vec((0u64..40, any::<bool>()), 1..400),
        ) {
            let mut chains = Chains::new();
            let mut list: Vec<(u64, u32)> = Vec::new();
            let mut ids: BTreeMap<u32, ()> = (0..1000).map(|id| (id, ())).collect();
            for (key, insert) in steps {
                if insert || list.is_empty() {
                    let (id, ()) = ids.pop_first().unwrap();
                    chains.insert(Lba::new(key), RequestId(id));
                    list.push((key, id));
                } else {
                    let (_, id) = list.remove(key as usize % list.len());
                    chains.remove(RequestId(id));
                    ids.insert(id, ());
                }
                for key in 0..40 {
                    let expected: Vec<_> = list.iter().rev().filter(|e| e.0 == key).map(|e| RequestId(e.1)).collect();
                    prop_assert_eq!(chains.find(Lba::new(key)).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
