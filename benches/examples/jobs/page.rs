//! What is stored of a measured run: its figures, the page of speeds, and the pictures of growth.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use report::page::{Axis, Chart, Line, Marks};
use report::{Drawing as _, Size};

use super::instructions::Stored;
use super::measure::{Measured, Results};

const SIZE: Size = Size { width: 1000, height: 620 };
/// Lines of a chart that can be told apart.
const LINES_MAX: usize = 6;
const ABOUT: &str = "\
# Speed of jobs

`make speed` and `make instructions` write this page. [benches/speed](../../benches/speed/README.md) says how the figures
come about and what they cannot show. [Speed of parts](speed-of-parts.md) was measured by hand. The index is
[VALIDATION.md](../VALIDATION.md).

";

/// The figures as Markdown.
pub fn table(results: &Results) -> String {
    let mut text =
        "| job | size | CPU s | million requests per CPU s | wall time over CPU time | resident | aim | peer: CPU s, \
                    ratio |\n|---|---:|---:|---:|---:|---:|---|---|\n"
            .to_owned();
    for job in &results.jobs {
        let Some(largest) = job.sizes.last() else { continue };
        let peer = job.peer.as_ref().map_or_else(
            || "–".to_owned(),
            |peer| format!("{}: {:.2}, {:.1} ×", peer.name, peer.cpu_seconds, peer.cpu_seconds / largest.cpu_seconds),
        );
        let _ = writeln!(
            text,
            "| {} (`{}`) | {} {} | {:.2} | {:.2} | {:.2} | {:.0} MB | {} | {peer} |",
            job.title,
            job.name,
            largest.size,
            job.unit,
            largest.cpu_seconds,
            largest.processed as f64 / largest.cpu_seconds / 1e6,
            largest.wall_seconds / largest.cpu_seconds,
            largest.resident_max_bytes as f64 / 1e6,
            job.aim.as_deref().unwrap_or("–"),
        );
    }
    text
}

/// CPU time for each request by size: level lines are growth in proportion.
fn growth(jobs: &[Measured]) -> Chart {
    let line = |job: &Measured| {
        let per_request = |of: &super::measure::AtSize| of.cpu_seconds / of.processed as f64 * 1e6;
        // Sizes of some jobs are no requests: all are set out by what was processed.
        let points = job.sizes.iter().map(|of| [of.processed as f64, per_request(of)]).collect();
        Line { name: job.name.clone(), points }
    };
    Chart {
        title: "CPU time of a request by the number of requests".to_owned(),
        about: String::new(),
        x: Axis::powers("requests processed"),
        y: Axis::powers("us of CPU time per request"),
        marks: Marks::Lines(jobs.iter().map(line).collect()),
    }
}

/// Stores the figures of a run in a file of its date.
pub fn store(results: &Results, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}.json", results.date));
    fs::write(&path, serde_json::to_string_pretty(results)? + "\n")?;
    println!("{} is written", path.display());
    Ok(())
}

/// The results of the latest date in the folder.
pub fn latest(folder: &Path) -> Result<Results, Box<dyn Error>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let path = paths.iter().max().ok_or("no run has been stored")?;
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

/// The page of the figures and of the stored instructions.
pub fn page(results: &Results, instructions: &BTreeMap<String, Stored>) -> String {
    let mut text = format!(
        "{ABOUT}## Times and memory\n\n{}, {} processors ({}), {}. The figures are of the largest size; those of the \
         others are in\n`benches/speed/results/{}.json` and in the pictures.\n\n{}",
        results.date,
        results.processors,
        results.processor,
        results.program,
        results.date,
        table(results)
    );
    for number in 1..=results.jobs.len().div_ceil(LINES_MAX) {
        let _ = writeln!(text, "\n![CPU time per request by the number of requests]({})", picture(number));
    }
    text += "\n## Instructions\n\nAt the size that `make instructions` runs.\n\n| job | instructions | why it changed last |\n\
             |---|---:|---|\n";
    for (job, Stored { instructions, why }) in instructions {
        let _ = writeln!(text, "| `{job}` | {instructions} | {why} |");
    }
    text
}

/// Writes the page of the latest results, and its pictures.
pub fn write(folder: &Path, instructions: &BTreeMap<String, Stored>, docs: &Path) -> Result<(), Box<dyn Error>> {
    let results = latest(folder)?;
    for (number, jobs) in (1..).zip(results.jobs.chunks(LINES_MAX)) {
        fs::write(docs.join(picture(number)), growth(jobs).png(SIZE)?)?;
    }
    let path = docs.join("speed.md");
    fs::write(&path, page(&results, instructions))?;
    println!("{} is written", path.display());
    Ok(())
}

fn picture(number: usize) -> String {
    format!("speed-growth-{number}.png")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions;

    #[test]
    fn the_page_is_that_of_the_latest_results_and_the_stored_instructions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let stored = instructions::stored(&root.join("speed/instructions.toml")).unwrap();
        let written = fs::read_to_string(root.join("../docs/validation/speed.md")).unwrap();
        assert_eq!(written, page(&latest(&root.join("speed/results")).unwrap(), &stored));
    }
}
