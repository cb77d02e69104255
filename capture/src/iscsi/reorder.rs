//! Records in the order of their arrival, though they are known only when their command has completed.

use std::collections::VecDeque;

use traces::{Nanos, Record, Timestamp};

/// Records that are held at most; beyond, the oldest is given without a completion.
const HELD_MAX: usize = 1 << 17;
/// How long a record is held at least, because one from before may still turn up.
const SETTLED: Nanos = Nanos::from_ms(1000);

/// A record that is held: its place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHandle(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Done,
    Dropped,
    /// Given already, still waited for.
    Given,
    Free,
}

/// Holds records until their turn.
#[derive(Debug, Default)]
pub struct ReorderBuffer {
    held: Vec<(Record, State)>,
    free: Vec<u32>,
    order: VecDeque<(Timestamp, u32)>,
    newest: Timestamp,
    given: Timestamp,
    /// Records given before their command completed.
    pub given_early: u64,
    /// Records that turned up too late for their place, and were put later.
    pub moved: u64,
}

impl ReorderBuffer {
    /// Takes in a record whose command has not completed.
    pub fn open(&mut self, mut record: Record) -> RecordHandle {
        let arrival = &mut record.request.arrival;
        if *arrival < self.given {
            *arrival = self.given;
            self.moved += 1;
        }
        let arrival = *arrival;
        self.newest = self.newest.max(arrival);
        let place = match self.free.pop() {
            Some(place) => {
                self.held[place as usize] = (record, State::Open);
                place
            }
            None => {
                self.held.push((record, State::Open));
                (self.held.len() - 1) as u32
            }
        };
        match self.order.back() {
            Some(&(last, _)) if last > arrival => {
                let at = self.order.partition_point(|&(other, _)| other <= arrival);
                self.order.insert(at, (arrival, place));
            }
            _ => self.order.push_back((arrival, place)),
        }
        RecordHandle(place)
    }

    /// The record itself, to be changed.
    pub fn record(&mut self, place: RecordHandle) -> &mut Record {
        &mut self.held[place.0 as usize].0
    }

    /// Its command has completed, or will not.
    pub fn done(&mut self, place: RecordHandle) {
        self.settle(place, State::Done);
    }

    /// It is no record after all.
    pub fn dropped(&mut self, place: RecordHandle) {
        self.settle(place, State::Dropped);
    }

    fn settle(&mut self, RecordHandle(place): RecordHandle, state: State) {
        let held = &mut self.held[place as usize].1;
        match held {
            State::Given => {
                *held = State::Free;
                self.free.push(place);
            }
            State::Open => *held = state,
            State::Done | State::Dropped | State::Free => {}
        }
    }

    /// It is this late.
    pub fn now(&mut self, now: Timestamp) {
        self.newest = self.newest.max(now);
    }

    /// The next record: one that none can come before, any if `ended`.
    pub fn next(&mut self, ended: bool) -> Option<Record> {
        loop {
            let &(arrival, place) = self.order.front()?;
            let full = self.order.len() > HELD_MAX;
            if !ended && !full && self.newest.saturating_since(arrival) < SETTLED {
                return None;
            }
            let (record, state) = &mut self.held[place as usize];
            let record = *record;
            match *state {
                State::Open if !ended && !full => return None,
                State::Open => {
                    *state = State::Given;
                    self.given_early += u64::from(!ended);
                }
                State::Done | State::Dropped => {
                    let dropped = *state == State::Dropped;
                    *state = State::Free;
                    self.free.push(place);
                    if dropped {
                        self.order.pop_front();
                        continue;
                    }
                }
                State::Given | State::Free => {}
            }
            self.order.pop_front();
            self.given = arrival;
            return Some(record);
        }
    }
}
