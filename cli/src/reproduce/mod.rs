//! `iocast reproduce`: regenerates the tables and figures of a paper, and sets its numbers beside the new ones.

mod grid;
mod measured;
mod pictures;
pub mod render;
mod verdicts;
mod virtual_disk;

use std::path::PathBuf;

use anyhow::{Context, Result};
use papers::Paper;
use traces::results::reproduction::Reproduced;
use traces::spec::{SpecError, nearest};

use crate::arguments::{Reproduce, Switch};
use crate::error::UsageError;
use crate::files::Files;
use crate::output::{self, width};
use crate::output_format::OutputFormat;
use crate::progress::Progress;

const JSON: &str = ".json";
const MARKDOWN: &str = ".md";

fn find(name: &str) -> Result<&'static Paper, SpecError> {
    papers::PAPERS.iter().find(|paper| paper.name == name).ok_or_else(|| SpecError::UnknownName {
        kind: "paper",
        name: name.to_owned(),
        near: nearest(name, papers::PAPERS.iter().map(|paper| paper.name)),
    })
}

pub fn run(arguments: &Reproduce) -> Result<()> {
    let paper = find(&arguments.paper).map_err(UsageError::from_display)?;
    let seeds = arguments.seeds()?;
    let planned = |stem: &PathBuf| {
        let endings = [JSON, MARKDOWN].map(str::to_owned);
        Files::planned(stem.clone(), arguments.force, &endings, &pictures::FAMILIES)
    };
    let files = arguments.output.as_ref().map(planned).transpose()?;
    let report = arguments.report.planned(arguments.force)?;
    let virtual_disks = virtual_disk::open(paper, &arguments.virtual_disks)?;
    let alternatives = arguments.alternatives == Switch::On;
    let progress = Progress::jobs("replaying", (paper.jobs)(seeds.len(), alternatives));
    let reproduction = (paper.reproduce)(&seeds, alternatives, &progress.counter(0));
    drop(progress);
    let mut reproduction = reproduction.with_context(|| format!("reproducing {}", paper.name))?;
    measured::add(paper, arguments, &mut reproduction)?;
    virtual_disk::add(virtual_disks, seeds[0], &mut reproduction)?;
    let reproduced = Reproduced { program: traces::program_version(), reproduction };
    let mut written = files.map(|files| write(&reproduced, &files, arguments)).transpose()?.unwrap_or_default();
    report.write(|| Ok(render::document(&reproduced)?.page()), &mut written)?;
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&reproduced),
        format => {
            let text = render::render(&reproduced, format, width());
            output::print(&format!("{text}{}", output::written(&written, format)))
        }
    }
}

/// Writes the result, its tables and a picture of each table and figure. Gives the names of the files.
fn write(reproduced: &Reproduced, files: &Files, arguments: &Reproduce) -> Result<Vec<String>> {
    let mut written = Vec::new();
    let mut json = serde_json::to_string_pretty(reproduced)?;
    json.push('\n');
    files.write(JSON, json.as_bytes(), &mut written)?;
    let markdown = render::render(reproduced, OutputFormat::Markdown, usize::MAX);
    files.write(MARKDOWN, markdown.as_bytes(), &mut written)?;
    for pictures::Drawn { ending, picture } in pictures::draw(&reproduced.reproduction, arguments.picture_size)? {
        files.write(&format!("{ending}.svg"), picture.svg.as_bytes(), &mut written)?;
        files.write(&format!("{ending}.png"), &picture.png, &mut written)?;
    }
    Ok(written)
}
