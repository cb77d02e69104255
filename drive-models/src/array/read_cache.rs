//! The read cache: what was read, written or read ahead lately, by track.
//!
//! A track takes a whole track's room however much of it is there; the one used longest ago goes first.
//! A read that begins behind a sector that is there, and goes on to a further track, continues a run;
//! from the second track of a run on, whole tracks are read ahead whenever half of what may be ahead is
//! used up. Data on its way counts: who wants it waits for it. Of a track that is what the latest fetch
//! brings; who wants something of an earlier one that has not come yet fetches it again.

use super::raid::OperationId;
use super::tracks::{Tracks, mask};

/// The tracks of a run from which on it is read ahead.
const RUN: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct CachedTrack {
    held: u128,
    coming: u128,
    /// What `coming` comes with.
    with: Option<OperationId>,
    /// How many tracks the run has that went through this one last.
    run: u32,
    /// How many tracks behind this one were read ahead for it.
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
    /// An empty cache of `tracks_max` tracks of `track` sectors, that reads up to `prefetch` tracks
    /// ahead, none beyond the array's `end` tracks.
    pub fn new(tracks_max: usize, track: u64, prefetch: u64, end: u64) -> ArrayReadCache {
        ArrayReadCache { tracks: Tracks::new(tracks_max), tracks_max, track, prefetch, end }
    }

    /// The sectors of a track that are there.
    pub fn held(&self, track: u64) -> u128 {
        self.tracks.find(track).map_or(0, |slot| self.tracks[slot].held)
    }

    /// Whether the sectors `start..end` are there or on their way.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        spans(self.track, start, end).all(|(track, needed)| {
            let there = self.tracks.find(track).map_or(0, |slot| self.tracks[slot].held | self.tracks[slot].coming);
            needed & !there == 0
        })
    }

    /// Uses the sectors `start..end`. Returns the span that has to be read, from the first to the last
    /// sector that is neither here nor on its way nor, by `elsewhere`, in the write cache; and appends
    /// what to wait for.
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

    /// The sectors `start..end` have come with `operation`; tracks that were given up since stay so.
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

    /// The sectors `start..end` are here from now on, as when they are written. Returns the span that was not, from the first to the last such
    /// sector.
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

    /// Whether the read of `start..end`, which [`ArrayReadCache::read`] has seen, continues a run, and
    /// what is to be read ahead for it.
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
