//! Random limits of a stage and the arrival times of random requests, for property tests.

use iocast_replay::Limits;
use proptest::prelude::*;
use traces::{Nanos, Request, Sectors, Timestamp};

/// Limits of a stage, small enough that each of them is met.
pub fn limits() -> impl Strategy<Value = Limits> {
    (1u32..6, 1u32..4, any::<bool>(), any::<bool>(), 1u64..30, 1u32..6).prop_map(
        |(depth, write_depth, look_ahead, merge, eights, max_segments)| Limits {
            depth,
            write_depth,
            look_ahead,
            merge,
            max_sectors: Sectors::new(eights * 8),
            max_segments,
            always_flushes: false,
        },
    )
}

/// The requests with their arrival times.
pub fn arriving(load: &[(u64, Request)]) -> Vec<Request> {
    let mut now = Timestamp::ZERO;
    let place = |&(gap, mut request): &(u64, Request)| {
        now += Nanos::from_ns(gap);
        request.arrival = now;
        request
    };
    load.iter().map(place).collect()
}
