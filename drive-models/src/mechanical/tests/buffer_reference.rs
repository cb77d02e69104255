//! The buffer on random loads: the read cache against one that keeps a list of sectors with the time at which each came
//! in, and what is asked against what is served.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::buffer::{BACK, cached};
use super::{read, small_with, write};

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
    /// The part of the sectors that came in by `at` that a segment holds, if it has been filled up to `end` or further.
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

    /// The sectors sent up to `end` may be dropped.
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
    fn hit(&mut self, arm: &Arm, now: Timestamp, index: usize, end: u64, mut standing: ArmState) {
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
        on_hit: bool, needs_sequence: bool, within_track: bool, whole_track: bool, keeps_read: bool,
        keeps_written: bool,
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
            let heads = before.read_cache.as_ref().unwrap().heads(&before.arm, now).map(|(heads, _)| heads);
            let standing = ArmState { heads: heads.unwrap_or(before.standing.heads), ..before.standing };
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
    fn expected_and_served_times_agree_while_no_destage_is_due(
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
            // The cost leaves out data that first has to free capacity or to reach the medium.
            let waits = match request.operation {
                Operation::Read => cache.find(lba, lba + sectors) == Some(false),
                Operation::Write if kind != 5 => !cache.has_capacity(lba, lba + sectors),
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
