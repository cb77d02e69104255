//! Batches: requests that a process sends in one go.
//!
//! A request continues the batch of the request before it if it depends on that request's arrival and follows it within
//! [`BATCH_GAP_MAX`]. A dependency on one request of a batch becomes one on the whole batch if all of it had completed
//! before the dependent request arrived.

use traces::{Nanos, Timestamp};

use super::{After, Dependency};
use crate::isolated_trace::TracedRequest;

/// Longest time between two arrivals of one batch. Set by judgement; not varied.
pub(super) const BATCH_GAP_MAX: Nanos = Nanos::from_ms(1);

/// By request: the first request of its batch, which is the request itself if it was sent alone.
pub(crate) fn batches(requests: &[TracedRequest], dependencies: &[Dependency]) -> Vec<u32> {
    let mut batches: Vec<u32> = Vec::with_capacity(dependencies.len());
    for (index, dependency) in dependencies.iter().enumerate() {
        let first = match dependency.after {
            After::Arrival(leader)
                if dependency.think_time <= BATCH_GAP_MAX
                    && requests[leader as usize].stream == requests[index].stream =>
            {
                batches[leader as usize]
            }
            _ => index as u32,
        };
        batches.push(first);
    }
    batches
}

/// Replaces dependencies on one completion of a batch by dependencies on the whole batch, where all of it had completed
/// before the dependent request arrived.
pub(super) fn wait_for_all(requests: &[TracedRequest], dependencies: &mut [Dependency]) {
    let batches = batches(requests, dependencies);
    let mut last_completion = vec![Timestamp::ZERO; requests.len()];
    let mut several = vec![false; requests.len()];
    for (index, (&first, request)) in batches.iter().zip(requests).enumerate() {
        let last = &mut last_completion[first as usize];
        *last = (*last).max(request.completed);
        several[first as usize] |= first as usize != index;
    }
    for (request, dependency) in requests.iter().zip(dependencies) {
        let After::Completion(leader) = dependency.after else { continue };
        let first = batches[leader as usize];
        if several[first as usize] && last_completion[first as usize] <= request.arrival {
            let think_time = request.arrival.since(last_completion[first as usize]);
            *dependency = Dependency { after: After::Batch(first), think_time };
        }
    }
}
