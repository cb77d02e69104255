//! The waiting requests in order of their first sector. Reads and all others are apart, so that passing over a kind for
//! which there is no capacity costs nothing.

use traces::{Lba, Operation, Request, RequestId};

use crate::order::{Entry, Order};
use crate::scheduler::Capacity;
use crate::slots::Slots;

/// The kinds of requests to consider: reads, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Classes {
    pub(crate) const READS: Classes = Classes { reads: true, writes: false };

    /// The kinds for which there is capacity.
    pub(crate) fn with(capacity: Capacity) -> Classes {
        Classes { reads: capacity.reads > 0, writes: capacity.writes > 0 }
    }
}

/// The queue. Among requests at the same sector the older comes first, of either kind.
#[derive(Debug, Default)]
pub(crate) struct LbaQueue {
    reads: Order,
    writes: Order,
    is_read: Slots<bool>,
    next_age: u64,
}

impl LbaQueue {
    pub(crate) fn len(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    /// Whether none of these classes waits.
    pub(crate) fn is_empty(&self, classes: Classes) -> bool {
        (!classes.reads || self.reads.is_empty()) && (!classes.writes || self.writes.is_empty())
    }

    pub(crate) fn insert(&mut self, id: RequestId, request: &Request) {
        let age = self.next_age;
        self.next_age += 1;
        self.is_read.set(id, request.operation == Operation::Read);
        self.order_of(id).insert(id, request.lba.sector(), age);
    }

    pub(crate) fn remove(&mut self, id: RequestId) {
        self.order_of(id).remove(id);
    }

    /// A waiting request has grown; sorts it anew if it now starts elsewhere.
    pub(crate) fn grown(&mut self, id: RequestId, request: &Request) {
        let order = self.order_of(id);
        let Entry { key, age, .. } = order.entry(id);
        if key != request.lba.sector() {
            order.remove(id);
            order.insert(id, request.lba.sector(), age);
        }
    }

    pub(crate) fn is_read(&self, id: RequestId) -> bool {
        self.is_read[id]
    }

    /// When a waiting request came, as a number that grows with every arrival.
    pub(crate) fn age(&self, id: RequestId) -> u64 {
        if self.is_read[id] { self.reads.entry(id).age } else { self.writes.entry(id).age }
    }

    /// The first that starts at `lba` or above.
    pub(crate) fn at_or_after(&self, lba: Lba, classes: Classes) -> Option<Entry> {
        self.pick(classes, |order| order.at_or_after(lba.sector()), Entry::lt)
    }

    /// The nearest that starts below `lba`.
    pub(crate) fn before(&self, lba: Lba, classes: Classes) -> Option<Entry> {
        self.pick(classes, |order| order.before(lba.sector()), |a, b| (a.key, b.age) > (b.key, a.age))
    }

    /// The one that starts lowest.
    pub(crate) fn lowest(&self, classes: Classes) -> Option<Entry> {
        self.pick(classes, Order::first, Entry::lt)
    }

    /// The next in circular-scan order: the first at `position` or above, else the lowest.
    pub(crate) fn circular(&self, position: Lba, classes: Classes) -> Option<Entry> {
        self.at_or_after(position, classes).or_else(|| self.lowest(classes))
    }

    /// All that start at `lba` or above, upwards.
    pub(crate) fn ascending_from(&self, lba: Lba, classes: Classes) -> impl Iterator<Item = Entry> {
        let reads = self.reads.ascending_from(lba.sector()).take(everything_if(classes.reads));
        let writes = self.writes.ascending_from(lba.sector()).take(everything_if(classes.writes));
        joined(reads, writes, Entry::lt)
    }

    /// All that start below `lba`, downwards; among those at one sector the youngest comes first.
    pub(crate) fn descending_before(&self, lba: Lba, classes: Classes) -> impl Iterator<Item = Entry> {
        let reads = self.reads.descending_before(lba.sector()).take(everything_if(classes.reads));
        let writes = self.writes.descending_before(lba.sector()).take(everything_if(classes.writes));
        joined(reads, writes, Entry::gt)
    }

    fn pick(
        &self,
        classes: Classes,
        find: impl Fn(&Order) -> Option<Entry>,
        is_first: impl Fn(&Entry, &Entry) -> bool,
    ) -> Option<Entry> {
        let read = if classes.reads && !self.reads.is_empty() { find(&self.reads) } else { None };
        let write = if classes.writes && !self.writes.is_empty() { find(&self.writes) } else { None };
        match (read, write) {
            (Some(read), Some(write)) => Some(if is_first(&read, &write) { read } else { write }),
            (read, write) => read.or(write),
        }
    }

    fn order_of(&mut self, id: RequestId) -> &mut Order {
        if self.is_read[id] { &mut self.reads } else { &mut self.writes }
    }
}

fn everything_if(wanted: bool) -> usize {
    if wanted { usize::MAX } else { 0 }
}

/// Two sorted sequences as one.
fn joined(
    first: impl Iterator<Item = Entry>,
    second: impl Iterator<Item = Entry>,
    is_first: impl Fn(&Entry, &Entry) -> bool,
) -> impl Iterator<Item = Entry> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if is_first(a, b) => first.next(),
        (_, Some(_)) => second.next(),
        (_, None) => first.next(),
    })
}

#[cfg(test)]
mod tests {
    use traces::{Sectors, Timestamp};

    use super::*;

    const BOTH: Classes = Classes { reads: true, writes: true };
    const WRITES: Classes = Classes { reads: false, writes: true };

    fn queue(requests: &[(Operation, u64)]) -> LbaQueue {
        let mut queue = LbaQueue::default();
        for (index, &(operation, lba)) in requests.iter().enumerate() {
            let request = Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(8));
            queue.insert(RequestId(index as u32), &request);
        }
        queue
    }

    #[test]
    fn kinds_are_joined_with_the_older_first_and_left_out_without_capacity() {
        use Operation::{Discard, Read, Write};
        let queue = queue(&[(Write, 50), (Read, 50), (Read, 10), (Discard, 10), (Read, 90)]);
        let id = |entry: Option<Entry>| entry.map(|entry| entry.id);
        for (lba, classes, at_or_after, before) in [
            (50, BOTH, Some(0), Some(2)),
            (50, Classes::READS, Some(1), Some(2)),
            (50, WRITES, Some(0), Some(3)),
            (51, BOTH, Some(4), Some(0)),
            (91, BOTH, None, Some(4)),
            (10, BOTH, Some(2), None),
        ] {
            let lba = Lba::new(lba);
            assert_eq!(id(queue.at_or_after(lba, classes)), at_or_after, "{lba} {classes:?}");
            assert_eq!(id(queue.before(lba, classes)), before, "{lba} {classes:?}");
        }
        assert_eq!(id(queue.circular(Lba::new(91), WRITES)), Some(3));
        let up: Vec<_> = queue.ascending_from(Lba::ZERO, BOTH).map(|entry| entry.id).collect();
        assert_eq!(up, [2, 3, 0, 1, 4]);
        let down: Vec<_> = queue.descending_before(Lba::new(90), BOTH).map(|entry| entry.id).collect();
        assert_eq!(down, [1, 0, 3, 2]);
    }

    #[test]
    fn a_grown_request_moves_but_keeps_its_age() {
        let mut queue = queue(&[(Operation::Read, 50), (Operation::Read, 42)]);
        let grown = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(42), Sectors::new(16));
        queue.grown(RequestId(0), &grown);
        assert_eq!(queue.lowest(BOTH).map(|entry| (entry.key, entry.id)), Some((42, 0)));
        assert_eq!((queue.age(RequestId(0)), queue.len()), (0, 2));
    }
}
