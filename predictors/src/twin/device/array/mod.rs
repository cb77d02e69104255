//! An array: members by address, each with an arm and a queue of its own, behind a controller with a cache.

pub(crate) mod layout;
pub(crate) mod read_cache;

use std::fmt;

use drive_models::SingleServer;
use drive_models::array::{self, Array, Contents, Geometry, MemberParts};
use traces::{Lba, Nanos, Sectors};

use self::read_cache::Filling;
use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::device::controller_cache::{CacheTiming, ControllerCache};
use crate::twin::device::disk::regression::{Further, Sample};
use crate::twin::device::disk::{self, DiskModel, FittedDisk, samples};
use crate::twin::device::empirical::median;
use crate::twin::device::policy::shipped;
use crate::twin::device::policy::{self, Choices};

/// How far controllers usually read ahead: 1 MiB; sectors.
const AHEAD_USUAL: u32 = 2048;
/// They may read so many times as far: powers of 2.
const AHEAD: std::ops::RangeInclusive<i32> = -3..=2;
/// A controller that answers fewer of the reads behind one of the latest does not read ahead.
const AHEAD_MIN: f64 = 0.2;

/// What was sent to a member so many usual times before may still be served.
const DISTURBED: f64 = 5.0;
/// Fewer times that nothing has disturbed tell less than all.
const UNDISTURBED_MIN: usize = 1000;

/// What was fitted.
#[derive(Clone, Debug)]
pub(crate) struct FittedArray {
    geometry: Geometry,
    member: FittedDisk,
    /// Whether a member takes first what it can have first, and not what came first.
    nearest: bool,
    /// How many requests the controller has at once.
    pub(crate) depth: u32,
    /// What it takes for each; seconds.
    overhead: Nanos,
    /// What its read cache keeps, if it shows one.
    keeps: Option<ReadCache>,
    /// By machine.
    pub(crate) controller_caches: Vec<ControllerCache>,
}

/// What a controller keeps in its read cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadCache {
    /// How far it reads ahead.
    ahead: Sectors,
    /// Whether it keeps all that it has ever had, so that recordings tell what is there.
    all: bool,
}

impl fmt::Display for FittedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (members, unit) = (self.geometry.members(), self.geometry.stripe_unit() / 2);
        write!(f, "the device has {members} members, {unit} KiB on each in turn")?;
        if self.nearest {
            f.write_str(", that take what is nearest first")?;
        }
        if let Some(ReadCache { ahead, .. }) = self.keeps.filter(|keeps| keeps.ahead > Sectors::ZERO) {
            write!(f, ", and reads {} KiB ahead", ahead.count() / 2)?;
        }
        Ok(())
    }
}

/// What the cache answers of each machine, and its reads at random that it does not answer.
fn behind(traces: &[IsolatedTrace], cache: Option<&CacheTiming>) -> (Vec<ControllerCache>, Vec<Vec<TracedRequest>>) {
    let of = |trace: &IsolatedTrace| {
        let (controller_cache, [random, _]) = ControllerCache::of(trace, cache, None);
        (controller_cache, random)
    };
    traces.iter().map(of).unzip()
}

/// Whether the device of `traces` shows members.
pub(crate) fn show(traces: &[IsolatedTrace]) -> bool {
    let (_, random) = behind(traces, CacheTiming::of(traces).as_ref());
    disk::capacity(traces).is_some_and(|capacity| layout::find(&random, capacity).is_some())
}

/// Fits `traces` of one device, for all that its read cache may keep, the most usual first; none if it shows no members. With it those
/// of the recordings that show which it is.
pub(crate) fn fits(traces: &[IsolatedTrace], capacity: Sectors) -> (Vec<FittedArray>, Vec<usize>) {
    let cache = CacheTiming::of(traces);
    let (controller_caches, random) = behind(traces, cache.as_ref());
    let Some(geometry) = layout::find(&random, capacity) else { return Default::default() };
    let streams: Vec<usize> = (0..traces.len()).filter(|&vm| controller_caches[vm].reads_ahead() > AHEAD_MIN).collect();
    let keeps = cache.map(|cache| keeps(traces, &cache, &geometry, streams.is_empty())).unwrap_or_default();
    let of_vms: Vec<Vec<IsolatedTrace>> = random.iter().map(|reads| on_members(reads, &geometry)).collect();
    let rows = geometry.capacity().count() / geometry.row_sectors();
    let samples = samples(traces, &of_vms, &geometry, keeps.first().copied());
    let Some(member) = disk::fit_to(samples, Sectors::new(geometry.row_start(rows)), Further::AsDrives) else {
        return Default::default();
    };
    let members: Vec<IsolatedTrace> = of_vms.into_iter().flatten().collect();
    let taken: Vec<Choices> = members.iter().map(|member| policy::at_device(member, Nanos::ZERO)).collect();
    let (order, _) = Choices::of_all(&taken).policy();
    let fitted = FittedArray {
        geometry,
        nearest: order == policy::Policy::Unknown,
        depth: cache.map_or(u32::MAX, |cache| cache.depth),
        overhead: cache.map_or(member.delay, |cache| Nanos::from_ns((cache.usual * 1e9) as u64)),
        member: member.of_all(),
        keeps: None,
        controller_caches,
    };
    if keeps.is_empty() {
        return (vec![fitted], Vec::new());
    }
    let with = |keeps: ReadCache| FittedArray {
        keeps: Some(keeps),
        controller_caches: match keeps {
            ReadCache { all: true, ahead } => {
                let known = |one: &IsolatedTrace| Some(read_cache::beginning(&geometry, ahead, one));
                traces.iter().map(|one| ControllerCache::of(one, cache.as_ref(), known(one)).0).collect()
            }
            ReadCache { .. } => fitted.controller_caches.clone(),
        },
        ..fitted.clone()
    };
    (keeps.into_iter().map(with).collect(), streams)
}

/// What each machine's reads tell of the members' times, of each member apart: only those that nothing unseen can have disturbed, if they are
/// enough.
fn samples(
    traces: &[IsolatedTrace],
    of_vms: &[Vec<IsolatedTrace>],
    geometry: &Geometry,
    keeps: Option<ReadCache>,
) -> Vec<Vec<Sample>> {
    let all = |members: &Vec<IsolatedTrace>| members.iter().map(samples::samples).collect::<Vec<_>>();
    let everything: Vec<Vec<Sample>> = of_vms.iter().flat_map(all).collect();
    let usual = median(everything.iter().flatten().map(|sample| sample.time)).unwrap_or(0.0);
    let Some(ReadCache { ahead, .. }) = keeps.filter(|keeps| keeps.all) else { return everything };
    let within = samples::nanos(usual * DISTURBED);
    let undisturbed = |(trace, members): (&IsolatedTrace, &Vec<IsolatedTrace>)| {
        let unseen = read_cache::unseen(trace, geometry, ahead);
        let each = members.iter().zip(&unseen);
        each.map(|(member, unseen)| samples::undisturbed(member, unseen, within)).collect::<Vec<_>>()
    };
    let undisturbed: Vec<Vec<Sample>> = traces.iter().zip(of_vms).flat_map(undisturbed).collect();
    if undisturbed.iter().flatten().count() < UNDISTURBED_MIN { everything } else { undisturbed }
}

/// What the read cache may keep, the most usual first; nothing if nothing shows that there is one.
fn keeps(traces: &[IsolatedTrace], cache: &CacheTiming, geometry: &Geometry, no_streams: bool) -> Vec<ReadCache> {
    let mut far: Vec<i32> = AHEAD.collect();
    far.sort_by_key(|ahead| (ahead.abs(), *ahead));
    let far = far.into_iter().map(|ahead| Sectors::new((f64::from(AHEAD_USUAL) * f64::from(ahead).exp2()) as u64));
    let far: Vec<Sectors> = far.chain([Sectors::ZERO]).collect();
    let (explaining, all) = read_cache::explaining(traces, cache, geometry, &far);
    match (all, no_streams) {
        (false, true) => Vec::new(),
        (false, false) => far[..far.len() - 1].iter().map(|&ahead| ReadCache { all, ahead }).collect(),
        // What nothing shows is not there.
        (true, _) if explaining.contains(&Sectors::ZERO) => vec![ReadCache { all, ahead: Sectors::ZERO }],
        (true, _) => explaining.into_iter().map(|ahead| ReadCache { all, ahead }).collect(),
    }
}

/// What each member has read: what lies on one member only, at its addresses there.
fn on_members(requests: &[TracedRequest], geometry: &Geometry) -> Vec<IsolatedTrace> {
    let mut members = vec![IsolatedTrace::default(); geometry.members() as usize];
    for request in requests {
        let place = geometry.place(request.lba);
        if place.offset + u64::from(request.sectors) > geometry.stripe_unit() {
            continue;
        }
        let lba = Lba::new(geometry.row_start(place.row) + place.offset);
        let member = geometry.data_member(place.row, place.unit) as usize;
        members[member].requests.push(TracedRequest { lba, ..*request });
    }
    members
}

impl FittedArray {
    /// The same with members that take so many times as long for a sector.
    pub(crate) fn with_sectors(&self, factor: f64) -> FittedArray {
        FittedArray { member: self.member.with_sectors(factor), ..self.clone() }
    }

    /// The array as it was fitted, with members that serve so many machines, its read cache as full as that.
    pub(crate) fn array(&self, vms: usize, contents: Option<Contents>, seed: u64) -> Array {
        let &FittedArray { geometry, ref member, nearest, overhead, .. } = self;
        let part = |number: u64| -> MemberParts {
            let server = SingleServer::new(DiskModel::new(member.clone(), 0..vms, seed.wrapping_add(number)));
            (Box::new(server), shipped(if nearest { "satf" } else { "fifo" }))
        };
        array::with_contents(geometry, overhead, contents, (0..geometry.members()).map(part).collect())
    }

    /// Whether the array has a read cache of its own, and not only what was answered of each machine.
    pub(crate) fn has_read_cache(&self) -> bool {
        self.keeps.is_some()
    }

    /// What its read cache holds as machines go on from the beginning of their `traces`.
    pub(crate) fn filling<'a>(&self, traces: &'a [IsolatedTrace]) -> Option<Filling<'a>> {
        let ReadCache { ahead, all } = self.keeps?;
        Some(Filling::new(&self.geometry, ahead, all, traces))
    }
}

#[cfg(test)]
mod tests {
    use drive_models::DriveModel;
    use traces::{Operation, Request, RequestId, Timestamp, VmId};

    use super::*;
    use crate::twin::device::FittedDevice;
    use crate::twin::device::array::layout::tests::{CAPACITY, served};

    /// Reads at random on five members with 64 KiB on each in turn.
    fn trace() -> IsolatedTrace {
        let own = Geometry::new(array::Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let requests = served(|lba| {
            let place = own.place(lba);
            own.data_member(place.row, place.unit) as usize
        });
        IsolatedTrace { requests, device: Some(CAPACITY), ..IsolatedTrace::default() }
    }

    fn served_by(fitted: &FittedArray) -> Box<dyn DriveModel> {
        let mut filling = fitted.filling(&[]);
        let contents = filling.as_mut().map(|filling| filling.at(&[], Timestamp::ZERO));
        FittedDevice::Array(fitted.clone()).drive(0..1, &[Timestamp::ZERO], contents, 1)
    }

    /// When each of reads at `addresses`, all sent at once, is done; ms.
    fn done(fitted: &FittedArray, addresses: &[u64]) -> Vec<f64> {
        let mut device = served_by(fitted);
        let mut completions = Vec::new();
        for (id, &lba) in addresses.iter().enumerate() {
            let mut request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8));
            request.vm = VmId(0);
            device.submit(Timestamp::ZERO, RequestId(id as u32), &request);
        }
        while let Some(at) = device.next_event() {
            device.advance(at, &mut completions);
        }
        completions.sort_by_key(|completion| completion.id.0);
        completions.iter().map(|completion| completion.finished.as_ns() as f64 / 1e6).collect()
    }

    #[test]
    fn requests_wait_for_those_at_their_own_member_only() {
        let (fitted, streams) = fits(&[trace()], CAPACITY);
        assert_eq!((fitted.len(), streams), (1, Vec::new()));
        assert!(fitted[0].to_string().contains("5 members, 64 KiB on each"), "{}", fitted[0]);
        // One unit of each member, then again that of the first.
        let far = done(&fitted[0], &[0, 128, 256, 384, 512]);
        assert!(far.iter().all(|ms| (3.5..6.5).contains(ms)), "{far:?}");
        let same = done(&fitted[0], &[0, 640, 1280]);
        assert!(same[1] > same[0] + 3.0 && same[2] > same[1] + 3.0, "{same:?}");
    }

    #[test]
    fn members_that_choose_are_told_from_those_that_do_not() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};

        let (fitted, _) = fits(&[trace()], CAPACITY);
        assert!(!fitted[0].nearest);
        // The room's drives order their queues.
        let campaign = Campaign { seed: 104, vms: 2, ..Campaign::default() };
        let alone = campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap();
        let traces: Vec<IsolatedTrace> = alone.into_iter().map(|ran| ran.trace).collect();
        let (fitted, _) = fits(&traces, disk::capacity(&traces).unwrap());
        assert!(fitted[0].nearest && fitted[0].to_string().contains("nearest first"), "{}", fitted[0]);
    }

    #[test]
    fn members_read_what_lies_on_one_of_them_at_its_address_there() {
        let geometry = Geometry::new(array::Level::Raid0, 4, Sectors::new(128), Sectors::new(1 << 20));
        let read =
            |lba: u64| TracedRequest { lba: Lba::new(lba), ..TracedRequest::sent(Operation::Read, 0, lba, 5000) };
        // The second row's third unit, 16 sectors in; and one that goes on to the next member.
        let on = on_members(&[read(128 * 6 + 16), read(128 * 6 + 124)], &geometry);
        assert_eq!(on.iter().map(IsolatedTrace::len).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert_eq!(on[2].requests[0].lba, Lba::new(128 + 16));
    }

    #[test]
    fn streams_that_are_answered_try_how_far_it_reads_ahead() {
        let mut trace = trace();
        let mut at = 20_000_000;
        for n in 0..2000 {
            let lba = Lba::new(n * 128 + 7_000_000);
            let read = TracedRequest::sent(Operation::Read, 9, at, 200);
            trace.requests.push(TracedRequest { lba, sectors: 128, ..read });
            at += 5000;
        }
        let (fitted, streams) = fits(&[trace], CAPACITY);
        assert_eq!(streams, [0]);
        let tried: Vec<u64> = fitted.iter().map(|fitted| fitted.keeps.unwrap().ahead.count()).collect();
        assert_eq!(tried, [2048, 1024, 4096, 512, 8192, 256]);
        assert!(fitted[0].to_string().contains("reads 1024 KiB ahead"), "{}", fitted[0]);
        // What has been read ahead takes the controller's time, and random reads still an arm's.
        let mut device = served_by(&fitted[0]);
        let mut completions = Vec::new();
        let mut now = Timestamp::ZERO;
        let mut took = Vec::new();
        for n in 0..64 {
            let request = Request::new(now, Operation::Read, Lba::new(n * 128), Sectors::new(128));
            device.submit(now, RequestId(0), &request);
            while completions.is_empty() {
                device.advance(device.next_event().unwrap(), &mut completions);
            }
            let finished = completions.remove(0).finished;
            took.push(finished.saturating_since(now));
            now = finished.saturating_add(Nanos::from_ms(20));
        }
        assert!(took[0] > Nanos::from_ms(3), "{took:?}");
        assert!(took[8..].iter().all(|took| *took == Nanos::from_us(200)), "{took:?}");
        // Who does not wait in between is ahead of it soon: five members read a unit in some 5 ms each.
        let began = now;
        for n in 64..264 {
            let request = Request::new(now, Operation::Read, Lba::new(n * 128), Sectors::new(128));
            device.submit(now, RequestId(0), &request);
            while completions.is_empty() {
                device.advance(device.next_event().unwrap(), &mut completions);
            }
            now = completions.remove(0).finished;
        }
        assert!(now.since(began) > Nanos::from_ms(100), "{}", now.since(began));
    }

    #[test]
    fn what_is_only_read_again_is_kept_and_not_read_ahead_of() {
        let mut trace = trace();
        for n in 0..1000 {
            let again = trace.requests[n];
            let sent = TracedRequest::sent(Operation::Read, 9, 20_000_000 + n as u64 * 5000, 200);
            trace.requests.push(TracedRequest { lba: again.lba, ..sent });
        }
        let (fitted, streams) = fits(&[trace], CAPACITY);
        assert_eq!((fitted.len(), streams), (1, Vec::new()));
        assert_eq!(fitted[0].keeps, Some(ReadCache { ahead: Sectors::ZERO, all: true }));
        assert!(!fitted[0].to_string().contains("ahead"));
    }

    #[test]
    fn reads_beside_what_is_read_ahead_tell_nothing_of_the_members() {
        let geometry = Geometry::new(array::Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let mut trace = trace();
        let random = trace.requests.clone();
        // A stream in the first half.
        let half = random[random.len() / 2].arrival;
        for n in 0..half.as_ns() / 20_000_000 {
            let read = TracedRequest::sent(Operation::Read, 9, n * 20_000, 200);
            trace.requests.push(TracedRequest { lba: Lba::new(1 << 27 | (n * 256)), sectors: 256, ..read });
        }
        trace.requests.sort_by_key(|request| request.arrival);
        let count = |random: &[TracedRequest], keeps: Option<ReadCache>| {
            let members = [on_members(random, &geometry)];
            samples(&[trace.clone()], &members, &geometry, keeps).iter().flatten().count()
        };
        let keeps = Some(ReadCache { ahead: Sectors::new(2048), all: true });
        let (all, told) = (count(&random, None), count(&random, keeps));
        assert!(told < all * 9 / 10 && told > all / 2 - 10, "{told} of {all}");
        // So few tell less than all.
        assert_eq!(count(&random[..900], keeps), count(&random[..900], None));
    }
}
