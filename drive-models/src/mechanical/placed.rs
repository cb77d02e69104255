//! What is remembered of requests that somebody has asked about. A scheduler asks about the same waiting ones again at
//! every choice, and where they lie does not change.

use traces::Nanos;

use super::arm::Arm;
use super::layout::PhysicalExtent;

/// Between host and medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// To the host.
    Read,
    /// To the medium.
    Write,
}

/// What depends neither on the time nor on where the arm is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedRequest {
    pub operation: Transfer,
    pub lbn: u64,
    pub sectors: u64,
    /// Where it lies.
    pub extent: PhysicalExtent,
    /// From the command's processing until enough has come over the bus for the medium; nothing for a read.
    pub first_in: Nanos,
    /// The same until all has come over the bus; nothing for a read.
    pub all_in: Nanos,
    /// How much later than the medium the bus is done with a read; nothing for a write.
    pub behind: Nanos,
}

/// Remembered requests, a power of two: so many times a full tagged queue that three of its commands seldom belong to
/// the same two places.
const PLACES: usize = 512;

/// The remembered requests. By its address each belongs to two neighbouring places, the second of which has the one
/// remembered before.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacedRequests {
    /// Empty until somebody asks.
    places: Vec<PlacedRequest>,
}

impl PlacedRequests {
    /// [`Arm::place`], remembered.
    #[inline]
    pub fn find(&mut self, arm: &Arm, operation: Transfer, lbn: u64, sectors: u64) -> &PlacedRequest {
        // The upper bits of a product with 2⁶⁴ / φ spread neighbouring addresses.
        let first = (lbn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % (PLACES / 2) * 2;
        let is_it = |place: &usize| {
            let known = |placed: &PlacedRequest| {
                placed.lbn == lbn && placed.sectors == sectors && placed.operation == operation
            };
            self.places.get(*place).is_some_and(known)
        };
        let place = [first, first + 1].into_iter().find(is_it).unwrap_or_else(|| {
            self.remember(first, arm.place(operation, lbn, sectors));
            first
        });
        &self.places[place]
    }

    #[cold]
    fn remember(&mut self, first: usize, placed: PlacedRequest) {
        if self.places.is_empty() {
            self.places = vec![placed; PLACES];
        }
        self.places[first + 1] = std::mem::replace(&mut self.places[first], placed);
    }
}
