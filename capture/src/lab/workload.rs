//! What the machines of a lab do: jobs of fio that come with it, or any other.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// The jobs that come with the lab: name, text. They take `${RUNTIME}` (seconds) and `${SEED}`.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("mail", include_str!("../../lab/workloads/mail.fio")),
    ("web", include_str!("../../lab/workloads/web.fio")),
    ("file", include_str!("../../lab/workloads/file.fio")),
    ("oltp", include_str!("../../lab/workloads/oltp.fio")),
];

/// The text of the job that is called `name`, or is a file in `folder`.
///
/// # Errors
/// There is neither; or the file cannot be read, or it does not stop after `${RUNTIME}`.
pub fn job(name: &str, folder: &Path) -> std::io::Result<String> {
    if let Some((_, text)) = WORKLOADS.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    let text = std::fs::read_to_string(folder.join(name)).map_err(|error| match error.kind() {
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
        return Err(Error::new(ErrorKind::InvalidData, "the job has to say runtime=${RUNTIME} and time_based=1"));
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
    fn every_job_ends_and_is_the_same_for_the_same_seed() {
        for (name, text) in WORKLOADS {
            for line in ["time_based=1", "runtime=${RUNTIME}", "randseed=${SEED}", "allrandrepeat=1"] {
                assert!(text.lines().any(|found| found == line), "{name} has no {line}");
            }
        }
    }
}
