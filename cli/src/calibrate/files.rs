//! The files of a calibration: a profile for each model, and the picture.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use drive_models::calibration::Fit;

use super::target::Source;
use crate::arguments::{Calibrate, UsageError};

/// Where they go.
pub struct Files {
    stem: PathBuf,
    force: bool,
}

impl Files {
    /// Says before anything is measured if they could not be written.
    pub fn planned(arguments: &Calibrate, source: &Source, rows: &[&Fit]) -> Result<Files> {
        let stem = arguments.output.clone().unwrap_or_else(|| PathBuf::from(source.stem()));
        if stem.file_name().is_none() {
            let error = format!("--output {}: give the beginning of file names, such as disks/sdb", stem.display());
            return Err(UsageError(error).into());
        }
        let files = Files { stem, force: arguments.force };
        let folder = files.stem.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("{}: there is no such folder for the profiles and the picture (--output)", folder.display());
        }
        let profiles = rows.iter().map(|row| files.profile(row.name));
        let there = profiles.chain([files.picture("svg"), files.picture("png")]).find(|path| path.exists());
        if let Some(path) = there.filter(|_| !files.force) {
            bail!("{} exists: --force overwrites it, --output gives other names", path.display());
        }
        files.try_writing()?;
        Ok(files)
    }

    /// Makes the first picture's file and removes it again, unless it exists and will be overwritten.
    fn try_writing(&self) -> Result<()> {
        let path = self.picture("svg");
        let name = || format!("{}: cannot be written (--output gives other names)", path.display());
        if path.exists() {
            return OpenOptions::new().write(true).open(&path).map(drop).with_context(name);
        }
        OpenOptions::new().write(true).create_new(true).open(&path).with_context(name)?;
        std::fs::remove_file(&path).with_context(name)
    }

    pub fn profile(&self, model: &str) -> PathBuf {
        self.named(&format!("-{model}.toml"))
    }

    pub fn picture(&self, ending: &str) -> PathBuf {
        self.named(&format!(".{ending}"))
    }

    /// Endings come behind the whole stem, dots included.
    fn named(&self, ending: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }

    /// Writes one of them and notes its name.
    pub fn write(&self, path: &PathBuf, bytes: &[u8], written: &mut Vec<String>) -> Result<()> {
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
