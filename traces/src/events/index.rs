//! From an address and a class to the requests outstanding there, oldest first: an open-addressing
//! table that allocates nothing per event and grows only with the number outstanding.

/// No request.
pub(super) const NONE: u32 = u32::MAX;

/// Multiplier of Fibonacci hashing, 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The initial number of buckets: eight for each request that a usual device has in flight (64). A search then mostly
/// ends at its first bucket, so that the processor predicts its branches.
const INITIAL_BITS: u32 = 9;

#[derive(Clone, Copy)]
struct Bucket {
    key: u64,
    /// Oldest with this key; `NONE` in an empty bucket.
    head: u32,
    tail: u32,
}

const EMPTY: Bucket = Bucket { key: 0, head: NONE, tail: NONE };

/// Keys to first-in-first-out lists of ids. An id is in at most one list of an index.
pub(super) struct Index {
    buckets: Vec<Bucket>,
    /// Keys in use.
    used: usize,
    /// 64 less the number of bits of a bucket's number.
    shift: u32,
    /// The next younger id with the same key, by id.
    next: Vec<u32>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { buckets: vec![EMPTY; 1 << INITIAL_BITS], used: 0, shift: 64 - INITIAL_BITS, next: Vec::new() }
    }

    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// The bucket that holds `key`, or else the empty one it would go to.
    fn bucket(&self, key: u64) -> usize {
        let mask = self.buckets.len() - 1;
        let mut at = self.home(key);
        while self.buckets[at].head != NONE && self.buckets[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// Puts `id` behind all others of `key`.
    pub(super) fn insert(&mut self, key: u64, id: u32) {
        if id as usize >= self.next.len() {
            self.next.resize(id as usize + 1, NONE);
        }
        self.next[id as usize] = NONE;
        let at = self.bucket(key);
        let bucket = &mut self.buckets[at];
        if bucket.head == NONE {
            *bucket = Bucket { key, head: id, tail: id };
            self.used += 1;
            if self.used * 2 > self.buckets.len() {
                self.grow();
            }
        } else {
            self.next[bucket.tail as usize] = id;
            bucket.tail = id;
        }
    }

    /// The oldest id of `key`, [`NONE`] if there is none.
    #[inline]
    pub(super) fn first(&self, key: u64) -> u32 {
        let mask = self.buckets.len() - 1;
        let mut at = self.home(key);
        loop {
            let bucket = &self.buckets[at];
            if bucket.key == key || bucket.head == NONE {
                return bucket.head;
            }
            at = (at + 1) & mask;
        }
    }

    /// The next younger id with the same key as `id`, which is in the index.
    pub(super) fn after(&self, id: u32) -> u32 {
        self.next[id as usize]
    }

    /// Takes `id` out of the list of `key`.
    ///
    /// # Panics
    /// If it is not in that list: the caller lost track of a request.
    pub(super) fn remove(&mut self, key: u64, id: u32) {
        let at = self.bucket(key);
        let Bucket { head, tail, .. } = self.buckets[at];
        if head == id {
            if tail == id {
                self.vacate(at);
            } else {
                self.buckets[at].head = self.next[id as usize];
            }
            return;
        }
        let mut before = head;
        loop {
            assert!(before != NONE, "request {id} is not in the index under its key");
            let next = self.next[before as usize];
            if next == id {
                break;
            }
            before = next;
        }
        self.next[before as usize] = self.next[id as usize];
        if tail == id {
            self.buckets[at].tail = before;
        }
    }

    /// Empties a bucket and moves later ones of its run up, so that no search ends too early.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.buckets.len() - 1;
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.buckets[at].head == NONE {
                break;
            }
            let home = self.home(self.buckets[at].key);
            // It may move unless its home lies cyclically behind the hole.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
        }
        self.buckets[hole] = EMPTY;
    }

    fn grow(&mut self) {
        self.shift -= 1;
        let larger = vec![EMPTY; self.buckets.len() * 2];
        for bucket in std::mem::replace(&mut self.buckets, larger) {
            if bucket.head != NONE {
                let at = self.bucket(bucket.key);
                self.buckets[at] = bucket;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    fn list(index: &Index, key: u64) -> Vec<u32> {
        let first = Some(index.first(key)).filter(|id| *id != NONE);
        std::iter::successors(first, |id| Some(index.after(*id)).filter(|id| *id != NONE)).collect()
    }

    proptest! {
        /// Against a map of queues; few keys for long lists, many for growth and long runs.
        #[test]
        fn it_is_a_map_of_queues(
            steps in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..2_000),
            keys in prop_oneof![Just(3u64), Just(1_000)],
        ) {
            let mut index = Index::new();
            let mut queues: BTreeMap<u64, VecDeque<u32>> = BTreeMap::new();
            let mut present: Vec<(u64, u32)> = Vec::new();
            let mut free: Vec<u32> = (0..2_000).rev().collect();
            for (add, choice) in steps {
                if add || present.is_empty() {
                    // Keys far apart in one bit collide in their bucket as real addresses do.
                    let key = (u64::from(choice) % keys) << 44;
                    let id = free.pop().unwrap();
                    index.insert(key, id);
                    queues.entry(key).or_default().push_back(id);
                    present.push((key, id));
                } else {
                    let (key, id) = present.swap_remove(usize::from(choice) % present.len());
                    index.remove(key, id);
                    queues.get_mut(&key).unwrap().retain(|other| *other != id);
                    free.push(id);
                }
            }
            for (key, queue) in &queues {
                prop_assert_eq!(&list(&index, *key), &Vec::from(queue.clone()));
            }
            prop_assert_eq!(index.used, queues.values().filter(|queue| !queue.is_empty()).count());
        }
    }

    #[test]
    #[should_panic(expected = "not in the index")]
    fn losing_track_of_a_request_is_a_broken_invariant() {
        let mut index = Index::new();
        index.insert(7, 1);
        index.remove(7, 2);
    }
}
