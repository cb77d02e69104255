//! The parts of the report of a sweep.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use report::Page;
use report::page::{Cell, Section, Table};

use super::best::{Best, EQUAL, best, often, scheduler_of};
use super::read::{Results, window};
use super::{interference, pareto};
use crate::output::{counted, number};
use crate::sweep::sensitivity::{Better, Marginal, Observation, sensitivity};
use crate::tune::Figure;
use crate::units::{ABSENT, ratio, span};

/// The most rows of a table.
const ROWS_MAX: usize = 100;
/// The most drives with charts and columns of their own.
pub const DRIVES_MAX: usize = 8;

/// The most schedulers that the answer names.
const NAMED_MAX: usize = 6;

/// What all parts are made of.
pub struct Sections<'a> {
    pub results: &'a Results,
    figure: &'a Figure,
    best: Vec<Best>,
}

/// What a table leaves out; nothing if it holds all.
pub fn left_out(all: usize, shown: usize, what: &str) -> Option<String> {
    (all > shown).then(|| format!("{shown} of {all} {what} are shown; results.parquet has all of them."))
}

pub fn table(caption: impl Into<String>, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table { caption: caption.into(), columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 1000.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

impl<'a> Sections<'a> {
    pub fn new(results: &'a Results, figure: &'a Figure) -> Sections<'a> {
        Sections { results, figure, best: best(results, figure.better) }
    }

    /// The report.
    ///
    /// # Errors
    /// A picture that cannot be drawn.
    pub fn page(&self) -> Result<Page> {
        let results = self.results;
        let mut sections = vec![self.often()];
        sections.extend(self.each());
        sections.extend(self.tunables());
        sections.extend(pareto::sections(results));
        sections.extend(interference::sections(results)?);
        sections.extend(self.what_was_run());
        Ok(Page {
            title: format!(
                "Sweep of {} on {}",
                counted(results.traces.names.len() as u64, "trace", "traces"),
                counted(results.drives.names.len() as u64, "drive", "drives")
            ),
            answer: self.answer(),
            warnings: self.warnings(),
            sections,
            program: traces::program_version(),
        })
    }

    /// A value of the figure.
    fn shown(&self, value: f64) -> String {
        match () {
            () if self.figure.column.ends_with("_ns") => span(value),
            () if self.figure.column.ends_with("bytes_per_s") => format!("{} MB/s", number(Some(value / 1e6))),
            () => format!("{} /s", number(Some(value))),
        }
    }

    /// How often each scheduler is best, the most often first.
    fn totals(&self) -> Vec<(String, u64, u64)> {
        let mut totals: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for ((name, _), often) in often(self.results, &self.best, self.figure.better) {
            let total = totals.entry(name).or_default();
            *total = (total.0 + often.best, total.1 + often.equal);
        }
        let mut totals: Vec<(String, u64, u64)> =
            totals.into_iter().map(|(name, (best, equal))| (name, best, equal)).collect();
        totals.sort_by(|one, other| (other.1, other.2, &one.0).cmp(&(one.1, one.2, &other.0)));
        totals
    }

    fn answer(&self) -> Vec<String> {
        let (name, all) = (&self.figure.name, self.best.len());
        let totals = self.totals();
        let Some((first, best, _)) = totals.first() else {
            return vec![format!("No task has a {name} that can be compared.")];
        };
        let mut close: Vec<&(String, u64, u64)> = totals.iter().collect();
        close.sort_by_key(|(_, _, equal)| std::cmp::Reverse(*equal));
        let close: Vec<String> =
            close.into_iter().take(NAMED_MAX).map(|(name, _, equal)| format!("{name} in {equal}")).collect();
        let mut answer = vec![
            format!("{first} has the best {name} in {best} of {}.", counted(all as u64, "case", "cases")),
            format!("Within {:.0} % of the best: {}.", EQUAL * 100.0, close.join(", ")),
        ];
        // Where a candidate has failed or is overloaded, the choice matters.
        let is_alike = |best: &&Best| best.second.is_some() && best.is_complete && best.worst <= EQUAL;
        let alike = self.best.iter().filter(is_alike).count();
        if alike > 0 {
            answer.push(format!(
                "In {} no candidate is more than {:.0} % worse than the best: the choice does not matter there.",
                counted(alike as u64, "case", "cases"),
                EQUAL * 100.0
            ));
        }
        answer.push(
            "A case is a trace, or two VMs that share a drive, in one window on one drive. Of candidates that are equal \
             the first of the plan counts as best."
                .to_owned(),
        );
        answer
    }

    /// What keeps tasks out of the comparison.
    fn warnings(&self) -> Vec<String> {
        let Results { tasks, failed, overloaded, lacking, .. } = *self.results;
        let name = &self.figure.name;
        let said = [
            (failed, "failed by their input; their errors are below".to_owned()),
            (
                overloaded,
                "are overloaded: requests came faster than the drive could serve. They are left out".to_owned(),
            ),
            (lacking, format!("have no {name}: there were too few requests, or the plan's quantities leave it out")),
        ];
        let said = said.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} of {tasks} tasks {what}.")).collect()
    }

    fn often(&self) -> Section {
        let drives = self.results.drives.names.len().min(DRIVES_MAX);
        let counts = often(self.results, &self.best, self.figure.better);
        let all = self.best.len().max(1) as f64;
        let totals = self.totals();
        let row = |(name, best, equal): &(String, u64, u64)| {
            let of_drive = |drive: usize| counts.get(&(name.clone(), drive as u32)).map_or(0, |often| often.best);
            let mut row = vec![
                Cell::text(name),
                Cell::number(best.to_string()).with_share(Some(*best as f64 / all)),
                Cell::number(equal.to_string()).with_share(Some(*equal as f64 / all)),
            ];
            if drives > 1 {
                row.extend((0..drives).map(|drive| Cell::number(of_drive(drive).to_string())));
            }
            row
        };
        let mut columns = vec!["scheduler".to_owned(), "best".to_owned(), format!("within {:.0} %", EQUAL * 100.0)];
        if drives > 1 {
            columns.extend(self.results.drives.names.iter().take(drives).cloned());
        }
        let caption = format!(
            "In how many of {} a scheduler has the best {}, and in how many it comes within {:.0} % of the best",
            counted(self.best.len() as u64, "case", "cases"),
            self.figure.name,
            EQUAL * 100.0
        );
        let rows = totals.iter().take(ROWS_MAX).map(row).collect();
        let mut text: Vec<String> = left_out(totals.len(), ROWS_MAX, "schedulers").into_iter().collect();
        text.extend(left_out(self.results.drives.names.len(), DRIVES_MAX, "drives have columns of their own, and"));
        Section {
            heading: "Which scheduler is best".to_owned(),
            text,
            tables: vec![Table { caption, columns, rows }],
            ..Section::default()
        }
    }

    /// The best candidate of each case.
    fn each(&self) -> Option<Section> {
        let results = self.results;
        let mut shown: Vec<&Best> = self.best.iter().collect();
        if shown.is_empty() {
            return None;
        }
        // Those in which the choice matters most.
        shown.sort_by(|one, other| other.worst.total_cmp(&one.worst).then(one.context.cmp(&other.context)));
        shown.truncate(ROWS_MAX);
        if shown.len() == self.best.len() {
            shown.sort_by_key(|best| best.context);
        }
        let row = |best: &&Best| {
            let context = results.contexts[best.context as usize];
            let second = best.second.map(|(second, worse)| (results.candidates.of(second), percent(worse)));
            let (second, worse) = second.unwrap_or((ABSENT, ABSENT.to_owned()));
            vec![
                Cell::text(results.load(context)),
                Cell::text(results.drives.of(context.drive)),
                Cell::text(results.candidates.of(best.candidate)),
                Cell::number(self.shown(best.value)),
                Cell::text(second),
                Cell::number(worse),
                Cell::number(best.defaults.map_or_else(|| ABSENT.to_owned(), percent)),
                Cell::number(percent(best.worst)),
            ]
        };
        let rows = shown.iter().map(row).collect();
        let name = self.figure.name.as_str();
        let caption = format!(
            "Best candidate for {name}, and how much worse are the second, the defaults of the best one's scheduler, and \
             the worst candidate"
        );
        let columns = ["case", "drive", "best", name, "second", "is worse by", "defaults", "worst"];
        let mut text: Vec<String> = left_out(self.best.len(), shown.len(), "cases").into_iter().collect();
        if !text.is_empty() {
            text.push("They are those in which candidates differ most.".to_owned());
        }
        let heading = "The best candidate of each case".to_owned();
        Some(Section { heading, text, tables: vec![table(caption, &columns, rows)], ..Section::default() })
    }

    /// What each tunable matters, by scheduler.
    fn tunables(&self) -> Option<Section> {
        let results = self.results;
        let contexts: Vec<String> = (0..results.contexts.len()).map(|number| number.to_string()).collect();
        let mut of_scheduler: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (number, name) in (0..).zip(&results.candidates.names) {
            if !name.starts_with("stack ") {
                of_scheduler.entry(scheduler_of(name)).or_default().insert(number);
            }
        }
        let mut section = Section { heading: "What each tunable matters".to_owned(), ..Section::default() };
        for (scheduler, candidates) in of_scheduler.into_iter().filter(|(_, candidates)| candidates.len() > 1) {
            let observed = results.runs.iter().filter(|run| candidates.contains(&run.candidate));
            let observed = observed.filter_map(|run| {
                let (context, scheduler) =
                    (contexts[run.context as usize].as_str(), results.candidates.of(run.candidate));
                Some(Observation { context, scheduler, value: run.figure? })
            });
            let found = match sensitivity(observed, self.figure.better) {
                Ok(found) => found,
                Err(error) => {
                    section.text.push(format!("Of {scheduler} it cannot be said: {error}."));
                    continue;
                }
            };
            let mut tunables = found.tunables;
            tunables.sort_by(|one, other| other.share.total_cmp(&one.share));
            let value = |of: &Marginal| format!("{} ×{}", of.value, ratio(of.ratio));
            let rows = tunables.iter().map(|of| {
                vec![
                    Cell::text(of.tunable.clone()),
                    Cell::text(of.best.clone()),
                    Cell::number(percent(of.range)),
                    Cell::number(percent(of.share)).with_share(Some(of.share)),
                    Cell::number(percent(of.share_by_chance)),
                    Cell::text(of.values.iter().map(value).collect::<Vec<String>>().join(", ")),
                ]
            });
            let caption = format!(
                "{scheduler}: {} in {}. Each tunable on its own: between its best and its worst value; share of the \
                 variance over candidates, and what a tunable without effect explains by chance; {} with each value over \
                 that of all candidates",
                counted(found.candidates, "candidate", "candidates"),
                counted(found.contexts, "case", "cases"),
                self.figure.name
            );
            let columns = ["tunable", "best", "range", "share", "by chance", "values"];
            section.tables.push(table(caption, &columns, rows.collect()));
            if found.incomplete > 0 {
                section.text.push(format!(
                    "Of {scheduler}, {} lack results in some cases; least squares make up for it.",
                    counted(found.incomplete, "candidate", "candidates")
                ));
            }
        }
        let better = match self.figure.better {
            Better::Smaller => "Less is better.",
            Better::Larger => "More is better.",
        };
        section.text.push(better.to_owned());
        (section.tables.len() + section.text.len() > 1).then_some(section)
    }

    /// Counts, errors, and the names of everything.
    fn what_was_run(&self) -> Vec<Section> {
        let results = self.results;
        let pairs = results.contexts.iter().filter(|context| context.beside.is_some()).count();
        let mut text = vec![format!(
            "{} tasks: {}, {}, {}. {} of {} with comparable results are pairs of VMs. Replays have {}.",
            results.tasks,
            counted(results.traces.names.len() as u64, "trace", "traces"),
            counted(results.candidates.names.len() as u64, "candidate", "candidates"),
            counted(results.drives.names.len() as u64, "drive", "drives"),
            pairs,
            counted(results.contexts.len() as u64, "case", "cases"),
            results.settings.names.join("; ")
        )];
        text.push(format!("{} tasks failed, {} are overloaded.", results.failed, results.overloaded));
        if let (Some(context), false) = (results.contexts.first(), results.has_windows) {
            let window = window(*context);
            text.push(match window.is_empty() {
                true => "Traces are replayed whole.".to_owned(),
                false => format!("Of each trace the part{window} is replayed."),
            });
        }
        let mut ran = Section { heading: "What was run".to_owned(), text, ..Section::default() };
        if results.failed > 0 {
            let mut errors: Vec<(&String, &u64)> = results.errors.iter().collect();
            errors.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
            let told: u64 = results.errors.values().sum();
            let mut rows: Vec<Vec<Cell>> = errors
                .into_iter()
                .map(|(error, count)| vec![Cell::text(error.clone()), Cell::number(count.to_string())])
                .collect();
            if results.failed > told {
                rows.push(vec![Cell::text("further errors"), Cell::number((results.failed - told).to_string())]);
            }
            ran.tables.push(table("Errors of tasks that failed", &["error", "tasks"], rows));
        }
        let mut names =
            Section { heading: "Traces, candidates and drives".to_owned(), is_closed: true, ..Section::default() };
        let (candidates, drives) = (&results.candidates.names, &results.drives.names);
        for (what, all) in [("traces", &results.paths), ("candidates", candidates), ("drives", drives)] {
            names.text.extend(left_out(all.len(), ROWS_MAX, what));
            let rows = all.iter().take(ROWS_MAX).map(|name| vec![Cell::text(name.clone())]).collect();
            names.tables.push(table(format!("All {what}"), &[what], rows));
        }
        vec![ran, names]
    }
}
