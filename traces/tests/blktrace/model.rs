//! A model of the block layer that takes random legal steps, notes the fate of every bio, and
//! writes the events to the files of one to four CPUs: the records read must be those noted.

use iocast_traces::{Record, Timestamp};
use proptest::prelude::*;

use crate::text::assert_alike;
use crate::writer::{Capture, Whole, at_issued, strict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Got,
    Inserted,
    Issued,
    Flushing,
}

/// The facts of a bio (or, of issued requests, of a D): times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    lba: u64,
    sectors: u64,
    arrival: u64,
    inserted: Option<u64>,
    issued: Option<u64>,
    completed: Option<u64>,
}

#[derive(Clone, Debug)]
struct Unit {
    start: u64,
    end: u64,
    class: &'static str,
    bios: Vec<usize>,
    state: State,
    /// Order among units at one address.
    stamp: u64,
    issued_before: bool,
    /// It must be durable when it completes.
    fua: bool,
    /// Of a write in a flush sequence: whether a flush comes first and whether one follows.
    sequence: Option<(bool, bool)>,
    /// Its flush is done, so that it may be issued.
    ready: bool,
}

enum Waiter {
    Flush(usize),
    Before(u64),
    After(u64),
}

struct Model {
    capture: Capture,
    /// All events, for the message of a failure.
    lines: Vec<String>,
    now: u64,
    cpus: u32,
    cpu: u32,
    has_fua: bool,
    bios: Vec<Seen>,
    open: Vec<(u32, bool)>,
    units: Vec<Unit>,
    stamps: u64,
    waiting: Vec<Waiter>,
    in_flight: Option<(u64, Vec<Waiter>)>,
    /// Issued requests: class, whether withdrawn, and their facts.
    issues: Vec<(&'static str, bool, Seen)>,
}

impl Model {
    fn new(cpus: u32, has_fua: bool) -> Model {
        Model {
            capture: Capture::new(cpus as usize),
            lines: Vec::new(),
            now: 0,
            cpus,
            cpu: 0,
            has_fua,
            bios: Vec::new(),
            open: Vec::new(),
            units: Vec::new(),
            stamps: 0,
            waiting: Vec::new(),
            in_flight: None,
            issues: Vec::new(),
        }
    }

    /// Writes an event and gives its time; the first is at zero.
    fn emit(&mut self, line: &str) -> u64 {
        let now = self.now;
        self.capture.line_on(self.cpu % self.cpus, now, line);
        self.lines.push(format!("{now} {line}"));
        self.now += 1;
        now
    }

    fn event(&mut self, action: &str, unit: &Unit) -> u64 {
        let line = format!("{action} {} {} {}", unit.class, unit.start, unit.end - unit.start);
        self.emit(&line)
    }

    fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// The oldest unit like `unit` in the first of `states` that any is in.
    fn oldest(&self, unit: usize, states: &[State]) -> Option<usize> {
        let like = &self.units[unit];
        let alike = |other: &Unit| (other.start, other.end, other.class) == (like.start, like.end, like.class);
        states.iter().find_map(|state| {
            let of_state = self.units.iter().enumerate().filter(|(_, other)| alike(other) && other.state == *state);
            of_state.min_by_key(|(_, other)| other.stamp).map(|(at, _)| at)
        })
    }

    fn mergeable(&self, class: &str, fits: impl Fn(&Unit) -> bool) -> Option<usize> {
        let may = |unit: &Unit| matches!(unit.state, State::Got | State::Inserted) && !unit.issued_before;
        let mut found = (0..self.units.len()).filter(|at| {
            let unit = &self.units[*at];
            unit.class == class && may(unit) && fits(unit)
        });
        let only = found.next()?;
        (found.next().is_none() && self.units[only].sequence.is_none()).then_some(only)
    }

    fn arrive(&mut self, line: &str, lba: u64, sectors: u64) -> usize {
        let arrival = self.emit(line);
        self.bios.push(Seen { lba, sectors, arrival, inserted: None, issued: None, completed: None });
        self.open.push((1, false));
        self.bios.len() - 1
    }

    fn queue(&mut self, a: u8, b: u8) {
        let start = 8 + u64::from(a % 12) * 8;
        let sectors = 8 * (1 + u64::from(b % 3));
        let class = ["R", "W", "D"][usize::from(b / 3 % 3)];
        let bio = self.arrive(&format!("Q {class} {start} {sectors}"), start, sectors);
        let stamp = self.stamp();
        self.units.push(Unit {
            start,
            end: start + sectors,
            class,
            bios: vec![bio],
            state: State::Queued,
            stamp,
            issued_before: false,
            fua: false,
            sequence: None,
            ready: true,
        });
    }

    /// A queued bio is merged, split or gets a request.
    fn place(&mut self, unit: usize, how: u8) {
        let Some(unit) = self.oldest(unit, &[State::Queued]) else { return };
        let bio = self.units[unit].clone();
        if how & 3 != 0 {
            let target = if how & 1 == 1 {
                self.mergeable(bio.class, |other| other.end == bio.start)
            } else {
                self.mergeable(bio.class, |other| other.start == bio.end)
            };
            if let Some(target) = target {
                return self.merge(unit, target, how & 1 == 0);
            }
        }
        // A process queues a split bio's parts at once: no other of its bios waits at their addresses.
        let waits_at = |start: u64| {
            let there = |unit: &&Unit| unit.state == State::Queued && (unit.start, unit.class) == (start, bio.class);
            self.units.iter().filter(there).count()
        };
        if how & 4 != 0 && bio.end - bio.start > 8 && waits_at(bio.start) == 1 && waits_at(bio.start + 8) == 0 {
            let middle = bio.start + 8;
            self.emit(&format!("X {} {} 8 {middle}", bio.class, bio.start));
            self.open[bio.bios[0]] = (self.open[bio.bios[0]].0 + 1, true);
            self.units[unit].end = middle;
            let stamp = self.stamp();
            self.units.push(Unit { start: middle, stamp, ..bio });
            self.get(unit);
            self.get(self.units.len() - 1);
            return;
        }
        self.get(unit);
    }

    fn get(&mut self, unit: usize) {
        self.event("G", &self.units[unit].clone());
        self.units[unit].state = State::Got;
    }

    fn merge(&mut self, from: usize, mut into: usize, front: bool) {
        let bio = self.units[from].clone();
        let now = self.event(if front { "F" } else { "M" }, &bio);
        if self.units[into].state == State::Inserted {
            for bio in &bio.bios {
                self.bios[*bio].inserted.get_or_insert(now);
            }
        }
        if front {
            self.units[into].start = bio.start;
            self.units[into].stamp = self.stamp();
        } else {
            self.units[into].end = bio.end;
        }
        self.units[into].bios.extend(bio.bios);
        if from < into {
            into -= 1;
        }
        self.units.remove(from);
        assert!(into < self.units.len());
    }

    fn insert(&mut self, unit: usize) {
        let Some(unit) = self.oldest(unit, &[State::Got]) else { return };
        let inserted = self.units[unit].clone();
        if inserted.sequence.is_some() {
            return;
        }
        let now = self.event("I", &inserted);
        self.units[unit].state = State::Inserted;
        for bio in inserted.bios {
            self.bios[bio].inserted.get_or_insert(now);
        }
    }

    fn issue(&mut self, unit: usize) {
        let Some(unit) = self.oldest(unit, &[State::Inserted, State::Got]) else { return };
        let issued = self.units[unit].clone();
        if !issued.ready {
            return;
        }
        let fua = issued.fua && self.has_fua;
        let line =
            format!("D {}{} {} {}", issued.class, if fua { "F" } else { "" }, issued.start, issued.end - issued.start);
        let now = self.emit(&line);
        for bio in issued.bios {
            let first_part_only = self.open[bio].1 && !issued.issued_before;
            if !first_part_only || self.bios[bio].issued.is_none() {
                self.bios[bio].issued = Some(now);
            }
        }
        self.units[unit].state = State::Issued;
        self.units[unit].issued_before = true;
        self.note_issue(issued.class, issued.start, issued.end - issued.start, now);
    }

    fn note_issue(&mut self, class: &'static str, lba: u64, sectors: u64, now: u64) {
        let seen = Seen { lba, sectors, arrival: now, inserted: None, issued: Some(now), completed: None };
        self.issues.push((class, false, seen));
    }

    /// The oldest issued request of that kind that is at the device.
    fn at_device(&mut self, class: &str, lba: u64, sectors: u64) -> &mut (&'static str, bool, Seen) {
        let is = |(of, withdrawn, seen): &&mut (&'static str, bool, Seen)| {
            (*of, seen.lba, seen.sectors) == (class, lba, sectors) && !*withdrawn && seen.completed.is_none()
        };
        self.issues.iter_mut().find(is).unwrap()
    }

    fn requeue(&mut self, unit: usize) {
        let Some(unit) = self.oldest(unit, &[State::Issued]) else { return };
        let back = self.units[unit].clone();
        self.event("R", &back);
        self.units[unit].state = State::Inserted;
        self.at_device(back.class, back.start, back.end - back.start).1 = true;
    }

    fn complete(&mut self, unit: usize) {
        let Some(unit) = self.oldest(unit, &[State::Issued]) else { return };
        let done = self.units[unit].clone();
        let now = self.event("C", &done);
        self.at_device(done.class, done.start, done.end - done.start).2.completed = Some(now);
        match done.sequence {
            None => self.finish(unit, now),
            Some((_, true)) => {
                self.units[unit].state = State::Flushing;
                self.waiting.push(Waiter::After(done.start));
            }
            Some((_, false)) => {
                let now = self.emit(&format!("C {} {} 0", done.class, done.start));
                self.finish(unit, now);
            }
        }
    }

    fn finish(&mut self, unit: usize, now: u64) {
        for bio in self.units.remove(unit).bios {
            self.open[bio].0 -= 1;
            self.bios[bio].completed = Some(now);
        }
    }

    /// A write with a flush before or after it, at an address that no other such write has.
    fn queue_durable(&mut self, a: u8, preflush: bool) {
        let start = 8 + u64::from(a % 12) * 8;
        if self.units.iter().any(|unit| unit.sequence.is_some() && unit.start == start) {
            return;
        }
        let rwbs = if preflush { "FWF" } else { "WF" };
        let bio = self.arrive(&format!("Q {rwbs} {start} 8"), start, 8);
        self.emit(&format!("G {rwbs} {start} 8"));
        let post = !self.has_fua;
        let sequence = (preflush || post).then_some((preflush, post));
        let stamp = self.stamp();
        self.units.push(Unit {
            start,
            end: start + 8,
            class: "W",
            bios: vec![bio],
            state: State::Got,
            stamp,
            issued_before: false,
            fua: true,
            sequence,
            ready: !preflush,
        });
        if preflush {
            self.waiting.push(Waiter::Before(start));
        }
    }

    fn queue_flush(&mut self) {
        let bio = self.arrive("Q FWS 0 0", 0, 0);
        self.emit("G FWS 0 0");
        self.waiting.push(Waiter::Flush(bio));
    }

    /// The flush machinery sends its request, or that request completes.
    fn flush(&mut self) {
        let Some((issued, served)) = self.in_flight.take() else {
            if !self.waiting.is_empty() {
                let now = self.emit("D FN 0 0");
                self.in_flight = Some((now, std::mem::take(&mut self.waiting)));
                self.note_issue("F", 0, 0, now);
            }
            return;
        };
        let now = self.emit("C FN 0 0");
        self.at_device("F", 0, 0).2.completed = Some(now);
        for waiter in served {
            match waiter {
                Waiter::Flush(bio) => {
                    let now = self.emit("C WS 0 0");
                    self.open[bio].0 = 0;
                    self.bios[bio].issued = Some(issued);
                    self.bios[bio].completed = Some(now);
                }
                Waiter::Before(start) => self.durable(start).1.ready = true,
                Waiter::After(start) => {
                    let now = self.emit(&format!("C W {start} 0"));
                    let unit = self.durable(start).0;
                    self.finish(unit, now);
                }
            }
        }
    }

    fn durable(&mut self, start: u64) -> (usize, &mut Unit) {
        let mut units = self.units.iter_mut().enumerate();
        units.find(|(_, unit)| unit.sequence.is_some() && unit.start == start).unwrap()
    }

    fn step(&mut self, (action, a, b, cpu): (u8, u8, u8, u8)) {
        self.cpu = u32::from(cpu);
        let some = usize::from(a) % self.units.len().max(1);
        match action % 12 {
            0 | 1 => self.queue(a, b),
            9 => {
                // Its G follows at once, and is not to be that of a write that waits for one.
                let waits = |unit: &Unit| unit.state == State::Queued && unit.class == "W";
                if !self.units.iter().any(waits) {
                    self.queue_durable(a, b & 1 == 1);
                }
            }
            10 => self.queue_flush(),
            11 => self.flush(),
            _ if self.units.is_empty() => {}
            2 | 3 => self.place(some, b),
            4 => self.insert(some),
            5 | 6 => self.issue(some),
            7 if b < 40 => self.requeue(some),
            _ => self.complete(some),
        }
    }
}

fn seen(record: &Record) -> Seen {
    let us = |time: Timestamp| time.as_ns() / 1000;
    let (request, observed) = (&record.request, &record.observed);
    Seen {
        lba: request.lba.sector(),
        sectors: request.sectors().count(),
        arrival: us(request.arrival),
        inserted: observed.inserted.map(us),
        issued: observed.issued.map(us),
        completed: observed.completed.map(us),
    }
}

/// Asserts that the records read are those expected, and shows the first difference.
fn same(whole: &Whole, expected: &[Seen], lines: &[String]) -> Result<(), TestCaseError> {
    let read: Vec<Seen> = whole.records.iter().map(seen).collect();
    for (read, expected) in read.iter().zip(expected) {
        prop_assert_eq!(read, expected, "{:#?}", lines);
    }
    prop_assert_eq!(read.len(), expected.len(), "{:#?}", lines);
    Ok(())
}

proptest! {
    #[test]
    fn records_equal_the_bios_and_issues_of_the_model(
        steps in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..600),
        cpus in 1u32..=4,
        has_fua in any::<bool>(),
    ) {
        let mut model = Model::new(cpus, has_fua);
        model.queue(0, 0);
        for step in steps {
            model.step(step);
        }
        let mut bios = model.bios.clone();
        for (bio, (open, _)) in bios.iter_mut().zip(&model.open) {
            bio.completed = bio.completed.filter(|_| *open == 0);
        }
        let queued = model.capture.read(&strict()).unwrap();
        same(&queued, &bios, &model.lines)?;
        let unfinished = bios.iter().filter(|bio| bio.completed.is_none()).count() as u64;
        prop_assert_eq!(queued.unmatched("Q without C"), unfinished);
        prop_assert_eq!(queued.losses.unmatched.len(), usize::from(unfinished > 0), "{:?}", queued.losses);
        prop_assert_eq!(queued.losses.total(), 0);

        let issues: Vec<Seen> = model.issues.iter().filter(|issue| !issue.1).map(|issue| issue.2).collect();
        let issued = model.capture.read(&at_issued()).unwrap();
        same(&issued, &issues, &model.lines)?;

        // The text that blkparse prints of it says the same.
        assert_alike(&model.capture.write(), &[])?;
    }
}
