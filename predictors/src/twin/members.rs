//! An array: members by address, each with an arm and a queue of its own, behind a controller with a cache.

use std::fmt;

use drive_models::SingleServer;
use drive_models::array::{self, Array, Geometry, MemberParts};
use traces::{Lba, Nanos, Sectors};

use super::front::{Cache, Front};
use super::policy::{self, Choices};
use super::recording::{Recorded, Recording};
use super::{layout, play};
use super::{service, serving};

/// How far controllers usually read ahead: 1 MiB; sectors.
const AHEAD_USUAL: u32 = 2048;
/// They may read so many times as far: powers of 2.
const AHEAD: std::ops::RangeInclusive<i32> = -3..=2;
/// And members may take so many times as long for a sector as was fitted: powers of the square root of 2.
const SPEED: std::ops::RangeInclusive<i32> = -2..=2;
/// A controller that answers fewer of the reads behind one of the latest does not read ahead.
const AHEAD_MIN: f64 = 0.2;

/// What was fitted.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    geometry: Geometry,
    member: service::Fitted,
    /// Whether a member takes first what it can have first, and not what came first.
    nearest: bool,
    /// How many requests the controller has at once.
    pub(super) depth: u32,
    /// What it takes for each; seconds.
    overhead: Nanos,
    /// How far it reads ahead.
    ahead: Sectors,
    /// By machine.
    pub(super) fronts: Vec<Front>,
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (members, unit) = (self.geometry.members(), self.geometry.stripe_unit() / 2);
        write!(f, "the device has {members} members, {unit} KiB on each in turn")?;
        if self.nearest {
            f.write_str(", that take what is nearest first")?;
        }
        if self.reads_ahead() {
            write!(f, ", and reads {} KiB ahead", self.ahead.count() / 2)?;
        }
        Ok(())
    }
}

/// Fits `recordings` of one device, for all that it may read ahead and its members' speed may be, the most usual first; none if it shows no
/// members. With it those of the `machines` that show which it is.
pub(super) fn fits(recordings: &[Recording], machines: usize, capacity: Sectors) -> (Vec<Fitted>, Vec<usize>) {
    let cache = Cache::of(recordings);
    let of = |recording: &Recording| {
        let (front, [random, _]) = Front::of(recording, cache.as_ref());
        (front, random)
    };
    let (fronts, random): (Vec<Front>, Vec<Vec<Recorded>>) = recordings.iter().map(of).unzip();
    let Some(geometry) = layout::find(&random, capacity) else { return Default::default() };
    let members: Vec<Recording> = random.iter().flat_map(|reads| on_members(reads, &geometry)).collect();
    let rows = geometry.capacity().count() / geometry.row_sectors();
    let Some(member) = service::fit(&members, Sectors::new(geometry.row_start(rows))) else {
        return Default::default();
    };
    let taken: Vec<Choices> = members.iter().map(|member| policy::at_device(member, Nanos::ZERO)).collect();
    let (order, _) = Choices::of_all(&taken).policy();
    let fitted = Fitted {
        geometry,
        nearest: order == policy::Policy::Unknown,
        depth: cache.map_or(u32::MAX, |cache| cache.depth),
        overhead: cache.map_or(member.delay, |cache| Nanos::from_ns((cache.usual * 1e9) as u64)),
        member: member.of_all(),
        ahead: Sectors::ZERO,
        fronts,
    };
    let reads_ahead = |index: &usize| fitted.fronts[*index].reads_ahead() > AHEAD_MIN;
    let streams: Vec<usize> = (0..machines).filter(reads_ahead).collect();
    if streams.is_empty() {
        return (vec![fitted], streams);
    }
    let mut choices: Vec<(i32, i32)> = AHEAD.flat_map(|ahead| SPEED.map(move |speed| (ahead, speed))).collect();
    choices.sort_by_key(|(ahead, speed)| (2 * ahead.abs() + speed.abs(), *ahead, *speed));
    let with = |(ahead, speed): (i32, i32)| Fitted {
        ahead: Sectors::new((f64::from(AHEAD_USUAL) * f64::from(ahead).exp2()) as u64),
        member: fitted.member.with_sectors((f64::from(speed) / 2.0).exp2()),
        ..fitted.clone()
    };
    (choices.into_iter().map(with).collect(), streams)
}

/// What each member has read: what lies on one member only, at its addresses there.
fn on_members(requests: &[Recorded], geometry: &Geometry) -> Vec<Recording> {
    let mut members = vec![Recording::default(); geometry.members() as usize];
    for request in requests {
        let place = geometry.place(request.lba);
        if place.offset + u64::from(request.sectors) > geometry.stripe_unit() {
            continue;
        }
        let lba = Lba::new(geometry.row_start(place.row) + place.offset);
        let member = geometry.data_member(place.row, place.unit) as usize;
        members[member].requests.push(Recorded { lba, ..*request });
    }
    members
}

impl Fitted {
    /// The array as it was fitted, with members that serve so many machines.
    pub(super) fn array(&self, machines: usize, seed: u64) -> Array {
        let &Fitted { geometry, ref member, nearest, ahead, overhead, .. } = self;
        let part = |number: u64| -> MemberParts {
            let server =
                SingleServer::new(serving::Device::new(member.clone(), 0..machines, seed.wrapping_add(number)));
            (Box::new(server), play::shipped(if nearest { "satf" } else { "fifo" }))
        };
        array::reading_ahead(geometry, overhead, ahead, (0..geometry.members()).map(part).collect())
    }

    /// Whether the array itself knows what of it has been read ahead.
    pub(super) fn reads_ahead(&self) -> bool {
        self.ahead > Sectors::ZERO
    }
}

#[cfg(test)]
mod tests {
    use drive_models::DriveModel;
    use traces::{Operation, Request, RequestId, Timestamp, VmId};

    use super::super::device::Fit;
    use super::super::layout::tests::{CAPACITY, served};
    use super::*;

    /// Reads at random on five members with 64 KiB on each in turn.
    fn recording() -> Recording {
        let own = Geometry::new(array::Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let requests = served(|lba| {
            let place = own.place(lba);
            own.data_member(place.row, place.unit) as usize
        });
        Recording { requests, device: Some(CAPACITY), ..Recording::default() }
    }

    fn served_by(fitted: &Fitted) -> Box<dyn DriveModel> {
        Fit::Members(fitted.clone()).drive(0..1, &[Timestamp::ZERO], 1)
    }

    /// When each of reads at `addresses`, all sent at once, is done; ms.
    fn done(fitted: &Fitted, addresses: &[u64]) -> Vec<f64> {
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
        let (fitted, streams) = fits(&[recording()], 1, CAPACITY);
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
        use crate::replayed::{Campaign, ROOMS};

        let (fitted, _) = fits(&[recording()], 1, CAPACITY);
        assert!(!fitted[0].nearest);
        // The room's drives order their queues.
        let campaign = Campaign { seed: 104, machines: 2, ..Campaign::default() };
        let alone = campaign.alone(ROOMS[3], 3).unwrap();
        let recordings: Vec<Recording> = alone.into_iter().map(|ran| ran.recording).collect();
        let (fitted, _) = fits(&recordings, 2, service::capacity(&recordings).unwrap());
        assert!(fitted[0].nearest && fitted[0].to_string().contains("nearest first"), "{}", fitted[0]);
    }

    #[test]
    fn members_read_what_lies_on_one_of_them_at_its_address_there() {
        let geometry = Geometry::new(array::Level::Raid0, 4, Sectors::new(128), Sectors::new(1 << 20));
        let read = |lba: u64| Recorded { lba: Lba::new(lba), ..Recorded::sent(Operation::Read, 0, lba, 5000) };
        // The second row's third unit, 16 sectors in; and one that goes on to the next member.
        let on = on_members(&[read(128 * 6 + 16), read(128 * 6 + 124)], &geometry);
        assert_eq!(on.iter().map(Recording::len).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert_eq!(on[2].requests[0].lba, Lba::new(128 + 16));
    }

    #[test]
    fn streams_that_are_answered_try_how_far_it_reads_ahead() {
        let mut recording = recording();
        let mut at = 20_000_000;
        for n in 0..2000 {
            let lba = Lba::new(n * 128 + 7_000_000);
            let read = Recorded::sent(Operation::Read, 9, at, 200);
            recording.requests.push(Recorded { lba, sectors: 128, ..read });
            at += 5000;
        }
        let (fitted, streams) = fits(&[recording], 1, CAPACITY);
        assert_eq!((fitted.len(), streams), (AHEAD.count() * SPEED.count(), vec![0]));
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
}
