//! Labels of bars, rows and columns: they fit their places, and different ones still differ.

use crate::canvas::{TEXT_MIN, fitted, shrunk, width_of};

/// Lines of a label at most.
const LINES_MAX: usize = 4;

/// Each label in lines of at most `width` pixels. Labels that do not fit leave out tunables that they share, and are cut
/// in the middle if that is not enough.
pub(crate) fn in_lines(labels: &[&str], text: u32, width: u32) -> Vec<Vec<String>> {
    let fits =
        |lines: &Vec<String>| lines.len() <= LINES_MAX && lines.iter().all(|line| shrunk(line, text, width).is_some());
    let whole: Vec<Vec<String>> = labels.iter().map(|label| broken(label, text, width)).collect();
    if whole.iter().all(fits) {
        return whole;
    }
    let short = without_shared(labels);
    let cut: Vec<Vec<String>> = short.iter().map(|label| cut_lines(broken(label, text, width), text, width)).collect();
    if is_distinct(labels, &cut) {
        return cut;
    }
    let numbered = |(nth, mut lines): (usize, Vec<String>)| {
        lines.insert(0, (nth + 1).to_string());
        lines.truncate(LINES_MAX);
        lines
    };
    cut.into_iter().enumerate().map(numbered).collect()
}

/// Each label in one line of at most `width` pixels, with the size of its letters. Those that do not fit are cut in the
/// middle.
pub(crate) fn in_a_line(labels: &[&str], text: u32, width: u32) -> Vec<(String, u32)> {
    let cut: Vec<(String, u32)> = labels.iter().map(|label| cut_in_the_middle(label, text, width)).collect();
    if is_distinct(labels, &cut) {
        return cut;
    }
    labels.iter().enumerate().map(|(nth, label)| fitted(&format!("{} {label}", nth + 1), text, width)).collect()
}

/// Whether labels that differ differ as they are `shown`, too.
fn is_distinct<T: PartialEq>(labels: &[&str], shown: &[T]) -> bool {
    let pairs = || labels.iter().zip(shown);
    pairs().enumerate().all(|(nth, one)| pairs().take(nth).all(|other| one.1 != other.1 || one.0 == other.0))
}

/// `label` in lines that fit `width` pixels, broken between words and behind a `:` or `,`. What has no such place may be
/// wider.
pub(crate) fn broken(label: &str, text: u32, width: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split_whitespace() {
        for (nth, piece) in word.split_inclusive([':', ',']).enumerate() {
            let space = if nth == 0 { " " } else { "" };
            match lines.last_mut() {
                Some(line) if width_of(&format!("{line}{space}{piece}"), text) <= width => {
                    line.push_str(space);
                    line.push_str(piece);
                }
                _ => lines.push(piece.to_owned()),
            }
        }
    }
    lines
}

/// The lines, each cut to `width` pixels. Of too many, the first and the last remain.
fn cut_lines(mut lines: Vec<String>, text: u32, width: u32) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let last = lines.pop();
        lines.truncate(LINES_MAX - 1);
        lines.iter_mut().skip(LINES_MAX - 2).for_each(|line| line.push('…'));
        lines.extend(last);
    }
    lines.iter().map(|line| cut_in_the_middle(line, text, width).0).collect()
}

/// `label` in at most `width` pixels: smaller than `text` if it must be, and without its middle if that is not enough.
fn cut_in_the_middle(label: &str, text: u32, width: u32) -> (String, u32) {
    if let Some(size) = shrunk(label, text, width) {
        return (label.to_owned(), size);
    }
    let letters: Vec<char> = label.chars().collect();
    let cut = |kept: usize| {
        let (head, tail) = (&letters[..kept.div_ceil(2)], &letters[letters.len() - kept / 2..]);
        head.iter().chain(['…'].iter()).chain(tail).collect::<String>()
    };
    let kept = (0..letters.len()).rev().find(|&kept| width_of(&cut(kept), TEXT_MIN) <= width).unwrap_or(0);
    (cut(kept), TEXT_MIN)
}

/// A word of a label, `name:tunable=value,tunable=value`, in its parts.
type Word<'a> = (&'a str, Vec<&'a str>);

/// The labels without the tunables that are the same in all labels of the same names.
fn without_shared(labels: &[&str]) -> Vec<String> {
    let word = |word| match str::split_once(word, ':') {
        Some((name, tunables)) if tunables.split(',').all(|tunable| tunable.contains('=')) => {
            (name, tunables.split(',').collect())
        }
        _ => (word, Vec::new()),
    };
    let parsed: Vec<Vec<Word<'_>>> = labels.iter().map(|label| label.split_whitespace().map(word).collect()).collect();
    let is_alike =
        |one: &[Word<'_>], other: &[Word<'_>]| one.iter().map(|word| word.0).eq(other.iter().map(|word| word.0));
    let short = |words: &Vec<Word<'_>>| {
        let alike: Vec<&Vec<Word<'_>>> = parsed.iter().filter(|other| is_alike(words, other)).collect();
        let is_shared = |place: usize, tunable: &str| {
            alike.len() > 1 && alike.iter().all(|other| other[place].1.contains(&tunable))
        };
        let shortened = words.iter().enumerate().map(|(place, (name, tunables))| {
            let own: Vec<&str> = tunables.iter().copied().filter(|tunable| !is_shared(place, tunable)).collect();
            if own.is_empty() { (*name).to_owned() } else { format!("{name}:{}", own.join(",")) }
        });
        shortened.collect::<Vec<String>>().join(" ")
    };
    parsed.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use plotters::style::{FontStyle, register_font};

    use super::*;
    use crate::canvas::{FAMILY, TYPEFACE};

    const DEADLINES: [&str; 3] = [
        "mq-deadline:fifo_batch=8,read_expire=1ms",
        "mq-deadline:fifo_batch=8,read_expire=100ms",
        "mq-deadline:fifo_batch=8,read_expire=500ms",
    ];

    fn with_typeface() {
        register_font(FAMILY, FontStyle::Normal, TYPEFACE).map_err(|_| ()).unwrap();
    }

    #[test]
    fn labels_that_fit_in_lines_are_whole() {
        with_typeface();
        let lines = in_lines(&DEADLINES, 14, 125);
        assert_eq!(lines[1], ["mq-deadline:", "fifo_batch=8,", "read_expire=100ms"]);
        assert_eq!(in_lines(&["real cats", "real deadline"], 14, 60)[1], ["real", "deadline"]);
    }

    #[test]
    fn labels_that_do_not_fit_leave_out_what_they_share() {
        with_typeface();
        let long = DEADLINES.map(|label| format!("{label},front_merges=0,prio_aging_expire=10s"));
        let lines = in_lines(&long.each_ref().map(String::as_str), 14, 130);
        assert_eq!(lines[1], ["mq-deadline:", "read_expire=100ms"]);
        assert_eq!(
            without_shared(&["a cats:x=1,y=2", "b cats:x=1,y=3", "a cats:x=1,y=4", "a fifo:x=1", "ratio: 1"]),
            ["a cats:y=2", "b cats:x=1,y=3", "a cats:y=4", "a fifo:x=1", "ratio: 1"]
        );
    }

    #[test]
    fn different_labels_are_shown_differently_and_within_their_width() {
        with_typeface();
        let alike = ["production-database-1-eu", "production-database-2-eu", "production-warehouse-1-eu"];
        for labels in [DEADLINES, alike] {
            for width in [40, 60, 100, 200] {
                let lines = in_lines(&labels, 14, width);
                assert!(lines[0] != lines[1] && lines[1] != lines[2] && lines[0] != lines[2], "{width}: {lines:?}");
                let widest = lines.iter().flatten().map(|line| width_of(line, TEXT_MIN)).max();
                assert!(widest <= Some(width) && lines.iter().all(|lines| lines.len() <= LINES_MAX), "{lines:?}");
                let line = in_a_line(&labels, 14, width);
                assert!(line[0] != line[1] && line[1] != line[2] && line[0] != line[2], "{width}: {line:?}");
                assert!(line.iter().all(|(line, size)| width_of(line, *size) <= width), "{line:?}");
            }
        }
        assert_eq!(in_a_line(&["same", "same"], 14, 100), [("same".to_owned(), 14), ("same".to_owned(), 14)]);
    }
}
