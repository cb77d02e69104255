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
    // A write is not gone on with by a read.
    let mut written = drive.clone();
    time(&mut written, done_us + 8000, &write(3, 1));
    assert_eq!(time(&mut written, done_us + 19_000, &read(4, 2)), HIT_2);
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
    /// The sector behind its last, were it not sent and let go.
    end: u64,
    used: u64,
}

/// A stream into a segment: where and when it began and where it ends.
#[derive(Clone, Copy)]
struct Stream {
    index: usize,
    origin: u64,
    began: Timestamp,
    limit: u64,
}

/// The read cache, sector by sector.
struct Slow {
    segments: Vec<SlowSegment>,
    capacity: u64,
    ahead: u64,
    switches: Switches,
    running: Option<Stream>,
    requests: u64,
    last_end: Option<u64>,
}

/// The settings that are on or off.
#[derive(Clone, Copy, Debug)]
struct Switches {
    on_hit: bool,
    needs_sequence: bool,
    within_track: bool,
    whole_track: bool,
    keeps_read: bool,
    keeps_written: bool,
}

impl Slow {
    /// What a segment holds of what came in by `at`, if it has been filled up to `end` or further.
    fn held(&self, index: usize, at: Timestamp, end: u64) -> BTreeMap<u64, Timestamp> {
        let mut here = self.segments[index].sectors.clone();
        here.retain(|_, time| *time <= at);
        let end = here.keys().last().map_or(end, |last| end.max(last + 1));
        here.retain(|sector, _| sector + self.capacity >= end);
        here
    }

    fn find(&self, now: Timestamp, start: u64, end: u64) -> Option<(usize, Timestamp)> {
        if let Some(Stream { index, .. }) = self.running {
            let sectors = &self.segments[index].sectors;
            let at: Option<Vec<Timestamp>> = (start..end).map(|sector| sectors.get(&sector).copied()).collect();
            let here = self.held(index, now, 0);
            let next = here.keys().last().map_or(0, |last| last + 1).max(self.segments[index].end);
            let kept = here.keys().last().map_or(end, |last| end.max(last + 1)) <= start + self.capacity;
            if let Some(at) = at.filter(|_| start <= next && kept) {
                return Some((index, at.into_iter().fold(now, Timestamp::max)));
            }
        }
        let whole = |index: &usize| {
            let held = self.held(*index, now, 0);
            (start..end).all(|sector| held.contains_key(&sector))
        };
        let running = self.running.map(|stream| stream.index);
        (0..self.segments.len()).filter(|index| Some(*index) != running).find(whole).map(|index| (index, now))
    }

    fn stop(&mut self, now: Timestamp) {
        if let Some(Stream { index, .. }) = self.running.take() {
            let held = self.held(index, now, self.segments[index].end);
            let end = held.keys().last().map_or(0, |last| last + 1);
            self.segments[index].end = self.segments[index].end.max(end);
            self.segments[index].sectors = held;
        }
    }

    /// The least recently used segment, now with the last of these sectors.
    fn take(&mut self, sectors: impl Iterator<Item = (u64, Timestamp)>, end: u64) -> usize {
        self.requests += 1;
        let used = self.requests;
        let oldest = (0..self.segments.len()).min_by_key(|&index| self.segments[index].used).unwrap();
        let sectors = sectors.filter(|(sector, _)| sector + self.capacity >= end).collect();
        self.segments[oldest] = SlowSegment { sectors, end, used };
        oldest
    }

    fn limit(&self, end: u64) -> u64 {
        let limit = (end + self.ahead).min(80);
        if self.switches.within_track { limit.min(end.div_ceil(10) * 10) } else { limit }
    }

    /// Reads on up to `limit` in the running stream.
    fn read_on(&mut self, arm: &Arm, limit: u64) {
        let Some(stream) = &mut self.running else { return };
        let sectors = &mut self.segments[stream.index].sectors;
        for sector in stream.limit..limit {
            sectors.insert(sector, arm.passed(stream.began, stream.origin, sector + 1 - stream.origin));
        }
        stream.limit = stream.limit.max(limit);
    }

    /// What was sent up to `end` may go.
    fn sent(&mut self, index: usize, end: u64) {
        if !self.switches.keeps_read {
            self.segments[index].sectors.retain(|sector, _| *sector >= end);
            self.segments[index].end = self.segments[index].end.max(end);
        }
    }

    /// Takes note of a miss whose sectors pass since `began` and are in at `ended`.
    fn fill(&mut self, arm: &Arm, began: Timestamp, ended: Timestamp, start: u64, end: u64) {
        let goes_on = !self.switches.needs_sequence || self.last_end == Some(start);
        let first = if self.switches.whole_track && goes_on { start / 10 * 10 } else { start };
        let round = began.saturating_add(arm.turn);
        let sectors = (first..end).map(|sector| (sector, if sector < start { round } else { ended }));
        let index = self.take(sectors, end);
        self.running = Some(Stream { index, origin: start, began, limit: end });
        if goes_on {
            self.read_on(arm, self.limit(end));
        }
        self.last_end = Some(end);
        self.sent(index, end);
    }

    /// Takes note of a hit.
    fn hit(&mut self, arm: &Arm, now: Timestamp, index: usize, end: u64, mut standing: Standing) {
        self.requests += 1;
        (self.segments[index].used, self.last_end) = (self.requests, Some(end));
        let all = |stream: Stream| arm.passed(stream.began, stream.origin, stream.limit - stream.origin);
        if self.switches.on_hit {
            match self.running.filter(|&stream| all(stream) > now) {
                Some(stream) if stream.index == index => self.read_on(arm, self.limit(end)),
                Some(_) => {}
                None => {
                    if let Some(stream) = self.running {
                        standing.heads = arm.mechanics.layout.place(stream.limit - 1);
                    }
                    self.stop(now);
                    let origin = self.segments[index].end;
                    if self.limit(end) > origin {
                        let began = arm.read(now, &standing, origin, 1).began;
                        self.running = Some(Stream { index, origin, began, limit: origin });
                        self.read_on(arm, self.limit(end));
                    }
                }
            }
        }
        self.sent(index, end);
    }

    fn write(&mut self, now: Timestamp, start: u64, end: u64) {
        self.stop(now);
        for segment in &mut self.segments {
            if segment.sectors.range(start..end).next().is_some() {
                let after = segment.sectors.split_off(&start).split_off(&end);
                if segment.sectors.len() >= after.len() {
                    segment.end = start;
                } else {
                    segment.sectors = after;
                }
            }
        }
        if self.switches.keeps_written {
            self.take((start..end).map(|sector| (sector, now)), end);
        }
    }
}

prop_compose! {
    fn any_switches()(
        on_hit: bool, needs_sequence: bool, within_track: bool, whole_track: bool, keeps_read: bool, keeps_written: bool,
    ) -> Switches {
        Switches { on_hit, needs_sequence, within_track, whole_track, keeps_read, keeps_written }
    }
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

proptest! {
    #[test]
    fn the_read_cache_finds_what_a_list_of_sectors_holds(
        accesses in prop::collection::vec((0u64..75, 1u64..6, 0u64..40_000, 0u8..8), 1..60),
        segments in 1usize..4,
        segment_sectors in 1u64..25,
        ahead in 0u64..20,
        switches in any_switches(),
    ) {
        let (count, size, on) = (segments.to_string(), segment_sectors.to_string(), ahead.to_string());
        let mut drive = small_with(&[
            ("segments", &count),
            ("segment_sectors", &size),
            ("read_ahead_sectors", &on),
            ("read_ahead_on_hit", switch(switches.on_hit)),
            ("read_ahead_needs_sequence", switch(switches.needs_sequence)),
            ("read_ahead_within_track", switch(switches.within_track)),
            ("read_whole_track", switch(switches.whole_track)),
            ("keeps_read", switch(switches.keeps_read)),
            ("read_hits_written", switch(switches.keeps_written)),
            ("read_after_read", "150us"),
            ("write_after_read", "250us"),
        ]);
        let segments = vec![SlowSegment::default(); segments];
        let (requests, running, last_end) = (0, None, None);
        let mut slow = Slow { segments, capacity: segment_sectors, ahead, switches, running, requests, last_end };
        let (mut now, mut near) = (Timestamp::ZERO, 0);
        for (lba, sectors, pause_us, kind) in accesses {
            let lba = if kind % 4 < 2 { near } else { lba };
            let end = lba + sectors;
            near = end.min(74);
            let before = drive.clone();
            let heads = before.read_cache.as_ref().unwrap().heads(&before.arm, now);
            let standing = Standing { heads: heads.unwrap_or(before.standing.heads), ..before.standing };
            let pause = Nanos::from_us(pause_us);
            if kind == 7 {
                let asked = drive.access(now, &write(lba, sectors));
                let service = drive.serve(now, &write(lba, sectors));
                prop_assert_eq!(service.time, asked);
                prop_assert_eq!(now.saturating_add(asked), before.arm.write(now, &standing, lba, sectors).done);
                slow.write(now, lba, end);
                now = now.saturating_add(service.time + pause);
                continue;
            }
            let expected = slow.find(now, lba, end);
            let asked = drive.access(now, &read(lba, sectors));
            let service = drive.serve(now, &read(lba, sectors));
            prop_assert_eq!(service.time, asked);
            prop_assert_eq!(service.hit, expected.is_some(), "{} {} at {:?}", lba, sectors, now);
            match expected {
                Some((index, at)) => {
                    prop_assert_eq!(now.saturating_add(service.time), before.sent_from_buffer(now, at, lba, end));
                    slow.hit(&drive.arm, now, index, end, before.standing);
                }
                None => {
                    slow.stop(now);
                    let access = before.arm.read(now, &standing, lba, sectors);
                    prop_assert_eq!(now.saturating_add(service.time), access.done);
                    slow.fill(&drive.arm, access.began, access.ended, lba, end);
                }
            }
            now = now.saturating_add(service.time + pause);
        }
    }

    #[test]
    fn asking_and_serving_agree_while_nothing_is_due(
        requests in prop::collection::vec((0u64..76, 1u64..5, 0u64..20_000, 0u8..6), 1..40),
    ) {
        let mut drive = cached(&[BACK, &[("destage_delay", "1000s"), ("write_after_read", "250us")]].concat());
        let mut now = Timestamp::ZERO;
        for (lba, sectors, pause_us, kind) in requests {
            let mut request = if kind < 3 { read(lba, sectors) } else { write(lba, sectors) };
            if kind == 5 {
                request.flags |= Flags::FUA;
            }
            if kind == 2 {
                request = Request::new(Timestamp::ZERO, Operation::Flush, Lba::ZERO, Sectors::ZERO);
            }
            let cache = drive.write_cache.as_ref().unwrap();
            // What has to make room or to be on the medium first is what asking leaves out.
            let waits = match request.operation {
                Operation::Read => cache.find(lba, lba + sectors) == Some(false),
                Operation::Write if kind != 5 => !cache.has_room(lba, lba + sectors),
                _ => true,
            };
            let waits = waits && cache.oldest().is_some();
            let asked = drive.access(now, &request);
            let service = drive.serve(now, &request);
            prop_assert!(service.time == asked || waits, "{} is not {} for {:?}", asked, service.time, request);
            now = now.saturating_add(service.time + Nanos::from_us(pause_us));
        }
    }
}

#[test]
fn overheads_are_longer_after_a_read() {
    let mut drive = small_with(&[("read_after_read", "150us"), ("write_after_read", "250us")]);
    // The next sector comes at 4 ms: 100 + 150 us are in time until 3.75 ms, 300 + 250 us and a
    // sector on the bus until 3.398 ms.
    let done = |at_us: u64, after: u64| 4000 + 1000 + after - at_us;
    for (at_us, turns) in [(3740, 0), (3760, 1)] {
        let mut drive = drive.clone();
        drive.standing.after_read = true;
        assert_eq!(time(&mut drive, at_us, &read(4, 1)), done(at_us, 51 + 10) + turns * 10_000);
    }
    for (at_us, turns) in [(3390, 0), (3410, 1)] {
        let mut drive = drive.clone();
        drive.standing.after_read = true;
        assert_eq!(time(&mut drive, at_us, &write(4, 1)), done(at_us, 20) + turns * 10_000);
    }
    // Not after a write, and not on a new drive.
    assert_eq!(time(&mut drive.clone(), 3760, &read(4, 1)), done(3760, 51 + 10));
    time(&mut drive, 0, &read(2, 1));
    assert!(drive.standing.after_read);
    time(&mut drive, 20_000, &write(2, 1));
    assert_eq!(time(&mut drive, 33_760, &read(4, 1)), done(3760, 51 + 10));
}

#[test]
fn watermarks_say_how_much_comes_in_before_the_other_side_begins() {
    // Two sectors that take 4 ms on the bus and 2 ms on the medium.
    let slow = [("bus_byte_ps", "3906250")];
    let with = |key, value| small_with(&[&slow[..], &[(key, value)]].concat());
    for (share, done) in [("1", 5000 + 4000), ("0.5", 4000 + 4000), ("0", 3000 + 4000)] {
        assert_eq!(time(&mut with("read_watermark", share), 0, &read(3, 2)), done + 10, "{share}");
    }
    // A bus as fast as the medium still has the last sector to send.
    let mut even = small_with(&[("bus_byte_ps", "1953125"), ("read_watermark", "0")]);
    assert_eq!(time(&mut even, 0, &read(3, 2)), 5000 + 1000 + 10);
    // All of a write is there at 0.3 + 4 ms, half of it at 2.3 ms, a sector at 2.3 ms at the soonest.
    for (share, at_us, done) in [
        ("1", 0, 15_000),
        ("1", 8600, 13_000 + 2000),
        ("1", 8800, 23_000 + 2000),
        ("0.5", 600, 5000),
        ("0.5", 800, 15_000),
        ("0", 600, 5000),
        ("0", 800, 15_000),
    ] {
        assert_eq!(
            time(&mut with("write_watermark", share), at_us, &write(3, 2)),
            done - at_us + 20,
            "{share} {at_us}"
        );
    }
    // Four sectors are on the medium at 7 ms, and over the bus at 0.3 + 8 ms.
    assert_eq!(time(&mut with("write_watermark", "0"), 0, &write(3, 4)), 8300 + 20);
    // While the arm moves, the bus goes on: the medium is at it from 7 to 11 ms.
    assert_eq!(time(&mut with("write_watermark", "0"), 3600, &write(70, 4)), 8300 + 20);
}

#[test]
fn runs_go_to_the_medium_one_after_another_and_stop_read_ahead() {
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 400, &write(30, 2));
    // The first is written until 9 ms, so that at 8 ms the second has not begun.
    drive.serve(Timestamp::from_ns(8_000_000), &read(3, 1));
    assert_eq!(drive.write_cache.as_ref().unwrap().oldest().map(|run| run.start), Some(30));
    // A run is due once the read has ended at 4 ms: nothing has been read ahead by then.
    let mut drive = cached(BACK);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 400, &read(2, 2));
    drive.serve(Timestamp::from_ns(30_000_000), &write(50, 1));
    assert!(!drive.serve(Timestamp::from_ns(30_500_000), &read(4, 1)).hit);
}

#[test]
fn what_waits_longest_goes_first_and_the_newest_data_count() {
    let all = |more: &[(&str, &str)]| small_with(&[BACK, more].concat());
    // A run that goes on waits again: since 1.152 ms, until 2.152 ms.
    let mut drive = all(&[]);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 900, &write(72, 2));
    assert_eq!(time(&mut drive, 2100, &read(3, 1)), 4000 - 2100 + 51 + 10);
    // The younger of two runs has the whole of 20 and 21, the older only 21.
    let mut drive = all(&[]);
    time(&mut drive, 0, &write(21, 2));
    time(&mut drive, 400, &write(20, 2));
    assert_eq!(time(&mut drive, 800, &read(20, 2)), HIT_2);
    // The older has 21 and 22, but 21 is newer in the other.
    assert_eq!(drive.write_cache.as_ref().unwrap().find(21, 23), Some(false));
    // What touches a run has nothing of it.
    assert_eq!(drive.write_cache.as_ref().unwrap().find(23, 25), None);
    assert_eq!(drive.write_cache.as_ref().unwrap().find(19, 20), None);
}

#[test]
fn sectors_that_were_sent_go_even_when_hits_have_nothing_read_ahead() {
    let mut drive = cached(&[("keeps_read", "off"), ("read_ahead_on_hit", "off")]);
    time(&mut drive, 0, &read(2, 2));
    assert_eq!(time(&mut drive, 30_000, &read(6, 2)), HIT_2);
    assert_ne!(time(&mut drive.clone(), 60_000, &read(6, 2)), HIT_2);
    assert_eq!(time(&mut drive, 60_000, &read(8, 2)), HIT_2);
}

#[test]
fn extreme_requests_and_settings_are_served() {
    for (segment_sectors, ahead) in [("1", "1048576"), ("1048576", "1048576"), ("1", "0")] {
        for on in ["on", "off"] {
            let mut drive = small_with(&[
                ("segments", "2"),
                ("segment_sectors", segment_sectors),
                ("read_ahead_sectors", ahead),
                ("read_whole_track", on),
                ("keeps_read", on),
                ("read_hits_written", on),
                ("read_ahead_within_track", on),
                ("write_cache", "back"),
                ("bus_byte_ps", "1000000000"),
            ]);
            let rotation = drive.rotation();
            let mut now = Timestamp::ZERO;
            for lba in [0, 75, 79, 80, 81, u64::MAX - 1, u64::MAX] {
                for sectors in [0, 1, 5, 2000, u64::from(u32::MAX)] {
                    for request in [read(lba, sectors), write(lba, sectors), read(lba, sectors)] {
                        drive.access(now, &request);
                        drive.completes_at(&rotation, &request);
                        drive.between(request.lba, Lba::new(79), request.sectors());
                        now = now.saturating_add(drive.serve(now, &request).time);
                    }
                }
            }
        }
    }
}
