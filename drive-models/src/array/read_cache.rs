//! The read cache: sectors that were recently read, written or read ahead, by track.
//!
//! The cache holds a number of tracks. A track counts as one even if only some of its sectors are cached. The least
//! recently used track is evicted first.
//!
//! A read continues a *run* if the sector before its first one is cached. From the second track of a run on, whole
//! tracks are read ahead. The next read-ahead begins when half of the allowed distance is used up.
//!
//! A sector that is being fetched counts as cached, and a read of it waits for the fetch. A track keeps its latest
//! fetch only. If an earlier fetch of the track has not ended, a read of its sectors fetches them again.

use super::raid::OperationId;
use super::tracks::{Tracks, mask};

/// The length of a run in tracks from which on it is read ahead.
const RUN: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct CachedTrack {
    held: u128,
    coming: u128,
    /// The operation that fetches `coming`.
    with: Option<OperationId>,
    /// Length in tracks of the last run through this track.
    run: u32,
    /// Number of tracks behind this one that were read ahead for the run.
    ahead: u32,
}

/// The read cache.
#[derive(Clone, Debug)]
pub struct ArrayReadCache {
    tracks: Tracks<CachedTrack>,
    tracks_max: usize,
    track: u64,
    prefetch: u64,
    /// Tracks of the array.
    end: u64,
}

impl ArrayReadCache {
    /// An empty cache of `tracks_max` tracks of `track` sectors, that reads up to `prefetch` tracks ahead, none beyond
    /// the array's `end` tracks.
    pub fn new(tracks_max: usize, track: u64, prefetch: u64, end: u64) -> ArrayReadCache {
        ArrayReadCache { tracks: Tracks::new(tracks_max), tracks_max, track, prefetch, end }
    }

    /// The cached sectors of a track.
    pub fn held(&self, track: u64) -> u128 {
        self.tracks.find(track).map_or(0, |slot| self.tracks[slot].held)
    }

    /// Whether the sectors `start..end` are cached or being fetched.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        spans(self.track, start, end).all(|(track, needed)| {
            let there = self.tracks.find(track).map_or(0, |slot| self.tracks[slot].held | self.tracks[slot].coming);
            needed & !there == 0
        })
    }

    /// Uses the sectors `start..end`. Returns the span that has to be read, from the first to the last sector that is
    /// neither cached nor being fetched nor, by `elsewhere`, in the write cache. Appends the operations to wait for.
    pub fn read(
        &mut self,
        start: u64,
        end: u64,
        elsewhere: impl Fn(u64) -> u128,
        wait_for: &mut Vec<OperationId>,
    ) -> Option<(u64, u64)> {
        let mut missing: Option<(u64, u64)> = None;
        for (track, needed) in spans(self.track, start, end) {
            let mut lacking = needed & !elsewhere(track);
            if let Some(slot) = self.tracks.find(track) {
                self.tracks.list(slot);
                let CachedTrack { held, coming, with, .. } = self.tracks[slot];
                lacking &= !held;
                if let Some(with) = with.filter(|with| lacking & coming != 0 && !wait_for.contains(with)) {
                    wait_for.push(with);
                }
                lacking &= !coming;
            }
            missing = hull(missing, track * self.track, lacking);
        }
        missing
    }

    /// The sectors `start..end` are on their way with `operation`.
    pub fn fetching(&mut self, start: u64, end: u64, operation: OperationId) {
        for (track, sectors) in spans(self.track, start, end) {
            let cached = self.entry(track);
            (cached.coming, cached.with) = (sectors & !cached.held, Some(operation));
        }
    }

    /// The sectors `start..end` have come with `operation`. Tracks that were evicted since stay so.
    pub fn fetched(&mut self, start: u64, end: u64, operation: OperationId) {
        for (track, sectors) in spans(self.track, start, end) {
            let Some(slot) = self.tracks.find(track) else { continue };
            let cached = &mut self.tracks[slot];
            cached.held |= sectors;
            if cached.with == Some(operation) {
                (cached.coming, cached.with) = (0, None);
            }
        }
    }

    /// Adds the sectors `start..end`, as when they are written. Returns the span of those that were missing, from the
    /// first to the last.
    pub fn put(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut missing = None;
        for (track, sectors) in spans(self.track, start, end) {
            let cached = self.entry(track);
            let lacking = sectors & !cached.held;
            cached.held |= sectors;
            missing = hull(missing, track * self.track, lacking);
        }
        missing
    }

    /// The span to read ahead, if the read of `start..end`, which [`ArrayReadCache::read`] has seen, continues a run.
    pub fn read_ahead(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let last = (end - 1) / self.track;
        let before = start.checked_sub(1).and_then(|before| self.run_through(before));
        let (run, ahead) = match before {
            Some((track, run, ahead)) => (run.max(1) + u32::from(last > track), ahead.max(last)),
            None => (1, last),
        };
        let due = run >= RUN && ahead - last <= self.prefetch / 2;
        let to = if due { (last + self.prefetch).min(self.end - 1).max(ahead) } else { ahead };
        let slot = self.tracks.find(last)?;
        (self.tracks[slot].run, self.tracks[slot].ahead) = (run, (to - last) as u32);
        let whole = mask(0, self.track);
        let present = |track| {
            self.tracks.find(track).is_some_and(|slot| (self.tracks[slot].held | self.tracks[slot].coming) == whole)
        };
        // The rest of the track that the run has reached comes with what is behind it.
        if due && ahead == last && !present(last) && to > last {
            return Some((end, (to + 1) * self.track));
        }
        let from = (ahead + 1..=to).find(|&track| !present(track))?;
        Some((from * self.track, (to + 1) * self.track))
    }

    /// The track of a sector, its run, and the last track read ahead for that, if the sector is there.
    fn run_through(&self, sector: u64) -> Option<(u64, u32, u64)> {
        let track = sector / self.track;
        let CachedTrack { held, coming, run, ahead, .. } = self.tracks[self.tracks.find(track)?];
        let bit = 1 << (sector % self.track);
        ((held | coming) & bit != 0).then_some((track, run, track + u64::from(ahead)))
    }

    fn entry(&mut self, track: u64) -> &mut CachedTrack {
        let slot = match self.tracks.find(track) {
            Some(slot) => {
                self.tracks.list(slot);
                slot
            }
            None => {
                if self.tracks.len() == self.tracks_max
                    && let Some(oldest) = self.tracks.oldest()
                {
                    self.tracks.remove(oldest);
                }
                self.tracks.insert(track)
            }
        };
        &mut self.tracks[slot]
    }
}

/// The tracks that `start..end` touches, each with the sectors of it.
pub fn spans(track_sectors: u64, start: u64, end: u64) -> impl Iterator<Item = (u64, u128)> {
    let tracks = start / track_sectors..end.div_ceil(track_sectors);
    tracks.map(move |track| {
        let base = track * track_sectors;
        (track, mask(start.max(base) - base, end.min(base + track_sectors) - base))
    })
}

/// The span from the first to the last sector of `span` and of `sectors` of the track at `base`.
pub fn hull(span: Option<(u64, u64)>, base: u64, sectors: u128) -> Option<(u64, u64)> {
    if sectors == 0 {
        return span;
    }
    let first = base + u64::from(sectors.trailing_zeros());
    Some((span.map_or(first, |(first, _)| first), base + 128 - u64::from(sectors.leading_zeros())))
}
