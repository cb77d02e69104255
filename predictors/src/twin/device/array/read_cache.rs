//! What the read cache of an array holds, followed through recordings.
//!
//! Who reads at random in a part of a device that is large against what one request moves finds more and more of it in a large cache: not
//! only what was read before, but what was read ahead of it, since a read behind a track that happens to be there looks like a stream.
//! Nobody sees these reads but the members, which are busy with them. How far an array reads ahead shows
//! in which reads were answered at once; and an excerpt of a recording begins with what was read before it.

use drive_models::array::{Contents, Geometry};
use traces::{Lba, Nanos, Operation, Sectors, Timestamp};

use crate::isolated_trace::{IsolatedTrace, TracedRequest, each_issued};
use crate::twin::device::controller_cache::{self, BEHIND, CacheTiming, pass};
use crate::twin::device::latest_reads::LatestReads;

/// As much as a cache holds from which nothing is ever lost: 16 GB.
const ALL_OF_IT: Sectors = Sectors::new(1 << 25);
/// And what one holds that is only known to read ahead: 1 GB.
const STREAMS: Sectors = Sectors::new(1 << 21);
/// Contents are known if so large a share of the reads that they have was answered at once.
const KNOWN: f64 = 0.8;
/// A way of reading ahead is as good as another with so many times as many reads that it does not explain, and so many more.
const AS_GOOD: f64 = 1.1;
const FEW: f64 = 20.0;
/// Who reads on behind its first read so soon, so many reads in all, was at it before. Of so many first reads at most.
const SOON: Nanos = Nanos::from_s(1);
const STREAM_MIN: usize = 3;
const HEADS: usize = 256;
/// A file that is read from its beginning on lies at a multiple of this, as file systems place large ones (ext4's `mballoc`, XFS's
/// stripe alignment): 1 MiB. From there on it has been read ahead, in steps that go on as they began.
const ALIGNED: u64 = 2048;

/// An empty cache of an array that reads so far ahead, from which nothing is lost if it `keeps` all.
fn empty(geometry: &Geometry, ahead: Sectors, keeps: bool) -> Contents {
    Contents::new(geometry, if keeps { ALL_OF_IT } else { STREAMS }, ahead)
}

/// The read that each of the streams was at when the recording began.
fn streams(requests: &[TracedRequest]) -> Vec<&TracedRequest> {
    let from = requests.first().map_or(Timestamp::ZERO, |first| first.arrival);
    let soon = requests.iter().take_while(|request| request.arrival.saturating_since(from) < SOON);
    let mut heads: Vec<(&TracedRequest, Lba, usize)> = Vec::new();
    for read in soon.filter(|request| request.operation == Operation::Read && request.moves_data()) {
        if let Some((_, end, reads)) = heads.iter_mut().find(|(_, end, _)| *end == read.lba) {
            (*end, *reads) = (read.end(), *reads + 1);
        } else if heads.len() < HEADS {
            heads.push((read, read.end(), 1));
        }
    }
    heads.into_iter().filter(|(.., reads)| *reads >= STREAM_MIN).map(|(first, ..)| first).collect()
}

/// Lets pass what streams have read before a recording began.
fn pass_before(contents: &mut Contents, requests: &[TracedRequest], ahead: Sectors) {
    let aligned = ALIGNED.max(ahead.count());
    for read in streams(requests) {
        let (at, sectors) = (read.lba.sector(), u64::from(read.sectors));
        let boundary = at.saturating_sub(2 * ahead.count()) / aligned * aligned;
        for before in (boundary + (at - boundary) % sectors..at).step_by(sectors as usize) {
            contents.pass(Operation::Read, Lba::new(before), Sectors::new(sectors));
        }
    }
}

/// The contents as a recording begins, if nothing is ever lost.
pub(crate) fn beginning(geometry: &Geometry, ahead: Sectors, trace: &IsolatedTrace) -> Contents {
    let mut contents = empty(geometry, ahead, true);
    pass_before(&mut contents, &trace.requests, ahead);
    contents
}

/// When each member was sent for something that no recording shows it to be done with: what was read ahead, and reads that lie on
/// several. By member, in order.
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

/// How contents that were followed agree with what was answered at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Agreement {
    /// Reads that were there: answered, or not.
    held: [f64; 2],
    /// Reads at random that were there and not answered, and any that were answered and not there. What a stream waits for may be on its way.
    wrong: f64,
}

/// Follows the read cache through `traces`, if it reads so far `ahead`, for each of these.
fn follow(traces: &[IsolatedTrace], cache: &CacheTiming, geometry: &Geometry, ahead: &[Sectors]) -> Vec<Agreement> {
    let mut agreements = vec![Agreement::default(); ahead.len()];
    for trace in traces {
        let mut contents: Vec<Contents> = ahead.iter().map(|ahead| beginning(geometry, *ahead, trace)).collect();
        let mut latest = LatestReads::default();
        each_issued(trace.moving(), |request, in_flight| {
            let kind = controller_cache::kind(request.operation, request.lba, request.end(), &mut latest);
            let tells = request.operation == Operation::Read && in_flight.len() < cache.depth as usize;
            let answered = tells && cache.answered(request);
            for (agreement, contents) in agreements.iter_mut().zip(&mut contents) {
                let held = pass(contents, request);
                if tells && held && kind != BEHIND {
                    agreement.held[usize::from(!answered)] += 1.0;
                }
                let wrong = tells && held != answered && (answered || kind != BEHIND);
                agreement.wrong += f64::from(u8::from(wrong));
            }
        });
    }
    agreements
}

/// Those of the ways to read ahead that explain as well as any which reads of `traces` were answered at once, and whether the contents
/// that they make are known.
pub(crate) fn explaining(
    traces: &[IsolatedTrace],
    cache: &CacheTiming,
    geometry: &Geometry,
    ahead: &[Sectors],
) -> (Vec<Sectors>, bool) {
    let each = follow(traces, cache, geometry, ahead);
    let least = each.iter().map(|agreement| agreement.wrong).fold(f64::INFINITY, f64::min);
    let good = || each.iter().zip(ahead).filter(|(agreement, _)| agreement.wrong <= AS_GOOD * least + FEW);
    let known = good().all(|(Agreement { held: [answered, not], .. }, _)| *answered >= KNOWN * (answered + not));
    (good().map(|(_, ahead)| *ahead).collect(), known)
}

/// The contents as machines go on.
pub(crate) struct Filling<'a> {
    contents: Contents,
    ahead: Sectors,
    traces: &'a [IsolatedTrace],
    /// How many requests of each machine have passed.
    passed: Vec<usize>,
}

impl<'a> Filling<'a> {
    /// Of an array that reads so far `ahead`, and `keeps` all that it has ever had.
    pub(crate) fn new(geometry: &Geometry, ahead: Sectors, keeps: bool, traces: &'a [IsolatedTrace]) -> Filling<'a> {
        let mut contents = empty(geometry, ahead, keeps);
        let passed = if keeps { vec![0; traces.len()] } else { Vec::new() };
        traces.iter().take(passed.len()).for_each(|trace| pass_before(&mut contents, &trace.requests, ahead));
        Filling { contents, ahead, traces, passed }
    }

    /// The contents when the machines are so far in their recordings, no less far than they were, but for streams, which are where they
    /// are at `start`.
    pub(crate) fn at(&mut self, times: &[Timestamp], start: Timestamp) -> Contents {
        let before = |trace: &IsolatedTrace, time| trace.requests.partition_point(|request| request.arrival < time);
        for ((passed, trace), time) in self.passed.iter_mut().zip(self.traces).zip(times) {
            let until = before(trace, *time).max(*passed);
            for request in trace.requests[*passed..until].iter().filter(|request| request.moves_data()) {
                pass(&mut self.contents, request);
            }
            *passed = until;
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

    /// Reads of 64 KiB at random within 500 MB, of which those that a cache has that reads so far ahead take 200 us, and others 5 ms. With
    /// nothing ever kept, a tenth is answered all the same.
    fn reads(ahead: u64, keeps: bool) -> IsolatedTrace {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut contents = empty(&geometry(), Sectors::new(ahead), true);
        let mut trace = IsolatedTrace::default();
        for n in 0..4000 {
            let asked = read(random.random_range(0..8000) * 128, 128, n * 10_000, 0);
            let held = if keeps { pass(&mut contents, &asked) } else { n % 10 == 0 };
            let took = Nanos::from_us(if held { 200 } else { 5000 });
            trace.requests.push(TracedRequest { completed: asked.issued + took, ..asked });
        }
        trace
    }

    fn told(traces: &[IsolatedTrace]) -> (Vec<u64>, bool) {
        let cache = CacheTiming::of(traces).unwrap();
        let (explaining, known) = explaining(traces, &cache, &geometry(), &AHEAD.map(Sectors::new));
        (explaining.into_iter().map(Sectors::count).collect(), known)
    }

    #[test]
    fn how_far_it_reads_ahead_shows_in_random_reads_that_were_answered() {
        for ahead in AHEAD {
            assert_eq!(told(&[reads(ahead, true)]), (vec![ahead], true));
        }
        // Whatever is answered, it is not what was there.
        assert!(!told(&[reads(2048, false)]).1);
        // Some are answered by something else, whatever it reads ahead.
        let mut noisy = reads(2048, true);
        let missed = noisy.requests.iter_mut().filter(|read| read.completed.since(read.issued) > Nanos::from_ms(1));
        missed.step_by(8).for_each(|read| read.completed = read.issued + Nanos::from_us(200));
        assert_eq!(told(&[noisy]), (vec![2048], true));
        // What a stream waits for is on its way.
        let mut late = stream(3000);
        late.iter_mut().for_each(|read| read.completed = read.issued + Nanos::from_ms(4));
        let late = IsolatedTrace { requests: late, ..IsolatedTrace::default() };
        assert_eq!(told(&[reads(2048, true), late]), (vec![2048], true));
    }

    /// A stream of reads of 128 KiB, every 10 ms, from a place of a file that begins at 8 GiB.
    fn stream(reads: u64) -> Vec<TracedRequest> {
        (0..reads).map(|n| read(FILE + (101 + n) * 256, 256, n * 10_000, 200)).collect()
    }

    #[test]
    fn a_stream_was_read_ahead_before_its_recording_began() {
        let trace = IsolatedTrace { requests: stream(400), ..IsolatedTrace::default() };
        let ahead = Sectors::new(2048);
        let mut contents = beginning(&geometry(), ahead, &trace);
        // What the same stream has from the beginning of its file.
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
        // Two reads are no stream, and neither are those that begin later.
        assert_eq!(streams(&stream(2)).len(), 0);
        let mut late = vec![read(0, 8, 0, 100)];
        late.extend(stream(50).into_iter().map(|request| read(request.lba.sector(), 256, 2_000_000, 100)));
        assert_eq!(streams(&late).len(), 0);
    }

    #[test]
    fn members_are_sent_for_what_is_read_ahead_and_for_what_lies_on_several() {
        let mut requests = stream(40);
        let long = read(1_000_000 / 512 * 512 + 384, 256, 395_000, 9000);
        requests.push(long);
        let trace = IsolatedTrace { requests, ..IsolatedTrace::default() };
        let unseen = unseen(&trace, &geometry(), Sectors::new(2048));
        let all: Vec<Timestamp> = unseen.iter().flatten().copied().collect();
        // Half of what is read ahead every fourth read, which is a unit on each of two members.
        assert_eq!(all.iter().filter(|at| **at < long.issued).count(), 20);
        assert_eq!(all.iter().filter(|at| **at == long.issued).count(), 2);
        let place = geometry().place(long.lba);
        assert!(unseen[geometry().data_member(place.row, place.unit) as usize].contains(&long.issued));
    }

    #[test]
    fn machines_go_on_with_what_was_read_so_far_and_streams_with_where_they_are() {
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
        // The first has come 10 s far, and the second plays from 20 s on and has been where it is.
        let contents = filling.at(&[at(10), at(10)], at(20));
        assert!(there(&contents, 0, 10) == 1.0 && there(&contents, 20, 30) < 0.6);
        assert!(has(&contents, of(1, 20)) && !has(&contents, of(1, 29)));
        let contents = filling.at(&[at(30), at(20)], at(25));
        assert!(there(&contents, 0, 30) == 1.0 && has(&contents, of(1, 25)));
        // Of a cache that loses what it had only streams are known.
        let contents = Filling::new(&geometry(), ahead, false, &traces).at(&[at(30), at(20)], at(25));
        assert!(there(&contents, 0, 30) < 0.1 && has(&contents, of(1, 25)));
    }
}
