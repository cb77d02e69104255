//! Flushes that complete together with a write.
//!
//! A flush completes when the device has made all completed writes durable. Linux shares flushes (`block/blk-flush.c`):
//! a flush may wait for an outstanding write that has a flush of its own, and both then complete together.

use traces::{Nanos, Operation};

use crate::isolated_trace::TracedRequest;

/// Longest time between the completions of a flush and of the write that it ends with. Set by judgement; not varied.
const FLUSH_WRITE_GAP_MAX: Nanos = Nanos::from_ms(1);

/// By request: the outstanding durable write that it completes with, if it is such a flush.
pub(crate) fn flush_ends(requests: &[TracedRequest]) -> Vec<Option<u32>> {
    let mut durable: Vec<u32> = Vec::new();
    let of = |(index, request): (usize, &TracedRequest)| {
        durable.retain(|&write| requests[write as usize].completed > request.arrival);
        if request.durable {
            durable.push(index as u32);
        }
        let apart = |write: &u32| {
            let [a, b] = [requests[*write as usize].completed, request.completed];
            a.max(b).since(a.min(b))
        };
        let nearest = durable.iter().copied().min_by_key(apart)?;
        (request.operation == Operation::Flush && apart(&nearest) <= FLUSH_WRITE_GAP_MAX).then_some(nearest)
    };
    requests.iter().enumerate().map(of).collect()
}
