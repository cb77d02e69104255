//! A histogram of whole numbers to three significant digits, in as many steps per number as a
//! capture of tens of millions of events per second allows.
//!
//! Numbers below 2,048 are exact. Above, each doubling is cut into 1,024 equal buckets, as in
//! Gil Tene's HdrHistogram, which the tests compare it with.

use std::collections::BTreeMap;

/// Bits of a number that are kept.
const KEPT_BITS: u32 = 11;
/// Buckets per doubling.
const PER_DOUBLING: usize = 1 << (KEPT_BITS - 1);

/// Counts whole numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// Grows with the largest number; at most 56 thousand buckets. Small, since a trace has a dozen
    /// histograms and a processor's cache is to hold them.
    counts: Vec<u32>,
    /// How often a bucket's count went back to zero, each time after 2^32.
    rounds: BTreeMap<usize, u64>,
}

/// What an encoded histogram begins with: the second version, in words of up to eight bytes.
const HDR_V2_COOKIE: u32 = 0x1c84_9303 | 0x10;
/// The significant digits of the buckets.
const HDR_DIGITS: u32 = 3;
/// Bytes before the counts.
const HDR_HEADER: usize = 40;

/// Appends a number in HdrHistogram's LEB128: seven bits a byte, of which the ninth has eight.
fn zigzag(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline(always)]
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - (value | ((1 << KEPT_BITS) - 1)).leading_zeros()) - KEPT_BITS;
    shift as usize * PER_DOUBLING + (value >> shift) as usize
}

/// The largest number that goes into a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket < 2 * PER_DOUBLING {
        return bucket as u64;
    }
    let shift = bucket / PER_DOUBLING - 1;
    let kept = (bucket - shift * PER_DOUBLING) as u64;
    (kept << shift) + ((1 << shift) - 1)
}

impl Histogram {
    /// Counts one.
    #[inline(always)]
    pub(super) fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        let Some(count) = self.counts.get_mut(bucket) else { return self.add_many(bucket, 1) };
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.count_round(bucket, 1);
        }
    }

    #[cold]
    fn count_round(&mut self, bucket: usize, rounds: u64) {
        *self.rounds.entry(bucket).or_default() += rounds;
    }

    #[cold]
    fn add_many(&mut self, bucket: usize, often: u64) {
        if bucket >= self.counts.len() {
            self.counts.resize((bucket + 1).next_multiple_of(PER_DOUBLING), 0);
        }
        let sum = u64::from(self.counts[bucket]) + often;
        self.counts[bucket] = sum as u32;
        let rounds = sum >> u32::BITS;
        if rounds > 0 {
            self.count_round(bucket, rounds);
        }
    }

    /// How often each bucket was hit.
    fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        let mut rounds = self.rounds.iter().peekable();
        self.counts.iter().enumerate().map(move |(bucket, count)| {
            let rounds = rounds.next_if(|(at, _)| **at == bucket).map_or(0, |(_, rounds)| rounds << u32::BITS);
            rounds + u64::from(*count)
        })
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        for (bucket, often) in other.counts().enumerate().filter(|(_, often)| *often > 0) {
            self.add_many(bucket, often);
        }
    }

    /// The histogram in the second version of HdrHistogram's encoding, not compressed: a header of 40 bytes, then the
    /// count of each bucket as a zigzag number in LEB128, a run of empty buckets as its negative length. Gil Tene's
    /// libraries in Java, C, Python and Rust read it and merge it with others of three significant digits
    /// (`EncodableHistogram` and `ZigZagEncoding` of HdrHistogram 2.1).
    pub(super) fn hdr_v2(&self) -> Vec<u8> {
        let used = self.counts().collect::<Vec<u64>>();
        let used = &used[..used.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1)];
        let mut counts = Vec::new();
        let mut at = 0;
        while let Some(&count) = used.get(at) {
            let empty = used[at..].iter().take_while(|count| **count == 0).count();
            zigzag(if empty > 0 { -(empty as i64) } else { i64::try_from(count).unwrap_or(i64::MAX) }, &mut counts);
            at += empty.max(1);
        }
        // The libraries keep numbers of 63 bits, and want a range of at least two.
        let highest = largest(used.len().saturating_sub(1)).clamp(2, i64::MAX as u64);
        let mut bytes = Vec::with_capacity(HDR_HEADER + counts.len());
        bytes.extend(HDR_V2_COOKIE.to_be_bytes());
        bytes.extend((counts.len() as u32).to_be_bytes());
        bytes.extend(0u32.to_be_bytes()); // No offset of the buckets.
        bytes.extend(HDR_DIGITS.to_be_bytes());
        bytes.extend(1u64.to_be_bytes()); // The least number that is told from zero.
        bytes.extend(highest.to_be_bytes());
        bytes.extend(1f64.to_be_bytes()); // What a whole number stands for.
        bytes.extend(counts);
        bytes
    }

    /// For ranks from 1 that do not decrease: the largest number that counts as the one of that rank; 0 if there are
    /// fewer. One pass over the buckets serves all ranks.
    pub(super) fn of_ranks(&self, ranks: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        let mut buckets = self.counts().enumerate();
        let (mut seen, mut at) = (0, 0);
        ranks.map(move |rank| {
            while seen < rank {
                let Some((bucket, count)) = buckets.next() else { return 0 };
                (seen, at) = (seen + count, bucket);
            }
            largest(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_in_order_and_as_wide_as_a_thousandth() {
        let mut before = None;
        for at in 0..bucket(u64::MAX) {
            let value = largest(at);
            assert_eq!(bucket(value), at);
            assert_eq!(bucket(value + 1), at + 1);
            if let Some(before) = before {
                let width: u64 = value - before;
                assert!(width == 1 || width as f64 <= value as f64 / 1_000.0, "{at}: {width} at {value}");
            }
            before = Some(value);
        }
        assert_eq!(largest(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn buckets_count_beyond_32_bits() {
        let mut much = Histogram::default();
        much.add(7);
        much.add_many(7, (1 << 33) + u64::from(u32::MAX) - 1);
        assert_eq!(much.counts[7], u32::MAX);
        much.add(7);
        much.add(9);
        let mut all = Histogram::default();
        all.add(5);
        all.merge(&much);
        all.merge(&much);
        let counts: Vec<(usize, u64)> = all.counts().enumerate().filter(|(_, often)| *often > 0).collect();
        assert_eq!(counts, [(5, 1), (7, 2 * (3 << 32)), (9, 2)]);
        let ranks = [1, 2, 2 * (3 << 32) + 1, 2 * (3 << 32) + 1, 2 * (3 << 32) + 2, 2 * (3 << 32) + 4];
        assert_eq!(all.of_ranks(ranks.into_iter()).collect::<Vec<u64>>(), [5, 7, 7, 7, 9, 0]);
    }

    /// The published implementation reads it.
    fn decoded(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
        let mut reader = hdrhistogram::serialization::Deserializer::new();
        reader.deserialize(&mut &histogram.hdr_v2()[..]).unwrap()
    }

    #[test]
    fn encoded_histograms_hold_any_count_and_any_number_of_63_bits() {
        let mut histogram = Histogram::default();
        assert_eq!(decoded(&histogram).len(), 0);
        for (value, often) in [(0, 1), (2_047, 63), (2_048, 64), (1 << 40, 1 << 33), (i64::MAX as u64, 7)] {
            histogram.add_many(bucket(value), often);
            assert_eq!(decoded(&histogram).count_at(value), often, "{value}");
        }
        let mut bytes = Vec::new();
        for number in [0, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            zigzag(number, &mut bytes);
        }
        // As ZigZagEncoding of the library in Java writes them.
        let most = [[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0xff; 9]].concat();
        assert_eq!(bytes, [&[0, 1, 0x7e, 0x7f, 0x80, 1][..], &most].concat());
    }

    proptest! {
        /// The same answers as the published implementation with three digits.
        #[test]
        fn it_answers_as_hdrhistogram_does(
            values in proptest::collection::vec(
                (0u32..40, any::<u64>()).prop_map(|(bits, seed)| seed >> (63 - bits)),
                1..300,
            ),
            split in any::<prop::sample::Index>(),
        ) {
            let mut theirs = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            let (mut ours, mut rest) = (Histogram::default(), Histogram::default());
            let split = split.index(values.len());
            for (at, value) in values.iter().enumerate() {
                theirs.record(*value).unwrap();
                if at < split { &mut ours } else { &mut rest }.add(*value);
            }
            let fits = values.iter().all(|value| *value <= i64::MAX as u64);
            if fits {
                let mut joined = decoded(&ours);
                joined.auto(true);
                joined.add(decoded(&rest)).unwrap();
                prop_assert_eq!(&joined, &theirs);
            }
            ours.merge(&rest);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let found: Vec<u64> = ours.of_ranks(1..=values.len() as u64).collect();
            let expected: Vec<u64> = sorted.iter().map(|value| theirs.highest_equivalent(*value)).collect();
            prop_assert_eq!(found, expected);
            // Its own ranks come from floating point, so only halves are asked of it.
            let half = ours.of_ranks([values.len().div_ceil(2) as u64].into_iter()).next();
            prop_assert_eq!(half, Some(theirs.value_at_quantile(0.5)));
        }
    }
}
