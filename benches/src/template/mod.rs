//! The files of a project with a scheduler of its own: those of `examples/my-scheduler`, and a scenario for traces of
//! the user. `iocast bench init` writes them.

pub mod scheduler;

use std::fmt::Write as _;

use crate::outcome::figure_line;
use crate::scenario::figures::Measured;

/// The files that are the same in every project, by their paths; the scheduler among them.
pub const FILES: &[(&str, &str)] = &[
    (".github/workflows/scheduler-comparison.yml", include_str!("workflow.yml")),
    (".gitignore", include_str!("ignored.txt")),
    ("benches/compare.rs", include_str!("compare.txt")),
    ("src/lib.rs", include_str!("scheduler.rs")),
];

/// The manifest's path.
pub const MANIFEST: &str = "Cargo.toml";

/// The manifest of the example, whose dependencies lie two folders above it.
const MANIFEST_TEXT: &str = include_str!("manifest.toml");
/// Where iocast's packages are published.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Where a project finds iocast.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// In its repository, of which it takes the newest commit if that has this version.
    Published,
    /// In a checkout, whose path this is from the project's folder, or an absolute one.
    Checkout(&'a str),
}

/// The manifest of a project that finds iocast there.
pub fn manifest(origin: Origin<'_>) -> String {
    let mut text = String::new();
    for line in MANIFEST_TEXT.lines() {
        match (line.split_once(" = { path = \"../../"), origin) {
            (Some((package, folder)), Origin::Checkout(path)) => {
                let folder = folder.trim_end_matches("\" }");
                let path = toml::Value::String(format!("{path}/{folder}"));
                let _ = writeln!(text, "{package} = {{ path = {path} }}");
            }
            (Some((package, _)), Origin::Published) => {
                let version = env!("CARGO_PKG_VERSION");
                let _ = writeln!(text, "{package} = {{ git = \"{REPOSITORY}\", version = \"{version}\" }}");
            }
            (None, _) => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// A scenario that is to be written.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What is asked, as a sentence.
    pub question: String,
    /// The drive, as `--drive` takes it.
    pub drive: String,
    /// As `--pacing` takes it.
    pub pacing: String,
    /// As `--end` takes it.
    pub end: Option<String>,
    /// The VMs' names, traces (from the scenario's folder) and first sectors on the drive.
    pub vms: Vec<(String, String, u64)>,
    /// The schedulers; each but the first gets a bound against the first.
    pub schedulers: Vec<String>,
}

/// The figures that a drafted scenario expects.
const EXPECTED: [&str; 5] =
    ["requests", "span_ns", "read_response_mean_ns", "read_response_p99_ns", "write_response_p99_ns"];
/// The figure that it bounds.
const BOUNDED: &str = "read_response_p99_ns";
const EXPLAIN: &str = "as measured when this scenario was made; say why before you rely on it";

impl Draft {
    /// The scenario's file with these figures of each scheduler; with none yet, a file that can be run to measure them.
    pub fn text(&self, measured: &[Vec<Measured>]) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = format!("question = {}\ndrive = {}\n", quoted(&self.question), quoted(&self.drive));
        let _ = writeln!(text, "pacing = {}", quoted(&self.pacing));
        if let Some(end) = &self.end {
            let _ = writeln!(text, "to = {}", quoted(end));
        }
        for (name, trace, place) in &self.vms {
            let _ = writeln!(text, "\n[[vm]]\nname = {}\ntrace = {}", quoted(name), quoted(trace));
            if *place > 0 {
                let _ = writeln!(text, "place = \"{}\"", place * traces::SECTOR_BYTES);
            }
        }
        for (index, scheduler) in self.schedulers.iter().enumerate() {
            let _ = writeln!(text, "\n[[scheduler]]\nspec = {}", quoted(scheduler));
            for name in EXPECTED {
                let found = measured.get(index).and_then(|of| of.iter().find(|measured| measured.name == name));
                let _ = writeln!(text, "{}", figure_line(name, found.map_or(&[0], |found| &found.by_seed)));
            }
            let _ = writeln!(text, "reason = {}", quoted(EXPLAIN));
        }
        if let [first, others @ ..] = &self.schedulers[..] {
            for (scheduler, figures) in others.iter().zip(measured.iter().skip(1)) {
                text.push_str(&bound(scheduler, first, figures, &measured[0]).unwrap_or_default());
            }
        }
        text
    }
}

/// The bound of a scheduler against another that holds now: the ratio, rounded up to a tenth. None if the other has no
/// reads.
fn bound(scheduler: &str, other: &str, figures: &[Measured], others: &[Measured]) -> Option<String> {
    let sum = |of: &[Measured]| of.iter().find(|measured| measured.name == BOUNDED).map(Measured::sum);
    let (mine, theirs) = (sum(figures)?, sum(others).filter(|&sum| sum > 0)?);
    let tenths = (mine * 10).div_ceil(theirs);
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    Some(format!(
        "\n[[bound]]\nscheduler = {}\nfigure = \"{BOUNDED}\"\nat_most = {}.{}\nof = {}\nreason = {}\n",
        quoted(scheduler),
        tenths / 10,
        tenths % 10,
        quoted(other),
        quoted(EXPLAIN)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::figures::FIGURES;

    #[test]
    fn a_bound_is_the_ratio_rounded_up_and_needs_reads_of_the_other() {
        let p99 = |ns: u64| {
            let figure = FIGURES.iter().find(|figure| figure.name == BOUNDED).unwrap();
            [Measured { name: BOUNDED.to_owned(), figure, by_seed: vec![ns, ns] }]
        };
        assert!(bound("mine", "fifo", &p99(310), &p99(100)).unwrap().contains("\nat_most = 3.1\nof = \"fifo\"\n"));
        assert!(bound("mine", "fifo", &p99(311), &p99(100)).unwrap().contains("\nat_most = 3.2\n"));
        assert_eq!(bound("mine", "fifo", &p99(311), &p99(0)), None);
        assert_eq!(bound("mine", "fifo", &[], &p99(100)), None);
    }
}
