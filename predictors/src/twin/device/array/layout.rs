//! Infers the layout of an array from isolated traces: its level, number of members and stripe unit.
//!
//! A request waits only for requests in flight at its own member. Each usual layout says for every read how many of the
//! reads in flight lie on its own member. Under the right layout this count explains the differences between device
//! times best; under a wrong one it is as good as random. The score of a layout is the slope of the times over the
//! count, in standard errors.
//!
//! Candidates are RAID 0, 5 and 6 with left-symmetric parity. Only random reads that no controller cache answered are
//! used. Mirrors (RAID 1 and 10) are not among the candidates.

use drive_models::array::{Geometry, Level};
use traces::{Lba, Sectors};

use crate::isolated_trace::{TracedRequest, each_issued};

/// Candidate layouts have at most this many members. Set by judgement; not varied.
const MEMBERS_MAX: u64 = 24;
/// Binary logarithms of the candidate stripe units in sectors: 4 KiB to 1 MiB. Set by judgement; not varied.
const STRIPE_UNITS_LOG2_SECTORS: std::ops::RangeInclusive<u32> = 3..=11;
/// At most this many reads of each trace are used, which bounds the time of the search. Set by judgement; not varied.
const READS_PER_TRACE_MAX: usize = 4000;
/// The best layout counts as found if its score in standard errors is above this. Set by judgement; not varied.
const SCORE_STANDARD_ERRORS_BOUND: f64 = 8.0;

/// A read, and the reads in flight when it was issued.
struct ReadInFlight {
    lba: Lba,
    /// Its device time less the mean of the reads with equally many in flight; seconds.
    residual: f64,
    /// Their positions in the list of addresses.
    others: std::ops::Range<usize>,
}

/// The reads of all traces that found others in flight, and the addresses of these others.
fn reads_in_flight(reads: &[Vec<TracedRequest>]) -> (Vec<ReadInFlight>, Vec<Lba>) {
    let mut all = Vec::new();
    let mut addresses = Vec::new();
    for reads in reads {
        let mut found: Vec<ReadInFlight> = Vec::new();
        each_issued(reads.iter().take(READS_PER_TRACE_MAX), |read, in_flight| {
            let first = addresses.len();
            addresses.extend(in_flight.values().map(|other| other.lba));
            let residual = read.completed.saturating_since(read.issued).as_s_f64();
            found.push(ReadInFlight { lba: read.lba, residual, others: first..addresses.len() });
        });
        // The common part of reads with equally many others in flight does not depend on the members.
        let most = found.iter().map(|read| read.others.len()).max().unwrap_or_default();
        let mut means = vec![(0.0, 0.0); most + 1];
        for read in &found {
            let (sum, count) = &mut means[read.others.len()];
            (*sum, *count) = (*sum + read.residual, *count + 1.0);
        }
        for read in found.iter_mut() {
            let (sum, count) = means[read.others.len()];
            read.residual -= sum / count;
        }
        all.extend(found.into_iter().filter(|read| !read.others.is_empty()));
    }
    (all, addresses)
}

/// The score of `geometry`: how strongly residuals grow with the number of reads in flight at a read's own member, in
/// standard errors. The residuals of reads with equally many others in flight have mean zero, so a number that all of
/// these share adds nothing to the score.
fn score(all: &[ReadInFlight], addresses: &[Lba], geometry: &Geometry) -> f64 {
    let member = |lba: Lba| {
        let place = geometry.place(lba);
        geometry.data_member(place.row, place.unit)
    };
    let (mut product, mut square, mut total) = (0.0, 0.0, 0.0);
    for read in all {
        let own = member(read.lba);
        let at_own = addresses[read.others.clone()].iter().filter(|other| member(**other) == own).count() as f64;
        product += at_own * read.residual;
        square += at_own * at_own;
        total += read.residual * read.residual;
    }
    let deviation = (total / all.len() as f64).sqrt();
    if square > 0.0 && deviation > 0.0 { product / square.sqrt() / deviation } else { 0.0 }
}

/// The layout of a device of this `capacity`, from each VM's `reads`; `None` if no candidate's score is high enough.
pub(crate) fn find(reads: &[Vec<TracedRequest>], capacity: Sectors) -> Option<Geometry> {
    let (all, addresses) = reads_in_flight(reads);
    let mut candidates = Vec::new();
    for level in [Level::Raid0, Level::Raid5, Level::Raid6] {
        for members in level.members_min()..=MEMBERS_MAX {
            for unit in STRIPE_UNITS_LOG2_SECTORS.map(|bits| 1u64 << bits) {
                let data = members - level.parities();
                let rows = capacity.count().div_ceil(data * unit);
                candidates.push(Geometry::new(level, members, Sectors::new(unit), Sectors::new(rows * unit)));
            }
        }
    }
    let scored = candidates.into_iter().map(|geometry| (score(&all, &addresses, &geometry), geometry));
    // Of equal scores the first candidate is used: left-symmetric parity spreads data units as striping does.
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(score, _)| *score > SCORE_STANDARD_ERRORS_BOUND).map(|(_, geometry)| geometry)
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use traces::Operation;

    use super::*;

    pub(crate) const CAPACITY: Sectors = Sectors::new(1 << 28);

    /// Four processes that read at random with a think time of 2 ms. The address chooses the server, which takes 4 to 6
    /// ms for each read.
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
    fn members_and_stripe_unit_of_raid5_are_recovered() {
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
    fn raid6_is_distinguished_from_other_levels() {
        let own = Geometry::new(Level::Raid6, 6, Sectors::new(256), CAPACITY);
        let reads = served(|lba| {
            let place = own.place(lba);
            own.data_member(place.row, place.unit) as usize
        });
        let found = find(&[reads], CAPACITY).unwrap();
        assert_eq!((found.level(), found.members(), found.stripe_unit()), (Level::Raid6, 6, 256));
    }

    #[test]
    fn no_layout_is_found_for_one_queue_for_no_queue_or_for_no_reads() {
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
    fn no_layout_is_found_if_reads_slow_one_another_wherever_they_lie() {
        // Each read takes 1 ms longer for every read in flight, at any address.
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
