//! What will happen inside the drive, in order.
//!
//! Nearly all events of a kind are due the same time after they are added, or when one resource is free, so that they
//! are added in the order in which they are due. Each kind has a queue of its own, and the next event is the first of
//! one of the queues. That takes a few comparisons, however many events there are.

use traces::Timestamp;

use crate::flash::description::Timing;

/// The kind of an event inside the drive. Events of a kind share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A die has read its cells.
    Read,
    /// A channel has carried an operation's data.
    Channel,
    /// A die has programmed its cells, unless that was suspended since.
    Program,
    /// A die has erased its cells, unless that was suspended since; or it has ended what was suspended.
    Erase,
    /// The controller has understood a command.
    Command,
    /// A write's data has come over the link.
    Data,
    /// A read is complete.
    ReadDone,
    /// Any other command is complete.
    OtherDone,
}

impl EventKind {
    /// In the order of their numbers.
    const ALL: [EventKind; 8] = [
        EventKind::Read,
        EventKind::Channel,
        EventKind::Program,
        EventKind::Erase,
        EventKind::Command,
        EventKind::Data,
        EventKind::ReadDone,
        EventKind::OtherDone,
    ];
    const COUNT: usize = EventKind::ALL.len();
    /// The first kinds, of most events.
    const FREQUENT: usize = 2;
}

/// An event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashEvent {
    /// When.
    pub time: Timestamp,
    /// What has happened.
    pub kind: EventKind,
    /// To which command, die or channel.
    pub subject: u32,
    /// How many events were added before it.
    pub sequence: u64,
}

/// An event to come.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    time: u64,
    sequence: u64,
    subject: u32,
}

impl Entry {
    /// Its place in the order of events; of those at the same time the one added first comes first.
    fn key(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.sequence)
    }
}

/// The key of an empty queue's first event.
const NEVER: u128 = u128::MAX;

/// Events of a kind, in their order: a ring whose size is a power of two.
#[derive(Debug)]
struct Queue {
    ring: Vec<Entry>,
    head: usize,
    count: usize,
}

impl Queue {
    fn new() -> Queue {
        Queue { ring: vec![Entry::default(); 16], head: 0, count: 0 }
    }

    fn index(&self, nth: usize) -> usize {
        (self.head + nth) & (self.ring.len() - 1)
    }

    /// Adds `entry`, whose sequence number is above all others.
    fn add(&mut self, entry: Entry) {
        if self.count == self.ring.len() {
            self.ring.rotate_left(self.head);
            self.head = 0;
            self.ring.resize(2 * self.count, Entry::default());
        }
        let mut nth = self.count;
        self.count += 1;
        while nth > 0 {
            let before = self.ring[self.index(nth - 1)];
            if before.time <= entry.time {
                break;
            }
            let index = self.index(nth);
            self.ring[index] = before;
            nth -= 1;
        }
        let index = self.index(nth);
        self.ring[index] = entry;
    }

    fn take(&mut self) -> Entry {
        let entry = self.ring[self.head];
        self.head = self.index(1);
        self.count -= 1;
        entry
    }

    fn first(&self) -> u128 {
        if self.count == 0 { NEVER } else { self.ring[self.head].key() }
    }
}

/// The events to come.
#[derive(Debug)]
pub struct Agenda {
    queues: [Queue; EventKind::COUNT],
    /// The key of each queue's first event.
    first: [u128; EventKind::COUNT],
    /// Which queue of all but the frequent kinds has the first event of them.
    other: usize,
    /// How long after an event of each kind a command completes at the soonest, in ns.
    completes_after: [u64; EventKind::COUNT],
    sequence: u64,
}

impl Agenda {
    /// Without events. `suspensions` are those of [`Medium::new`](crate::flash::medium::Medium::new).
    pub fn new(timing: &Timing, suspensions: u32) -> Agenda {
        let (read, other) = (timing.read_overhead.as_ns(), timing.write_overhead.as_ns());
        let mut completes_after = [read.min(other); EventKind::COUNT];
        // After a read its command completes, or a program operation begins, unless one was suspended and ends.
        if suspensions == 0 {
            let after_read = read.min(other.saturating_add(timing.program.as_ns()));
            completes_after[EventKind::Read as usize] = after_read;
            completes_after[EventKind::Channel as usize] = after_read;
        }
        completes_after[EventKind::ReadDone as usize] = 0;
        completes_after[EventKind::OtherDone as usize] = 0;
        Agenda {
            queues: std::array::from_fn(|_| Queue::new()),
            first: [NEVER; EventKind::COUNT],
            other: EventKind::FREQUENT,
            completes_after,
            sequence: 0,
        }
    }

    /// Adds an event, and returns its [`FlashEvent::sequence`].
    #[inline]
    pub fn at(&mut self, time: Timestamp, kind: EventKind, subject: u32) -> u64 {
        let entry = Entry { time: time.as_ns(), sequence: self.sequence, subject };
        self.sequence += 1;
        self.queues[kind as usize].add(entry);
        let number = kind as usize;
        if entry.key() < self.first[number] {
            self.first[number] = entry.key();
            if number >= EventKind::FREQUENT && entry.key() < self.first[self.other] {
                self.other = number;
            }
        }
        entry.sequence
    }

    /// A time that no command completes before, unless more are added. It is later than the next event, so that a
    /// replay has not to stop at every one.
    pub fn next_completion(&self) -> Option<Timestamp> {
        let mut soonest = u64::MAX;
        for (first, after) in self.first.iter().zip(&self.completes_after) {
            soonest = soonest.min(time_of(*first).saturating_add(*after));
        }
        let is_due = soonest < u64::MAX || self.first.iter().any(|first| *first != NEVER);
        is_due.then(|| Timestamp::from_ns(soonest))
    }

    /// Takes the next event, if it is due by `now`.
    #[inline]
    pub fn take(&mut self, now: Timestamp) -> Option<FlashEvent> {
        let mut number = self.other;
        for frequent in 0..EventKind::FREQUENT {
            number = if self.first[frequent] < self.first[number] { frequent } else { number };
        }
        let (time, queue) = (time_of(self.first[number]), &mut self.queues[number]);
        // An empty queue's time is that of the last of all times, too.
        if time > now.as_ns() || queue.count == 0 {
            return None;
        }
        let Entry { sequence, subject, .. } = queue.take();
        self.first[number] = queue.first();
        if number >= EventKind::FREQUENT {
            self.find_other();
        }
        Some(FlashEvent { time: Timestamp::from_ns(time), kind: EventKind::ALL[number], subject, sequence })
    }

    /// Without a branch, since it is hard to foresee which is the first.
    fn find_other(&mut self) {
        let (mut least, mut other) = (NEVER, EventKind::FREQUENT);
        for (number, first) in self.first.iter().enumerate().skip(EventKind::FREQUENT) {
            (least, other) = if *first < least { (*first, number) } else { (least, other) };
        }
        self.other = other;
    }
}

fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

#[cfg(test)]
mod tests;
