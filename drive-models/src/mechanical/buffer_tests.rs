//! The buffer: timings worked out by hand on the small drive of the other tests, and the read cache
//! against one that keeps a list of sectors with the time at which each came in.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::{request, small_with, time};

const CACHE: &[(&str, &str)] = &[("segments", "2"), ("segment_sectors", "30"), ("read_ahead_sectors", "8")];

fn cached(more: &[(&str, &str)]) -> Mechanical {
    small_with(&[CACHE, more].concat())
}

fn read(lba: u64, sectors: u64) -> Request {
    request(Operation::Read, lba, sectors)
}

fn write(lba: u64, sectors: u64) -> Request {
    request(Operation::Write, lba, sectors)
}

#[test]
fn a_hit_that_goes_on_soon_enough_takes_a_time_of_its_own() {
    let mut drive = cached(&[("read_hit_sequential", "100us"), ("sequential_pause", "20ms")]);
    let done_us = time(&mut drive, 0, &read(2, 2));
    let sequential = HIT_2 - 400;
    assert_eq!(time(&mut drive.clone(), done_us + 19_990, &read(4, 2)), sequential);
    assert_eq!(time(&mut drive.clone(), done_us + 20_010, &read(4, 2)), HIT_2);
    assert_eq!(time(&mut drive.clone(), done_us + 10_000, &read(6, 2)), HIT_2);
    // A write in between ends the run.
    time(&mut drive, done_us + 8000, &write(70, 1));
    assert_eq!(time(&mut drive, done_us + 19_000, &read(4, 2)), HIT_2);
}

/// What a read from the buffer takes in µs: `read_hit`, two sectors on the bus, completion.
const HIT_2: u64 = 500 + 102 + 10;

#[test]
fn what_was_read_ahead_is_a_hit_and_what_was_not_is_none() {
    let mut drive = cached(&[]);
    // Sectors 2 and 3 have passed at 4 ms, 4 to 9 at 10 ms, and 10 and 11 after the head skew at 14 ms.
    assert_eq!(time(&mut drive, 0, &read(2, 2)), 4000 + 102 + 10);
    assert_eq!(time(&mut drive.clone(), 15_000, &read(10, 2)), HIT_2);
    // It stops eight sectors behind the read: 11 and 12 have to come round, until 25 ms.
    assert_eq!(time(&mut drive.clone(), 15_000, &read(11, 2)), 10_000 + 102 + 10);
    // What lies before it was never read.
    assert_eq!(time(&mut drive, 15_000, &read(1, 2)), 8000 + 102 + 10);
}

#[test]
fn what_is_being_read_ahead_is_waited_for() {
    let mut drive = cached(&[]);
    time(&mut drive, 0, &read(2, 2));
    // At 6.1 ms, sector 5 has gone by and 6 and 7 come in until 8 ms.
    assert_eq!(time(&mut drive.clone(), 6100, &read(6, 2)), 8000 - 6100 + 51 + 10);
    // One that leaves a gap to what has come in is no such stream: the command comes in time all the same.
    assert_eq!(time(&mut drive, 6100, &read(8, 1)), 9000 - 6100 + 51 + 10);
}

#[test]
fn a_hit_keeps_read_ahead_going_unless_it_is_told_not_to() {
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("read_ahead_on_hit", setting)]);
        time(&mut drive, 0, &read(2, 2));
        // While it still reads on, and after it has stopped behind sector 11.
        assert_eq!(time(&mut drive.clone(), 8200, &read(4, 2)), HIT_2);
        let mut later = drive.clone();
        assert_eq!(time(&mut drive, 8200, &read(4, 2)), HIT_2);
        assert_eq!(time(&mut drive, 40_000, &read(12, 2)) == HIT_2, hit);
        assert_eq!(time(&mut later, 30_000, &read(10, 2)), HIT_2);
        assert_eq!(time(&mut later, 80_000, &read(18, 2)) == HIT_2, hit);
    }
}

#[test]
fn another_access_stops_read_ahead_and_the_least_recently_used_segment_goes() {
    let mut drive = cached(&[]);
    time(&mut drive, 0, &read(2, 2));
    // Another cylinder at 5.05 ms: 4 is in the buffer, 5 not.
    time(&mut drive, 5050, &read(70, 1));
    let hit_1 = 500 + 51 + 10;
    assert_eq!(time(&mut drive.clone(), 40_000, &read(4, 1)), hit_1);
    assert_ne!(time(&mut drive.clone(), 40_000, &read(5, 1)), hit_1);
    // A third stream takes the segment of the first, a fourth that of the second.
    time(&mut drive, 40_000, &read(30, 1));
    assert_ne!(time(&mut drive.clone(), 80_000, &read(4, 1)), hit_1);
    assert_eq!(time(&mut drive.clone(), 80_000, &read(70, 1)), hit_1);
    time(&mut drive, 80_000, &read(50, 1));
    assert_ne!(time(&mut drive, 120_000, &read(70, 1)), hit_1);
}

#[test]
fn a_whole_track_is_read_as_it_comes_round() {
    let drive = |more: &[(&str, &str)]| {
        let mut drive = cached(&[&[("read_whole_track", "on")], more].concat());
        time(&mut drive, 0, &read(5, 1));
        drive
    };
    // From 15 ms on sectors 0 to 4 have come round. Sector 10 is on the next track.
    assert_eq!(time(&mut drive(&[]), 30_000, &read(2, 2)), HIT_2);
    assert_eq!(time(&mut drive(&[]), 14_000, &read(2, 2)), 1000 + 51 + 10);
    assert_eq!(time(&mut drive(&[]), 30_000, &read(10, 2)), HIT_2);
    assert_ne!(time(&mut drive(&[("read_ahead_within_track", "on")]), 30_000, &read(10, 2)), HIT_2);
    // Another access before that leaves nothing of them.
    let mut left = drive(&[]);
    time(&mut left, 8000, &read(70, 1));
    assert_ne!(time(&mut left, 40_000, &read(2, 2)), HIT_2);
}

#[test]
fn read_ahead_may_need_a_sequence_and_what_was_sent_may_go() {
    let mut drive = cached(&[("read_ahead_needs_sequence", "on")]);
    time(&mut drive, 0, &read(2, 2));
    assert_ne!(time(&mut drive, 30_000, &read(4, 2)), HIT_2);
    assert_eq!(time(&mut drive, 60_000, &read(6, 2)), HIT_2);
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("keeps_read", setting)]);
        time(&mut drive, 0, &read(2, 2));
        assert_eq!(time(&mut drive.clone(), 30_000, &read(2, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive, 30_000, &read(6, 2)), HIT_2);
        assert_eq!(time(&mut drive.clone(), 60_000, &read(4, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive, 60_000, &read(8, 2)), HIT_2);
    }
}

#[test]
fn a_write_makes_old_data_worthless_and_new_data_readable_on_request() {
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("read_hits_written", setting)]);
        time(&mut drive, 0, &read(2, 4));
        time(&mut drive, 30_000, &write(4, 2));
        assert_eq!(time(&mut drive.clone(), 60_000, &read(4, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive.clone(), 60_000, &read(6, 2)), HIT_2);
        assert_ne!(time(&mut drive, 60_000, &read(3, 2)), HIT_2);
    }
}

const BACK: &[(&str, &str)] = &[
    ("write_cache", "back"),
    ("write_hit", "200us"),
    ("write_hit_sequential", "150us"),
    ("dirty_runs", "2"),
    ("dirty_sectors", "8"),
    ("destage_delay", "1ms"),
];

#[test]
fn a_write_into_the_buffer_completes_at_once_and_moves_the_arm_later() {
    let mut drive = small_with(BACK);
    assert_eq!(time(&mut drive, 0, &write(70, 2)), 200 + 102);
    assert_eq!(drive.standing.heads.cylinder, 0);
    // A read before the delay is over goes first.
    let mut early = drive.clone();
    assert_eq!(time(&mut early, 1000, &read(3, 1)), 4000 - 1000 + 51 + 10);
    // After it, the arm is under way: it leaves at 1.302 ms + 300 us, is there 2.5 + 0.5 ms later, writes
    // sector 0 and 1 of the track that begins at 7 ms, and is back 2.5 ms after 9 ms for sector 3 at 13 ms.
    assert_eq!(
        drive.serve(Timestamp::from_ns(2_000_000), &read(3, 1)).time.as_ns() / 1000,
        13_000 - 2000 + 1000 + 51 + 10
    );
    // Data that still wait can be read; what is only partly among them has to be on the medium first.
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    assert_eq!(time(&mut drive.clone(), 500, &read(70, 2)), HIT_2);
    let service = drive.serve(Timestamp::from_ns(500_000), &read(71, 2));
    assert_eq!(service.time.as_ns() / 1000, 18_000 - 500 + 2000 + 102 + 10);
    assert_eq!(drive.write_cache.as_ref().unwrap().oldest(), None);
}

#[test]
fn a_full_write_cache_has_writes_wait() {
    // Two runs, or eight sectors; a run that goes on is none of its own.
    let mut drive = small_with(BACK);
    for (at, lba, sectors, hit) in [(0, 70, 2, 200), (350, 72, 2, 150), (700, 30, 2, 200)] {
        assert_eq!(time(&mut drive, at, &write(lba, sectors)), hit + 102);
    }
    let more = drive.serve(Timestamp::from_ns(1_010_000), &write(50, 1)).time.as_ns() / 1000;
    // The oldest run is written from 7 to 11 ms.
    assert_eq!(more, 11_000 - 1010 + 200 + 51);
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 6));
    let more = drive.serve(Timestamp::from_ns(600_000), &write(30, 3)).time.as_ns() / 1000;
    assert_eq!(more, 13_000 - 600 + 200 + 153, "six and three sectors are too many");
    // What never fits goes through.
    let mut drive = small_with(BACK);
    assert_eq!(time(&mut drive, 0, &write(3, 9)), 3000 + 7000 + 2000 + 2000 + 20);
}

#[test]
fn flushes_and_forced_writes_wait_for_the_medium() {
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    let flush = Request::new(Timestamp::ZERO, Operation::Flush, Lba::ZERO, Sectors::ZERO);
    assert_eq!(drive.clone().serve(Timestamp::from_ns(500_000), &flush).time.as_ns() / 1000, 9000 - 500);
    let mut forced = write(72, 1);
    forced.flags |= Flags::FUA;
    // Behind the older data, and one turn later on the same track.
    assert_eq!(drive.serve(Timestamp::from_ns(500_000), &forced).time.as_ns() / 1000, 10_000 - 500 + 20);
    assert_eq!(drive.clone().serve(Timestamp::from_ns(30_000_000), &flush).time.as_ns() / 1000, 300);
    assert_eq!(ServiceModel::write_cache(&drive), WriteCache::Volatile { fua: true });
    assert_eq!(ServiceModel::write_cache(&cached(&[])), WriteCache::Through);
}

/// A segment as a list of its sectors with the time at which each is in.
#[derive(Clone, Default)]
struct SlowSegment {
    sectors: BTreeMap<u64, Timestamp>,
    used: u64,
}

/// The read cache, sector by sector.
struct Slow {
    segments: Vec<SlowSegment>,
    capacity: usize,
    ahead: u64,
    running: Option<usize>,
    requests: u64,
}

impl Slow {
    /// What a segment holds once all that came in by `at` is there: the last sectors.
    fn held(&self, index: usize, at: Timestamp) -> Vec<u64> {
        let here = self.segments[index].sectors.iter().filter(|(_, time)| **time <= at);
        let here: Vec<u64> = here.map(|(&sector, _)| sector).collect();
        here[here.len().saturating_sub(self.capacity)..].to_vec()
    }

    fn find(&self, now: Timestamp, start: u64, end: u64) -> Option<(usize, Timestamp)> {
        if let Some(index) = self.running
            && let Some(&last) = self.segments[index].sectors.get(&(end - 1))
        {
            let at = last.max(now);
            let held = self.held(index, at);
            let next = self.held(index, now).last().map_or(start, |&last| last + 1);
            if start <= next && (start..end).all(|sector| held.contains(&sector)) {
                return Some((index, at));
            }
        }
        let whole = |index: &usize| (start..end).all(|sector| self.held(*index, now).contains(&sector));
        (0..self.segments.len()).filter(|index| Some(*index) != self.running).find(whole).map(|index| (index, now))
    }

    fn stop(&mut self, now: Timestamp) {
        if let Some(index) = self.running.take() {
            let held = self.held(index, now);
            self.segments[index].sectors.retain(|sector, _| held.contains(sector));
        }
    }

    /// Reads `start` to `end` and on, sector by sector, since `began`.
    fn fill(&mut self, arm: &Arm, began: Timestamp, start: u64, end: u64, done: Timestamp) {
        self.requests += 1;
        let used = self.requests;
        let oldest = (0..self.segments.len()).min_by_key(|&index| self.segments[index].used).unwrap();
        let limit = (end + self.ahead).min(arm.mechanics.layout.capacity());
        let come = |sector: u64| if sector < end { done } else { arm.passed(began, start, sector + 1 - start) };
        self.segments[oldest] = SlowSegment { sectors: (start..limit).map(|s| (s, come(s))).collect(), used };
        self.running = Some(oldest);
    }
}

proptest! {
    #[test]
    fn the_read_cache_finds_what_a_list_of_sectors_holds(
        accesses in prop::collection::vec((0u64..40, 1u64..6, 0u64..40_000, any::<bool>()), 1..60),
        segments in 1usize..4,
        segment_sectors in 2u64..25,
        ahead in 0u64..20,
    ) {
        let (count, size, on) = (segments.to_string(), segment_sectors.to_string(), ahead.to_string());
        let mut drive = small_with(&[
            ("segments", &count), ("segment_sectors", &size), ("read_ahead_sectors", &on), ("read_ahead_on_hit", "off"),
        ]);
        let segments = vec![SlowSegment::default(); segments];
        let mut slow = Slow { segments, capacity: segment_sectors as usize, ahead, running: None, requests: 0 };
        let mut now = Timestamp::ZERO;
        for (lba, sectors, pause_us, near) in accesses {
            let lba = if near { drive.position.sector().min(40) } else { lba };
            let end = lba + sectors;
            let expected = slow.find(now, lba, end);
            let before = drive.clone();
            let service = drive.serve(now, &read(lba, sectors));
            prop_assert_eq!(service.hit, expected.is_some(), "{} {} at {:?}", lba, sectors, now);
            match expected {
                Some((index, at)) => {
                    slow.requests += 1;
                    slow.segments[index].used = slow.requests;
                    prop_assert_eq!(now.saturating_add(service.time), before.out_of_buffer(now, at, lba, end));
                }
                None => {
                    slow.stop(now);
                    let heads = before.read_cache.as_ref().unwrap().heads(&before.arm, now);
                    let standing = Standing { heads: heads.unwrap_or(before.standing.heads), ..before.standing };
                    let access = before.arm.read(now, &standing, lba, sectors);
                    prop_assert_eq!(now.saturating_add(service.time), access.done);
                    slow.fill(&drive.arm, access.began, lba, end, access.ended);
                }
            }
            now = now.saturating_add(service.time + Nanos::from_us(pause_us));
        }
    }
}
