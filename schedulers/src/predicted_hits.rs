//! The waiting reads that the shadow cache predicts to be hits, kept up to date and not found anew. On every entry to
//! the scheduler the answer is the same as if all waiting reads were compared with all segments. Only changes are
//! compared. A new read is compared with all segments, and a newly written segment with the waiting reads that start
//! inside it. The reads of the overwritten segment are compared with the others.

use traces::{Lba, RequestId};

use crate::lba_queue::{Classes, LbaQueue};
use crate::order::Order;
use crate::shadow_cache::{ShadowCache, Span};
use crate::slots::Slots;

#[derive(Clone, Copy, Debug, Default)]
struct Read {
    span: Span,
    /// A segment that holds it.
    segment: Option<u32>,
}

/// The waiting reads and the shadow cache.
#[derive(Debug)]
pub(crate) struct PredictedHits {
    cache: ShadowCache,
    reads: Slots<Read>,
    /// The hits, the oldest read first.
    hits: Order,
    overwritten: Vec<RequestId>,
}

impl PredictedHits {
    pub(crate) fn new(cache: ShadowCache) -> PredictedHits {
        PredictedHits { cache, reads: Slots::default(), hits: Order::default(), overwritten: Vec::new() }
    }

    /// The oldest waiting read that is a predicted hit.
    pub(crate) fn oldest(&self) -> Option<RequestId> {
        self.hits.first().map(|entry| entry.id())
    }

    /// A read begins to wait; ages grow with every one.
    pub(crate) fn arrived(&mut self, id: RequestId, span: Span, age: u64) {
        let segment = self.cache.segment_holding(span).map(|segment| segment as u32);
        self.reads.set(id, Read { span, segment });
        if segment.is_some() {
            self.hits.insert(id, age, 0);
        }
    }

    /// A read waits no longer.
    pub(crate) fn gone(&mut self, id: RequestId) {
        if self.reads[id].segment.is_some() {
            self.hits.remove(id);
        }
    }

    /// A request for `span` is sent, and `waiting` holds the requests that still wait.
    pub(crate) fn sent(&mut self, span: Span, waiting: &LbaQueue) {
        let (written, held) = self.cache.sent(span);
        let written = written as u32;
        let Self { cache, reads, hits, overwritten } = self;
        overwritten.clear();
        overwritten.extend(hits.ascending_from(0).map(|hit| hit.id()).filter(|&id| reads[id].segment == Some(written)));
        for id in overwritten.drain(..) {
            reads[id].segment = cache.segment_holding(reads[id].span).map(|segment| segment as u32);
            if reads[id].segment.is_none() {
                hits.remove(id);
            }
        }
        let inside =
            waiting.ascending_from(held.start, Classes::READS).take_while(|entry| Lba::new(entry.key) <= held.end);
        for entry in inside {
            let read = &mut reads[entry.id()];
            if read.segment.is_none() && held.holds(read.span) {
                read.segment = Some(written);
                hits.insert(entry.id(), entry.age, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use traces::{Operation, Request, Sectors, Timestamp};

    use super::*;

    fn span(request: &Request) -> Span {
        Span { start: request.lba, end: request.end() }
    }

    proptest! {
        /// Against comparing everything that waits with everything that is cached, every time.
        #[test]
        fn predicted_hits_equal_a_full_comparison_of_queue_and_cache(
            steps in prop::collection::vec((0_u8..4, 0_u64..300, 0_u64..60, 0_usize..50), 1..300),
        ) {
            let cache = || ShadowCache::new(4, Sectors::new(50), Sectors::new(20));
            let (mut hits, mut queue, mut naive_cache) = (PredictedHits::new(cache()), LbaQueue::default(), cache());
            // Waiting reads, oldest first.
            let mut waiting: Vec<(RequestId, Span)> = Vec::new();
            let mut free: Vec<RequestId> = (0..300).rev().map(RequestId).collect();
            for (kind, lba, sectors, pick) in steps {
                let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors));
                if kind < 2 || waiting.is_empty() {
                    let id = free.pop().unwrap();
                    queue.insert(id, &request);
                    hits.arrived(id, span(&request), queue.age(id));
                    waiting.push((id, span(&request)));
                } else {
                    let (id, span) = waiting.remove(pick % waiting.len());
                    hits.gone(id);
                    queue.remove(id);
                    free.push(id);
                    if kind == 2 {
                        hits.sent(span, &queue);
                        naive_cache.sent(span);
                    }
                }
                let predicted = waiting.iter().filter(|(_, span)| naive_cache.segment_holding(*span).is_some());
                let naive: Vec<RequestId> = predicted.map(|(id, _)| *id).collect();
                let kept: Vec<RequestId> = hits.hits.ascending_from(0).map(|entry| entry.id()).collect();
                prop_assert_eq!(kept, naive);
            }
        }
    }
}
