//! The processes a policy has seen, numbered from zero in the order of their first request.
//!
//! A stream's number in a trace is a process id: any 32-bit number. The numbers given here are
//! dense, so the state of processes lies in a vector. An open-addressed table finds them; the
//! process that was looked up last, mostly the one that is looked up next, is found without it.

use std::cell::Cell;

use traces::Request;

const EMPTY: u32 = u32::MAX;

/// The table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    /// VM and stream of each process, by number.
    keys: Vec<u64>,
    /// Numbers at the place of their key's hash or behind; a power of two long, at most half full.
    table: Vec<u32>,
    last: Cell<u32>,
}

impl Processes {
    /// The number of the process that a request is from, and whether this is its first request.
    pub(crate) fn number(&mut self, request: &Request) -> (usize, bool) {
        if let Some(known) = self.known(request) {
            return (known, false);
        }
        if self.keys.len() * 2 >= self.table.len() {
            self.grow();
        }
        let key = key(request);
        let place = self.place(key);
        self.table[place] = self.keys.len() as u32;
        self.keys.push(key);
        (self.keys.len() - 1, true)
    }

    /// The number of the process that a request is from, if there was one before.
    pub(crate) fn known(&self, request: &Request) -> Option<usize> {
        let key = key(request);
        if self.keys.get(self.last.get() as usize) == Some(&key) {
            return Some(self.last.get() as usize);
        }
        if self.table.is_empty() {
            return None;
        }
        let number = self.table[self.place(key)];
        (number != EMPTY).then(|| {
            self.last.set(number);
            number as usize
        })
    }

    /// Where the key is, or the free place where it would be.
    fn place(&self, key: u64) -> usize {
        let mask = self.table.len() - 1;
        // Fibonacci hashing: the upper half of the product depends on every bit of the key.
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.table[place] != EMPTY && self.keys[self.table[place] as usize] != key {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let len = (self.table.len() * 2).max(64);
        self.table.clear();
        self.table.resize(len, EMPTY);
        for number in 0..self.keys.len() {
            let place = self.place(self.keys[number]);
            self.table[place] = number as u32;
        }
    }
}

fn key(request: &Request) -> u64 {
    (u64::from(request.vm.0) << 32) | u64::from(request.stream.0)
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Operation, Sectors, StreamId, Timestamp, VmId};

    use super::*;

    fn from(vm: u16, stream: u32) -> Request {
        let mut request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
        request.vm = VmId(vm);
        request.stream = StreamId(stream);
        request
    }

    #[test]
    fn processes_are_numbered_by_first_appearance_and_found_again() {
        let mut processes = Processes::default();
        assert_eq!(processes.known(&from(0, 7)), None);
        let who = |n: u32| from((n % 5) as u16, n.wrapping_mul(0x0100_0193));
        for n in 0..10_000 {
            assert_eq!(processes.known(&who(n)), None);
            assert_eq!(processes.number(&who(n)), (n as usize, true));
        }
        for n in (0..10_000).rev() {
            assert_eq!(processes.number(&who(n)), (n as usize, false));
            assert_eq!(processes.known(&who(n)), Some(n as usize));
        }
    }

    #[test]
    fn the_same_stream_of_two_vms_is_two_processes() {
        let mut processes = Processes::default();
        assert_eq!(processes.number(&from(0, 1)), (0, true));
        assert_eq!(processes.number(&from(1, 1)), (1, true));
        assert_eq!(processes.number(&from(0, 1)), (0, false));
    }
}
