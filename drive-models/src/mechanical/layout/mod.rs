//! Where sectors lie: zones, the order in which tracks follow one another, skews, spares and slipped sectors. All
//! questions are answered by arithmetic, a binary search over the zones and one over the slips of a zone. A request of
//! any length costs the same unless it crosses a zone.
//!
//! Within a zone tracks are numbered in the order of their addresses. A *run* is a series of tracks of one head over
//! `band_cylinders` neighbouring cylinders; a *band* is one run of every head. With a band of one cylinder this is the
//! classical layout (all heads of a cylinder, then the next). With more it is the serpentine layout of modern drives.
//! The arm goes in and out within the band, since a seek of one cylinder settles sooner than another head does.

use serde::Deserialize;

use crate::mechanical::rotation::{Angle, TURN};

/// The position of a sector on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorPosition {
    /// The cylinder, 0 outside.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
    /// The physical sector of the track, spares and slipped ones included.
    pub sector: u32,
    /// Where the sector begins.
    pub angle: Angle,
}

/// Where a request begins and ends, and how far the platter turns in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalExtent {
    /// The first sector.
    pub first: SectorPosition,
    /// The last.
    pub last: SectorPosition,
    /// From the beginning of the first sector to the end of the last, in 2⁻³² turns.
    pub turned: u64,
}

/// The tracks of a zone and their skews, spares and slips.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    /// Its first address.
    pub first_lbn: u64,
    /// Its first cylinder.
    pub first_cylinder: u32,
    /// Physical sectors of a track.
    pub sectors_per_track: u32,
    /// Cylinders of a band.
    pub band_cylinders: u32,
    /// In which order a band goes through the heads.
    pub head_order: HeadOrder,
    /// Where the zone's first track begins, in 2⁻³² turns.
    pub angle: Angle,
    /// How much later the next track begins than this one ended, in 2⁻³² turns: the next of the run, of another head,
    /// of another band.
    pub steps: Skews,
    /// Tracks over which spares are laid out, and how many at the end of each such group.
    pub spare: Spare,
    /// Physical sectors of the zone before its first address.
    pub front: u64,
    /// Slipped sectors: the address, counted from the zone's first, from which on so many sectors have been passed over
    /// since the zone's beginning.
    pub slips: Vec<(u32, u32)>,
}

/// In which order the bands of a zone go through the heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadOrder {
    /// Every band from the first head to the last.
    #[default]
    Same,
    /// Every second band from the last to the first, so that the head stays between bands.
    Alternating,
    /// The same, and the zone's first band from the last to the first.
    AlternatingFromLast,
}

impl HeadOrder {
    /// Whether a band goes from the last head to the first.
    fn is_backwards(self, band: u32) -> bool {
        match self {
            HeadOrder::Same => false,
            HeadOrder::Alternating => band % 2 == 1,
            HeadOrder::AlternatingFromLast => band.is_multiple_of(2),
        }
    }
}

/// Skews between the end of a track and the beginning of the next, in 2⁻³² turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skews {
    /// To the next cylinder under the same head, within a run.
    pub cylinder: u64,
    /// To the next head, within a band.
    pub head: u64,
    /// To the next band; with a band of one cylinder, to the next cylinder.
    pub band: u64,
}

/// Spare sectors.
#[derive(Clone, Copy, Debug)]
pub struct Spare {
    /// Tracks of a group.
    pub tracks: u32,
    /// Spares at the end of each.
    pub sectors: u32,
    /// How much later than the skew between bands says the next group begins, in 2⁻³² turns; earlier wraps.
    pub late: u64,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { tracks: 1, sectors: 0, late: 0 }
    }
}

/// A drive's layout.
#[derive(Clone, Debug)]
pub struct PlatterLayout {
    heads: u32,
    capacity: u64,
    zones: Vec<Zone>,
    /// The zones' first addresses, close together for the search.
    first_lbns: Vec<u64>,
}

impl PlatterLayout {
    /// A layout of `zones` in the order of their addresses, which their builder has checked: the first begins at 0,
    /// addresses grow, and no count is zero.
    pub(super) fn new(heads: u32, capacity: u64, zones: Vec<Zone>) -> PlatterLayout {
        let first_lbns = zones.iter().map(|zone| zone.first_lbn).collect();
        PlatterLayout { heads, capacity, zones, first_lbns }
    }

    /// Makes the skews what reading on takes when another head needs the angle `head` to follow, and the next cylinder
    /// `cylinder`. Where that is more than the skew, a turn is lost.
    pub(super) fn settle(&mut self, head: u64, cylinder: u64) {
        for zone in &mut self.zones {
            let mut group = zone.steps.band.wrapping_add(zone.spare.late) % TURN;
            for (step, needed) in [
                (&mut zone.steps.cylinder, cylinder),
                (&mut zone.steps.head, head),
                (&mut zone.steps.band, cylinder),
                (&mut group, cylinder),
            ] {
                if *step < needed {
                    *step += TURN;
                }
            }
            zone.spare.late = group.wrapping_sub(zone.steps.band);
        }
    }

    /// Addressable sectors.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where `lbn` is; what lies beyond the capacity counts as the last sector.
    pub fn place(&self, lbn: u64) -> SectorPosition {
        let lbn = lbn.min(self.capacity - 1);
        let zone = &self.zones[self.zone_of(lbn)];
        zone.place(zone.physical(lbn), self.heads).0
    }

    /// Where `sectors` from `lbn` on are; an empty request is one of a single sector.
    pub fn extent(&self, lbn: u64, sectors: u64) -> PhysicalExtent {
        let lbn = lbn.min(self.capacity - 1);
        let end = lbn.saturating_add(sectors.max(1)).min(self.capacity);
        let index = self.zone_of(lbn);
        let zone = &self.zones[index];
        let (physical, run) = zone.run(lbn);
        let (first, from) = zone.place(physical, self.heads);
        let (mut last, mut to) = (first, from);
        if end - 1 > lbn {
            let stop = (end - 1).min(self.end_of(index) - 1);
            let stop = if stop - lbn < run { physical + (stop - lbn) } else { zone.physical(stop) };
            (last, to) = zone.place_after(stop, physical, (first, from), self.heads);
        }
        let mut turned = to - from + TURN / u64::from(zone.sectors_per_track);
        let mut start = self.end_of(index);
        let mut before = zone;
        for (next, zone) in self.zones.iter().enumerate().skip(index + 1) {
            if start >= end {
                break;
            }
            let (entry, from) = zone.place(zone.physical(start), self.heads);
            let arrived = Angle(last.angle.0.wrapping_add((TURN / u64::from(before.sectors_per_track)) as u32));
            turned += arrived.until(entry.angle);
            let stop = end.min(self.end_of(next)) - 1;
            (last, to) = zone.place(zone.physical(stop), self.heads);
            turned += to - from + TURN / u64::from(zone.sectors_per_track);
            (start, before) = (self.end_of(next), zone);
        }
        PhysicalExtent { first, last, turned }
    }

    /// The first address of the track that holds `lbn` and the one behind its last; a track with spares or slipped
    /// sectors counts as one without.
    pub fn track_of(&self, lbn: u64) -> (u64, u64) {
        let lbn = lbn.min(self.capacity - 1);
        let index = self.zone_of(lbn);
        let zone = &self.zones[index];
        let sector = u64::from(zone.place(zone.physical(lbn), self.heads).0.sector);
        let start = lbn.saturating_sub(sector).max(zone.first_lbn);
        (start, (lbn + u64::from(zone.sectors_per_track) - sector).min(self.end_of(index)))
    }

    /// How far the platter turns while the sector `lbn` passes, in 2⁻³² turns.
    pub fn sector_angle(&self, lbn: u64) -> u64 {
        TURN / u64::from(self.zones[self.zone_of(lbn)].sectors_per_track)
    }

    fn zone_of(&self, lbn: u64) -> usize {
        self.first_lbns.partition_point(|&first| first <= lbn) - 1
    }

    fn end_of(&self, zone: usize) -> u64 {
        self.first_lbns.get(zone + 1).copied().unwrap_or(self.capacity)
    }
}

impl Zone {
    /// The number of the physical sector that holds `lbn`, counted from the zone's first.
    pub(super) fn physical(&self, lbn: u64) -> u64 {
        self.run(lbn).0
    }

    /// The same, and how many addresses from `lbn` on follow one another without a slipped or spare sector between
    /// them; it may be counted beyond the zone.
    fn run(&self, lbn: u64) -> (u64, u64) {
        let relative = lbn - self.first_lbn;
        let after = self.slips.partition_point(|&(from, _)| u64::from(from) <= relative);
        let slipped = if after == 0 { 0 } else { u64::from(self.slips[after - 1].1) };
        let run = self.slips.get(after).map_or(u64::MAX, |&(next, _)| u64::from(next) - relative);
        let usable = relative + self.front + slipped;
        if self.spare.sectors == 0 {
            return (usable, run);
        }
        let group = u64::from(self.spare.tracks) * u64::from(self.sectors_per_track);
        let held = group - u64::from(self.spare.sectors);
        // Saturates for descriptions that are about to be refused: their addresses do not fit their tracks.
        ((usable / held).saturating_mul(group).saturating_add(usable % held), run.min(held - usable % held))
    }

    /// [`Zone::place`] of `physical`, from that of `earlier`: nearly all requests end on the track on which they begin.
    fn place_after(
        &self,
        physical: u64,
        earlier: u64,
        (mut place, turned): (SectorPosition, u64),
        heads: u32,
    ) -> (SectorPosition, u64) {
        let sector = physical - earlier + u64::from(place.sector);
        if sector >= u64::from(self.sectors_per_track) {
            return self.place(physical, heads);
        }
        let further = self.turned_at(sector as u32) - self.turned_at(place.sector);
        place.sector = sector as u32;
        place.angle = Angle(place.angle.0.wrapping_add(further as u32));
        (place, turned + further)
    }

    /// How far a track has turned at the beginning of `sector`.
    fn turned_at(&self, sector: u32) -> u64 {
        u64::from(sector) * TURN / u64::from(self.sectors_per_track)
    }

    /// Where a physical sector is, and how far the platter has turned from the beginning of the zone's first sector to
    /// its own. The zone is taken as read through from the start.
    fn place(&self, physical: u64, heads: u32) -> (SectorPosition, u64) {
        let track = (physical / u64::from(self.sectors_per_track)) as u32;
        let sector = (physical % u64::from(self.sectors_per_track)) as u32;
        let run = track / self.band_cylinders;
        let band = run / heads;
        let (in_run, in_band) = (track % self.band_cylinders, run % heads);
        let head = if self.head_order.is_backwards(band) { heads - 1 - in_band } else { in_band };
        let inward = in_band.is_multiple_of(2);
        let across = if inward { in_run } else { self.band_cylinders - 1 - in_run };
        let cylinder = self.first_cylinder.wrapping_add(band.wrapping_mul(self.band_cylinders)).wrapping_add(across);
        let turned = u64::from(track) * TURN
            + self.turned_at(sector)
            + u64::from(track - run) * self.steps.cylinder
            + u64::from(run - band) * self.steps.head
            + u64::from(band) * self.steps.band;
        let turned = turned.wrapping_add(u64::from(track / self.spare.tracks).wrapping_mul(self.spare.late));
        (SectorPosition { cylinder, head, sector, angle: Angle(self.angle.0.wrapping_add(turned as u32)) }, turned)
    }
}

#[cfg(test)]
mod tests;
