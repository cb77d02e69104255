//! The files of a capture of histograms: one, or pieces whose numbers stand before the ending.

use std::path::{Path, PathBuf};

use crate::error::{Place, ReadError};

/// The endings of files of histograms, plain and compressed.
const ENDINGS: [&str; 3] = [".jsonl", ".jsonl.gz", ".jsonl.zst"];

/// Whether the name is that of a file of histograms.
pub fn is_named_like_one(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The files of the capture that is named: itself, or its pieces if there is no such file. None if there are no pieces
/// either.
///
/// # Errors
/// The folder cannot be read.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    if path == Path::new("-") || path.exists() { Ok(vec![path.to_owned()]) } else { pieces(path) }
}

/// The pieces of the capture that is named, in their order.
///
/// # Errors
/// The folder cannot be read.
pub fn pieces(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(stem) = name.strip_suffix(ENDINGS[0]) else { return Ok(Vec::new()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error| ReadError::io(folder, Place::Whole, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let file = entry.map_err(fail)?.file_name();
        found.extend(file.to_str().and_then(|file| Some((number(file, stem)?, path.with_file_name(file)))));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

/// The number of a piece of the capture `stem`.
fn number(file: &str, stem: &str) -> Option<u32> {
    let rest = file.strip_prefix(stem)?.strip_prefix('.')?;
    let digits = ENDINGS.iter().find_map(|ending| rest.strip_suffix(ending))?;
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (format!("{number:04}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_its_file_or_its_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["web.0002.jsonl", "web.10000.jsonl", "web.0001.jsonl.zst", "web.3.jsonl", "web.0004.parquet"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::write(at("web2.0001.jsonl"), "").unwrap();
        let names = ["web.0001.jsonl.zst", "web.0002.jsonl", "web.10000.jsonl"];
        assert_eq!(files(&at("web.jsonl")).unwrap(), names.map(at));
        assert_eq!(files(&at("web.0002.jsonl")).unwrap(), [at("web.0002.jsonl")]);
        assert!(files(&at("mail.jsonl")).unwrap().is_empty());
        std::fs::write(at("web.jsonl"), "").unwrap();
        assert_eq!(files(&at("web.jsonl")).unwrap(), [at("web.jsonl")]);
        assert_eq!(pieces(&at("web.jsonl")).unwrap(), names.map(at));
        assert!(is_named_like_one(&at("x.jsonl.gz")) && !is_named_like_one(&at("x.json")));
    }
}
