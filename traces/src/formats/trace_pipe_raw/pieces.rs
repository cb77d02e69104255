//! A capture in several pieces, as a recorder that rotates its files writes it: `STEM.0001.trace_raw.N`,
//! `STEM.0002.trace_raw.N` and so on. Read by its stem, it is one capture; a piece's own stem names that piece.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use super::layout::Page;
use super::pages::Pages;
use super::{FORMATS_ENDING, INFIX};
use crate::error::{Place, Problem, ReadError};
use crate::formats::blktrace::ByteOrder;
use crate::input::Input;

/// The stem of a piece: `web.0003` of `web`. Numbers begin at 1.
pub fn piece_stem(stem: &Path, number: u32) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(format!(".{number:04}"));
    name.into()
}

/// The number of the piece that a file belongs to, if the capture is named `stem`.
fn number(file: &str, stem: &str) -> Option<u32> {
    let rest = file.strip_prefix(stem)?.strip_prefix('.')?;
    let (digits, _) = rest.split_once('.')?;
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let ours = rest[digits.len()..].starts_with(INFIX) || rest.ends_with(FORMATS_ENDING);
    (ours && format!("{number:04}") == digits).then_some(number)
}

/// The stems of the pieces of the capture `stem`, in their order; none if it has none.
///
/// # Errors
/// The folder cannot be read.
pub fn pieces(stem: &Path) -> Result<Vec<PathBuf>, ReadError> {
    Ok(numbers(stem)?.into_iter().map(|number| piece_stem(stem, number)).collect())
}

fn numbers(stem: &Path) -> Result<BTreeSet<u32>, ReadError> {
    let Some(name) = stem.file_name().and_then(|name| name.to_str()) else { return Ok(BTreeSet::new()) };
    let folder = stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error| ReadError::io(folder, Place::Whole, error);
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let file = entry.map_err(fail)?.file_name();
        found.extend(file.to_str().and_then(|file| number(file, name)));
    }
    Ok(found)
}

/// Refuses a capture of which a piece between the first and the last is missing.
///
/// # Errors
/// As said; or the folder cannot be read.
pub(super) fn check_complete(stem: &Path) -> Result<(), ReadError> {
    let found: Vec<u32> = numbers(stem)?.into_iter().collect();
    let Some(gap) = found.windows(2).find(|pair| pair[1] != pair[0] + 1) else { return Ok(()) };
    let named = |number| piece_stem(stem, number).display().to_string();
    let what = format!("the piece {} between {} and {}", named(gap[0] + 1), named(gap[0]), named(gap[1]));
    let remedy = "move the pieces on one side of it to another folder, and read each side by itself";
    Err(ReadError::new(stem, Place::Whole, Problem::Missing(what)).remedy(remedy))
}

/// The files of one CPU, one after another.
pub(super) struct Chain {
    /// Its name in messages; places count on from file to file.
    path: PathBuf,
    current: Input,
    next: VecDeque<PathBuf>,
    consumed_before: u64,
}

impl Chain {
    /// Opens the first of the files of CPU `cpu`; `None` if there are none.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(stem: &Path, cpu: u32, mut files: VecDeque<PathBuf>) -> Result<Option<Chain>, ReadError> {
        let Some(first) = files.pop_front() else { return Ok(None) };
        let path = if files.is_empty() {
            first.clone()
        } else {
            let mut name = stem.as_os_str().to_owned();
            name.push(format!(".*{INFIX}{cpu}"));
            name.into()
        };
        Ok(Some(Chain { path, current: Input::open(&first)?, next: files, consumed_before: 0 }))
    }
}

impl Pages for Chain {
    fn path(&self) -> &Path {
        &self.path
    }

    fn consumed_bytes(&self) -> u64 {
        self.consumed_before + self.current.consumed_bytes()
    }

    fn byte_order(&self, page: &Page) -> ByteOrder {
        self.current.byte_order(page)
    }

    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize> {
        loop {
            let filled = self.current.fill(page)?;
            if filled > 0 {
                return Ok(filled);
            }
            let Some(next) = self.next.pop_front() else { return Ok(0) };
            self.consumed_before += self.current.consumed_bytes();
            self.current = Input::open(&next).map_err(|error| io::Error::other(error.to_string()))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_recognised_by_their_names() {
        assert_eq!(number("web.0003.trace_raw.1", "web"), Some(3));
        assert_eq!(number("web.12345.trace_raw.1.gz", "web"), Some(12345));
        assert_eq!(number("web.0003.formats", "web"), Some(3));
        for other in
            ["web.3.trace_raw.1", "web.0003.parquet", "web.trace_raw.1", "web.00003.formats", "web2.0003.formats"]
        {
            assert_eq!(number(other, "web"), None, "{other}");
        }
        assert_eq!(piece_stem(Path::new("a/web"), 3), Path::new("a/web.0003"));
    }
}
