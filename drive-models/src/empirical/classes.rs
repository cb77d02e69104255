//! The classes of size, distance and queue length that a service time is conditioned on.

use serde::{Deserialize, Serialize};
use traces::{Operation, Sectors};

/// A class: how a profile writes it, and the largest number in it.
pub type ClassBound = (&'static str, u64);

/// Classes of request sizes in sectors.
pub const SIZES: &[ClassBound] = &[("0-8", 8), ("9-32", 32), ("33-128", 128), ("129-512", 512), ("513-", u64::MAX)];
/// Classes of distances in sectors, from the end of the request issued before.
pub const DISTANCES: &[ClassBound] = &[
    ("0", 0),
    ("1-128", 128),
    ("129-2048", 2048),
    ("2049-131072", 131_072),
    ("131073-2097152", 2_097_152),
    ("2097153-", u64::MAX),
];
/// Classes of queue lengths: other requests at the drive when one is issued.
pub const QUEUES: &[ClassBound] =
    &[("0", 0), ("1", 1), ("2-3", 3), ("4-7", 7), ("8-15", 15), ("16-31", 31), ("32-63", 63), ("64-", u64::MAX)];

/// The class of `number`.
fn class_of(classes: &[ClassBound], number: u64) -> u8 {
    classes.partition_point(|&(_, most)| most < number) as u8
}

/// The condition that the requests of a cell have in common; `None` is any. The numbers are indexes of [`SIZES`],
/// [`DISTANCES`] and [`QUEUES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    /// The operation.
    pub operation: Option<Operation>,
    /// Class of its size.
    pub size: Option<u8>,
    /// Class of the distance.
    pub distance: Option<u8>,
    /// Class of the queue length.
    pub queue: Option<u8>,
}

impl Condition {
    /// The finest condition that a request fulfils.
    pub fn of(operation: Operation, sectors: Sectors, distance: Sectors, queue_length: u32) -> Condition {
        Condition {
            operation: Some(operation),
            size: Some(class_of(SIZES, sectors.count())),
            distance: Some(class_of(DISTANCES, distance.count())),
            queue: Some(class_of(QUEUES, u64::from(queue_length))),
        }
    }

    /// Every finest condition.
    pub fn finest() -> impl Iterator<Item = Condition> {
        let some = |classes: &'static [ClassBound]| (0..classes.len() as u8).map(Some);
        Operation::ALL.into_iter().flat_map(move |operation| {
            some(SIZES).flat_map(move |size| {
                some(DISTANCES).flat_map(move |distance| {
                    some(QUEUES).map(move |queue| Condition { operation: Some(operation), size, distance, queue })
                })
            })
        })
    }

    /// The number of a finest condition in [`Condition::finest`].
    pub fn index(&self) -> usize {
        let class = |class: Option<u8>| usize::from(class.unwrap_or(0));
        let operation = self.operation.map_or(0, |operation| operation as usize);
        ((operation * SIZES.len() + class(self.size)) * DISTANCES.len() + class(self.distance)) * QUEUES.len()
            + class(self.queue)
    }

    /// The conditions that a finest one is observed under: itself, without the distance, without the size too, without
    /// the queue length too, and any.
    pub fn coarser(self) -> [Condition; 5] {
        let without_distance = Condition { distance: None, ..self };
        let without_size = Condition { size: None, ..without_distance };
        let without_queue = Condition { queue: None, ..without_size };
        [self, without_distance, without_size, without_queue, Condition::default()]
    }

    /// The conditions that stand in for a finest condition, the best first. The distance is left out first, then the
    /// size. Then comes the nearest other queue length (of two, the shorter), then any queue length, then any
    /// operation. The queue length is kept longest, since the time at a drive grows with it more than with anything
    /// else.
    pub fn fallbacks(self) -> impl Iterator<Item = Condition> {
        let [finest, without_distance, without_size, without_queue, any] = self.coarser();
        let (queue, queues) = (i16::from(self.queue.unwrap_or(0)), QUEUES.len() as i16);
        let neighbours = (1..queues).flat_map(move |step| [queue - step, queue + step]);
        let other = neighbours
            .filter(move |other| (0..queues).contains(other))
            .map(move |other| Condition { queue: Some(other as u8), ..without_size });
        [finest, without_distance, without_size].into_iter().chain(other).chain([without_queue, any])
    }

    /// Whether it is one of the [`Condition::coarser`] of something.
    pub fn is_known(&self) -> bool {
        let Condition { operation, size, distance, queue } = self;
        let given = [operation.is_some(), queue.is_some(), size.is_some(), distance.is_some()];
        given.windows(2).all(|pair| pair[0] || !pair[1])
    }
}
