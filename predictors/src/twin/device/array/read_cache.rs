//! Follows the contents of an array's read cache through isolated traces, address by address.
//!
//! A VM that reads at random in a region much larger than its requests finds more and more of it in a large cache. The
//! cache holds the sectors that the VM read, and those that the array read ahead: a random read that happens to begin
//! right after cached data is taken for a stream. The read-ahead is not in the trace, but keeps the members busy.
//!
//! This file infers how far the array reads ahead. It follows the contents ([`Contents`]) for each candidate distance
//! and compares them with the reads that were answered in the cache's time. The candidates with the fewest
//! contradictions remain. During the simulation [`Filling`] gives the contents at the start of an excerpt, so that the
//! excerpt begins with the data read before it.
//!
//! The cache's real size is not inferred: it either keeps everything or only follows streams. Of reads before a trace,
//! only those of running streams are inferred. The rules were chosen on synthetic setups of seeds 1, 7, 8 and 103
//! (docs/validation/forecasts.md).

use drive_models::array::{Contents, Geometry};
use traces::{Lba, Nanos, Operation, Sectors, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::twin::device::controller_cache::{self, CacheTiming, SEQUENTIAL_READ, pass};
use crate::twin::device::latest_reads::LatestReads;

/// The size of a cache that keeps everything: 16 GiB. Set by judgement; not varied.
const KEEPS_ALL_CAPACITY: Sectors = Sectors::new(1 << 25);
/// The size of a cache that only follows streams: 1 GiB. Set by judgement; not varied.
const STREAMS_ONLY_CAPACITY: Sectors = Sectors::new(1 << 21);
/// The cache keeps everything if at least this share of the random reads that it should hold was answered in its time.
/// Set by judgement; not varied.
const ANSWERED_OF_HELD_SHARE_MIN: f64 = 0.8;
/// A read-ahead distance is as good as the best if it contradicts at most this many times as many reads, and
/// [`CONTRADICTIONS_MORE_MAX`] more. Set by judgement; not varied.
const CONTRADICTIONS_RATIO_MAX: f64 = 1.1;
/// The contradicted reads that are tolerated beyond the ratio. Set by judgement; not varied.
const CONTRADICTIONS_MORE_MAX: f64 = 20.0;
/// A stream that shows within this time of the beginning of a trace had begun before it. Set by judgement; not varied.
const STREAM_DETECTION_TIME: Nanos = Nanos::from_s(1);
/// Fewer reads in sequence are no stream. Set by judgement; not varied.
const STREAM_READS_MIN: usize = 3;
/// At most this many candidate streams are followed, which bounds the time of the search. Set by judgement; not varied.
const STREAMS_MAX: usize = 256;
/// A stream is assumed to have begun at a multiple of 1 MiB, where file systems place large files (ext4's `mballoc`,
/// XFS's stripe alignment). The array has read ahead from there on, in steps that keep their phase.
const FILE_ALIGNMENT_SECTORS: u64 = 2048;

/// The empty cache of an array that reads `ahead` by this distance.
fn empty(geometry: &Geometry, ahead: Sectors, keeps_all: bool) -> Contents {
    Contents::new(geometry, if keeps_all { KEEPS_ALL_CAPACITY } else { STREAMS_ONLY_CAPACITY }, ahead)
}

/// The first read of each stream that was running when the trace began.
fn running_streams(requests: &[TracedRequest]) -> Vec<&TracedRequest> {
    let from = requests.first().map_or(Timestamp::ZERO, |first| first.arrival);
    let early = requests.iter().take_while(|request| request.arrival.saturating_since(from) < STREAM_DETECTION_TIME);
    let mut heads: Vec<(&TracedRequest, Lba, usize)> = Vec::new();
    for read in early.filter(|request| request.operation == Operation::Read && request.moves_data()) {
        if let Some((_, end, reads)) = heads.iter_mut().find(|(_, end, _)| *end == read.lba) {
            (*end, *reads) = (read.end(), *reads + 1);
        } else if heads.len() < STREAMS_MAX {
            heads.push((read, read.end(), 1));
        }
    }
    heads.into_iter().filter(|(.., reads)| *reads >= STREAM_READS_MIN).map(|(first, ..)| first).collect()
}

/// Applies to `contents` the reads that running streams had made before `requests` began.
fn pass_before(contents: &mut Contents, requests: &[TracedRequest], ahead: Sectors) {
    let aligned = FILE_ALIGNMENT_SECTORS.max(ahead.count());
    for read in running_streams(requests) {
        let (at, sectors) = (read.lba.sector(), u64::from(read.sectors));
        let boundary = at.saturating_sub(2 * ahead.count()) / aligned * aligned;
        for before in (boundary + (at - boundary) % sectors..at).step_by(sectors as usize) {
            contents.pass(Operation::Read, Lba::new(before), Sectors::new(sectors));
        }
    }
}

/// The contents at the beginning of a trace, of a cache that keeps everything.
pub(crate) fn beginning(geometry: &Geometry, ahead: Sectors, trace: &IsolatedTrace) -> Contents {
    let mut contents = empty(geometry, ahead, true);
    pass_before(&mut contents, &trace.requests, ahead);
    contents
}

/// The times at which each member began an access that no request of the trace shows on that member alone: read-ahead,
/// and reads that span several members. By member, in order of time.
pub(crate) fn unseen(trace: &IsolatedTrace, geometry: &Geometry, ahead: Sectors) -> Vec<Vec<Timestamp>> {
    let mut unseen = vec![Vec::new(); geometry.members() as usize];
    let mut contents = beginning(geometry, ahead, trace);
    let unit = geometry.stripe_unit();
    each_issued(trace.moving(), |request, _| {
        let passed = contents.pass(request.operation, request.lba, Sectors::new(request.sectors.into()));
        let several = passed.missing.filter(|(start, end)| start / unit != (end - 1) / unit);
        for (start, end) in several.into_iter().chain(passed.ahead) {
            for of_unit in start / unit..end.div_ceil(unit) {
                let place = geometry.place(Lba::new(of_unit * unit));
                unseen[geometry.data_member(place.row, place.unit) as usize].push(request.issued);
            }
        }
    });
    unseen
}

/// The agreement of followed contents with the reads that were answered in the cache's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Agreement {
    /// Random reads that the contents hold: those that the cache answered, and those that it did not.
    held: [f64; 2],
    /// Contradictions: random reads that are held but were not answered, and all reads that were answered but are not
    /// held. A sequential read that is held may still wait for read-ahead in progress, so it is no contradiction.
    contradictions: f64,
}

/// Follows the read cache through `traces` for each of the read-ahead distances `ahead`.
fn follow(traces: &[IsolatedTrace], cache: &CacheTiming, geometry: &Geometry, ahead: &[Sectors]) -> Vec<Agreement> {
    let mut agreements = vec![Agreement::default(); ahead.len()];
    for trace in traces {
        // One distance after another: the contents of all together would not stay in the processor's cache.
        let mut seen = Vec::new();
        let mut latest = LatestReads::default();
        each_issued(trace.moving(), |request, in_flight| {
            let kind = controller_cache::kind(request.operation, request.lba, request.end(), &mut latest);
            let undelayed = request.operation == Operation::Read && in_flight.len() < cache.depth as usize;
            let answered = undelayed && cache.answered(request);
            seen.push((request, kind, undelayed, answered));
        });
        for (agreement, ahead) in agreements.iter_mut().zip(ahead) {
            let mut contents = beginning(geometry, *ahead, trace);
            for &(request, kind, undelayed, answered) in &seen {
                let held = pass(&mut contents, request);
                if undelayed && held && kind != SEQUENTIAL_READ {
                    agreement.held[usize::from(!answered)] += 1.0;
                }
                let contradicts = undelayed && held != answered && (answered || kind != SEQUENTIAL_READ);
                agreement.contradictions += f64::from(u8::from(contradicts));
            }
        }
    }
    agreements
}

/// The read-ahead distances that explain the answered reads of `traces` as well as the best one, and whether the cache
/// keeps everything, so that its contents are known.
pub(crate) fn explaining(
    traces: &[IsolatedTrace],
    cache: &CacheTiming,
    geometry: &Geometry,
    ahead: &[Sectors],
) -> (Vec<Sectors>, bool) {
    let each = follow(traces, cache, geometry, ahead);
    let least = each.iter().map(|agreement| agreement.contradictions).fold(f64::INFINITY, f64::min);
    let good = || {
        each.iter().zip(ahead).filter(|(agreement, _)| {
            agreement.contradictions <= CONTRADICTIONS_RATIO_MAX * least + CONTRADICTIONS_MORE_MAX
        })
    };
    let known = good()
        .all(|(Agreement { held: [answered, not], .. }, _)| *answered >= ANSWERED_OF_HELD_SHARE_MIN * (answered + not));
    (good().map(|(_, ahead)| *ahead).collect(), known)
}

/// The contents in the course of a simulation, as VMs advance in their traces.
pub(crate) struct Filling<'a> {
    contents: Contents,
    ahead: Sectors,
    traces: &'a [IsolatedTrace],
    /// The number of requests of each VM that were applied; empty if the cache only follows streams.
    applied: Vec<usize>,
}

impl<'a> Filling<'a> {
    /// The contents for an array that reads `ahead` by this distance.
    pub(crate) fn new(
        geometry: &Geometry,
        ahead: Sectors,
        keeps_all: bool,
        traces: &'a [IsolatedTrace],
    ) -> Filling<'a> {
        let mut contents = empty(geometry, ahead, keeps_all);
        let applied = if keeps_all { vec![0; traces.len()] } else { Vec::new() };
        traces.iter().take(applied.len()).for_each(|trace| pass_before(&mut contents, &trace.requests, ahead));
        Filling { contents, ahead, traces, applied }
    }

    /// The contents after the VMs have advanced to `times` in their traces; they never go back. Streams are treated
    /// apart: they are where they stand in the traces at `start`.
    pub(crate) fn at(&mut self, times: &[Timestamp], start: Timestamp) -> Contents {
        let before = |trace: &IsolatedTrace, time| trace.requests.partition_point(|request| request.arrival < time);
        for ((applied, trace), time) in self.applied.iter_mut().zip(self.traces).zip(times) {
            let until = before(trace, *time).max(*applied);
            for request in trace.requests[*applied..until].iter().filter(|request| request.moves_data()) {
                pass(&mut self.contents, request);
            }
            *applied = until;
        }
        let mut contents = self.contents.clone();
        for trace in self.traces {
            pass_before(&mut contents, &trace.requests[before(trace, start)..], self.ahead);
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use drive_models::array::Level;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const FILE: u64 = 1 << 24;
    const AHEAD: [u64; 4] = [2048, 1024, 4096, 0];

    fn geometry() -> Geometry {
        Geometry::new(Level::Raid5, 5, Sectors::new(512), Sectors::new(1 << 28))
    }

    fn read(lba: u64, sectors: u32, at_us: u64, took_us: u64) -> TracedRequest {
        TracedRequest { lba: Lba::new(lba), sectors, ..TracedRequest::sent(Operation::Read, 0, at_us, took_us) }
    }

    /// Random reads of 64 KiB within 500 MB. Those held by a cache with this read-ahead take 200 us, and others 5 ms.
    /// If the cache does not keep everything, a tenth of the reads is answered whatever it holds.
    fn reads(ahead: u64, keeps_all: bool) -> IsolatedTrace {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut contents = empty(&geometry(), Sectors::new(ahead), true);
        let mut trace = IsolatedTrace::default();
        for n in 0..4000 {
            let asked = read(random.random_range(0..8000) * 128, 128, n * 10_000, 0);
            let held = if keeps_all { pass(&mut contents, &asked) } else { n % 10 == 0 };
            let took = Nanos::from_us(if held { 200 } else { 5000 });
            trace.requests.push(TracedRequest { completed: asked.issued + took, ..asked });
        }
        trace
    }

    fn inferred(traces: &[IsolatedTrace]) -> (Vec<u64>, bool) {
        let cache = CacheTiming::of(traces).unwrap();
        let (explaining, known) = explaining(traces, &cache, &geometry(), &AHEAD.map(Sectors::new));
        (explaining.into_iter().map(Sectors::count).collect(), known)
    }

    #[test]
    fn read_ahead_distance_is_recovered_from_answered_random_reads() {
        for ahead in AHEAD {
            assert_eq!(inferred(&[reads(ahead, true)]), (vec![ahead], true));
        }
        // If answers do not depend on the contents, these are not known.
        assert!(!inferred(&[reads(2048, false)]).1);
        // Some reads are answered for another reason, with every distance.
        let mut noisy = reads(2048, true);
        let missed = noisy.requests.iter_mut().filter(|read| read.completed.since(read.issued) > Nanos::from_ms(1));
        missed.step_by(8).for_each(|read| read.completed = read.issued + Nanos::from_us(200));
        assert_eq!(inferred(&[noisy]), (vec![2048], true));
        // Sequential reads that wait for read-ahead contradict nothing.
        let mut late = stream(3000);
        late.iter_mut().for_each(|read| read.completed = read.issued + Nanos::from_ms(4));
        let late = IsolatedTrace { requests: late, ..IsolatedTrace::default() };
        assert_eq!(inferred(&[reads(2048, true), late]), (vec![2048], true));
    }

    /// A stream of reads of 128 KiB, one every 10 ms, from the middle of a file that begins at 8 GiB.
    fn stream(reads: u64) -> Vec<TracedRequest> {
        (0..reads).map(|n| read(FILE + (101 + n) * 256, 256, n * 10_000, 200)).collect()
    }

    #[test]
    fn running_stream_finds_at_the_beginning_of_its_trace_the_contents_of_its_earlier_reads() {
        let trace = IsolatedTrace { requests: stream(400), ..IsolatedTrace::default() };
        let ahead = Sectors::new(2048);
        let mut contents = beginning(&geometry(), ahead, &trace);
        // The contents if the same stream is followed from the beginning of its file.
        let mut own = empty(&geometry(), ahead, true);
        for n in 0..101 {
            pass(&mut own, &read(FILE + n * 256, 256, 0, 0));
        }
        for request in &trace.requests {
            let sectors = Sectors::new(256);
            let both = [&mut contents, &mut own].map(|each| each.pass(Operation::Read, request.lba, sectors));
            assert_eq!(both[0], both[1]);
            assert_eq!(both[0].missing, None);
        }
        // Two reads are no stream, and a stream that begins later was not running.
        assert_eq!(running_streams(&stream(2)).len(), 0);
        let mut late = vec![read(0, 8, 0, 100)];
        late.extend(stream(50).into_iter().map(|request| read(request.lba.sector(), 256, 2_000_000, 100)));
        assert_eq!(running_streams(&late).len(), 0);
    }

    #[test]
    fn members_have_unseen_accesses_for_read_ahead_and_for_spanning_reads() {
        let mut requests = stream(40);
        let long = read(1_000_000 / 512 * 512 + 384, 256, 395_000, 9000);
        requests.push(long);
        let trace = IsolatedTrace { requests, ..IsolatedTrace::default() };
        let unseen = unseen(&trace, &geometry(), Sectors::new(2048));
        let all: Vec<Timestamp> = unseen.iter().flatten().copied().collect();
        // Every fourth read triggers half of the read-ahead distance: a unit on each of two members.
        assert_eq!(all.iter().filter(|at| **at < long.issued).count(), 20);
        assert_eq!(all.iter().filter(|at| **at == long.issued).count(), 2);
        let place = geometry().place(long.lba);
        assert!(unseen[geometry().data_member(place.row, place.unit) as usize].contains(&long.issued));
    }

    #[test]
    fn contents_have_all_reads_so_far_and_the_data_ahead_of_each_stream() {
        let random = reads(2048, true);
        let traces = [random, IsolatedTrace { requests: stream(3000), ..IsolatedTrace::default() }];
        let ahead = Sectors::new(2048);
        let at = |s: u64| Timestamp::from_ns(s * 1_000_000_000);
        let mut filling = Filling::new(&geometry(), ahead, true, &traces);
        let has = |contents: &Contents, request: &TracedRequest| pass(&mut contents.clone(), request);
        let of = |vm: usize, s: u64| traces[vm].requests.iter().find(|request| request.arrival >= at(s)).unwrap();
        let there = |contents: &Contents, from: u64, to: u64| {
            let between = traces[0].requests.iter().filter(|read| (at(from)..at(to)).contains(&read.arrival));
            let all: Vec<bool> = between.map(|read| has(contents, read)).collect();
            all.iter().filter(|there| **there).count() as f64 / all.len() as f64
        };
        // The first VM has advanced 10 s. The second continues its stream at 20 s.
        let contents = filling.at(&[at(10), at(10)], at(20));
        assert!(there(&contents, 0, 10) == 1.0 && there(&contents, 20, 30) < 0.6);
        assert!(has(&contents, of(1, 20)) && !has(&contents, of(1, 29)));
        let contents = filling.at(&[at(30), at(20)], at(25));
        assert!(there(&contents, 0, 30) == 1.0 && has(&contents, of(1, 25)));
        // Of a cache that does not keep everything, only streams are known.
        let contents = Filling::new(&geometry(), ahead, false, &traces).at(&[at(30), at(20)], at(25));
        assert!(there(&contents, 0, 30) < 0.1 && has(&contents, of(1, 25)));
    }
}
