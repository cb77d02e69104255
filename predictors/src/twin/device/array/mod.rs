//! An array: members chosen by address, each with an arm and a queue of its own, behind a controller with a cache.
//!
//! The fit goes from outside in:
//!
//! 1. [`CacheTiming`] says which requests the controller's cache answered; the other random reads reached the members.
//! 2. `layout` finds level, members and stripe unit from the waiting of these reads for one another.
//! 3. `read_cache` finds how far the controller reads ahead, and whether its read cache keeps everything.
//! 4. The reads that lie on one member are split by member, and one disk is fitted to all members ([`disk`]).
//! 5. The members' dispatch order is inferred. It is first come, first served, or the nearest request first (`satf`) if
//!    the order is unknown to `policy`.
//!
//! If several read-ahead distances explain the traces equally well, [`fits`] returns an array for each, and the caller
//! chooses by simulation. Only random reads are used to fit the members; the times of writes there are not measured.

pub(crate) mod layout;
pub(crate) mod read_cache;

use std::fmt;

use drive_models::SingleServer;
use drive_models::array::{self, Array, Contents, Geometry, MemberParts};
use traces::{Lba, Nanos, Sectors};

use self::read_cache::Filling;
use crate::isolated_trace::{IsolatedTrace, TracedRequest};
use crate::twin::device::controller_cache::{CacheTiming, ControllerCache};
use crate::twin::device::disk::line::Sample;
use crate::twin::device::disk::regression::FarSeeks;
use crate::twin::device::disk::{self, DiskModel, FittedDisk, samples};
use crate::twin::device::empirical::median;
use crate::twin::device::policy::{self, Choices, shipped};

/// The read-ahead distance that is tried first: 1 MiB. Set by judgement; not varied.
const READ_AHEAD_USUAL_SECTORS: u32 = 2048;
/// The read-ahead distances that are tried: the usual one times 2 to each of these powers. Set by judgement; not
/// varied.
const READ_AHEAD_POWERS_OF_2: std::ops::RangeInclusive<i32> = -3..=2;
/// A VM's sequential reads show read-ahead if the cache answers more than this share of them. Set by judgement; not
/// varied.
const SEQUENTIAL_ANSWERED_SHARE_BOUND: f64 = 0.2;

/// An access of the controller's own may still occupy a member after this many median service times. Set by judgement;
/// not varied.
const DISTURBANCE_MEDIAN_TIMES: f64 = 5.0;
/// With fewer undisturbed service times than this, all service times are used. Set by judgement; not varied.
const UNDISTURBED_SAMPLES_MIN: usize = 1000;

/// The fitted array.
#[derive(Clone, Debug)]
pub(crate) struct FittedArray {
    geometry: Geometry,
    member: FittedDisk,
    /// Whether members serve the nearest request first instead of the oldest.
    nearest: bool,
    /// The most requests that the controller accepts at once.
    pub(crate) depth: u32,
    /// The controller's time for each request.
    overhead: Nanos,
    /// The read cache, if the traces show one.
    read_cache: Option<ReadCache>,
    /// The requests that the controller's cache answers, by VM.
    pub(crate) controller_caches: Vec<ControllerCache>,
}

/// The controller's read cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadCache {
    /// How far it reads ahead.
    ahead: Sectors,
    /// Whether it keeps all data that it ever held, so that its contents follow from the traces.
    keeps_all: bool,
}

impl fmt::Display for FittedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (members, unit) = (self.geometry.members(), self.geometry.stripe_unit() / 2);
        write!(f, "the device is an array of {members} members with a stripe unit of {unit} KiB")?;
        if self.nearest {
            f.write_str("; each member serves the nearest request first")?;
        }
        if let Some(ReadCache { ahead, .. }) = self.read_cache.filter(|cache| cache.ahead > Sectors::ZERO) {
            write!(f, "; the controller reads {} KiB ahead", ahead.count() / 2)?;
        }
        Ok(())
    }
}

/// For each VM, the requests that the controller's cache answers, and the random reads that it does not.
fn split_by_cache(
    traces: &[IsolatedTrace],
    cache: Option<&CacheTiming>,
) -> (Vec<ControllerCache>, Vec<Vec<TracedRequest>>) {
    let of = |trace: &IsolatedTrace| {
        let (controller_cache, [random, _]) = ControllerCache::of(trace, cache, None);
        (controller_cache, random)
    };
    traces.iter().map(of).unzip()
}

/// Whether the `traces` show the members of an array.
pub(crate) fn show(traces: &[IsolatedTrace]) -> bool {
    let (_, random) = split_by_cache(traces, CacheTiming::of(traces).as_ref());
    disk::capacity(traces).is_some_and(|capacity| layout::find(&random, capacity).is_some())
}

/// Fits the arrays that may have produced the `traces`: one for each read cache that they allow, the most usual first;
/// none if they show no members. The second part has the numbers of the traces with sequential reads, which distinguish
/// the arrays.
pub(crate) fn fits(traces: &[IsolatedTrace], capacity: Sectors) -> (Vec<FittedArray>, Vec<usize>) {
    let cache = CacheTiming::of(traces);
    let (controller_caches, random) = split_by_cache(traces, cache.as_ref());
    let Some(geometry) = layout::find(&random, capacity) else { return Default::default() };
    let streams: Vec<usize> = (0..traces.len())
        .filter(|&vm| controller_caches[vm].sequential_share() > SEQUENTIAL_ANSWERED_SHARE_BOUND)
        .collect();
    let read_caches = cache.map(|cache| read_caches(traces, &cache, &geometry, streams.is_empty())).unwrap_or_default();
    let of_vms: Vec<Vec<IsolatedTrace>> = random.iter().map(|reads| on_members(reads, &geometry)).collect();
    let rows = geometry.capacity().count() / geometry.row_sectors();
    let samples = samples(traces, &of_vms, &geometry, read_caches.first().copied());
    let Some(member) = disk::fit_to(samples, Sectors::new(geometry.row_start(rows)), FarSeeks::FromMeasuredDrives)
    else {
        return Default::default();
    };
    let members: Vec<IsolatedTrace> = of_vms.into_iter().flatten().collect();
    let choices: Vec<Choices> = members.iter().map(|member| policy::at_device(member, Nanos::ZERO)).collect();
    let (order, _) = Choices::of_all(&choices).policy();
    let fitted = FittedArray {
        geometry,
        nearest: order == policy::Policy::Unknown,
        depth: cache.map_or(u32::MAX, |cache| cache.depth),
        overhead: cache.map_or(member.delay, |cache| Nanos::from_ns((cache.usual * 1e9) as u64)),
        member: member.for_any_vm(),
        read_cache: None,
        controller_caches,
    };
    if read_caches.is_empty() {
        return (vec![fitted], Vec::new());
    }
    let with = |read_cache: ReadCache| FittedArray {
        read_cache: Some(read_cache),
        controller_caches: match read_cache {
            ReadCache { keeps_all: true, ahead } => {
                let known = |one: &IsolatedTrace| Some(read_cache::beginning(&geometry, ahead, one));
                traces.iter().map(|one| ControllerCache::of(one, cache.as_ref(), known(one)).0).collect()
            }
            ReadCache { .. } => fitted.controller_caches.clone(),
        },
        ..fitted.clone()
    };
    (read_caches.into_iter().map(with).collect(), streams)
}

/// Service times of the members, one list for each VM and member. If they are enough, only those are used that no
/// access of the controller's own can have disturbed.
fn samples(
    traces: &[IsolatedTrace],
    of_vms: &[Vec<IsolatedTrace>],
    geometry: &Geometry,
    read_cache: Option<ReadCache>,
) -> Vec<Vec<Sample>> {
    let all = |members: &Vec<IsolatedTrace>| members.iter().map(samples::samples).collect::<Vec<_>>();
    let everything: Vec<Vec<Sample>> = of_vms.iter().flat_map(all).collect();
    let usual = median(everything.iter().flatten().map(|sample| sample.time)).unwrap_or(0.0);
    let Some(ReadCache { ahead, .. }) = read_cache.filter(|cache| cache.keeps_all) else { return everything };
    let within = samples::nanos(usual * DISTURBANCE_MEDIAN_TIMES);
    let undisturbed = |(trace, members): (&IsolatedTrace, &Vec<IsolatedTrace>)| {
        let unseen = read_cache::unseen(trace, geometry, ahead);
        let each = members.iter().zip(&unseen);
        each.map(|(member, unseen)| samples::undisturbed(member, unseen, within)).collect::<Vec<_>>()
    };
    let undisturbed: Vec<Vec<Sample>> = traces.iter().zip(of_vms).flat_map(undisturbed).collect();
    if undisturbed.iter().flatten().count() < UNDISTURBED_SAMPLES_MIN { everything } else { undisturbed }
}

/// The read caches that the traces allow, the most usual first; none if no trace shows a read cache.
fn read_caches(traces: &[IsolatedTrace], cache: &CacheTiming, geometry: &Geometry, no_streams: bool) -> Vec<ReadCache> {
    let mut powers: Vec<i32> = READ_AHEAD_POWERS_OF_2.collect();
    powers.sort_by_key(|power| (power.abs(), *power));
    let far = powers
        .into_iter()
        .map(|power| Sectors::new((f64::from(READ_AHEAD_USUAL_SECTORS) * f64::from(power).exp2()) as u64));
    let far: Vec<Sectors> = far.chain([Sectors::ZERO]).collect();
    let (explaining, keeps_all) = read_cache::explaining(traces, cache, geometry, &far);
    match (keeps_all, no_streams) {
        (false, true) => Vec::new(),
        (false, false) => far[..far.len() - 1].iter().map(|&ahead| ReadCache { keeps_all, ahead }).collect(),
        // If the traces are explained without read-ahead, there is none.
        (true, _) if explaining.contains(&Sectors::ZERO) => vec![ReadCache { keeps_all, ahead: Sectors::ZERO }],
        (true, _) => explaining.into_iter().map(|ahead| ReadCache { keeps_all, ahead }).collect(),
    }
}

/// Splits `requests` by member, at the member's own addresses. Requests that span several members are left out.
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
    /// The same array with members that take `factor` times as long for a sector.
    pub(crate) fn with_sectors(&self, factor: f64) -> FittedArray {
        FittedArray { member: self.member.with_sectors(factor), ..self.clone() }
    }

    /// The drive model of the array for this number of VMs, with the `contents` of its read cache.
    pub(crate) fn array(&self, vms: usize, contents: Option<Contents>, seed: u64) -> Array {
        let &FittedArray { geometry, ref member, nearest, overhead, .. } = self;
        let part = |number: u64| -> MemberParts {
            let server = SingleServer::new(DiskModel::new(member.clone(), 0..vms, seed.wrapping_add(number)));
            (Box::new(server), shipped(if nearest { "satf" } else { "fifo" }))
        };
        array::with_contents(geometry, overhead, contents, (0..geometry.members()).map(part).collect())
    }

    /// Whether a read cache is modelled address by address, and not only by the share of each VM's requests that is
    /// answered.
    pub(crate) fn has_read_cache(&self) -> bool {
        self.read_cache.is_some()
    }

    /// Follows the contents of the read cache from the beginning of the VMs' `traces`.
    pub(crate) fn filling<'a>(&self, traces: &'a [IsolatedTrace]) -> Option<Filling<'a>> {
        let ReadCache { ahead, keeps_all } = self.read_cache?;
        Some(Filling::new(&self.geometry, ahead, keeps_all, traces))
    }
}

#[cfg(test)]
mod tests {
    use drive_models::DriveModel;
    use traces::{Operation, Request, RequestId, Timestamp, VmId};

    use super::*;
    use crate::twin::device::FittedDevice;
    use crate::twin::device::array::layout::tests::{CAPACITY, served};

    /// Random reads on RAID 5 of five members with a stripe unit of 64 KiB.
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

    /// The completion of each read at `addresses`, all sent at once; ms.
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
        assert!(fitted[0].to_string().contains("5 members with a stripe unit of 64 KiB"), "{}", fitted[0]);
        // One unit of each member, then again that of the first.
        let far = done(&fitted[0], &[0, 128, 256, 384, 512]);
        assert!(far.iter().all(|ms| (3.5..6.5).contains(ms)), "{far:?}");
        let same = done(&fitted[0], &[0, 640, 1280]);
        assert!(same[1] > same[0] + 3.0 && same[2] > same[1] + 3.0, "{same:?}");
    }

    #[test]
    fn nearest_first_is_inferred_for_members_that_order_their_queues_only() {
        use crate::synthetic::{Campaign, SYNTHETIC_SETUPS};

        let (fitted, _) = fits(&[trace()], CAPACITY);
        assert!(!fitted[0].nearest);
        // The members of this synthetic setup order their queues.
        let campaign = Campaign { seed: 104, vms: 2, ..Campaign::default() };
        let alone = campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap();
        let traces: Vec<IsolatedTrace> = alone.into_iter().map(|ran| ran.trace).collect();
        let (fitted, _) = fits(&traces, disk::capacity(&traces).unwrap());
        assert!(fitted[0].nearest && fitted[0].to_string().contains("nearest request first"), "{}", fitted[0]);
    }

    #[test]
    fn reads_within_one_member_keep_their_offset_and_spanning_reads_are_left_out() {
        let geometry = Geometry::new(array::Level::Raid0, 4, Sectors::new(128), Sectors::new(1 << 20));
        let read =
            |lba: u64| TracedRequest { lba: Lba::new(lba), ..TracedRequest::sent(Operation::Read, 0, lba, 5000) };
        // The second row's third unit, 16 sectors in; and one that spans into the next member.
        let on = on_members(&[read(128 * 6 + 16), read(128 * 6 + 124)], &geometry);
        assert_eq!(on.iter().map(IsolatedTrace::len).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert_eq!(on[2].requests[0].lba, Lba::new(128 + 16));
    }

    #[test]
    fn answered_streams_give_one_array_for_each_read_ahead_distance() {
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
        let tried: Vec<u64> = fitted.iter().map(|fitted| fitted.read_cache.unwrap().ahead.count()).collect();
        assert_eq!(tried, [2048, 1024, 4096, 512, 8192, 256]);
        assert!(fitted[0].to_string().contains("reads 1024 KiB ahead"), "{}", fitted[0]);
        // The first read takes an arm's time, and reads that were read ahead take the controller's.
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
        // A stream without pauses overtakes the read-ahead: five members read a unit in about 5 ms each.
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
    fn data_that_is_read_again_shows_a_cache_without_read_ahead() {
        let mut trace = trace();
        for n in 0..1000 {
            let again = trace.requests[n];
            let sent = TracedRequest::sent(Operation::Read, 9, 20_000_000 + n as u64 * 5000, 200);
            trace.requests.push(TracedRequest { lba: again.lba, ..sent });
        }
        let (fitted, streams) = fits(&[trace], CAPACITY);
        assert_eq!((fitted.len(), streams), (1, Vec::new()));
        assert_eq!(fitted[0].read_cache, Some(ReadCache { ahead: Sectors::ZERO, keeps_all: true }));
        assert!(!fitted[0].to_string().contains("ahead"));
    }

    #[test]
    fn reads_that_read_ahead_may_have_disturbed_are_left_out_if_enough_remain() {
        let geometry = Geometry::new(array::Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let mut trace = trace();
        let random = trace.requests.clone();
        // A stream runs during the first half of the trace.
        let half = random[random.len() / 2].arrival;
        for n in 0..half.as_ns() / 20_000_000 {
            let read = TracedRequest::sent(Operation::Read, 9, n * 20_000, 200);
            trace.requests.push(TracedRequest { lba: Lba::new(1 << 27 | (n * 256)), sectors: 256, ..read });
        }
        trace.requests.sort_by_key(|request| request.arrival);
        let count = |random: &[TracedRequest], read_cache: Option<ReadCache>| {
            let members = [on_members(random, &geometry)];
            samples(&[trace.clone()], &members, &geometry, read_cache).iter().flatten().count()
        };
        let read_cache = Some(ReadCache { ahead: Sectors::new(2048), keeps_all: true });
        let (all, undisturbed) = (count(&random, None), count(&random, read_cache));
        assert!(undisturbed < all * 9 / 10 && undisturbed > all / 2 - 10, "{undisturbed} of {all}");
        // With too few undisturbed reads all are used.
        assert_eq!(count(&random[..900], read_cache), count(&random[..900], None));
    }
}
