//! Whose recordings tell of the device, and in which order they say that it takes what waits.

use traces::Nanos;

use super::policy::{Choices, Policy, at_device};
use super::recording::Recording;
use super::{REQUESTS_MIN, device, members, service};

/// What tells of the device, and what it tells.
pub(super) struct Learned<'a> {
    /// First those of the machines that are played.
    pub(super) recordings: &'a [Recording],
    /// It as one that serves one request after another, if it can be.
    pub(super) one_by_one: Option<service::Fitted>,
    pub(super) policy: Policy,
    pub(super) sure: bool,
    /// So many recordings are left out.
    left_out: usize,
}

impl<'a> Learned<'a> {
    /// All that recordings of one device tell.
    pub(super) fn of(recordings: &'a [Recording]) -> Learned<'a> {
        let one_by_one = device::one_by_one(recordings);
        let delay = one_by_one.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let each: Vec<Choices> = recordings.iter().map(|recording| at_device(recording, delay)).collect();
        let (policy, sure) = Choices::of_all(&each).policy();
        Learned { recordings, one_by_one, policy, sure, left_out: 0 }
    }

    /// What recordings tell of which the first are of the `machines`. If those of others show no order and the machines' own do, the others
    /// went another way, of which the machines know nothing: data of their writes came behind other requests over a network.
    pub(super) fn of_machines(recordings: &'a [Recording], machines: usize) -> Learned<'a> {
        let (own, others) = recordings.split_at(machines);
        let all = Learned::of(recordings);
        if others.is_empty() || all.policy != Policy::Unknown {
            return all;
        }
        let own = Learned::of(own);
        if own.policy == Policy::Unknown || members::show(recordings) {
            return all;
        }
        // Where captures contradict one another nothing is sure.
        Learned { left_out: others.len(), sure: false, ..own }
    }

    /// From how many captures of others than the `machines` it was learned, or why from none; nothing if there are none.
    pub(super) fn told_by_others(&self, machines: usize) -> Option<String> {
        let captures = |count: usize| format!("{count} further capture{}", if count == 1 { "" } else { "s" });
        if self.left_out > 0 {
            let why = "shows several requests served at once or in no order, and the machines' own do not";
            return Some(format!("nothing was learned from {}: one {why}", captures(self.left_out)));
        }
        let others = &self.recordings[machines..];
        let few = others.iter().filter(|other| other.len() < REQUESTS_MIN).count();
        let nothing = format!(", of which {few} with fewer than {REQUESTS_MIN} requests that tell hardly anything");
        let learned = format!("the device was learned from {}, too", captures(others.len()));
        (!others.is_empty()).then(|| if few > 0 { learned + &nothing } else { learned })
    }
}

#[cfg(test)]
mod tests {
    use traces::Operation;

    use super::super::recording::Recorded;
    use super::*;
    use crate::replayed::{Campaign, ROOMS};

    #[test]
    fn others_tell_of_the_device_unless_they_show_no_order_and_the_machines_do() {
        let alone = Campaign { machines: 3, ..Campaign::default() }.alone(ROOMS[0], 0).unwrap();
        let mut recordings: Vec<Recording> = alone.into_iter().map(|ran| ran.recording).collect();
        let learn = |recordings: &[Recording]| {
            let learned = Learned::of_machines(recordings, 2);
            let says = learned.told_by_others(2).unwrap_or_default();
            ((learned.policy, learned.sure, learned.recordings.len()), says)
        };
        assert_eq!(learn(&recordings[..2]), ((Policy::Fcfs, true, 2), String::new()));
        let (found, says) = learn(&recordings);
        assert_eq!(found, (Policy::Fcfs, true, 3));
        assert_eq!(says, "the device was learned from 1 further capture, too");
        recordings.push(Recording::default());
        let (found, says) = learn(&recordings);
        assert_eq!(found, (Policy::Fcfs, true, 4));
        assert!(says.contains("2 further captures, too, of which 1 with fewer than 100"), "{says}");
        // Reads that pass what was there before them, whenever it came.
        for n in 0..20_000 {
            let at = n * 10_000;
            let first = Recorded::sent(Operation::Write, 0, at, 9000);
            recordings[3].requests.extend([first, Recorded::sent(Operation::Read, 1, at + 2000, 3000)]);
        }
        let (found, says) = learn(&recordings);
        assert_eq!(found, (Policy::Fcfs, false, 2));
        assert!(says.contains("nothing was learned from 2 further captures"), "{says}");
        assert_eq!(learn(&recordings[2..]).0.0, Policy::Unknown);
    }

    #[test]
    fn members_that_show_are_everybodys() {
        use drive_models::array::{Geometry, Level};
        use traces::{Lba, Sectors};

        use super::super::layout::tests::{CAPACITY, served};
        let own = Geometry::new(Level::Raid5, 5, Sectors::new(128), CAPACITY);
        let member = |lba: Lba| own.data_member(own.place(lba).row, own.place(lba).unit) as usize;
        // Who reads one after another sees no members, and others do.
        let of = |requests: Vec<Recorded>| Recording { requests, device: Some(CAPACITY), ..Recording::default() };
        let mut lone = served(|_| 0);
        lone.truncate(400);
        let recordings = [of(lone), of(served(member))];
        assert_ne!(Learned::of(&recordings[..1]).policy, Policy::Unknown);
        let learned = Learned::of_machines(&recordings, 1);
        assert_eq!((learned.policy, learned.recordings.len(), learned.left_out), (Policy::Unknown, 2, 0));
    }
}
