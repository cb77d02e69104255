//! The parts into which workloads and drives were split before anything was looked at.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The parts, the last of which wins.
pub const PARTS: [&str; 3] = ["train", "validation", "test"];

/// The part of the synthetic VMs of a seed: models are made on seeds below 100, chosen on seeds below 200, and judged on
/// the others.
pub fn part_of_seed(seed: u64) -> &'static str {
    PARTS[(seed / 100).min(2) as usize]
}

/// A split, as TOML: names by part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    workloads: BTreeMap<String, Vec<String>>,
    drives: BTreeMap<String, Vec<String>>,
}

impl Split {
    /// Reads a split.
    ///
    /// # Errors
    /// The file cannot be read, is no split, or has a part of another name.
    pub fn read(path: &Path) -> Result<Split> {
        let text = traces::read_text(path).with_context(|| path.display().to_string())?;
        let split: Split = toml::from_str(&text).with_context(|| {
            let parts = PARTS.join(", ");
            format!("{}: is no split, which has [workloads] and [drives], each with {parts}", path.display())
        })?;
        if let Some(part) =
            split.workloads.keys().chain(split.drives.keys()).find(|part| !PARTS.contains(&part.as_str()))
        {
            bail!("{}: `{part}` is no part; there are {}", path.display(), PARTS.join(", "));
        }
        Ok(split)
    }

    /// The part of a case: the last among those of its workloads and its drives.
    ///
    /// # Errors
    /// A name that the split does not have.
    pub fn part<W: AsRef<str>>(&self, workloads: &[W], drives: &[&str]) -> Result<&'static str> {
        let mut last = 0;
        for workload in workloads {
            last = last.max(rank(&self.workloads, "workload", workload.as_ref())?);
        }
        for drive in drives {
            last = last.max(rank(&self.drives, "drive", drive)?);
        }
        Ok(PARTS[last])
    }
}

fn rank(parts: &BTreeMap<String, Vec<String>>, what: &str, name: &str) -> Result<usize> {
    let has = |part: &&str| parts.get(*part).is_some_and(|names| names.iter().any(|other| other == name));
    match PARTS.iter().position(has) {
        Some(rank) => Ok(rank),
        None => bail!("the split has no {what} `{name}`; add it to a part before you look at its results"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_split_by_the_hundred() {
        assert_eq!([1, 99, 100, 199, 200, u64::MAX].map(part_of_seed), [0, 0, 1, 1, 2, 2].map(|part| PARTS[part]));
    }

    #[test]
    fn a_case_belongs_to_the_last_part_among_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("split.toml");
        let text = "[workloads]\ntrain = [\"mail\"]\ntest = [\"scan\"]\n[drives]\ntrain = [\"disk\"]\nvalidation = [\"slow\"]\n";
        std::fs::write(&path, text).unwrap();
        let split = Split::read(&path).unwrap();
        assert_eq!(split.part(&["mail"], &["disk", "disk"]).unwrap(), "train");
        assert_eq!(split.part(&["mail"], &["disk", "slow"]).unwrap(), "validation");
        assert_eq!(split.part(&["scan"], &["slow", "disk"]).unwrap(), "test");
        assert_eq!(split.part(&["mail", "scan"], &["disk"]).unwrap(), "test");
        assert!(split.part(&["mail"], &["disk", "ssd"]).unwrap_err().to_string().contains("no drive `ssd`"));
        std::fs::write(&path, "[workloads]\nlater = []\n[drives]\n").unwrap();
        assert!(Split::read(&path).unwrap_err().to_string().contains("`later` is no part"));
    }
}
