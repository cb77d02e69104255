//! The folder in which jobs run: their inputs, and their commands.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use iocast_bench::capture;
use serde_json::Value;

use super::job::{Input, Job, sum};

const SEED: u64 = 1;

/// A folder that goes with the value.
pub struct Folder {
    folder: tempfile::TempDir,
    program: PathBuf,
    /// The path of each input.
    inputs: BTreeMap<(Input, u64), PathBuf>,
}

impl Folder {
    pub fn new(program: &Path) -> io::Result<Folder> {
        let folder = tempfile::tempdir()?;
        // As `iocast convert --anonymise` asks for it.
        fs::write(folder.path().join("key"), "0123456789abcdef0123456789abcdef\n")?;
        Ok(Folder { folder, program: program.to_owned(), inputs: BTreeMap::new() })
    }

    /// Makes the input of a job if it is not there.
    pub fn prepare(&mut self, job: &Job, size: u64) -> Result<(), Box<dyn Error>> {
        match job.input {
            Some(input) => self.make(input, size),
            None => Ok(()),
        }
    }

    fn make(&mut self, input: Input, size: u64) -> Result<(), Box<dyn Error>> {
        if self.inputs.contains_key(&(input, size)) {
            return Ok(());
        }
        let stem = self.folder.path().join(format!("capture-{size}"));
        let path = match input {
            Input::Blktrace => {
                capture::write(&stem, size, SEED)?;
                stem
            }
            Input::Parquet => {
                self.make(Input::Blktrace, size)?;
                let path = stem.with_extension("parquet");
                output(Command::new(&self.program).arg("convert").arg(&stem).arg(&path))?;
                path
            }
        };
        self.inputs.insert((input, size), path);
        Ok(())
    }

    /// A command of a job at a size, of `iocast` or of the program that its first word names.
    pub fn command(&self, job: &Job, size: u64, command: &str, is_ours: bool) -> Command {
        let folder = self.folder.path();
        let input = job.input.and_then(|input| self.inputs.get(&(input, size)));
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples");
        let words = command.split_whitespace().map(|word| {
            word.replace("INPUT", &input.map_or(String::new(), |path| path.display().to_string()))
                .replace("OUTPUT", &folder.join(&job.name).display().to_string())
                .replace("SAMPLES", &samples.display().to_string())
                .replace("KEY", &folder.join("key").display().to_string())
                .replace("SIZE", &size.to_string())
        });
        let mut words = words.collect::<Vec<String>>().into_iter();
        let program = if is_ours { None } else { words.next() };
        let mut command = Command::new(program.map_or_else(|| self.program.clone(), PathBuf::from));
        command.current_dir(folder).args(words);
        command
    }

    /// Checks that the job, whose command printed `printed`, has processed what it should.
    pub fn check(&self, job: &Job, size: u64, printed: &[u8]) -> Result<u64, Box<dyn Error>> {
        let checked = match &job.check {
            Some(check) => output(&mut self.command(job, size, check, true))?,
            None => printed.to_vec(),
        };
        let value: Value = serde_json::from_slice(&checked).map_err(|error| format!("{}: {error}", job.name))?;
        let (found, expected) = (sum(&value, &job.processed), job.expected(size));
        if found.is_none() || found != expected {
            return Err(format!("{}, size {size}: {found:?} requests, and {expected:?} should be", job.name).into());
        }
        Ok(found.unwrap_or_default())
    }
}

/// What a command prints that must succeed.
pub fn output(command: &mut Command) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}: {said}", output.status).into());
    }
    Ok(output.stdout)
}
