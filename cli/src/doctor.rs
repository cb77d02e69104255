//! `iocast doctor`: what subcommands need of this host, and whether it is there.

use anyhow::{Result, bail};
use serde::Serialize;
use traces::results::SCHEMA_VERSION;

use crate::arguments::{Cli, Doctor};
use crate::needs::uses::ALTERNATIVES;
use crate::needs::{NEEDS, Need, Use};
use crate::output::{Table, print, print_json};
use crate::output_format::OutputFormat;
use crate::shell;

/// A need, as it was found.
#[derive(Serialize)]
struct Finding {
    name: &'static str,
    kind: &'static str,
    /// The Debian package of a program.
    package: Option<&'static str>,
    is_there: bool,
    /// What was found; or why it is missing, and the remedy.
    found: String,
    needed_by: Vec<Use>,
    useful_for: Vec<Use>,
}

#[derive(Serialize)]
struct Findings {
    schema_version: u32,
    needs: Vec<Finding>,
}

pub fn run(arguments: &Doctor) -> Result<()> {
    let subcommand = named(&arguments.subcommand)?;
    let is_asked = |one: &&Use| subcommand.as_ref().is_none_or(|name| one.is_of(name));
    let findings: Vec<Finding> = NEEDS.iter().filter_map(|need| found(need, is_asked)).collect();
    let verdict = subcommand.and_then(|name| cannot_run(&name, &findings));
    match arguments.output_format {
        OutputFormat::Json => print_json(&Findings { schema_version: SCHEMA_VERSION, needs: findings })?,
        _ if findings.is_empty() => print("it needs nothing but this program\n")?,
        format => print(&table(&findings).render(format))?,
    }
    match verdict {
        Some(verdict) => bail!(verdict),
        None => Ok(()),
    }
}

/// Why a subcommand cannot run on a host with these findings: a need of every run is missing, or one of each alternative.
fn cannot_run(subcommand: &str, findings: &[Finding]) -> Option<String> {
    let lacks = |is_run: &dyn Fn(&Use) -> bool| {
        let lacks = |found: &&Finding| !found.is_there && found.needed_by.iter().any(is_run);
        findings.iter().filter(lacks).map(|found| found.name).collect::<Vec<_>>().join(", ")
    };
    let always = lacks(&|run| run.when.is_none());
    if !always.is_empty() {
        return Some(format!("{subcommand} cannot run on this host without {always}"));
    }
    let alternatives = ALTERNATIVES.iter().find(|runs| runs[0].subcommand == subcommand)?;
    let lacking = alternatives.map(|run| (run.when.unwrap_or_default(), lacks(&|one| *one == run)));
    lacking.iter().all(|(_, lacks)| !lacks.is_empty()).then(|| {
        let lacking = lacking.map(|(when, lacks)| format!("{when} it lacks {lacks}"));
        format!("{subcommand} cannot run on this host: {}", lacking.join("; "))
    })
}

/// The full name of the subcommand, which must exist.
fn named(words: &[String]) -> Result<Option<String>> {
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    shell::find(&Cli::command_line(), &words)?;
    Ok(Some(words.join(" ")).filter(|name| !name.is_empty()))
}

/// Looks for a need, if it is one of the runs that `is_asked` selects.
fn found(need: &Need, is_asked: impl Fn(&&Use) -> bool) -> Option<Finding> {
    let of = |runs: &[Use]| runs.iter().filter(&is_asked).copied().collect::<Vec<Use>>();
    let (needed_by, useful_for) = (of(need.needed), of(need.useful));
    if needed_by.is_empty() && useful_for.is_empty() {
        return None;
    }
    let (is_there, found) = match need.find() {
        Ok(found) => (true, found),
        Err(why) => (false, why),
    };
    let (name, kind, package) = (need.name, need.kind.name(), need.package());
    Some(Finding { name, kind, package, is_there, found, needed_by, useful_for })
}

fn table(findings: &[Finding]) -> Table {
    let runs = |runs: &[Use]| runs.iter().map(Use::to_string).collect::<Vec<_>>().join("; ");
    let row = |found: &Finding| {
        let there = if found.is_there { "yes" } else { "no" };
        [found.name, there, &found.found, &runs(&found.needed_by), &runs(&found.useful_for)].map(str::to_owned).to_vec()
    };
    let missing: Vec<&str> = findings.iter().filter(|found| !found.is_there).map(|found| found.name).collect();
    Table {
        title: match missing.as_slice() {
            [] => format!("All {} needs are there", findings.len()),
            missing => format!("Missing, of {} needs: {}", findings.len(), missing.join(", ")),
        },
        header: ["need", "there", "found, or remedy", "needed by", "useful for"].map(str::to_owned).to_vec(),
        rows: findings.iter().map(row).collect(),
        text_columns: 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_needs_one_of_its_backends() {
        let findings = |missing: &[&str]| -> Vec<Finding> {
            let is_of_capture = |one: &&Use| one.is_of("capture block");
            let mut findings: Vec<Finding> = NEEDS.iter().filter_map(|need| found(need, is_of_capture)).collect();
            findings.iter_mut().for_each(|found| found.is_there = !missing.contains(&found.name));
            findings
        };
        let verdict = |missing: &[&str]| cannot_run("capture block", &findings(missing));
        assert_eq!(verdict(&["blktrace", "tracer blk"]), None);
        assert_eq!(
            verdict(&["blktrace", "tracefs", "tracer blk"]).unwrap(),
            "capture block cannot run on this host: with --backend blktrace it lacks blktrace; with --backend tracefs \
             it lacks tracefs; with --backend blk-tracer it lacks tracer blk"
        );
    }

    #[test]
    fn every_need_is_of_a_subcommand_that_exists_and_has_a_name_of_its_own() {
        let command = Cli::command_line();
        for need in NEEDS {
            assert!(!need.needed.is_empty() || !need.useful.is_empty(), "{}", need.name);
            for run in need.needed.iter().chain(need.useful) {
                let words: Vec<&str> = run.subcommand.split(' ').collect();
                assert!(shell::find(&command, &words).is_ok(), "{}: {run}", need.name);
            }
            assert_eq!(NEEDS.iter().filter(|other| other.name == need.name).count(), 1, "{}", need.name);
        }
    }
}
