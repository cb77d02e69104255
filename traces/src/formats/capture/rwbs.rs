//! The letters for operation and properties of a request, `rwbs`, that blkparse (`blkparse_fmt.c`,
//! `fill_rwbs`) and the kernel's tracepoints (`kernel/trace/blktrace.c`, `blk_fill_rwbs`; Linux 3.4
//! to 6.18) print: `F` for a flush before, one or more letters for the operation, then `F` forced
//! unit access, `A` read-ahead, `S` synchronous, `M` metadata, `U` atomic.

use crate::events::Category;

/// The meaning of the operation's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) enum Kind {
    /// `R`, `W`, `D`, `DE` (secure erase), `WZ` (zeroing), `ZA` (zone append).
    Data,
    /// `F`: the kernel's own flush.
    Flush,
    /// `N`: nothing that has a letter.
    Other,
    /// `ZR`, `ZRA`, `ZO`, `ZC`, `ZF`: commands to zones.
    Zone,
}

/// Kind and category bits; `None` if no operation is among the letters, or something else than
/// letters.
#[inline]
pub(in crate::formats) fn parse(letters: &[u8]) -> Option<(Kind, Category)> {
    let (flush, rest) = match letters {
        [b'F', rest @ ..] if matches!(rest, [b'R' | b'W' | b'D' | b'F' | b'N' | b'Z', ..]) => (Category::FLUSH, rest),
        all => (Category::empty(), all),
    };
    let (kind, operation, properties) = match rest {
        [b'R', rest @ ..] => (Kind::Data, Category::READ, rest),
        [b'W', b'Z', rest @ ..] | [b'W', rest @ ..] | [b'Z', b'A', rest @ ..] => (Kind::Data, Category::WRITE, rest),
        [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (Kind::Data, Category::DISCARD.union(Category::WRITE), rest),
        [b'F', rest @ ..] => (Kind::Flush, Category::READ.union(Category::FLUSH), rest),
        [b'N', rest @ ..] => (Kind::Other, Category::READ, rest),
        [b'Z', b'R', b'A', rest @ ..] | [b'Z', b'R' | b'O' | b'C' | b'F', rest @ ..] => {
            (Kind::Zone, Category::WRITE, rest)
        }
        _ => return None,
    };
    let mut category = flush.union(operation);
    for letter in properties {
        category |= match letter {
            b'F' => Category::FUA,
            b'A' => Category::AHEAD,
            b'S' => Category::SYNC,
            b'M' => Category::META,
            // Kernels add properties; one that is not known changes nothing else.
            other if other.is_ascii_alphabetic() => Category::empty(),
            _ => return None,
        };
    }
    Some((kind, category))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_apart_by_their_place() {
        let write = Category::WRITE;
        let (flush, fua, sync) = (Category::FLUSH, Category::FUA, Category::SYNC);
        let discard = Category::DISCARD | write;
        for (letters, expected) in [
            ("R", (Kind::Data, Category::READ)),
            ("RA", (Kind::Data, Category::READ | Category::AHEAD)),
            ("RSM", (Kind::Data, Category::READ | sync | Category::META)),
            ("W", (Kind::Data, write)),
            ("WFS", (Kind::Data, write | fua | sync)),
            ("FWFSM", (Kind::Data, flush | write | fua | sync | Category::META)),
            ("FWS", (Kind::Data, flush | write | sync)),
            ("WSU", (Kind::Data, write | sync)),
            ("WZS", (Kind::Data, write | sync)),
            ("D", (Kind::Data, discard)),
            ("DE", (Kind::Data, discard)),
            ("DS", (Kind::Data, discard | sync)),
            ("FN", (Kind::Other, flush | Category::READ)),
            ("N", (Kind::Other, Category::READ)),
            ("F", (Kind::Flush, flush | Category::READ)),
            ("FS", (Kind::Flush, flush | Category::READ | sync)),
            ("FF", (Kind::Flush, flush | Category::READ)),
            ("FFS", (Kind::Flush, flush | Category::READ | sync)),
            ("ZA", (Kind::Data, write)),
            ("ZAS", (Kind::Data, write | sync)),
            ("ZRS", (Kind::Zone, write | sync)),
            ("ZRA", (Kind::Zone, write)),
            ("ZF", (Kind::Zone, write)),
        ] {
            assert_eq!(parse(letters.as_bytes()), Some(expected), "{letters}");
        }
        for letters in ["", "S", "X", "Z", "ZX", "W1", "R S", "w", "7"] {
            assert_eq!(parse(letters.as_bytes()), None, "{letters}");
        }
    }
}
