//! What is stored of a measured run: its figures, the section of the page of speeds, and the picture of growth.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use report::page::{Axis, Chart, Line, Marks};
use report::{Drawing as _, Size};

use super::measure::{Measured, Results};

const PICTURE: &str = "speed-growth.png";
const SIZE: Size = Size { width: 1000, height: 620 };
/// Lines of a chart that can be told apart.
const LINES_MAX: usize = 6;
const BEGIN: &str = "<!-- jobs: `make speed` writes this -->\n";
const END: &str = "<!-- end of jobs -->\n";

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

/// Writes the figures, the section and the picture.
pub fn store(results: &Results, folder: &Path, docs: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}.json", results.date));
    fs::write(&path, serde_json::to_string_pretty(results)? + "\n")?;
    let mut pictures = String::new();
    for (number, jobs) in (1..).zip(results.jobs.chunks(LINES_MAX)) {
        let name = PICTURE.replace(".png", &format!("-{number}.png"));
        fs::write(docs.join(&name), growth(jobs).png(SIZE)?)?;
        writeln!(pictures, "\n![CPU time per request by the number of requests]({name})")?;
    }
    let page = docs.join("speed.md");
    let text = fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("speed.md has no place for the jobs")?;
    let (_, after) = rest.split_once(END).ok_or("speed.md has no end of the jobs")?;
    let host = format!(
        "{}, {} processors ({}), {}. The figures are of the largest size; those of the others are in\n\
         `benches/speed/results/{}.json` and in the pictures.\n\n",
        results.date, results.processors, results.processor, results.program, results.date
    );
    fs::write(&page, format!("{before}{BEGIN}{host}{}{pictures}{END}{after}", table(results)))?;
    println!("{} and {} are written", path.display(), page.display());
    Ok(())
}
