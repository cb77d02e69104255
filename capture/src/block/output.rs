//! The destination of a trace: a file (or several with rotation), standard output, or a socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use traces::formats::trace_pipe_raw::pieces;

use super::device::{BlockDevice, below};
use super::error::CaptureError;

/// The destination of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file, or several with rotation.
    File(PathBuf),
    /// Standard output.
    Standard,
    /// A Unix socket with a listener.
    Unix(PathBuf),
    /// Nowhere: each second of histograms goes to the caller, with the progress.
    Watcher,
}

impl Output {
    /// Parses `-`, `unix:PATH` or a path.
    pub fn parse(text: &str) -> Output {
        match text.strip_prefix("unix:") {
            Some(path) => Output::Unix(path.into()),
            None if text == "-" => Output::Standard,
            None => Output::File(text.into()),
        }
    }

    /// The name in messages.
    pub fn name(&self) -> PathBuf {
        match self {
            Output::File(path) | Output::Unix(path) => path.clone(),
            Output::Standard | Output::Watcher => "-".into(),
        }
    }

    /// The path, if the destination is a file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Output::File(path) => Some(path),
            _ => None,
        }
    }

    /// Refuses existing files of another raw capture with this name, or removes them if `force`. Files of CPUs that are
    /// not recorded now would otherwise be read as part of this capture.
    ///
    /// # Errors
    /// Such files exist, or the destination is no file.
    pub(super) fn check_free(&self, force: bool) -> Result<(), CaptureError> {
        let refuse = |why: String| CaptureError::Output { path: self.name(), why };
        if self.file().is_none() {
            return Err(refuse(
                "a raw capture consists of several files; give the beginning of their names".to_owned(),
            ));
        }
        for path in self.raw_files()? {
            if !force {
                return Err(refuse(format!("{} exists; --force overwrites it", path.display())));
            }
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(|error| CaptureError::io(&path, error))?;
        }
        Ok(())
    }

    /// Refuses pieces of an earlier raw capture with this name, or removes them if `force`: they would be read as
    /// parts of this one.
    ///
    /// # Errors
    /// There are some, or the folder cannot be read.
    pub(super) fn check_no_pieces(&self, force: bool) -> Result<(), CaptureError> {
        let Some(stem) = self.file() else { return Ok(()) };
        pieces(stem)?.into_iter().try_for_each(|piece| Output::File(piece).check_free(force))
    }

    /// The files of a raw capture with this name, in the order of their names; none if the destination is no file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn raw_files(&self) -> Result<Vec<PathBuf>, CaptureError> {
        let Some(stem) = self.file() else { return Ok(Vec::new()) };
        let folder = stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let belongs = |found: &str| {
            let rest = found.strip_prefix(&name)?;
            [".trace_raw.", ".blktrace.", ".formats", ".capture.json"].iter().find(|part| rest.starts_with(**part))
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| CaptureError::io(folder, error))?.flatten() {
            if belongs(&entry.file_name().to_string_lossy()).is_some() {
                files.push(stem.with_file_name(entry.file_name()));
            }
        }
        files.sort();
        Ok(files)
    }

    /// Refuses a file on a traced device.
    ///
    /// # Errors
    /// The file lies on a traced device, or its folder does not exist.
    pub(super) fn check_apart(&self, devices: &[BlockDevice]) -> Result<(), CaptureError> {
        let Some(path) = self.file() else { return Ok(()) };
        let below = below(path)?;
        let traced = devices.iter().find(|device| below.contains(&device.number));
        match traced {
            None => Ok(()),
            Some(device) => Err(CaptureError::SelfCapture { path: path.to_owned(), device: device.name.clone() }),
        }
    }
}

/// The path of a numbered file: `mail.0003.parquet` of `mail.parquet`.
pub(super) fn rotated_path(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}.{number:04}.{ending}"),
        _ => format!("{name}.{number:04}"),
    };
    path.with_file_name(name)
}

/// An open destination.
pub(super) enum OutputSink {
    File(File),
    Standard(io::Stdout),
    Unix(UnixStream),
}

impl OutputSink {
    /// Opens a destination; `path` is the current file.
    pub(super) fn open(output: &Output, path: &Path, force: bool) -> Result<OutputSink, CaptureError> {
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CaptureError::Output { path: path.to_owned(), why: "it exists; --force overwrites it".to_owned() }
            }
            _ => CaptureError::Output { path: path.to_owned(), why: error.to_string() },
        };
        match output {
            Output::Standard => Ok(OutputSink::Standard(io::stdout())),
            Output::Watcher => Err(fail(io::Error::other("only histograms go to the caller"))),
            Output::Unix(path) => UnixStream::connect(path).map(OutputSink::Unix).map_err(fail),
            Output::File(_) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true);
                if force {
                    options.create(true).truncate(true)
                } else {
                    options.create_new(true)
                };
                options.open(path).map(OutputSink::File).map_err(fail)
            }
        }
    }

    /// Makes the written bytes durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self {
            OutputSink::File(file) => file.sync_data(),
            OutputSink::Standard(_) | OutputSink::Unix(_) => Ok(()),
        }
    }
}

impl Write for OutputSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputSink::File(file) => file.write(bytes),
            OutputSink::Standard(stdout) => stdout.write(bytes),
            OutputSink::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputSink::File(file) => file.flush(),
            OutputSink::Standard(stdout) => stdout.flush(),
            OutputSink::Unix(stream) => stream.flush(),
        }
    }
}

/// The free bytes for ordinary users in the file system of a file, or of the folder in which it will be created.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let found = path.ancestors().find_map(|place| statvfs(place).ok())?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_paths_are_numbered_before_their_ending() {
        assert_eq!(rotated_path(Path::new("a/mail.parquet"), 3), Path::new("a/mail.0003.parquet"));
        assert_eq!(rotated_path(Path::new("mail"), 12), Path::new("mail.0012"));
        assert_eq!(rotated_path(Path::new(".x"), 1), Path::new(".x.0001"));
    }

    #[test]
    fn outputs_are_recognised_by_their_prefix() {
        assert_eq!(Output::parse("-"), Output::Standard);
        assert_eq!(Output::parse("unix:/run/x"), Output::Unix("/run/x".into()));
        assert_eq!(Output::parse("x.parquet"), Output::File("x.parquet".into()));
    }
}
