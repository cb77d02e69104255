//! Requests that a process sends in one go.

use traces::{Nanos, Timestamp};

use super::{After, Dependency};
use crate::isolated_trace::TracedRequest;

/// A flush and a write that end so close to one another end together.
pub(super) const TOGETHER: Nanos = Nanos::from_ms(1);

/// With which request each one was sent in one go, the first of them; itself if with none.
pub(crate) fn batches(requests: &[TracedRequest], dependencies: &[Dependency]) -> Vec<u32> {
    let mut batches: Vec<u32> = Vec::with_capacity(dependencies.len());
    for (index, dependency) in dependencies.iter().enumerate() {
        let first = match dependency.after {
            After::Arrival(leader)
                if dependency.think_time <= TOGETHER && requests[leader as usize].stream == requests[index].stream =>
            {
                batches[leader as usize]
            }
            _ => index as u32,
        };
        batches.push(first);
    }
    batches
}

/// Who sends several in one go and goes on after one of them when all are done has waited for all.
pub(super) fn wait_for_all(requests: &[TracedRequest], dependencies: &mut [Dependency]) {
    let batches = batches(requests, dependencies);
    let mut last = vec![Timestamp::ZERO; requests.len()];
    let mut several = vec![false; requests.len()];
    for (index, (&first, request)) in batches.iter().zip(requests).enumerate() {
        let last = &mut last[first as usize];
        *last = (*last).max(request.completed);
        several[first as usize] |= first as usize != index;
    }
    for (request, dependency) in requests.iter().zip(dependencies) {
        let After::Completion(leader) = dependency.after else { continue };
        let first = batches[leader as usize];
        if several[first as usize] && last[first as usize] <= request.arrival {
            let think_time = request.arrival.since(last[first as usize]);
            *dependency = Dependency { after: After::Batch(first), think_time };
        }
    }
}
