//! The files that a subcommand writes, each named by a common stem and an ending of its own. They are checked before
//! the work begins.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use traces::whole_file::{WholeFile, write_whole};

use crate::error::UsageError;

/// The stem of the files' names.
pub struct Files {
    stem: PathBuf,
}

impl Files {
    /// Checks before any work that the files can be written: those with these `endings`, and the pictures whose endings
    /// begin with one of `families`. Only the work determines the number of pictures.
    ///
    /// # Errors
    /// A stem without a name, a folder that does not exist, a file that exists without `force`, a folder that cannot be
    /// written to.
    pub fn planned(stem: PathBuf, force: bool, endings: &[String], families: &[&str]) -> Result<Files> {
        if stem.file_name().is_none() {
            let error = format!("--output {}: it is the beginning of file names, such as disks/sdb", stem.display());
            return Err(UsageError(error).into());
        }
        let files = Files { stem };
        let folder = files.stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("{}: this folder of --output does not exist", folder.display());
        }
        if !force {
            let mut there: Vec<PathBuf> = endings.iter().map(|ending| files.named(ending)).collect();
            there.extend(files.pictures(folder, families)?);
            refuse_existing(&there, "other names with --output")?;
        }
        if let Some(ending) = endings.last() {
            files.try_writing(ending)?;
        }
        Ok(files)
    }

    /// Begins a file that is never finished, so that a kill leaves none. A file that exists is only opened.
    fn try_writing(&self, ending: &str) -> Result<()> {
        try_writing(&self.named(ending), "other names with --output")
    }

    /// The path of the file with this ending. The ending follows the whole stem, including its dots.
    pub fn named(&self, ending: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    /// The pictures that exist in the folder, sorted by name.
    fn pictures(&self, folder: &Path, families: &[&str]) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        if families.is_empty() {
            return Ok(found);
        }
        let stem = self.stem.file_name().unwrap_or_default().to_string_lossy();
        for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let name = entry.with_context(|| folder.display().to_string())?.file_name();
            let text = name.to_string_lossy();
            let is_member = families.iter().any(|family| text.starts_with(&format!("{stem}{family}")));
            if is_member && [".svg", ".png"].iter().any(|ending| text.ends_with(ending)) {
                found.push(self.stem.with_file_name(&name));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Writes one file, and adds its name to `written`.
    ///
    /// # Errors
    /// An error of the operating system, with the file's name; a file that has appeared under this name.
    pub fn write(&self, ending: &str, bytes: &[u8], written: &mut Vec<String>) -> Result<()> {
        let path = self.named(ending);
        write_whole(&path, bytes)?;
        written.push(path.display().to_string());
        Ok(())
    }
}

/// Checks before any work that the file can be written. The error names the `alternative`.
///
/// # Errors
/// That it cannot.
pub fn try_writing(path: &Path, alternative: &str) -> Result<()> {
    let name = || format!("{}: cannot be written; choose {alternative}", path.display());
    if path.exists() {
        return OpenOptions::new().write(true).open(path).map(drop).with_context(name);
    }
    WholeFile::create(path).map(drop).map_err(|error| error.problem).with_context(name)
}

/// Checks before any work that none of `paths` exists, so that nothing is overwritten without `--force`. The error names
/// the `alternative`.
///
/// # Errors
/// A file that exists.
pub fn refuse_existing(paths: &[PathBuf], alternative: &str) -> Result<()> {
    match paths.iter().find(|path| path.exists()) {
        Some(path) => bail!("{} exists; overwrite it with --force, or choose {alternative}", path.display()),
        None => Ok(()),
    }
}
