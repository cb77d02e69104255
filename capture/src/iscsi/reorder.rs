//! Emits records in order of arrival, though each is complete only when its command has completed.

use std::collections::VecDeque;

use traces::{Nanos, Record, Timestamp};

/// The most records that are held. Beyond, the oldest is emitted without a completion.
const HELD_RECORDS_MAX: usize = 1 << 17;
/// The shortest time that a record is held, because an earlier one may still turn up.
const HOLD_TIME_MIN: Nanos = Nanos::from_ms(1000);

/// Identifies a held record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHandle(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Done,
    Dropped,
    /// Emitted, but its command has not completed.
    Emitted,
    Free,
}

/// Holds records until no earlier one can follow.
#[derive(Debug, Default)]
pub struct ReorderBuffer {
    held: Vec<(Record, State)>,
    free: Vec<u32>,
    order: VecDeque<(Timestamp, u32)>,
    newest: Timestamp,
    last_emitted: Timestamp,
    /// Records emitted before their command completed.
    pub given_early: u64,
    /// Records that came after a later one was emitted; their arrival was moved to it.
    pub moved: u64,
}

impl ReorderBuffer {
    /// Adds a record whose command has not completed.
    pub fn open(&mut self, mut record: Record) -> RecordHandle {
        let arrival = &mut record.request.arrival;
        if *arrival < self.last_emitted {
            *arrival = self.last_emitted;
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

    /// The held record.
    pub fn record(&mut self, place: RecordHandle) -> &mut Record {
        &mut self.held[place.0 as usize].0
    }

    /// The record is final: its command has completed, or will never complete.
    pub fn done(&mut self, place: RecordHandle) {
        self.settle(place, State::Done);
    }

    /// Removes the record.
    pub fn dropped(&mut self, place: RecordHandle) {
        self.settle(place, State::Dropped);
    }

    fn settle(&mut self, RecordHandle(place): RecordHandle, state: State) {
        let held = &mut self.held[place as usize].1;
        match held {
            State::Emitted => {
                *held = State::Free;
                self.free.push(place);
            }
            State::Open => *held = state,
            State::Done | State::Dropped | State::Free => {}
        }
    }

    /// Advances the current time.
    pub fn now(&mut self, now: Timestamp) {
        self.newest = self.newest.max(now);
    }

    /// The next record, if no earlier one can follow; any record if the capture has `ended`.
    pub fn next(&mut self, ended: bool) -> Option<Record> {
        loop {
            let &(arrival, place) = self.order.front()?;
            let full = self.order.len() > HELD_RECORDS_MAX;
            if !ended && !full && self.newest.saturating_since(arrival) < HOLD_TIME_MIN {
                return None;
            }
            let (record, state) = &mut self.held[place as usize];
            let record = *record;
            match *state {
                State::Open if !ended && !full => return None,
                State::Open => {
                    *state = State::Emitted;
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
                State::Emitted | State::Free => {}
            }
            self.order.pop_front();
            self.last_emitted = arrival;
            return Some(record);
        }
    }
}
