//! Brings two traces of one run onto one clock: the same requests as a guest issued them and as they went over the
//! wire.
//!
//! Requests are matched by address, length and operation, in order; either side may have further ones ([`in_order`]).
//! Requests whose key occurs once on both sides give the clock's offset and drift. These are medians, so that a few
//! wrong matches and late requests do not matter ([`fit`]). Issues alone do not give the time between the two places:
//! it is part of the offset. If both sides have completions, their offset is given, too; the true one lies between the
//! two.
//!
//! Traces of different runs have requests in common, too: file systems begin at the same addresses, and a repeated run
//! has many of the same requests. Matching in order and medians give even such traces a clock. So the clock is checked
//! against conditions that hold on the right one ([`Evidence`]).

mod fit;
mod matching;

pub use fit::{ClockMap, fit};
pub use matching::in_order;

use crate::record::Record;
use crate::request::Operation;
use crate::results::alignment::AlignmentFigures;
use crate::units::{Nanos, Timestamp};

/// The least number of matches that is evidence of one run.
pub const MATCHES_MIN: usize = 8;

/// The least share of matched requests of one run, in per cent. A place may reorder requests, and only those in rising
/// order in both are matched. Of a queue of n in random order these are some 2 √n, which are 12 % at 256 (Logan and
/// Shepp 1977). Different VMs of one lab have up to 5 % in common.
const SHARE_MIN: usize = 10;

/// How far apart the times of a request may be at two places and still count as together. It allows for a tick of the
/// coarsest clocks of traces, and for delays on the way that no completions cancel.
const SLACK_NS: i128 = 10_000_000;

/// The fields by which requests are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    lba: u64,
    sectors: u32,
    operation: Operation,
}

/// One request that moves data, for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The fields by which it is matched.
    pub key: Key,
    /// When it was issued; its arrival if that is not known.
    pub issued: Timestamp,
    /// When it completed.
    pub completed: Option<Timestamp>,
}

impl Sample {
    /// The sample of a record; `None` if it moves no data, such as a flush.
    pub fn of(record: &Record) -> Option<Sample> {
        let request = &record.request;
        let sectors = u32::try_from(request.sectors().count()).ok()?;
        let key = Key { lba: request.lba.sector(), sectors, operation: request.operation };
        let issued = record.observed.issued.unwrap_or(request.arrival);
        (request.operation.moves_data() && sectors > 0).then_some(Sample {
            key,
            issued,
            completed: record.observed.completed,
        })
    }
}

/// Why two traces cannot be brought onto one clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// They have almost no request in common.
    #[error(
        "only {matched} of {reference} and {input} requests are the same in both, at least {MATCHES_MIN} are needed: \
         are they of one run, one device, and both after merging?"
    )]
    NothingInCommon {
        /// Requests of the reference.
        reference: usize,
        /// Requests of the input.
        input: usize,
        /// Matches.
        matched: usize,
    },
    /// Their common requests are not of one run.
    #[error(
        "they are not of one run: of {} requests in the time of both, {} are the same in both ({:.1} %, of one run at \
         least {SHARE_MIN} %), and of these {} ({:.1} %, of one run more than half) were in both places at one time; \
         their times differ by {:.1} ms at p50 and {:.1} ms at p95. Give two records of one device that were kept at \
         the same time, both after merging, each with addresses of the same space",
        .0.requests, .0.matched, .0.share(), .0.together, .0.share_together(), ms(.0.residual_p50), ms(.0.residual_p95)
    )]
    OtherRun(Evidence),
}

/// Evidence for two traces being of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Requests in the time that both traces cover, of the trace that has fewer: requests outside it, or other traffic
    /// on one side, are no evidence against one run.
    pub requests: usize,
    /// Requests that are in both.
    pub matched: usize,
    /// Of these, those that were in both places at one time, as every request is if the clock is right.
    pub together: usize,
    /// The difference of issue times on one clock: median.
    pub residual_p50: Nanos,
    /// The same, 95th percentile.
    pub residual_p95: Nanos,
}

impl Evidence {
    fn of(
        reference: &[Sample],
        input: &[Sample],
        pairs: &[(usize, usize)],
        map: &ClockMap,
        residuals: &[u64],
    ) -> Evidence {
        let own = |sample: &Sample| span(sample, &ClockMap::default());
        let mapped = |sample: &Sample| span(sample, map);
        let is_together = |&&(a, b): &&(usize, usize)| {
            let ((from, from_end), (to, to_end)) = (mapped(&input[b]), own(&reference[a]));
            from <= to_end + SLACK_NS && to <= from_end + SLACK_NS
        };
        let ours: Vec<i128> = reference.iter().map(|sample| own(sample).0).collect();
        let theirs: Vec<i128> = input.iter().map(|sample| mapped(sample).0).collect();
        let begin = ours.iter().min().max(theirs.iter().min());
        let end = ours.iter().max().min(theirs.iter().max());
        let within = |times: &[i128]| times.iter().filter(|&time| begin <= Some(time) && Some(time) <= end).count();
        Evidence {
            // If fewer requests lie in the common time than were matched, the clock is wrong. The other figures show
            // that.
            requests: within(&ours).min(within(&theirs)).max(pairs.len()),
            matched: pairs.len(),
            together: pairs.iter().filter(is_together).count(),
            residual_p50: Nanos::from_ns(percentile(residuals, 50)),
            residual_p95: Nanos::from_ns(percentile(residuals, 95)),
        }
    }

    /// Whether enough requests are in both, and most of these at one time: a median that suits fewer than half of them
    /// is not the clock of any run.
    fn is_one_run(&self) -> bool {
        self.matched * 100 >= self.requests * SHARE_MIN && self.together * 2 > self.matched
    }

    fn share(&self) -> f64 {
        self.matched as f64 * 100.0 / self.requests as f64
    }

    fn share_together(&self) -> f64 {
        self.together as f64 * 100.0 / self.matched as f64
    }
}

fn ms(span: Nanos) -> f64 {
    span.as_ns() as f64 / 1e6
}

/// The issue and completion of a request on another clock; without a completion, the issue twice.
fn span(sample: &Sample, map: &ClockMap) -> (i128, i128) {
    (map.exact(sample.issued.as_ns()), map.exact(sample.completed.unwrap_or(sample.issued).as_ns()))
}

/// A percentile of ascending values; zero if there are none.
fn percentile(ascending: &[u64], share: usize) -> u64 {
    ascending.get(ascending.len().saturating_sub(1) * share / 100).copied().unwrap_or_default()
}

/// Brings `input`'s clock onto `reference`'s.
///
/// # Errors
/// Too few requests are the same in both, or they are of another run.
pub fn align(reference: &[Sample], input: &[Sample]) -> Result<(ClockMap, AlignmentFigures), AlignError> {
    let keys = |samples: &[Sample]| samples.iter().map(|sample| sample.key).collect::<Vec<Key>>();
    let (left, right) = (keys(reference), keys(input));
    let pairs = in_order(&left, &right);
    if pairs.len() < MATCHES_MIN {
        let (reference, input, matched) = (reference.len(), input.len(), pairs.len());
        return Err(AlignError::NothingInCommon { reference, input, matched });
    }
    let (once_left, once_right) = (matching::once(&left), matching::once(&right));
    let unique: Vec<(usize, usize)> = pairs.iter().copied().filter(|&(a, b)| once_left[a] && once_right[b]).collect();
    // If too few keys are unique, all matches are used.
    let certain = if unique.len() < MATCHES_MIN { &pairs } else { &unique };
    let map = fit(&points(reference, input, certain));
    let off = |time: fn(&Sample) -> Option<Timestamp>| {
        let differences = certain.iter().filter_map(|&(a, b)| {
            let (to, from) = (time(&reference[a])?.as_ns(), time(&input[b])?.as_ns());
            i64::try_from(i128::from(to) - map.exact(from)).ok()
        });
        fit::median(&mut differences.collect::<Vec<i64>>()).map(|more| map.offset_ns + more)
    };
    let nested = pairs.iter().filter(|&&(a, b)| is_nested(&reference[a], &input[b], &map)).count();
    let residuals = map.residuals(pairs.iter().map(|&(a, b)| (input[b].issued.as_ns(), reference[a].issued.as_ns())));
    let evidence = Evidence::of(reference, input, &pairs, &map, &residuals);
    if !evidence.is_one_run() {
        return Err(AlignError::OtherRun(evidence));
    }
    let figures = AlignmentFigures {
        schema_version: crate::results::SCHEMA_VERSION,
        reference_requests: reference.len() as u64,
        input_requests: input.len() as u64,
        matched: pairs.len() as u64,
        matched_uniquely: unique.len() as u64,
        unmatched_reference: (reference.len() - pairs.len()) as u64,
        unmatched_input: (input.len() - pairs.len()) as u64,
        longest_run: matching::longest_run(&pairs) as u64,
        offset_ns: map.offset_ns,
        offset_at_input_ns: map.origin_ns,
        drift_ppb: map.drift_ppt as f64 / 1000.0,
        residual_p50_ns: percentile(&residuals, 50),
        residual_p95_ns: percentile(&residuals, 95),
        residual_max_ns: percentile(&residuals, 100),
        issue_offset_ns: off(|sample| Some(sample.issued)).unwrap_or(map.offset_ns),
        completion_offset_ns: off(|sample| sample.completed),
        nested: nested as u64,
    };
    Ok((map, figures))
}

/// The number of matches of which only the quickest one counts.
const GROUP: usize = 16;

/// Pairs of times that are compared: the input's and the reference's. If both sides have completions, these are the
/// middles of a request's time on either side. Of each [`GROUP`] of requests only the one that was quickest between the
/// two places counts, as NTP filters its samples (RFC 5905, section 10). Waiting on the way is never negative and often
/// long.
fn points(reference: &[Sample], input: &[Sample], pairs: &[(usize, usize)]) -> Vec<(u64, u64)> {
    let timed = |&(a, b): &(usize, usize)| {
        let (to, from) = (&reference[a], &input[b]);
        let (to_span, from_span) =
            (to.completed?.checked_since(to.issued)?, from.completed?.checked_since(from.issued)?);
        let transit = to_span.as_ns().abs_diff(from_span.as_ns());
        let point = (from.issued.as_ns() + from_span.as_ns() / 2, to.issued.as_ns() + to_span.as_ns() / 2);
        Some((transit, point))
    };
    let both: Vec<(u64, (u64, u64))> = pairs.iter().filter_map(timed).collect();
    if both.len() < MATCHES_MIN {
        return pairs.iter().map(|&(a, b)| (input[b].issued.as_ns(), reference[a].issued.as_ns())).collect();
    }
    let group = if both.len() < GROUP * MATCHES_MIN { 1 } else { GROUP };
    both.chunks(group).filter_map(|group| group.iter().min()).map(|&(_, point)| point).collect()
}

/// Whether, on one clock, a request's time at one place lies within its time at the other, as it must.
fn is_nested(reference: &Sample, input: &Sample, map: &ClockMap) -> bool {
    if reference.completed.is_none() || input.completed.is_none() {
        return false;
    }
    let ((to, to_end), (from, from_end)) = (span(reference, &ClockMap::default()), span(input, map));
    from <= to && to_end <= from_end || to <= from && from_end <= to_end
}
