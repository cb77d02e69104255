//! Runs every scenario of `benches/scenarios/` and fails if a figure is not exactly as expected.
//! Prints Markdown, and appends it to `$GITHUB_STEP_SUMMARY` where that is set.
//!
//! `cargo test --workspace --bench scenarios [-- NAME…]`: the figures are the same in every profile.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iocast_bench::scenario::Scenario;

fn main() -> ExitCode {
    // cargo passes --bench; whatever else begins with a dash is its or criterion's as well.
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    match run(&names) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scenarios: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(names: &[String]) -> Result<bool, Box<dyn std::error::Error>> {
    let chosen: Vec<PathBuf> = scenarios()?
        .into_iter()
        .filter(|path| names.is_empty() || names.iter().any(|name| path.ends_with(format!("{name}.toml"))))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no scenario is named {}", names.join(" or ")).into());
    }
    let (mut passed, mut markdown) = (0, String::from("## Scheduler comparisons\n\n"));
    for path in &chosen {
        let outcome = Scenario::run(path)?;
        passed += usize::from(outcome.passed());
        markdown.push_str(&outcome.markdown());
        markdown.push('\n');
    }
    markdown.push_str(&format!("{passed} passed, {} failed\n", chosen.len() - passed));
    print!("{markdown}");
    if let Some(summary) = std::env::var_os("GITHUB_STEP_SUMMARY") {
        OpenOptions::new().append(true).create(true).open(summary)?.write_all(markdown.as_bytes())?;
    }
    Ok(passed == chosen.len())
}

fn scenarios() -> std::io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
