//! Shared parts of the hypervisor policies: the waiting requests of each VM in the order of arrival, and the values of
//! a tunable for each VM.

use traces::{Operation, Request, RequestId, VmId};

use crate::lba_queue::Classes;
use crate::order::Order;
use crate::slots::Slots;

/// A tunable with a value for each VM: the first is VM 0's, the last holds for all further VMs.
#[derive(Clone, Debug)]
pub(crate) struct PerVm {
    values: Vec<u64>,
}

impl PerVm {
    /// From [`traces::spec::Settings::counts`].
    pub(crate) fn new(values: Vec<u64>) -> PerVm {
        assert!(!values.is_empty(), "a list has at least one value");
        PerVm { values }
    }

    pub(crate) fn of(&self, vm: VmId) -> u64 {
        self.values[usize::from(vm.0).min(self.values.len() - 1)]
    }

    pub(crate) fn max(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(1)
    }
}

/// The first age, half way, so that a request that comes back can be put before all that wait.
const FIRST_AGE: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    vm: VmId,
    is_read: bool,
}

/// The queues. Reads and all others are apart, so that passing over a kind for which there is no capacity costs
/// nothing. One order for all VMs (by VM, then by age) keeps memory from growing with their number.
#[derive(Debug)]
pub(crate) struct VmQueue {
    reads: Order,
    writes: Order,
    kinds: Slots<Kind>,
    next_age: u64,
    front_age: u64,
}

impl Default for VmQueue {
    fn default() -> Self {
        VmQueue {
            reads: Order::default(),
            writes: Order::default(),
            kinds: Slots::default(),
            next_age: FIRST_AGE,
            front_age: FIRST_AGE,
        }
    }
}

/// The first request of a VM's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) vm: VmId,
    pub(crate) age: u64,
    pub(crate) id: RequestId,
}

impl VmQueue {
    pub(crate) fn len(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    pub(crate) fn push_back(&mut self, id: RequestId, request: &Request) {
        self.next_age += 1;
        self.put(id, request, self.next_age - 1);
    }

    /// Puts a request that came back before all that wait.
    pub(crate) fn push_front(&mut self, id: RequestId, request: &Request) {
        self.front_age -= 1;
        self.put(id, request, self.front_age);
    }

    fn put(&mut self, id: RequestId, request: &Request, age: u64) {
        self.kinds.set(id, Kind { vm: request.vm, is_read: request.operation == Operation::Read });
        self.order_of(id).insert(id, u64::from(request.vm.0), age);
    }

    pub(crate) fn remove(&mut self, id: RequestId) {
        self.order_of(id).remove(id);
    }

    /// The VM of a waiting request.
    pub(crate) fn vm(&self, id: RequestId) -> VmId {
        self.kinds[id].vm
    }

    /// The oldest request of these classes of the first VM at or behind `vm`, by number, that has one.
    pub(crate) fn first_at_or_after(&self, vm: VmId, classes: Classes) -> Option<First> {
        let first = |wanted: bool, order: &Order| {
            let entry = if wanted { order.at_or_after(u64::from(vm.0)) } else { None }?;
            Some(First { vm: VmId(entry.key as u16), age: entry.age, id: entry.id() })
        };
        let (read, write) = (first(classes.reads, &self.reads), first(classes.writes, &self.writes));
        match (read, write) {
            (Some(a), Some(b)) => Some(if (a.vm, a.age) < (b.vm, b.age) { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// The oldest request of these classes of this VM.
    pub(crate) fn first_of(&self, vm: VmId, classes: Classes) -> Option<First> {
        self.first_at_or_after(vm, classes).filter(|first| first.vm == vm)
    }

    /// The oldest request of these classes of every VM that has one, by VM.
    pub(crate) fn firsts(&self, classes: Classes) -> impl Iterator<Item = First> {
        let next = move |vm: u16| self.first_at_or_after(VmId(vm), classes);
        std::iter::successors(next(0), move |first| next(first.vm.0.checked_add(1)?))
    }

    fn order_of(&mut self, id: RequestId) -> &mut Order {
        if self.kinds[id].is_read { &mut self.reads } else { &mut self.writes }
    }
}

/// The requests that were sent and have not completed. Completions of requests that another policy sent are ignored.
#[derive(Debug, Default)]
pub(crate) struct Below {
    is_below: Slots<bool>,
    count: u64,
}

impl Below {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn inserted(&mut self, id: RequestId) {
        self.is_below.set(id, false);
    }

    pub(crate) fn sent(&mut self, id: RequestId) {
        self.is_below[id] = true;
        self.count += 1;
    }

    /// Completed, or come back. Whether it was below.
    pub(crate) fn left(&mut self, id: RequestId) -> bool {
        let was = std::mem::take(&mut self.is_below[id]);
        self.count -= u64::from(was);
        was
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Sectors, Timestamp};

    use super::*;

    const BOTH: Classes = Classes { reads: true, writes: true };

    fn request(vm: u16, operation: Operation) -> Request {
        let mut request = Request::new(Timestamp::ZERO, operation, Lba::ZERO, Sectors::new(8));
        request.vm = VmId(vm);
        request
    }

    #[test]
    fn the_first_of_each_vm_is_its_oldest_with_capacity() {
        use Operation::{Read, Write};
        let mut queue = VmQueue::default();
        for (id, (vm, operation)) in [(3, Write), (3, Read), (0, Read), (u16::MAX, Write)].into_iter().enumerate() {
            queue.push_back(RequestId(id as u32), &request(vm, operation));
        }
        let firsts =
            |queue: &VmQueue, classes| queue.firsts(classes).map(|first| (first.vm.0, first.id.0)).collect::<Vec<_>>();
        assert_eq!(firsts(&queue, BOTH), [(0, 2), (3, 0), (u16::MAX, 3)]);
        assert_eq!(firsts(&queue, Classes::READS), [(0, 2), (3, 1)]);
        queue.push_front(RequestId(4), &request(3, Read));
        assert_eq!(firsts(&queue, BOTH), [(0, 2), (3, 4), (u16::MAX, 3)]);
        queue.remove(RequestId(2));
        assert_eq!((queue.first_of(VmId(0), BOTH), queue.len()), (None, 4));
        assert_eq!(queue.vm(RequestId(3)), VmId(u16::MAX));
    }

    #[test]
    fn last_value_applies_to_all_further_vms() {
        let values = PerVm::new(vec![1, 5]);
        assert_eq!([0, 1, 2, 60_000].map(|vm| values.of(VmId(vm))), [1, 5, 5, 5]);
        assert_eq!(values.max(), 5);
    }
}
