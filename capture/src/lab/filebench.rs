//! FileBench as a VM's workload: its personality as the guest runs it, the host's program with its libraries, and the
//! summary that it prints. Debian has no package of it, so the guest uses the host's program.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use traces::results::lab::LabFileBench;

use super::LabError;
use crate::programs::find;

/// The program's name.
pub const PROGRAM: &str = "filebench";
/// The line of a personality that starts the run.
const RUN_LINE: &str = "run ${RUNTIME}";
/// The mount point of the guest's disk.
const DISK_MOUNT: &str = "/mnt";
/// FileBench's megabyte, in bytes.
const MEGABYTE_BYTES: f64 = 1_048_576.0;

/// The personality in the file `name` of `folder`, changed to run for `seconds` seconds. It creates its files first,
/// and then waits until the lab's script in the guest continues.
///
/// # Errors
/// The file cannot be read, lacks the run line, or keeps its files elsewhere than on the disk.
pub fn personality(name: &str, folder: &Path, seconds: u32) -> std::io::Result<String> {
    let text = traces::read_text(&folder.join(name))?;
    let wrong = |problem: String| Err(Error::new(ErrorKind::InvalidData, problem));
    if text.lines().filter(|line| line.trim() == RUN_LINE).count() != 1 {
        return wrong(format!("the personality must have the line {RUN_LINE}, exactly once"));
    }
    if !text.contains(DISK_MOUNT) {
        return wrong(format!("the personality must keep its files on the disk: set $dir={DISK_MOUNT}"));
    }
    let lines = text.lines().map(|line| match line.trim() {
        RUN_LINE => format!("create fileset\nsystem \"sh /job/laid.sh\"\nrun {seconds}\n"),
        _ => format!("{line}\n"),
    });
    Ok(lines.collect())
}

/// The host's program, and the shared libraries that it needs: none if it is linked statically or a script.
///
/// # Errors
/// The program is not installed.
pub fn files() -> Result<Vec<PathBuf>, LabError> {
    let program = find(PROGRAM).ok_or_else(|| LabError::Missing { program: PROGRAM.to_owned() })?;
    // `ldd` fails for a static executable or a script, which needs no libraries.
    let printed = Command::new("ldd").arg(&program).output().map(|output| output.stdout).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let libraries = printed.lines().filter_map(|line| line.split_once("=> ")?.1.split_whitespace().next());
    let libraries = libraries.filter(|path| path.starts_with('/')).map(PathBuf::from);
    Ok(std::iter::once(program).chain(libraries).collect())
}

/// The summary in FileBench's output in the file at `path`.
///
/// # Errors
/// The file cannot be read, or has no summary.
pub fn summary(path: &Path) -> Result<LabFileBench, LabError> {
    let text = traces::read_text(path).map_err(LabError::io(path))?;
    let line = text.lines().rev().find_map(|line| line.split_once("IO Summary:"));
    line.and_then(|(_, figures)| parse(figures))
        .ok_or_else(|| LabError::Host(format!("{}: FileBench has printed no \"IO Summary\"", path.display())))
}

/// Parses a summary: `N ops X ops/s R/W rd/wr Ymb/s Zms/op` of FileBench 1.5, or with commas, `(R/W r/w)` and `Zms
/// latency` of earlier versions.
fn parse(figures: &str) -> Option<LabFileBench> {
    let words: Vec<&str> = figures.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
    let before = |units: &[&str]| {
        let unit = words.iter().position(|word| units.contains(word))?;
        words.get(unit.checked_sub(1)?).copied()
    };
    let with = |unit: &str| words.iter().find_map(|word| word.strip_suffix(unit)?.parse::<f64>().ok());
    let (reads, writes) = before(&["rd/wr", "r/w"])?.split_once('/')?;
    let latency_ms = with("ms/op").or_else(|| before(&["latency"])?.strip_suffix("ms")?.parse().ok())?;
    Some(LabFileBench {
        operations: before(&["ops"])?.parse().ok()?,
        operations_per_s: before(&["ops/s"])?.parse().ok()?,
        reads_per_s: reads.parse().ok()?,
        writes_per_s: writes.parse().ok()?,
        bytes_per_s: with("mb/s")? * MEGABYTE_BYTES,
        mean_latency_ns: latency_ms * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_two_versions_are_parsed() {
        let expected = LabFileBench {
            operations: 54_321,
            operations_per_s: 905.35,
            reads_per_s: 139.0,
            writes_per_s: 140.0,
            bytes_per_s: 3.5 * 1_048_576.0,
            mean_latency_ns: 17.6e6,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mail.filebench.txt");
        for line in [
            "61.010: IO Summary: 54321 ops 905.350 ops/s 139/140 rd/wr   3.5mb/s 17.600ms/op",
            "61.010: IO Summary: 54321 ops, 905.350 ops/s, (139/140 r/w),   3.5mb/s,    312us cpu/op,  17.6ms latency",
        ] {
            let text = format!(
                "60.9: Per-Operation Breakdown\nread1  9ops  1ops/s 0.0mb/s 0.1ms/op\n{line}\n61.1: Shutting down\n"
            );
            std::fs::write(&path, text).unwrap();
            assert_eq!(summary(&path).unwrap(), expected, "{line}");
        }
        for cut in ["61.010: IO Summary: 54321 ops 905.350 ops/s", "60.0: NO VALID RESULTS!"] {
            std::fs::write(&path, cut).unwrap();
            let message = summary(&path).unwrap_err().to_string();
            assert!(message.ends_with("mail.filebench.txt: FileBench has printed no \"IO Summary\""), "{message}");
        }
    }

    #[test]
    fn personality_waits_between_its_layout_and_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("mail.f"), text).unwrap();
        let read = || personality("mail.f", folder.path(), 70);
        write("set $dir=/mnt\ndefine fileset name=files\n  run ${RUNTIME}\n");
        let expected = "set $dir=/mnt\ndefine fileset name=files\ncreate fileset\nsystem \"sh /job/laid.sh\"\nrun 70\n";
        assert_eq!(read().unwrap(), expected);
        write("set $dir=/mnt\nrun 60\n");
        assert!(read().unwrap_err().to_string().contains("must have the line run ${RUNTIME}"));
        write("set $dir=/tmp\nrun ${RUNTIME}\n");
        assert!(read().unwrap_err().to_string().contains("set $dir=/mnt"));
        assert!(personality("none.f", folder.path(), 70).is_err());
    }
}
