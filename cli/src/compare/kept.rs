//! The runs that have finished before a scheduler of a library runs. If that crashes, or is at fault, they are not lost.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use schedulers::plugin::write_at_crash;

use super::Replayed;

/// The finished runs, as `runs` of the result has them: a line of JSON each. They become a file only when it is needed.
pub(super) struct Kept {
    path: PathBuf,
    lines: Vec<u8>,
    says: String,
}

impl Kept {
    /// Keeps `finished`, and lets a crash write them. `None` if there is nothing to keep.
    pub(super) fn of(finished: &[(usize, Replayed)]) -> Result<Option<Kept>> {
        if finished.is_empty() {
            return Ok(None);
        }
        let mut lines = Vec::new();
        for (_, replayed) in finished {
            serde_json::to_writer(&mut lines, &replayed.run)?;
            lines.push(b'\n');
        }
        let path = std::env::temp_dir().join(format!("iocast-finished-{}.jsonl", std::process::id()));
        let what = if finished.len() == 1 { "the run".to_owned() } else { format!("the {} runs", finished.len()) };
        let says = format!("{what} that had finished: {}, a line of JSON each", path.display());
        write_at_crash(&path, lines.clone(), &says);
        Ok(Some(Kept { path, lines, says }))
    }

    /// Writes the file, and says where it is: the command ends with an error instead of a result.
    pub(super) fn leave(self) {
        let file = OpenOptions::new().write(true).create_new(true).open(&self.path);
        let problem = file.and_then(|mut file| file.write_all(&self.lines)).err();
        match problem {
            None => eprintln!("iocast: {}", self.says),
            Some(error) => eprintln!("iocast: {}: the runs that had finished are lost: {error}", self.path.display()),
        }
    }
}
