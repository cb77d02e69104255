//! The disk that carries the job into a guest, as an archive, and its results out, as a stream of named files.
//!
//! A guest runs a job that may be anyone's, so what it leaves is not trusted. The host takes regular files with a few
//! endings, a bounded number of them, and nothing else of theirs than the name and the bytes: a stream has no words for
//! folders, links, devices, owners or modes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, copy};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LabError;
use super::process::run;

/// The file with the output of a VM's kernel, which the host writes beside the results.
pub const CONSOLE_FILE: &str = "console.txt";

/// The script that runs in the guest.
const GUEST_SCRIPT: &str = include_str!("../../lab/run.sh");
/// Size of the sparse disk. Results are not larger.
const DISK_BYTES: u64 = 1 << 30;
/// The most files of results, and the longest line of the stream.
const FILES_MAX: usize = 64;
const LINE_BYTES_MAX: u64 = 128;
/// The endings of results: texts, fio's report, blktrace's capture on the guest's only processor, and iocast's.
const ENDINGS: [&str; 4] = [".txt", ".json", ".blktrace.0", ".parquet"];

/// What a guest is to do.
#[derive(Clone, Debug)]
pub struct GuestJob<'a> {
    /// The fio job, or FileBench's personality.
    pub text: &'a str,
    /// Settings for the script in the guest, as `NAME=VALUE`.
    pub settings: Vec<(&'static str, String)>,
    /// The program `iocast`, if it also records in the guest.
    pub recorder: Option<&'a Path>,
    /// The host's programs and libraries that the workload needs; none for fio, which the image contains.
    pub carried: Vec<PathBuf>,
}

/// Packs the job onto a new disk at `path`. A copy of the script, the settings and the job stays in `folder`.
///
/// # Errors
/// A file cannot be read or written.
pub fn pack(guest_job: &GuestJob<'_>, folder: &Path, path: &Path) -> Result<(), LabError> {
    let job = folder.join("job");
    std::fs::create_dir_all(&job).map_err(LabError::io(&job))?;
    let setting = |(name, value): &(&str, String)| format!("export {name}='{}'\n", value.replace('\'', ""));
    let settings: String = guest_job.settings.iter().map(setting).collect();
    for (name, text) in [("run.sh", GUEST_SCRIPT), ("settings", &settings), ("job", guest_job.text)] {
        let path = job.join(name);
        std::fs::write(&path, text).map_err(LabError::io(&path))?;
    }
    // The host's programs are packed but not kept in the folder.
    let along = job.join("host");
    std::fs::create_dir_all(&along).map_err(LabError::io(&along))?;
    let recorder = guest_job.recorder.map(|program| (program, "iocast".as_ref()));
    let carried = guest_job.carried.iter().filter_map(|path| Some((path.as_path(), path.file_name()?)));
    for (path, name) in recorder.into_iter().chain(carried) {
        std::fs::copy(path, along.join(name)).map_err(LabError::io(path))?;
    }
    run(Command::new("tar").arg("-c").arg("-f").arg(path).arg("-C").arg(&job).arg("."))?;
    std::fs::remove_dir_all(&along).map_err(LabError::io(&along))?;
    let disk = OpenOptions::new().write(true).open(path).map_err(LabError::io(path))?;
    disk.set_len(DISK_BYTES).map_err(LabError::io(path))
}

/// Writes the results on the disk at `path` to `folder`, and removes the disk.
///
/// # Errors
/// The disk holds something else than results, or a file cannot be written. Files before that place are written.
pub fn unpack(path: &Path, folder: &Path) -> Result<(), LabError> {
    let disk = File::open(path).map_err(LabError::io(path))?;
    let mut stream = BufReader::new(disk.take(DISK_BYTES));
    read_results(&mut stream, folder)?;
    std::fs::remove_file(path).map_err(LabError::io(path))
}

/// Reads lines of `file BYTES NAME`, each followed by so many bytes, to a line of `end`.
fn read_results(stream: &mut impl BufRead, folder: &Path) -> Result<(), LabError> {
    let refused = |problem: String| LabError::Host(format!("results of a guest for {}: {problem}", folder.display()));
    for files in 0.. {
        let mut line = Vec::new();
        stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(LabError::io(folder))?;
        let text = str::from_utf8(&line).ok().and_then(|line| line.strip_suffix('\n')).unwrap_or_default();
        let (bytes, name) = match text.split(' ').collect::<Vec<_>>()[..] {
            ["end"] => break,
            _ if files == FILES_MAX => return Err(refused(format!("it has left more than {FILES_MAX} files"))),
            ["file", bytes, name] if is_accepted(name) => (bytes.parse().unwrap_or(u64::MAX), name),
            ["file", _, name] => return Err(refused(format!("it may not leave a file named {name:?}"))),
            _ => return Err(refused("the disk that it left holds no stream of files".to_owned())),
        };
        let path = folder.join(name);
        let mut file = File::create(&path).map_err(LabError::io(&path))?;
        let written = copy(&mut stream.take(bytes), &mut file).map_err(LabError::io(&path))?;
        if written < bytes {
            return Err(refused(format!("{name} ends after {written} bytes")));
        }
    }
    Ok(())
}

/// Whether a guest may leave a file with this name. The host's own files beside it are safe by their endings.
fn is_accepted(name: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let ending = ENDINGS.iter().any(|ending| name.ends_with(ending));
    ending && !name.starts_with('.') && name.chars().all(plain) && name != CONSOLE_FILE
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Reads a stream into an empty folder. Returns the files there, and the error.
    fn read(stream: &[u8]) -> (Vec<(String, Vec<u8>)>, String) {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let said = read_results(&mut &*stream, &inner).map_or_else(|error| error.to_string(), |()| String::new());
        let entries = std::fs::read_dir(&inner).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| {
                let found = entry.path().symlink_metadata().unwrap();
                assert!(
                    found.is_file() && found.mode() & 0o7133 == 0 && found.uid() == rustix::process::geteuid().as_raw()
                );
                (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a file outside");
        (files, said)
    }

    #[test]
    fn files_are_taken_with_their_name_and_bytes_only() {
        let (files, said) = read(b"file 3 clocks.txt\na\nbfile 0 web.fio.json\nfile 4 web.blktrace.0\nend\nend\nrest");
        let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_owned());
        let expected = [file("clocks.txt", b"a\nb"), file("web.blktrace.0", b"end\n"), file("web.fio.json", b"")];
        assert_eq!((files, said), (expected.to_vec(), String::new()));
    }

    #[test]
    fn names_that_lead_elsewhere_or_belong_to_the_host_are_refused() {
        for name in [
            "../out.txt",
            "/tmp/out.txt",
            "a/b.txt",
            "..txt",
            ".txt",
            "console.txt",
            "qemu.log",
            "carrier.img",
            "job",
            "run.sh",
            "a\u{202e}.txt",
            "a\\.txt",
            "a\0.txt",
            "out.txt.so",
            "",
        ] {
            let (files, said) = read(format!("file 1 {name}\nxend\n").as_bytes());
            assert!(files.is_empty() && said.contains("it may not leave a file named"), "{name:?}: {said}");
        }
    }

    #[test]
    fn anything_but_a_stream_of_files_is_refused() {
        let archive = [b"./".to_vec(), vec![0; 510]].concat();
        let long = format!("file 1 {}.txt\nxend\n", "a".repeat(200));
        for other in
            [&b""[..], b"end", &archive, b"link 1 a.txt\n", b"file 1 a b.txt\nxend\n", long.as_bytes(), b"\xff\n"]
        {
            let (files, said) = read(other);
            assert!(files.is_empty() && said.ends_with("the disk that it left holds no stream of files"), "{said}");
        }
        for size in ["5", "18446744073709551615", "99999999999999999999", "-1", "x"] {
            let (files, said) = read(format!("file {size} a.txt\nfour").as_bytes());
            assert!(files.len() == 1 && said.ends_with("a.txt ends after 4 bytes"), "{size}: {said}");
        }
    }

    #[test]
    fn number_of_files_is_bounded() {
        let files =
            |count: usize| (0..count).map(|index| format!("file 1 {index}.txt\nx")).collect::<String>() + "end\n";
        assert_eq!(read(files(FILES_MAX).as_bytes()).1, "");
        let (taken, said) = read(files(FILES_MAX + 1).as_bytes());
        assert!(taken.len() == FILES_MAX && said.ends_with("it has left more than 64 files"), "{said}");
    }
}
