//! Damages a Parquet file by the fields of its footer or of a page's header, which are structs in Thrift's compact
//! protocol. All around the damage stays as it was, so that readers get beyond the first check.

use std::ops::Range;

use crate::harness::Mutator;

const MAGIC: &[u8; 4] = b"PAR1";

/// Something in a struct that can be replaced.
enum Spot {
    /// A number or the length of a list.
    Number(Range<usize>),
    /// A text: its length and its bytes.
    Text(Range<usize>, Range<usize>),
    /// A field or an element of a list.
    Part(Range<usize>),
}

/// Walks over a struct and notes what it has.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    spots: Vec<Spot>,
}

impl<'a> Walk<'a> {
    /// Over the struct at this place, as far as it goes.
    fn over(bytes: &'a [u8], at: usize) -> Walk<'a> {
        let mut walk = Walk { bytes, at, spots: Vec::new() };
        let _ = walk.structure();
        walk
    }

    fn byte(&mut self) -> Option<u8> {
        self.at += 1;
        self.bytes.get(self.at - 1).copied()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn structure(&mut self) -> Option<()> {
        loop {
            let begin = self.at;
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            if head >> 4 == 0 {
                self.varint()?;
            }
            // The value of a boolean field is its kind.
            if head & 15 > 2 {
                self.value(head & 15)?;
            }
            self.spots.push(Spot::Part(begin..self.at));
        }
    }

    fn value(&mut self, kind: u8) -> Option<()> {
        let begin = self.at;
        match kind {
            1..=3 => self.at += 1,
            4..=6 => {
                self.varint()?;
                self.spots.push(Spot::Number(begin..self.at));
            }
            7 => self.at += 8,
            8 => {
                let length = self.varint()? as usize;
                let content = self.at..self.at.checked_add(length).filter(|&end| end <= self.bytes.len())?;
                self.at = content.end;
                self.spots.push(Spot::Text(begin..content.start, content));
            }
            9 | 10 => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..length {
                    let begin = self.at;
                    self.value(head & 15)?;
                    self.spots.push(Spot::Part(begin..self.at));
                }
            }
            12 => self.structure()?,
            _ => return None,
        }
        Some(())
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Where the headers of pages begin: one behind the other from the magic on, each before its page.
fn headers(input: &[u8], end: usize) -> Vec<usize> {
    let (mut begins, mut at) = (Vec::new(), MAGIC.len());
    while at < end {
        let walk = Walk::over(&input[..end], at);
        let is_number = |spot: &&Spot| matches!(spot, Spot::Number(_));
        // The third number is the length of the page as it is stored.
        let Some(Spot::Number(stored)) = walk.spots.iter().filter(is_number).nth(2) else { break };
        let stored = Walk { bytes: input, at: stored.start, spots: Vec::new() }.varint().unwrap_or_default() / 2;
        begins.push(at);
        at = walk.at + stored as usize;
    }
    begins
}

/// Replaces something in the struct that begins at `at`.
fn edit(mutator: &mut Mutator, input: &mut Vec<u8>, at: usize) {
    let spots = Walk::over(input, at).spots;
    let Some(spot) = spots.get(mutator.below(spots.len())) else { return };
    match spot {
        Spot::Number(place) => drop(input.splice(place.clone(), varint(mutator.number()))),
        Spot::Text(length, content) => {
            let mut text = input[content.clone()].to_vec();
            let whole = length.start..content.end;
            mutator.damage(&mut text, &[input[content.clone()].to_vec()]);
            input.splice(whole, [varint(text.len() as u64), text].concat());
        }
        Spot::Part(place) => match mutator.below(3) {
            0 => drop(input.drain(place.clone())),
            1 => {
                let part = input[place.clone()].to_vec();
                input.splice(place.end..place.end, part);
            }
            // The kind of a field, or the first byte of an element.
            _ => input[place.start] = input[place.start] & 0xf0 | mutator.below(14) as u8,
        },
    }
}

/// One of the files with one to four fields replaced.
pub(crate) fn damaged(mutator: &mut Mutator, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[mutator.below(seeds.len())].clone();
    let Some((rest, _)) = input.split_last_chunk::<4>() else { return input };
    let Some((rest, length)) = rest.split_last_chunk::<4>() else { return input };
    let Some(footer) = rest.len().checked_sub(u32::from_le_bytes(*length) as usize) else { return input };
    let edits = 1 + mutator.below(4);
    if mutator.below(4) == 0 {
        let headers = headers(&input, footer);
        let at = headers.get(mutator.below(headers.len())).copied().unwrap_or(MAGIC.len());
        (0..edits).for_each(|_| edit(mutator, &mut input, at));
        return input;
    }
    input.truncate(rest.len());
    (0..edits).for_each(|_| edit(mutator, &mut input, footer));
    let length = (input.len() - footer) as u32;
    [&input[..], &length.to_le_bytes(), MAGIC].concat()
}
