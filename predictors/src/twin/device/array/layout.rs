//! On which member of an array each address lies, told from a recording.
//!
//! A request waits for those that are under way at its own member and not for others. Of all layouts that arrays usually have (level, number
//! of members and stripe unit), the right one is that whose count of requests under way at one's own member explains most of what
//! responses differ by; under a wrong one this count is as good as drawn by lot.

use drive_models::array::{Geometry, Level};
use traces::{Lba, Sectors};

use crate::isolated_trace::{TracedRequest, each_issued};

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
fn met(reads: &[Vec<TracedRequest>]) -> (Vec<Met>, Vec<Lba>) {
    let mut all = Vec::new();
    let mut places = Vec::new();
    for reads in reads {
        let mut found: Vec<Met> = Vec::new();
        each_issued(reads.iter().take(LOOKED_AT), |read, in_flight| {
            let first = places.len();
            places.extend(in_flight.values().map(|other| other.lba));
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

/// How many standard errors the requests at one's own member explain under `geometry`. Residuals are zero in the mean of those that meet as
/// many, so that what these have in common at their own members explains nothing.
fn score(all: &[Met], places: &[Lba], geometry: &Geometry) -> f64 {
    let member = |lba: Lba| {
        let place = geometry.place(lba);
        geometry.data_member(place.row, place.unit)
    };
    let (mut product, mut square, mut total) = (0.0, 0.0, 0.0);
    for read in all {
        let own = member(read.lba);
        let met = places[read.others.clone()].iter().filter(|other| member(**other) == own).count() as f64;
        product += met * read.residual;
        square += met * met;
        total += read.residual * read.residual;
    }
    let deviation = (total / all.len() as f64).sqrt();
    if square > 0.0 && deviation > 0.0 { product / square.sqrt() / deviation } else { 0.0 }
}

/// The layout of the device that holds `capacity`, if it shows in what its members have `read` for each machine.
pub(crate) fn find(reads: &[Vec<TracedRequest>], capacity: Sectors) -> Option<Geometry> {
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

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use traces::Operation;

    use super::*;

    pub(crate) const CAPACITY: Sectors = Sectors::new(1 << 28);

    /// Four processes that read at random, each after its think time of 2 ms, on servers that an address chooses; 4 to 6 ms each.
    pub(crate) fn served(server: impl Fn(Lba) -> usize) -> Vec<TracedRequest> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut free = vec![0u64; 64];
        let mut due = [0u64, 500, 1000, 1500];
        let mut reads = Vec::new();
        for _ in 0..4000 {
            let process = (0..due.len()).min_by_key(|process| due[*process]).unwrap();
            let lba = Lba::new(random.random_range(0..CAPACITY.count() / 8) * 8);
            let free = &mut free[server(lba)];
            let at = due[process];
            let done = at.max(*free) + random.random_range(4000..6000);
            *free = done;
            due[process] = done + 2000;
            let read = TracedRequest::sent(Operation::Read, process as u32, at, done - at);
            reads.push(TracedRequest { lba, ..read });
        }
        reads
    }

    #[test]
    fn members_and_their_unit_show_in_who_waits_for_whom() {
        for (members, unit) in [(5, 128), (7, 512), (12, 64)] {
            let own = Geometry::new(Level::Raid5, members, Sectors::new(unit), CAPACITY);
            let reads = served(|lba| {
                let place = own.place(lba);
                own.data_member(place.row, place.unit) as usize
            });
            let found = find(&[reads], CAPACITY).unwrap();
            assert_eq!((found.members(), found.stripe_unit()), (members, unit));
            assert!(found.capacity() >= CAPACITY);
        }
    }

    #[test]
    fn double_parity_is_told_from_stripes() {
        let own = Geometry::new(Level::Raid6, 6, Sectors::new(256), CAPACITY);
        let reads = served(|lba| {
            let place = own.place(lba);
            own.data_member(place.row, place.unit) as usize
        });
        let found = find(&[reads], CAPACITY).unwrap();
        assert_eq!((found.level(), found.members(), found.stripe_unit()), (Level::Raid6, 6, 256));
    }

    #[test]
    fn where_all_wait_for_all_or_nobody_for_anybody_no_members_show() {
        assert!(find(&[served(|_| 0)], CAPACITY).is_none());
        let next = std::cell::Cell::new(0);
        let free = served(|_| {
            next.set((next.get() + 1) % 64);
            next.get()
        });
        assert!(find(&[free], CAPACITY).is_none());
        assert!(find(&[Vec::new()], CAPACITY).is_none());
    }

    #[test]
    fn what_all_wait_for_shows_no_members() {
        // Each takes a millisecond longer for every other that is there, wherever that is.
        let next = std::cell::Cell::new(0);
        let mut reads = served(|_| {
            next.set((next.get() + 1) % 64);
            next.get()
        });
        let mut done: Vec<u64> = Vec::new();
        for read in &mut reads {
            let at = read.issued.as_ns();
            done.retain(|done| *done > at);
            read.completed = read.completed.saturating_add(traces::Nanos::from_ms(done.len() as u64));
            done.push(read.completed.as_ns());
        }
        assert!(find(&[reads], CAPACITY).is_none());
    }
}
