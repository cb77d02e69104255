//! The jobs: what is run, on which input, and what it must process.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// A job, as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// The generated input; none for a command that makes its own requests.
    pub input: Option<Input>,
    /// The arguments of `iocast`. INPUT, OUTPUT, KEY, SAMPLES and SIZE stand for what they say.
    pub command: String,
    /// The command that prints what was processed, if the job's own does not.
    pub check: Option<String>,
    /// JSON pointers to the counts whose sum is what was processed. `*` stands for every element.
    pub processed: Vec<String>,
    /// How often each request of the input is processed.
    #[serde(default = "once")]
    pub times: u64,
    /// What a size counts.
    #[serde(default = "requests")]
    pub unit: String,
    /// The sizes that are timed, and the one whose instructions are counted.
    pub sizes: [u64; 3],
    pub gate: u64,
    /// What must be processed at the size of `gate` and at each of `sizes`, where a size does not count requests.
    pub counts: Option<[u64; 4]>,
    /// What is aimed at with the largest size, in words.
    pub aim: Option<String>,
    /// Programs that do the same.
    pub peer: Option<Peer>,
}

/// Inputs that are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// Two files of `iocast_bench::capture`.
    Blktrace,
    /// The same, converted.
    Parquet,
}

/// A peer: its commands run one after another on the largest input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub name: String,
    pub commands: Vec<String>,
}

fn once() -> u64 {
    1
}

fn requests() -> String {
    "requests".to_owned()
}

impl Job {
    /// How many requests must be processed at a size.
    pub fn expected(&self, size: u64) -> Option<u64> {
        let at = [self.gate, self.sizes[0], self.sizes[1], self.sizes[2]].iter().position(|of| *of == size)?;
        Some(self.counts.map_or(self.times * size, |counts| counts[at]))
    }
}

/// All jobs of a folder, by name.
pub fn read_all(folder: &Path) -> Result<Vec<Job>, Box<dyn Error>> {
    let mut jobs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|ending| ending != "toml") || name == "instructions" {
            continue;
        }
        let job: Job = toml::from_str(&fs::read_to_string(&path)?).map_err(|error| format!("{name}: {error}"))?;
        jobs.push(Job { name, ..job });
    }
    jobs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(jobs)
}

/// The sum of the numbers at the pointers; `None` if one leads nowhere.
pub fn sum(value: &Value, pointers: &[String]) -> Option<u64> {
    pointers.iter().map(|pointer| at(value, pointer.split('/').skip(1))).sum()
}

fn at<'a>(value: &Value, mut keys: impl Iterator<Item = &'a str> + Clone) -> Option<u64> {
    match keys.next() {
        None => value.as_u64(),
        Some("*") => value.as_array()?.iter().map(|element| at(element, keys.clone())).sum(),
        Some(key) => at(value.get(key)?, keys),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_summed_and_missing_ones_told() {
        let value = json!({"runs": [{"all": 3}, {"all": 4}], "one": 5});
        let of = |pointers: &[&str]| sum(&value, &pointers.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>());
        assert_eq!((of(&["/runs/*/all"]), of(&["/one", "/runs/*/all"])), (Some(7), Some(12)));
        assert_eq!((of(&["/two"]), of(&["/runs/*/none"]), of(&["/runs"])), (None, None, None));
    }

    #[test]
    fn every_job_of_the_folder_is_accepted() {
        let jobs = read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("speed")).unwrap();
        assert!(jobs.len() >= 10);
        for job in jobs {
            assert!(job.sizes.is_sorted() && job.expected(job.gate).is_some(), "{}", job.name);
        }
    }
}
