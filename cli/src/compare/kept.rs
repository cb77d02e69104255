//! The runs that have finished before a scheduler of a library runs. If that crashes, or is at fault, they are not lost.

use std::io::Write;

use anyhow::{Context, Result};
use schedulers::plugin::say_at_crash;
use tempfile::NamedTempFile;

use super::Replayed;

/// The file with the finished runs, as `runs` of the result has them: a line of JSON each. It is removed at the end,
/// unless it is needed.
pub(super) struct Kept {
    file: NamedTempFile,
    says: String,
}

impl Kept {
    /// Keeps `finished`, and lets the message of a crash name the file. `None` if there is nothing to keep.
    ///
    /// # Errors
    /// A temporary file that cannot be written.
    pub(super) fn of(finished: &[(usize, Replayed)]) -> Result<Option<Kept>> {
        if finished.is_empty() {
            return Ok(None);
        }
        let mut file = tempfile::Builder::new().prefix("iocast-finished-").suffix(".jsonl").tempfile()?;
        let path = file.path().to_owned();
        for (_, replayed) in finished {
            let line = serde_json::to_string(&replayed.run)?;
            writeln!(file, "{line}").with_context(|| path.display().to_string())?;
        }
        let what = if finished.len() == 1 { "the run".to_owned() } else { format!("the {} runs", finished.len()) };
        let says = format!("{what} that had finished: {}, a line of JSON each", path.display());
        say_at_crash(&says);
        Ok(Some(Kept { file, says }))
    }

    /// Leaves the file, and says where it is: the command ends with an error instead of a result.
    pub(super) fn leave(self) {
        if self.file.keep().is_ok() {
            eprintln!("iocast: {}", self.says);
        }
    }
}
