//! The report of a sweep: what was run, the best candidates, what tunables matter, throughput against reads, and who
//! disturbs whom.

mod best;
mod interference;
mod pareto;
mod read;
mod sections;

use std::path::Path;

use anyhow::Result;
use report::Page;

use self::read::Results;
use self::sections::Sections;
use crate::sweep::folder::complete_results;
use crate::tune;

/// The figure by which candidates are ranked if none is asked for.
const FIGURE: &str = "p99_read";

/// The report of the sweep in `folder`, with candidates ranked by the figure of that name.
///
/// # Errors
/// A figure that there is not, a sweep that is not complete, results that cannot be read.
pub fn page(folder: &Path, figure: Option<&str>) -> Result<Page> {
    let figure = tune::figure(figure.unwrap_or(FIGURE))?;
    let results = Results::read(&complete_results(folder)?, figure)?;
    Sections::new(&results, figure).page()
}
