//! The buffer as a read cache: segments, each with one run of sectors, and the read-ahead that keeps filling one of
//! them while the arm is idle.
//!
//! Read-ahead is computed on demand: a sector is in the buffer once the platter has turned far enough since the stream
//! began. The form is that of DiskSim 4.0's controller cache: segments, read until the segment or a limit is full, kept
//! going by hits. It is also that of Shriver 1997 ("Performance modeling for realistic storage devices", chapter 4).

use std::cell::Cell;

use traces::Timestamp;
use traces::spec::Settings;

use super::arm::{Arm, ArmAccess, ArmState};
use super::layout::SectorPosition;
use super::tunables::FIFO;

/// A run of sectors in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct CacheSegment {
    /// Its first sector.
    start: u64,
    /// The sector behind its last, without what read-ahead is bringing in.
    end: u64,
    /// When it was last used, or filled where that counts, in requests.
    used: u64,
}

/// Reading on into a segment.
#[derive(Clone, Copy, Debug)]
struct RunningReadAhead {
    segment: usize,
    /// The sector from which on it reads without a stop, and when that began to pass.
    origin: u64,
    began: Timestamp,
    /// The sector before which it stops.
    limit: u64,
    /// When the sectors have passed that nothing keeps it from.
    least: Timestamp,
    /// When the sectors of the track before `origin` have come round.
    round: Timestamp,
}

/// Where a read's sectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadLookup {
    /// Not all in the buffer, nor on their way.
    Absent,
    /// In this segment, the last of them at this time.
    Segment(usize, Timestamp),
}

/// How often the search for the last sector that has passed looks where the time says. Then it halves what is left, as
/// skews and zones may lead it astray.
const GUESSES: u32 = 6;

/// The read cache.
#[derive(Clone, Debug)]
pub(super) struct SegmentCache {
    segments: Vec<CacheSegment>,
    segment_sectors: u64,
    first_in_first_out: bool,
    read_ahead: u64,
    read_ahead_least: u64,
    ahead_on_hit: bool,
    needs_sequence: bool,
    whole_track: bool,
    within_track: bool,
    keeps_read: bool,
    keeps_written: bool,
    ahead: Option<RunningReadAhead>,
    requests: u64,
    /// The sector behind the last read.
    last_end: u64,
    /// How far read-ahead was at the time it was last asked for: a scheduler asks for the cost of many requests at one
    /// time.
    known: Cell<Option<(Timestamp, u64)>>,
}

impl SegmentCache {
    /// The cache that the settings of [`super::MODEL`] describe; `None` without segments.
    pub fn new(settings: &Settings) -> Option<SegmentCache> {
        let segments = settings.count("segments") as usize;
        (segments > 0).then(|| SegmentCache {
            segments: vec![CacheSegment::default(); segments],
            segment_sectors: settings.count("segment_sectors"),
            first_in_first_out: settings.word("segment_replacement") == FIFO,
            read_ahead: settings.count("read_ahead_sectors"),
            read_ahead_least: settings.count("read_ahead_least"),
            ahead_on_hit: settings.switch("read_ahead_on_hit"),
            needs_sequence: settings.switch("read_ahead_needs_sequence"),
            whole_track: settings.switch("read_whole_track"),
            within_track: settings.switch("read_ahead_within_track"),
            keeps_read: settings.switch("keeps_read"),
            keeps_written: settings.switch("read_hits_written"),
            ahead: None,
            requests: 0,
            last_end: u64::MAX,
            known: Cell::new(None),
        })
    }

    /// Whether `start` to `end` are in the buffer at `now` or come in by themselves.
    #[inline]
    pub fn find(&self, arm: &Arm, now: Timestamp, start: u64, end: u64) -> ReadLookup {
        if let Some(ahead) = self.ahead
            && self.segments[ahead.segment].start <= start
            && end <= ahead.limit
        {
            let round = if start < ahead.origin { ahead.round } else { now };
            let come = self.end_at(arm, &ahead, now);
            let available = if end <= self.segments[ahead.segment].end {
                now
            } else {
                arm.passed(ahead.began, ahead.origin, end - ahead.origin).max(now)
            };
            // Sectors at the front of a full segment that were overwritten are gone.
            if start >= self.first_held(&ahead, end.max(come)) && start <= come {
                return ReadLookup::Segment(ahead.segment, available.max(round));
            }
        }
        let holds = |segment: &CacheSegment| segment.start <= start && end <= segment.end;
        let running = self.ahead.map(|ahead| ahead.segment);
        match (0..self.segments.len()).find(|&index| Some(index) != running && holds(&self.segments[index])) {
            Some(index) => ReadLookup::Segment(index, now),
            None => ReadLookup::Absent,
        }
    }

    /// The first sector that a segment still holds when it has been filled up to `end`.
    fn first_held(&self, ahead: &RunningReadAhead, end: u64) -> u64 {
        self.segments[ahead.segment].start.max(end.saturating_sub(self.segment_sectors))
    }

    /// The sector behind the last that read-ahead has brought in by `now`.
    fn end_at(&self, arm: &Arm, ahead: &RunningReadAhead, now: Timestamp) -> u64 {
        match self.known.get() {
            Some((at, end)) if at == now => end,
            _ => {
                let end = self.search_end(arm, ahead, now);
                self.known.set(Some((now, end)));
                end
            }
        }
    }

    fn search_end(&self, arm: &Arm, ahead: &RunningReadAhead, now: Timestamp) -> u64 {
        let known = self.segments[ahead.segment].end.max(ahead.origin);
        if arm.passed(ahead.began, ahead.origin, ahead.limit - ahead.origin) <= now {
            return ahead.limit;
        }
        // How many more sectors have passed: the times at which they do grow. They pass one behind the other but for
        // skews and spares, so that the time that is left says about where to look next.
        let sector = arm.sector(ahead.origin).as_ns().max(1);
        let (mut passed, mut not) = (known, ahead.limit);
        let (mut looked, mut at) = (ahead.origin, ahead.began);
        for nth in 0.. {
            if passed + 1 >= not {
                break;
            }
            let look = match nth {
                0..GUESSES if at <= now => looked.saturating_add(now.saturating_since(at).as_ns() / sector),
                0..GUESSES => looked.saturating_sub(at.saturating_since(now).as_ns() / sector + 1),
                _ => passed + (not - passed) / 2,
            };
            looked = look.clamp(passed + 1, not - 1);
            at = arm.passed(ahead.began, ahead.origin, looked - ahead.origin);
            *(if at <= now { &mut passed } else { &mut not }) = looked;
        }
        passed
    }

    /// Where the heads are when read-ahead lets another access have them that comes at `now`, and when that is; `None`
    /// if it does not have them. Otherwise they are where the last access left them. They count as there from its
    /// beginning on, while they still move.
    pub fn heads(&self, arm: &Arm, now: Timestamp) -> Option<(SectorPosition, Timestamp)> {
        let ahead = self.ahead?;
        let released = ahead.least.max(now);
        let end = self.end_at(arm, &ahead, released);
        Some((arm.mechanics.layout.place(end.saturating_sub(1).max(ahead.origin)), released))
    }

    /// Ends read-ahead: the arm has something else to do. Returns where it leaves the heads, and when.
    pub fn stop(&mut self, arm: &Arm, now: Timestamp) -> Option<(SectorPosition, Timestamp)> {
        let heads = self.heads(arm, now);
        if let Some(ahead) = self.ahead.take() {
            let now = ahead.least.max(now);
            let end = self.end_at(arm, &ahead, now);
            let start = self.first_held(&ahead, end);
            self.segments[ahead.segment].start = if now < ahead.round { start.max(ahead.origin) } else { start };
            self.segments[ahead.segment].end = end;
        }
        heads
    }

    /// Takes note of a hit in `segment` up to `end` at `now` and has read-ahead go on behind it. `standing` is where
    /// the arm is if nothing is being read.
    pub fn hit(&mut self, arm: &Arm, now: Timestamp, segment: usize, end: u64, standing: ArmState) {
        self.requests += 1;
        if !self.first_in_first_out {
            self.segments[segment].used = self.requests;
        }
        self.last_end = end;
        if self.ahead_on_hit {
            self.read_on(arm, now, segment, self.limit(arm, end), standing);
        }
        self.sent(segment, end);
    }

    /// Has read-ahead fill `segment` up to `limit`, unless the arm reads on for another one.
    fn read_on(&mut self, arm: &Arm, now: Timestamp, segment: usize, limit: u64, mut standing: ArmState) {
        let running =
            |ahead: &&mut RunningReadAhead| arm.passed(ahead.began, ahead.origin, ahead.limit - ahead.origin) > now;
        if let Some(ahead) = self.ahead.as_mut().filter(running) {
            if ahead.segment == segment {
                ahead.limit = ahead.limit.max(limit);
                self.known.set(None);
            }
            return;
        }
        if let Some((place, _)) = self.stop(arm, now) {
            standing.heads = place;
        }
        let origin = self.segments[segment].end;
        if limit > origin {
            let access = arm.read(now, &standing, origin, 1);
            self.stream(RunningReadAhead {
                segment,
                origin,
                began: access.began,
                limit,
                least: Timestamp::ZERO,
                round: now,
            });
        }
    }

    fn stream(&mut self, ahead: RunningReadAhead) {
        self.ahead = Some(ahead);
        self.known.set(None);
    }

    /// How far to read on behind `end`.
    fn limit(&self, arm: &Arm, end: u64) -> u64 {
        let layout = &arm.mechanics.layout;
        let limit = end.saturating_add(self.read_ahead).min(layout.capacity());
        if self.within_track { limit.min(layout.track_of(end.saturating_sub(1)).1) } else { limit }
    }

    /// The sectors up to `end` were sent to the host and need not be kept.
    fn sent(&mut self, segment: usize, end: u64) {
        if !self.keeps_read {
            let segment = &mut self.segments[segment];
            segment.start = segment.start.max(end);
            segment.end = segment.end.max(end);
            self.known.set(None);
        }
    }

    /// Puts a read from the medium into the segment that is replaced next and reads on behind it.
    pub fn fill(&mut self, arm: &Arm, start: u64, end: u64, access: &ArmAccess) {
        let goes_on = !self.needs_sequence || start == self.last_end;
        let first = if self.whole_track && goes_on { arm.mechanics.layout.track_of(start).0 } else { start };
        let limit = if goes_on { self.limit(arm, end).max(end) } else { end };
        let round = if first < start { access.began.saturating_add(arm.turn) } else { access.began };
        let segment = self.take(first, end);
        let least = if goes_on { end.saturating_add(self.read_ahead_least).min(limit) } else { end };
        let least = arm.passed(access.began, start, least - start);
        self.stream(RunningReadAhead { segment, origin: start, began: access.began, limit, least, round });
        self.last_end = end;
        self.sent(segment, end);
    }

    /// The sectors `start` to `end` were overwritten. The buffer holds the new data or none of it.
    pub fn written(&mut self, start: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.start < end && start < segment.end {
                // The longer part that is still true.
                if start.saturating_sub(segment.start) >= segment.end.saturating_sub(end) {
                    segment.end = start.max(segment.start);
                } else {
                    segment.start = end;
                }
            }
        }
        if self.keeps_written {
            self.take(start, end);
        }
    }

    /// The segment that is replaced next, now with `start` to `end`, or the last sectors of them.
    fn take(&mut self, start: u64, end: u64) -> usize {
        self.requests += 1;
        let oldest = (0..self.segments.len()).min_by_key(|&index| self.segments[index].used).unwrap_or(0);
        let start = start.max(end.saturating_sub(self.segment_sectors));
        self.segments[oldest] = CacheSegment { start, end, used: self.requests };
        oldest
    }
}
