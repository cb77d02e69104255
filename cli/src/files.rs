//! Files that a command writes beside one another, named by a stem and an ending each, and checked before the work
//! begins.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::error::UsageError;

/// Where they go.
pub struct Files {
    stem: PathBuf,
    force: bool,
}

impl Files {
    /// Says before any work if they could not be written: those with these `endings`, and the pictures that
    /// begin with each of `families`, of which only the work tells how many there are.
    ///
    /// # Errors
    /// A stem without a name, a folder that is not there, a file that is there without `force`, a folder that cannot
    /// be written to.
    pub fn planned(stem: PathBuf, force: bool, endings: &[String], families: &[&str]) -> Result<Files> {
        if stem.file_name().is_none() {
            let error = format!("--output {}: give the beginning of file names, such as disks/sdb", stem.display());
            return Err(UsageError(error).into());
        }
        let files = Files { stem, force };
        let folder = files.stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("{}: there is no such folder for the files (--output)", folder.display());
        }
        if !force {
            let mut there: Vec<PathBuf> = endings.iter().map(|ending| files.named(ending)).collect();
            there.retain(|path| path.exists());
            there.extend(files.pictures(folder, families)?);
            if let Some(path) = there.first() {
                bail!("{} exists: --force overwrites it, --output gives other names", path.display());
            }
        }
        if let Some(ending) = endings.last() {
            files.try_writing(ending)?;
        }
        Ok(files)
    }

    /// Makes a file and removes it again, unless it exists and will be overwritten.
    fn try_writing(&self, ending: &str) -> Result<()> {
        let path = self.named(ending);
        let name = || format!("{}: cannot be written (--output gives other names)", path.display());
        if path.exists() {
            return OpenOptions::new().write(true).open(&path).map(drop).with_context(name);
        }
        OpenOptions::new().write(true).create_new(true).open(&path).with_context(name)?;
        std::fs::remove_file(&path).with_context(name)
    }

    /// Endings come behind the whole stem, dots included.
    fn named(&self, ending: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    /// The pictures that are in the folder, by name.
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

    /// Writes one of them and notes its name.
    ///
    /// # Errors
    /// What the operating system says, with the file's name.
    pub fn write(&self, ending: &str, bytes: &[u8], written: &mut Vec<String>) -> Result<()> {
        let path = self.named(ending);
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        let mut file = options.open(path).with_context(|| name.clone())?;
        file.write_all(bytes).with_context(|| name.clone())?;
        written.push(name);
        Ok(())
    }
}
