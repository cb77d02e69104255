//! Track lengths, skews and heads.
//!
//! From sector to sector of one track the phase moves by one part in as many as the track has sectors. Where it moves
//! by more, the next track begins. Two such boundaries enclose a track, and the excess beyond a sector is the skew. In
//! a cylinder of H heads, H − 1 skews of one size are followed by one of another.

use super::probe::{Prober, signed, wrapped};
use crate::calibration::{DeviceError, FitError};

/// Sectors over which skews are looked for, more than four of the longest tracks in use.
const SCAN_SECTORS_MAX: u64 = 1 << 14;
/// A step of the scan turns the platter less than this, in turns.
const STEP_TURNS_MAX: f64 = 0.03;
/// Where the phase moves by this much more than it should, a track ends, in turns.
const SKEW_MIN: f64 = 0.02;
/// Boundaries that a place is measured by, so that of the three tracks between them one may be short.
const BOUNDARIES_FOUND: usize = 4;
/// Boundaries that are looked at for the number of heads: enough for two cylinders of [`HEADS_MAX`].
const BOUNDARIES: u64 = 2 * HEADS_MAX as u64 + 1;
/// Most heads that the skews are searched for.
const HEADS_MAX: u32 = 24;
/// Skews this much alike are of one kind, in turns.
const ALIKE: f64 = 0.01;

/// The assumed layout.
#[derive(Clone, Debug)]
pub(super) struct TrackGeometry {
    /// Sectors of the drive.
    pub capacity: u64,
    /// Heads.
    pub heads: u32,
    /// Where that number comes from.
    pub how_heads: &'static str,
    /// Zones by address.
    pub zones: Vec<MeasuredZone>,
}

/// A zone as it was found in its middle.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredZone {
    pub first_lbn: u64,
    pub first_cylinder: u32,
    pub cylinders: u32,
    pub sectors_per_track: u32,
    /// Where its first track begins, in turns after the first zone's.
    pub angle: f64,
    /// In turns.
    pub head_skew: f64,
    /// In turns.
    pub cylinder_skew: f64,
}

impl TrackGeometry {
    /// The cylinders of the drive.
    pub fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.first_cylinder.saturating_add(zone.cylinders))
    }

    /// The first address of a cylinder, and the length of its tracks.
    pub fn cylinder(&self, cylinder: u32) -> (u64, u32) {
        let index = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder).max(1) - 1;
        let zone = &self.zones[index];
        let before = u64::from(cylinder - zone.first_cylinder) * u64::from(self.heads);
        (zone.first_lbn + before * u64::from(zone.sectors_per_track), zone.sectors_per_track)
    }
}

/// The track boundary found at one position.
#[derive(Clone, Copy, Debug)]
struct TrackBoundary {
    /// The first address of a track.
    boundary: u64,
    sectors_per_track: u32,
}

/// Looks at the middle of `zones` zones of equal capacity.
///
/// # Errors
/// [`FitError::NotFitted`] if no tracks can be distinguished.
pub(super) fn survey(prober: &mut Prober, zones: u64, heads: Option<u32>) -> Result<TrackGeometry, FitError> {
    let outer = track_at(prober, 0)?;
    let (found, cylinder_longer, how_heads) = match heads {
        Some(heads) => (heads, true, "heads as given"),
        None => count_heads(prober, outer.sectors_per_track)?,
    };
    let capacity = prober.capacity;
    let mut measured: Vec<MeasuredZone> = Vec::new();
    let mut next_cylinder = 0;
    for index in 0..zones {
        let (begin, end) =
            (capacity / zones * index, if index + 1 == zones { capacity } else { capacity / zones * (index + 1) });
        let place = prober.aligned(begin + (end - begin) / 2);
        let TrackBoundary { boundary, sectors_per_track } = track_at(prober, place)?;
        let (head_skew, cylinder_skew) = skews(prober, boundary, sectors_per_track, found, cylinder_longer)?;
        if let Some(before) = measured.last_mut()
            && before.sectors_per_track == sectors_per_track
        {
            before.cylinders = cylinders(end - before.first_lbn, sectors_per_track, found);
            next_cylinder = before.first_cylinder.saturating_add(before.cylinders);
            continue;
        }
        let cylinders = cylinders(end - begin, sectors_per_track, found);
        let angle = angle(prober, begin, outer.sectors_per_track, sectors_per_track)?;
        measured.push(MeasuredZone {
            first_lbn: begin,
            first_cylinder: next_cylinder,
            cylinders,
            sectors_per_track,
            angle,
            head_skew,
            cylinder_skew,
        });
        next_cylinder = next_cylinder.saturating_add(cylinders);
    }
    Ok(TrackGeometry { capacity, heads: found, how_heads, zones: measured })
}

fn cylinders(sectors: u64, sectors_per_track: u32, heads: u32) -> u32 {
    u32::try_from(sectors.div_ceil(u64::from(sectors_per_track) * u64::from(heads))).unwrap_or(u32::MAX / 2)
}

/// Where the track at `begin` starts, after the one at address 0; both as the ends of reads there.
fn angle(prober: &mut Prober, begin: u64, outer: u32, here: u32) -> Result<f64, FitError> {
    let turned = prober.turned(0, prober.aligned(begin))?;
    let granule = prober.granule as f64;
    Ok(wrapped(turned + granule / f64::from(outer) - granule / f64::from(here)))
}

/// The first track boundary behind `lbn` and the length of the tracks there.
fn track_at(prober: &mut Prober, lbn: u64) -> Result<TrackBoundary, FitError> {
    let granule = prober.granule;
    let begin = lbn.min(prober.capacity.saturating_sub(SCAN_SECTORS_MAX) / granule * granule);
    let mut step = (16 / granule).max(1) * granule;
    let mut slope = slope(prober, begin, step)?;
    while slope * step as f64 > STEP_TURNS_MAX && step > granule {
        step = (step / 2).next_multiple_of(granule);
        slope = self::slope(prober, begin, step)?;
    }
    let mut boundaries = Vec::new();
    let mut at = begin;
    let mut before = prober.sequence(std::iter::once(at))?[0];
    while boundaries.len() < BOUNDARIES_FOUND && at + step <= prober.last() && at - begin < SCAN_SECTORS_MAX {
        let now = prober.sequence(std::iter::once(at + step))?[0];
        let moved = prober.phase_of(before, now);
        if leaps(moved, slope, step) {
            // A late answer looks the same, but not three times.
            if leaps(prober.turned(at, at + step)?, slope, step) {
                boundaries.push(boundary(prober, at, at + step, slope)?);
            }
            before = prober.sequence(std::iter::once(at + step))?[0];
        } else {
            before = now;
        }
        at += step;
    }
    let mut lengths: Vec<u64> = boundaries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    lengths.sort_unstable();
    let length = lengths.get(lengths.len() / 2).and_then(|&length| u32::try_from(length).ok());
    match (boundaries.first(), length) {
        (Some(&boundary), Some(sectors_per_track)) if sectors_per_track > 0 => {
            Ok(TrackBoundary { boundary, sectors_per_track })
        }
        _ => Err(FitError::NotFitted(format!(
            "no track boundaries found in {SCAN_SECTORS_MAX} sectors from {begin}: skews below {SKEW_MIN} turns, times \
             too noisy, or the drive answers from its buffer (switch its read look-ahead off: hdparm -A 0, sdparm --set DRA=1)"
        ))),
    }
}

/// Whether the platter turns further over `sectors` than it does within a track.
fn leaps(turned: f64, slope: f64, sectors: u64) -> bool {
    signed(turned - slope * sectors as f64).abs() > SKEW_MIN
}

/// How far a sector turns the platter: the middle of the moves from read to read over 48 steps.
fn slope(prober: &mut Prober, begin: u64, step: u64) -> Result<f64, DeviceError> {
    let ends = prober.sequence((0..=48).map(|nth| begin + nth * step))?;
    let mut moves: Vec<f64> = ends.windows(2).map(|pair| prober.phase_of(pair[0], pair[1])).collect();
    moves.sort_unstable_by(f64::total_cmp);
    Ok(moves[moves.len() / 2] / step as f64)
}

/// The first sector of the track that begins behind `low` and not behind `high`.
fn boundary(prober: &mut Prober, low: u64, high: u64, slope: f64) -> Result<u64, DeviceError> {
    let (mut same, mut next) = (low, high);
    while next - same > prober.granule {
        let middle = same + ((next - same) / 2).next_multiple_of(prober.granule).min(next - same - prober.granule);
        let turned = prober.turned(low, middle)?;
        if leaps(turned, slope, middle - low) {
            next = middle;
        } else {
            same = middle;
        }
    }
    Ok(next)
}

/// How much later than without skew the track at `boundary` begins, in turns.
fn skew(prober: &mut Prober, boundary: u64, sectors_per_track: u32) -> Result<f64, DeviceError> {
    let granule = prober.granule;
    let begin = boundary / granule * granule;
    let turned = prober.turned(begin.saturating_sub(granule), begin)?;
    Ok(wrapped(turned - granule as f64 / f64::from(sectors_per_track)))
}

/// The heads by the pattern of skews from address 0 on, whether a cylinder's skew is longer than a head's, and how that
/// was found.
fn count_heads(prober: &mut Prober, sectors_per_track: u32) -> Result<(u32, bool, &'static str), DeviceError> {
    let mut skews = Vec::new();
    for track in 1..=BOUNDARIES {
        let boundary = track * u64::from(sectors_per_track);
        if boundary > prober.last() {
            break;
        }
        skews.push(skew(prober, boundary, sectors_per_track)?);
    }
    let alike = |one: f64, other: f64| signed(one - other).abs() < ALIKE;
    for heads in 2..=(skews.len() / 2).min(HEADS_MAX as usize) {
        let (of_head, of_cylinder) = (skews[0], skews[heads - 1]);
        let pattern = |index: usize| if (index + 1).is_multiple_of(heads) { of_cylinder } else { of_head };
        if !alike(of_head, of_cylinder) && skews.iter().enumerate().all(|(index, skew)| alike(*skew, pattern(index))) {
            return Ok((heads as u32, of_cylinder > of_head, "heads inferred from the pattern of skews"));
        }
    }
    Ok((1, true, "one head assumed, since skews show no pattern"))
}

/// The skews to the next head and to the next cylinder, from the boundaries of one cylinder from `boundary` on.
fn skews(
    prober: &mut Prober,
    boundary: u64,
    sectors_per_track: u32,
    heads: u32,
    cylinder_longer: bool,
) -> Result<(f64, f64), DeviceError> {
    let mut all = Vec::new();
    for track in 0..u64::from(heads) {
        all.push(skew(prober, boundary + track * u64::from(sectors_per_track), sectors_per_track)?);
    }
    all.sort_unstable_by(f64::total_cmp);
    let of_cylinder = if cylinder_longer { all.pop() } else { Some(all.remove(0)) }.unwrap_or(0.0);
    Ok((all.get(all.len() / 2).copied().unwrap_or(of_cylinder), of_cylinder))
}
