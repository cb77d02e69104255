//! On which member of an array each address lies, told from a recording.
//!
//! A request waits for those that are under way at its own member and not for others. Of all layouts that arrays usually have (level, number
//! of members and stripe unit), the right one is that whose count of requests under way at one's own member explains most of what
//! responses differ by; under a wrong one this count is as good as drawn by lot.

use drive_models::array::{Geometry, Level};
use traces::{Lba, Sectors};

use super::recording::{Recorded, each_issued};

/// The most members that are thought of.
const MEMBERS_MAX: u64 = 24;
/// Stripe units that are thought of, in sectors: 4 KiB to 1 MiB.
const UNITS: std::ops::RangeInclusive<u32> = 3..=11;
/// Reads of each recording that are looked at.
const LOOKED_AT: usize = 4000;
/// A layout explains so many standard errors at least.
const CLEAR: f64 = 8.0;

/// A read, and where others were under way when it came.
struct Met {
    lba: Lba,
    /// What its response differs by from others with as many under way; seconds.
    residual: f64,
    /// Places in the list of those under way.
    others: std::ops::Range<usize>,
}

/// The reads of each list, with those that they met.
fn met(reads: &[Vec<Recorded>]) -> (Vec<Met>, Vec<Lba>) {
    let mut all = Vec::new();
    let mut places = Vec::new();
    for reads in reads {
        let mut found: Vec<Met> = Vec::new();
        each_issued(reads.iter().take(LOOKED_AT), |read, under_way| {
            let first = places.len();
            places.extend(under_way.values().map(|other| other.lba));
            let residual = read.completed.saturating_since(read.issued).as_s_f64();
            found.push(Met { lba: read.lba, residual, others: first..places.len() });
        });
        // What those take that find as many there is not the members' doing.
        let most = found.iter().map(|met| met.others.len()).max().unwrap_or_default();
        let mut means = vec![(0.0, 0.0); most + 1];
        for met in &found {
            let (sum, count) = &mut means[met.others.len()];
            (*sum, *count) = (*sum + met.residual, *count + 1.0);
        }
        for met in found.iter_mut() {
            let (sum, count) = means[met.others.len()];
            met.residual -= sum / count;
        }
        all.extend(found.into_iter().filter(|met| !met.others.is_empty()));
    }
    (all, places)
}

/// How many standard errors the requests at one's own member explain under `geometry`.
fn score(all: &[Met], places: &[Lba], geometry: &Geometry) -> f64 {
    let member = |lba: Lba| {
        let place = geometry.place(lba);
        geometry.data_member(place.row, place.unit)
    };
    let (mut same, mut met) = (0.0, 0.0);
    let mut counts = Vec::with_capacity(all.len());
    for read in all {
        let own = member(read.lba);
        let count = places[read.others.clone()].iter().filter(|other| member(**other) == own).count() as f64;
        counts.push(count);
        same += count;
        met += read.others.len() as f64;
    }
    let share = same / met;
    let (mut product, mut square, mut total) = (0.0, 0.0, 0.0);
    for (read, count) in all.iter().zip(&counts) {
        let beyond = count - share * read.others.len() as f64;
        product += beyond * read.residual;
        square += beyond * beyond;
        total += read.residual * read.residual;
    }
    let deviation = (total / all.len() as f64).sqrt();
    if square > 0.0 && deviation > 0.0 { product / square.sqrt() / deviation } else { 0.0 }
}

/// The layout of the device that holds `capacity`, if it shows in what its members have `read` for each machine.
pub(super) fn find(reads: &[Vec<Recorded>], capacity: Sectors) -> Option<Geometry> {
    let (all, places) = met(reads);
    let mut candidates = Vec::new();
    for level in [Level::Raid0, Level::Raid5, Level::Raid6] {
        for members in level.members_min()..=MEMBERS_MAX {
            for unit in UNITS.map(|bits| 1u64 << bits) {
                let data = members - level.parities();
                let rows = capacity.count().div_ceil(data * unit);
                candidates.push(Geometry::new(level, members, Sectors::new(unit), Sectors::new(rows * unit)));
            }
        }
    }
    let scored = candidates.into_iter().map(|geometry| (score(&all, &places, &geometry), geometry));
    // Of equals the first: left-symmetric parity spreads data units as striping does.
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(score, _)| *score > CLEAR).map(|(_, geometry)| geometry)
}
