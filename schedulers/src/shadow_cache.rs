//! The presumed contents of the drive's own cache: the shadow cache of Geist et al. 2010, section 3. It is a number of
//! segments, each one span of sectors, fully associative and replaced first in, first out. Its only parameters are the
//! number of segments, the sectors in each, and the prefetch. Leaves out further behaviour of drives: joining adjoining
//! spans, dropping overwritten sectors, not caching writes.
//!
//! A request that is sent puts its sectors and the prefetch behind them into the current segment, and the next segment
//! becomes current. So does a predicted hit, as the paper makes no exception. A span longer than a segment wraps around
//! and overwrites its own beginning. Its last `segment_sectors` remain: the prefetch and the sectors just before it.

use traces::{Lba, Sectors};

/// Sectors from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first sector.
    pub start: Lba,
    /// The sector behind the last.
    pub end: Lba,
}

impl Span {
    /// Whether all of `other` lies in this one.
    pub fn holds(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// The shadow cache.
#[derive(Debug)]
pub struct ShadowCache {
    segments: Vec<Span>,
    current: usize,
    segment_sectors: Sectors,
    prefetch_sectors: Sectors,
}

/// A segment nothing has been put into: it holds no span, not even an empty one.
const UNUSED: Span = Span { start: Lba::new(u64::MAX), end: Lba::ZERO };

impl ShadowCache {
    /// An empty cache.
    pub fn new(segments: usize, segment_sectors: Sectors, prefetch_sectors: Sectors) -> ShadowCache {
        ShadowCache { segments: vec![UNUSED; segments], current: 0, segment_sectors, prefetch_sectors }
    }

    /// A request for `requested` is sent. Returns the segment that it overwrites and the segment's new span.
    pub fn sent(&mut self, requested: Span) -> (usize, Span) {
        let end = requested.end.saturating_add(self.prefetch_sectors);
        let remains = end.sector().saturating_sub(self.segment_sectors.count());
        let span = Span { start: requested.start.max(Lba::new(remains)), end };
        let written = self.current;
        self.segments[written] = span;
        self.current = (written + 1) % self.segments.len();
        (written, span)
    }

    /// A segment, the first of several, that holds all of `requested`.
    pub fn segment_holding(&self, requested: Span) -> Option<usize> {
        self.segments.iter().position(|segment| segment.holds(requested))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64) -> Span {
        Span { start: Lba::new(start), end: Lba::new(end) }
    }

    /// Segments of 221 sectors and a prefetch of 64, as on the Cheetah 15K.4.
    fn cache(segments: usize) -> ShadowCache {
        ShadowCache::new(segments, Sectors::new(221), Sectors::new(64))
    }

    #[test]
    fn a_request_is_a_hit_if_one_segment_holds_all_of_it() {
        for (requested, hit) in [
            (span(1000, 1008), true),
            (span(1008, 1072), true),
            (span(1008, 1073), false),
            (span(999, 1007), false),
            (span(2000, 2072), true),
            (span(1064, 1080), false),
        ] {
            let mut cache = cache(4);
            cache.sent(span(1000, 1008));
            cache.sent(span(2000, 2008));
            cache.sent(span(1073, 1081));
            assert_eq!(cache.segment_holding(requested).is_some(), hit, "{requested:?}");
        }
    }

    #[test]
    fn an_unused_segment_holds_nothing() {
        assert_eq!(cache(2).segment_holding(span(0, 0)), None);
    }

    #[test]
    fn a_long_span_overwrites_its_own_beginning() {
        // 157 sectors and the prefetch fill a segment exactly.
        let mut cache = cache(1);
        assert_eq!(cache.sent(span(1000, 1157)), (0, span(1000, 1221)));
        assert_eq!(cache.sent(span(1000, 1158)), (0, span(1001, 1222)));
        assert_eq!(cache.segment_holding(span(1000, 1001)), None);
        assert_eq!(cache.sent(span(0, 1000)), (0, span(843, 1064)));
    }

    #[test]
    fn segments_are_replaced_first_in_first_out() {
        let mut cache = cache(2);
        for start in [0, 1000, 2000] {
            cache.sent(span(start, start + 8));
        }
        assert_eq!(cache.segment_holding(span(0, 8)), None);
        assert_eq!(cache.segment_holding(span(1000, 1008)), Some(1));
        assert_eq!(cache.segment_holding(span(2000, 2008)), Some(0));
    }
}
