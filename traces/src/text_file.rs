//! Reads the small files that a user names beside traces: plans, profiles, scenarios, results, keys.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The most MiB of such a file. The longest are results with time series, of a few MiB.
pub const FILE_MIB_MAX: u64 = 64;

/// The text of the file at `path`.
///
/// # Errors
/// As [`read`]; bytes that are not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let not_text = |_| Error::new(ErrorKind::InvalidData, "this is no text in UTF-8");
    String::from_utf8(read(path)?).map_err(not_text)
}

/// The bytes of the file at `path`. A device or pipe may never end, so it is refused before it is opened.
///
/// # Errors
/// The error of the operating system; no regular file; more than [`FILE_MIB_MAX`] MiB.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() && !metadata.is_dir() {
        let what = "this is no regular file; copy its content into one and name that";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    let mut bytes = Vec::new();
    // The length of files in /proc is stated as zero, so the bytes are counted.
    File::open(path)?.take((FILE_MIB_MAX << 20) + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MIB_MAX << 20 {
        let what = format!("the file has more than {FILE_MIB_MAX} MiB; is it the right one?");
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_of_limited_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, "µ\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "µ\n");
        std::fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path).unwrap_err().to_string().contains("UTF-8"));
        assert_eq!(read(&path).unwrap(), b"\xff");
        assert!(read_text(folder.path()).is_err(), "a folder");
        assert_eq!(read(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        let file = File::create(&path).unwrap();
        file.set_len(FILE_MIB_MAX << 20).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, FILE_MIB_MAX << 20);
        file.set_len((FILE_MIB_MAX << 20) + 1).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("more than 64 MiB"));
    }

    #[test]
    fn devices_and_pipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [Path::new("/dev/zero"), &pipe] {
            let error = read_text(path).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{}: {error}", path.display());
        }
    }
}
