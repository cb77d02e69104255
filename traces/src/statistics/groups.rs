//! Requests by process, cgroup or VM, for a bounded number of them.

use std::collections::BTreeMap;

use super::spans::Spans;
use crate::record::Record;
use crate::request::Operation;
use crate::results::statistics::{GroupFigures, GroupedFigures};
use crate::units::{Lba, Sectors};

/// How many groups are kept apart.
const GROUPS_MAX: usize = 4096;

/// A direct-mapped memory of where groups are, so that the map is asked once per process and not
/// once per request.
const REMEMBERED: usize = 256;

#[derive(Clone, Debug, Default)]
struct Group {
    id: u64,
    requests: [u64; Operation::ALL.len()],
    /// Of reads and writes, by operation.
    moving: [Moving; Operation::MOVING_DATA],
    sequential: u64,
    end: Lba,
}

/// What is measured of requests that move data.
#[derive(Clone, Debug, Default)]
struct Moving {
    sectors: Sectors,
    response: Spans,
}

impl Group {
    fn total(&self) -> u64 {
        self.requests.iter().sum()
    }

    #[inline(always)]
    fn add(&mut self, record: &Record) {
        let request = &record.request;
        let before = self.total();
        self.requests[request.operation as usize] += 1;
        // Not by a branch on what it is: reads and writes come in no order that a processor could learn.
        if let Some(moving) = self.moving.get_mut(request.operation as usize) {
            moving.sectors += request.sectors();
            if let Some(response) = record.response_time() {
                moving.response.add(response);
            }
        } else if request.operation == Operation::Flush {
            return;
        }
        self.sequential += u64::from(before > 0 && request.lba == self.end);
        self.end = request.end();
    }

    fn figures(&self, name: Option<String>) -> GroupFigures {
        let count = |operation: Operation| self.requests[operation as usize];
        let [reads, writes] = &self.moving;
        GroupFigures {
            id: self.id,
            name,
            reads: count(Operation::Read),
            writes: count(Operation::Write),
            others: count(Operation::Flush) + count(Operation::Discard),
            read_bytes: reads.sectors.bytes(),
            write_bytes: writes.sectors.bytes(),
            sequential: self.sequential,
            read_response: reads.response.moments(),
            write_response: writes.response.moments(),
        }
    }
}

/// Groups by number, the first [`GROUPS_MAX`] of them apart.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    groups: Vec<Group>,
    places: BTreeMap<u64, u32>,
    remembered: [(u64, u32); REMEMBERED],
    rest: Group,
}

const NOWHERE: u32 = u32::MAX;

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            groups: Vec::new(),
            places: BTreeMap::new(),
            remembered: [(0, NOWHERE); REMEMBERED],
            rest: Group::default(),
        }
    }
}

impl Groups {
    #[inline(always)]
    pub(super) fn add(&mut self, id: u64, record: &Record) {
        let (remembered, place) = self.remembered[id as usize % REMEMBERED];
        if remembered == id && place != NOWHERE {
            self.groups[place as usize].add(record);
        } else {
            self.find(id).add(record);
        }
    }

    #[inline(never)]
    fn find(&mut self, id: u64) -> &mut Group {
        let place = match self.places.get(&id) {
            Some(place) => *place,
            None if self.groups.len() < GROUPS_MAX => {
                let place = self.groups.len() as u32;
                self.groups.push(Group { id, ..Group::default() });
                self.places.insert(id, place);
                place
            }
            None => return &mut self.rest,
        };
        self.remembered[id as usize % REMEMBERED] = (id, place);
        &mut self.groups[place as usize]
    }

    /// With names where there are any; `None` if there is nothing to tell apart.
    pub(super) fn figures(&self, name: impl Fn(u64) -> Option<String>) -> Option<GroupedFigures> {
        let only_unknown = self.groups.len() == 1 && self.groups[0].id == 0 && name(0).is_none();
        if self.groups.is_empty() || only_unknown {
            return None;
        }
        let mut groups: Vec<GroupFigures> = self.groups.iter().map(|group| group.figures(name(group.id))).collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.reads + group.writes + group.others), group.id));
        let rest = (self.rest.total() > 0).then(|| self.rest.figures(Some("all others".to_owned())));
        Some(GroupedFigures { groups, kept_apart_max: GROUPS_MAX as u64, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use crate::units::Timestamp;

    fn read(lba: u64) -> Record {
        Record::arrived(Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8)))
    }

    #[test]
    fn groups_beyond_the_bound_are_counted_together() {
        let mut groups = Groups::default();
        for round in 0..3 {
            for id in 0..GROUPS_MAX as u64 + 100 {
                // Every group reads on where it was.
                groups.add(id, &read(round * 8));
            }
        }
        let figures = groups.figures(|id| (id == 7).then(|| "seven".to_owned())).unwrap();
        assert_eq!(figures.groups.len(), GROUPS_MAX);
        assert!(figures.groups.iter().all(|group| group.reads == 3 && group.sequential == 2));
        assert_eq!(figures.groups[7].name.as_deref(), Some("seven"));
        let rest = figures.rest.unwrap();
        assert_eq!((rest.reads, rest.read_bytes), (300, 300 * 4096));
    }

    #[test]
    fn a_single_group_without_a_name_is_none() {
        let mut groups = Groups::default();
        groups.add(0, &read(0));
        assert_eq!(groups.figures(|_| None), None);
        assert!(groups.figures(|_| Some("vm".to_owned())).is_some());
    }
}
