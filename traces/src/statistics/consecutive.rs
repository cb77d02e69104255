//! What is measured from one request to the next: from the last of any kind, and from the last of the same class.

use super::distribution::Distribution;
use crate::request::Operation;
use crate::units::Timestamp;

const OPERATIONS: usize = Operation::ALL.len();

/// A measure of the way from one request to a later one.
pub(super) trait Between: Clone + Default {
    /// Where a request begins and ends.
    type Point: Copy;

    /// Counts one way.
    fn add(&mut self, from: Self::Point, to: Self::Point);

    /// Counts all that `other` has counted.
    fn merge(&mut self, other: &Self);
}

impl Between for Distribution {
    type Point = Timestamp;

    #[inline]
    fn add(&mut self, from: Timestamp, to: Timestamp) {
        Distribution::add(self, to.since(from));
    }

    fn merge(&mut self, other: &Distribution) {
        Distribution::merge(self, other);
    }
}

/// The end of the last request of each class, and the class of the last of any.
#[derive(Clone, Debug)]
pub(super) struct Last<P> {
    ends: [Option<P>; OPERATIONS],
    class: Option<Operation>,
}

impl<P> Default for Last<P> {
    fn default() -> Last<P> {
        Last { ends: [const { None }; OPERATIONS], class: None }
    }
}

/// A measure by class.
// The last request of any kind is most often of the same class too. Such a way counts once for both orders, which saves
// a traced run of one class the second measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Consecutive<M> {
    /// From the request before, which was of the same class.
    same: [M; OPERATIONS],
    /// From the request before, which was of another class.
    after_other: [M; OPERATIONS],
    /// From the last of the same class, with requests of other classes between.
    over_others: [M; OPERATIONS],
}

impl<M: Between> Consecutive<M> {
    /// A request of `class` follows `last` and takes its place.
    #[inline(always)]
    pub(super) fn add(&mut self, last: &mut Last<M::Point>, class: Operation, begin: M::Point, end: M::Point) {
        let index = class as usize;
        let of_class = last.ends[index];
        match last.class {
            Some(before) if before == class => {
                if let Some(from) = of_class {
                    self.same[index].add(from, begin);
                }
            }
            Some(before) => {
                if let Some(from) = last.ends[before as usize] {
                    self.after_other[index].add(from, begin);
                }
                if let Some(from) = of_class {
                    self.over_others[index].add(from, begin);
                }
            }
            None => {}
        }
        last.ends[index] = Some(end);
        last.class = Some(class);
    }

    /// Requests of a class, from the last request of any kind.
    pub(super) fn in_device_order(&self, class: Operation) -> M {
        sum(&self.same[class as usize], &self.after_other[class as usize])
    }

    /// Requests of a class, from the last request of that class.
    pub(super) fn within_class(&self, class: Operation) -> M {
        sum(&self.same[class as usize], &self.over_others[class as usize])
    }

    /// All requests, from the last one.
    pub(super) fn all(&self) -> M {
        let mut all = M::default();
        for measure in self.same.iter().chain(&self.after_other) {
            all.merge(measure);
        }
        all
    }
}

fn sum<M: Between>(one: &M, other: &M) -> M {
    let mut sum = one.clone();
    sum.merge(other);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times from which and to which it was measured.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Ways(Vec<(u64, u64)>);

    impl Between for Ways {
        type Point = u64;

        fn add(&mut self, from: u64, to: u64) {
            self.0.push((from, to));
            self.0.sort_unstable();
        }

        fn merge(&mut self, other: &Ways) {
            self.0.extend(&other.0);
            self.0.sort_unstable();
        }
    }

    #[test]
    fn a_request_is_measured_from_the_last_of_any_class_and_from_the_last_of_its_own() {
        let (mut ways, mut last) = (Consecutive::<Ways>::default(), Last::default());
        let [read, write, discard] = [Operation::Read, Operation::Write, Operation::Discard];
        for (at, class) in [(10, read), (20, write), (30, write), (40, read), (50, discard), (60, write)] {
            ways.add(&mut last, class, at, at + 1);
        }
        assert_eq!(ways.all().0, [(11, 20), (21, 30), (31, 40), (41, 50), (51, 60)]);
        assert_eq!(ways.in_device_order(write).0, [(11, 20), (21, 30), (51, 60)]);
        assert_eq!(ways.within_class(write).0, [(21, 30), (31, 60)]);
        assert_eq!(ways.in_device_order(read).0, [(31, 40)]);
        assert_eq!(ways.within_class(read).0, [(11, 40)]);
        assert_eq!((ways.in_device_order(discard).0, ways.within_class(discard).0), (vec![(41, 50)], vec![]));
    }
}
