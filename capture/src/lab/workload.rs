//! The workloads of a lab's VMs: the lab's own fio jobs, or any other.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// The lab's own jobs: name and text. They use `${RUNTIME}` (seconds) and `${SEED}`.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("mail", include_str!("../../lab/workloads/mail.fio")),
    ("web", include_str!("../../lab/workloads/web.fio")),
    ("file", include_str!("../../lab/workloads/file.fio")),
    ("oltp", include_str!("../../lab/workloads/oltp.fio")),
];

/// The text of the lab's job `name`, or of the file `name` in `folder`.
///
/// # Errors
/// Neither exists, the file cannot be read, or the job does not stop after `${RUNTIME}`.
pub fn job(name: &str, folder: &Path) -> std::io::Result<String> {
    if let Some((_, text)) = WORKLOADS.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    let text = traces::read_text(&folder.join(name)).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let known: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
            Error::new(
                ErrorKind::NotFound,
                format!("there is no such workload ({}) and no such file", known.join(", ")),
            )
        }
        _ => error,
    })?;
    if !text.contains("${RUNTIME}") {
        return Err(Error::new(ErrorKind::InvalidData, "the job must set runtime=${RUNTIME} and time_based=1"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_by_name_and_by_path() {
        let folder = tempfile::tempdir().unwrap();
        assert!(job("mail", folder.path()).unwrap().contains("[deliver]"));
        std::fs::write(folder.path().join("mine.fio"), "[a]\nruntime=${RUNTIME}\n").unwrap();
        assert_eq!(job("mine.fio", folder.path()).unwrap(), "[a]\nruntime=${RUNTIME}\n");
        std::fs::write(folder.path().join("endless.fio"), "[a]\n").unwrap();
        assert!(job("endless.fio", folder.path()).unwrap_err().to_string().contains("${RUNTIME}"));
        assert!(job("none.fio", folder.path()).is_err());
    }

    #[test]
    fn every_own_job_sets_its_runtime_and_its_seed() {
        for (name, text) in WORKLOADS {
            for line in ["time_based=1", "runtime=${RUNTIME}", "randseed=${SEED}", "allrandrepeat=1"] {
                assert!(text.lines().any(|found| found == line), "{name} has no {line}");
            }
        }
    }

    /// The value of a setting of a fio job, in all its sections.
    fn values<'a>(text: &'a str, setting: &str) -> Vec<&'a str> {
        text.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('=')).collect()
    }

    /// The settings of each section of a job.
    fn sections(text: &str) -> Vec<&str> {
        text.split("\n[").skip(1).collect()
    }

    /// The largest block of a section, from `bs=8k` or `bssplit=4k/40:64k/60`.
    fn largest_block(section: &str) -> u64 {
        let sizes = values(section, "bssplit").into_iter().flat_map(|split| split.split(':'));
        let sizes = sizes.filter_map(|part| part.split('/').next()).chain(values(section, "bs"));
        sizes.map(|size| traces::quantity::parse_bytes(size).unwrap()).max().unwrap()
    }

    #[test]
    fn every_job_of_the_suite_is_one_that_fio_runs_to_its_end() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/suite");
        let names = ["kv", "build", "backup", "boot", "scan", "video", "collect", "desktop"];
        for name in names {
            let text = job(&format!("{name}.fio"), &folder).unwrap();
            for line in ["time_based=1", "runtime=${RUNTIME}", "randseed=${SEED}", "allrandrepeat=1"] {
                assert!(text.lines().any(|found| found == line), "{name} has no {line}");
            }
            // fio 3.33 sleeps for ever if a spin took longer than the think time, as it may in an emulated guest.
            assert_eq!(values(&text, "thinktime_spin"), [""; 0], "{name}");
            // Fio fails or never ends on files that are smaller than a block.
            for section in sections(&text).into_iter().filter(|section| section.contains("filesize=")) {
                let smallest = values(section, "filesize")[0].split('-').next().unwrap();
                let smallest = traces::quantity::parse_bytes(smallest).unwrap();
                assert!(smallest >= largest_block(section), "{name}: [{section}");
            }
        }
    }
}
