//! The pieces of a raw capture that is rotated: `NAME.0001`, `NAME.0002`, each with its own files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

use traces::TraceMeta;
use traces::formats::trace_pipe_raw::piece_stem;
use traces::whole_file::write_whole;

use super::backends::tracefs::with_ending;
use super::error::CaptureError;
use super::output::Output;
use super::store::Rotate;

/// Where the raw data of a capture go: one set of files, or pieces of which the last ones are kept.
pub(super) struct RawPieces {
    name: PathBuf,
    rotate: Option<Rotate>,
    keep: Option<u32>,
    number: u32,
    begun: Instant,
    /// Bytes written before this piece.
    bytes_before: u64,
    /// The pieces that are there, the current one last.
    kept: VecDeque<PathBuf>,
}

impl RawPieces {
    pub(super) fn new(name: &Path, rotate: Option<Rotate>, keep: Option<u32>) -> RawPieces {
        let stem = if rotate.is_some() { piece_stem(name, 1) } else { name.to_owned() };
        let (name, begun) = (name.to_owned(), Instant::now());
        RawPieces { name, rotate, keep, number: 1, begun, bytes_before: 0, kept: VecDeque::from([stem]) }
    }

    /// The beginning of the names of the current files.
    pub(super) fn stem(&self) -> &Path {
        self.kept.back().unwrap_or(&self.name)
    }

    /// Whether a new piece is to begin, if `bytes` have been written in all.
    pub(super) fn is_due(&self, bytes: u64) -> bool {
        match self.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => bytes - self.bytes_before >= most,
            Some(Rotate::Time(most)) => self.begun.elapsed() >= most,
        }
    }

    /// The beginning of the names of the next files.
    pub(super) fn next_stem(&self) -> PathBuf {
        piece_stem(&self.name, self.number + 1)
    }

    /// Goes on to the next piece, and removes those that are too many.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub(super) fn advance(&mut self, meta: &TraceMeta, bytes: u64) -> Result<(), CaptureError> {
        self.describe(meta)?;
        self.kept.push_back(self.next_stem());
        (self.number, self.begun, self.bytes_before) = (self.number + 1, Instant::now(), bytes);
        while self.keep.is_some_and(|most| self.kept.len() > most as usize) {
            let Some(oldest) = self.kept.pop_front() else { break };
            Output::File(oldest).check_free(true)?;
        }
        Ok(())
    }

    /// Writes the metadata beside the current raw files, which cannot hold them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn describe(&self, meta: &TraceMeta) -> Result<(), CaptureError> {
        let path = with_ending(self.stem(), ".capture.json");
        let text = serde_json::to_string_pretty(meta).unwrap_or_default();
        Ok(write_whole(&path, text.as_bytes())?)
    }

    /// The files that are there, each piece's metadata last.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, CaptureError> {
        let mut files = Vec::new();
        for stem in &self.kept {
            let mut of_piece = Output::File(stem.clone()).raw_files()?;
            of_piece.sort_by_key(|file| file.extension().is_some_and(|ending| ending == "json"));
            files.extend(of_piece);
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use traces::Layer;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn oldest_pieces_go_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let meta = TraceMeta::new("trace-pipe-raw", Layer::GuestQueue, "mono");
        let mut pieces = RawPieces::new(&folder.path().join("web"), Some(Rotate::Bytes(100)), Some(2));
        // Of other captures.
        for other in ["web.trace_raw.0", "web.00010.trace_raw.0", "web.0001.parquet", "other.0001.trace_raw.0"] {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        for bytes in [120, 240, 360] {
            std::fs::write(with_ending(pieces.stem(), ".trace_raw.0"), "").unwrap();
            std::fs::create_dir(with_ending(pieces.stem(), ".formats")).unwrap();
            assert!(!pieces.is_due(bytes - 21) && pieces.is_due(bytes));
            pieces.advance(&meta, bytes).unwrap();
        }
        assert_eq!(pieces.stem(), folder.path().join("web.0004"));
        let kept = ["web.0003.capture.json", "web.0003.formats", "web.0003.trace_raw.0"];
        let others = ["other.0001.trace_raw.0", "web.0001.parquet", "web.00010.trace_raw.0", "web.trace_raw.0"];
        let mut expected = [&others[..], &kept[..]].concat();
        expected.sort_unstable();
        assert_eq!(names(folder.path()), expected);
        let files = pieces.files().unwrap();
        assert_eq!(files.len(), 3);
        assert!(files[2].ends_with("web.0003.capture.json"), "{files:?}");
    }

    #[test]
    fn piece_is_due_by_age_and_a_capture_without_rotation_has_one() {
        let name = Path::new("web");
        let pieces = RawPieces::new(name, Some(Rotate::Time(Duration::ZERO)), None);
        assert!(pieces.is_due(0));
        assert_eq!((pieces.stem(), pieces.next_stem().as_path()), (Path::new("web.0001"), Path::new("web.0002")));
        let whole = RawPieces::new(name, None, None);
        assert!(!whole.is_due(u64::MAX));
        assert_eq!(whole.stem(), name);
    }
}
