//! Damages inputs, the same way for the same seed.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes that mean something to a parser.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff0123456789-+.,;: \t\r\nRWDFNabxe/\"#";

/// Numbers at the edges of the ranges of fields.
const NUMBERS: [u64; 20] = [
    0,
    1,
    7,
    8,
    47,
    48,
    511,
    512,
    513,
    4_095,
    4_096,
    65_535,
    65_536,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 62,
    (1 << 63) - 1,
    u64::MAX,
];

/// Texts in the place of a number.
const TEXTS: [&str; 14] = [
    "",
    "-1",
    "+1",
    "1e9",
    "1e308",
    "NaN",
    "inf",
    "0x10",
    "0.0000000001",
    "999999999999999999999999",
    "18446744073709551615",
    "18446744073.709551616",
    "9223372036854775808",
    ".",
];

/// What may follow a number; mostly nothing.
const UNITS: [&str; 12] = ["", "", "", "", ".5", "ns", "ms", "s", "k", "g", "%", "e9"];

/// Longest input that is made: growth by duplication ends here.
const LENGTH_MAX: usize = 1 << 17;

/// A seeded source of damaged inputs.
pub(crate) struct Mutator {
    generator: Xoshiro256PlusPlus,
}

impl Mutator {
    pub(crate) fn new(seed: u64) -> Mutator {
        Mutator { generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// A number below `end`; 0 if `end` is.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.generator.random_range(0..end) }
    }

    /// One of `seeds`, damaged in one to eight places.
    pub(crate) fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let seed = self.below(seeds.len());
        let mut input = seeds[seed].clone();
        for _ in 0..=self.below(8) {
            self.damage(&mut input, seeds);
        }
        input.truncate(LENGTH_MAX);
        input
    }

    /// One of the texts `seeds` with one to three words, numbers or lines replaced, so that more than the syntax is tried;
    /// one in four as [`Mutator::input`].
    pub(crate) fn text(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if self.below(4) == 0 {
            return self.input(seeds);
        }
        let seed = self.below(seeds.len());
        let mut input = seeds[seed].clone();
        for _ in 0..=self.below(3).min(self.below(3)) {
            let (at, other) = (self.below(input.len()), self.below(seeds.len()));
            let other = &seeds[other];
            let (word, line) = (word_at(&input, at), line_at(&input, at));
            let from = self.below(other.len());
            match self.below(8) {
                0 => drop(input.drain(line)),
                1 => drop(input.splice(line.end..line.end, other[line_at(other, from)].iter().copied())),
                2..=4 => drop(input.splice(word, other[word_at(other, from)].iter().copied())),
                _ => {
                    let number = format!("{}{}", self.number(), UNITS[self.below(UNITS.len())]);
                    let short = format!("{}{}", self.below(70), UNITS[self.below(UNITS.len())]);
                    input.splice(word, [number, short][self.below(2)].bytes());
                }
            }
        }
        input.truncate(LENGTH_MAX);
        input
    }

    /// A number at the edge of the range of a field.
    pub(crate) fn number(&mut self) -> u64 {
        NUMBERS[self.below(NUMBERS.len())]
    }

    /// Damages `input` in one place, at times with a part of one of `seeds`.
    pub(crate) fn damage(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        if input.is_empty() {
            input.push(BYTES[self.below(BYTES.len())]);
            return;
        }
        let at = self.below(input.len());
        let length = (1 << self.below(10)).min(input.len() - at);
        match self.below(12) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = BYTES[self.below(BYTES.len())],
            2 => input.insert(at, BYTES[self.below(BYTES.len())]),
            3 => drop(input.drain(at..at + length)),
            4 => {
                let part = input[at..at + length].to_vec();
                let to = self.below(input.len());
                input.splice(to..to, part);
            }
            5 => input.truncate(at),
            6 => self.binary_number(input, at),
            7 | 8 => self.text_number(input, at),
            9 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len());
                let part = &other[from..(from + length).min(other.len())];
                input.splice(at..at + length, part.iter().copied());
            }
            10 => self.swap_lines(input, at),
            _ => {
                let byte = self.generator.random::<u8>();
                input[at..at + length].fill(byte);
            }
        }
    }

    fn binary_number(&mut self, input: &mut [u8], at: usize) {
        let mut number = self.number().to_le_bytes();
        if self.below(4) == 0 {
            number.reverse();
        }
        let width = [1, 2, 4, 8][self.below(4)];
        // Fields of binary formats are aligned.
        let at = at - at % width;
        for (byte, new) in input[at..].iter_mut().zip(&number[..width]) {
            *byte = *new;
        }
    }

    fn text_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let Some(start) = input[at..].iter().position(is_digit).map(|after| at + after) else { return };
        let length = input[start..].iter().take_while(|byte| is_digit(byte)).count();
        let new =
            if self.below(2) == 0 { TEXTS[self.below(TEXTS.len())].to_owned() } else { self.number().to_string() };
        input.splice(start..start + length, new.into_bytes());
    }

    fn swap_lines(&mut self, input: &mut Vec<u8>, at: usize) {
        let mut lines: Vec<Vec<u8>> = input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (one, other) = (at % lines.len(), self.below(lines.len()));
        lines.swap(one, other);
        *input = lines.concat();
    }
}

/// The word or number at a place or behind it; it may be empty.
fn word_at(input: &[u8], at: usize) -> Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let begin = at + input[at..].iter().position(is_part).unwrap_or_default();
    let begin = begin - input[..begin].iter().rev().take_while(|byte| is_part(byte)).count();
    begin..begin + input[begin..].iter().take_while(|byte| is_part(byte)).count()
}

/// The line at a place, with its end.
fn line_at(input: &[u8], at: usize) -> Range<usize> {
    let begin = input[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    begin..input[at..].iter().position(|&byte| byte == b'\n').map_or(input.len(), |end| at + end + 1)
}
