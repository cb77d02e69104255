//! Flushes that end with a write.

use traces::Operation;

use super::batches::TOGETHER;
use crate::isolated_trace::TracedRequest;

/// With which write under way each flush of `requests` ends, if with any; by request.
pub(crate) fn ends(requests: &[TracedRequest]) -> Vec<Option<u32>> {
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
        (request.operation == Operation::Flush && apart(&nearest) <= TOGETHER).then_some(nearest)
    };
    requests.iter().enumerate().map(of).collect()
}
