//! A reproduction, as sentences and tables.

use anyhow::Result;
use report::Size;
use report::page::Section;
use traces::results::reproduction::{
    Alternative, Cell, Choice, Claim, Evidence, GroupError, Reproduced, Reproduction, Series, Source,
};

use super::grid::{Grid, error, named, ours, parts, percent, spoken, theirs};
use super::pictures;
use super::verdicts::{bars, claims, errors, ranks};
use crate::document::{Block, Document, text_within};
use crate::output::Table;
use crate::output_format::OutputFormat;

/// Widths at which headings of several words, and names of alternatives, are broken in a terminal.
const HEADING: usize = 12;
const NAME: usize = 24;
/// The size of a report's pictures in pixels.
const PICTURE: Size = Size { width: 900, height: 600 };

/// Renders for a terminal of `width` columns, or as Markdown.
pub fn render(reproduced: &Reproduced, format: OutputFormat, width: usize) -> String {
    text_within(&blocks(reproduced, format), format, width)
}

/// A reproduction as a report tells it.
///
/// # Errors
/// A picture that cannot be drawn.
pub fn document(reproduced: &Reproduced) -> Result<Document> {
    let reproduction = &reproduced.reproduction;
    let drawn = pictures::draw(reproduction, PICTURE)?;
    let pictures = drawn.into_iter().map(|drawn| drawn.picture);
    Ok(Document {
        title: reproduction.paper.clone(),
        blocks: in_short(reproduction)
            .map(Block::Sentence)
            .into_iter()
            .chain(blocks(reproduced, OutputFormat::Markdown).into_iter().skip(1))
            .collect(),
        charts: vec![Section { heading: "Pictures".to_owned(), pictures: pictures.collect(), ..Section::default() }],
        program: reproduced.program.clone(),
    })
}

/// How much of the paper is reproduced; `None` if nothing is judged.
fn in_short(reproduction: &Reproduction) -> Option<String> {
    let errors = reproduction.errors.iter().filter_map(|of| Some(of.mean_absolute_relative_error <= of.bar?));
    let bars: Vec<bool> = errors.chain(reproduction.bars.iter().map(|bar| bar.reached)).collect();
    let counted = |right: u64, all: u64, what: &str| (all > 0).then(|| format!("{right} of {all} {what}"));
    let reached = bars.iter().filter(|reached| **reached).count() as u64;
    let [hold, claims] = Claim::count(&reproduction.claims);
    let pairs = || reproduction.ranks.iter().flat_map(|rank| rank.pairs.iter().map(move |pair| (pair, rank.seeds)));
    let right = pairs().map(|(pair, _)| pair.right).sum();
    let all = pairs().map(|(_, seeds)| seeds).sum();
    let said: Vec<String> = [
        counted(reached, bars.len() as u64, "bars are reached"),
        counted(right, all, "ranked pairs, over all seeds, have the paper's order"),
        counted(hold, claims, "statements hold"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
}

/// Its parts, for the terminal or, in wider tables, for Markdown. The first block names the paper.
fn blocks(reproduced: &Reproduced, format: OutputFormat) -> Vec<Block> {
    let reproduction = &reproduced.reproduction;
    let mut blocks = vec![Block::sentence(&reproduction.paper), Block::Sentence(intro(reproduced))];
    blocks.extend(Grid::all(&reproduction.cells).iter().map(|grid| Block::Table(numbers(grid, format))));
    if !reproduction.errors.is_empty() {
        blocks.push(Block::Table(errors(&reproduction.errors)));
    }
    if !reproduction.bars.is_empty() {
        blocks.push(Block::Table(bars(&reproduction.bars)));
    }
    if !reproduction.ranks.is_empty() {
        blocks.push(Block::Table(ranks(&reproduction.ranks)));
    }
    if !reproduction.claims.is_empty() {
        blocks.push(Block::Table(claims(&reproduction.claims)));
    }
    if !reproduction.choices.is_empty() {
        blocks.push(Block::Table(choices(reproduction)));
    }
    if !reproduction.alternatives.is_empty() {
        let table = alternatives(reproduction);
        blocks.push(Block::Broken { table, text_max: NAME, heading_max: HEADING });
    }
    if !reproduction.figures.is_empty() {
        blocks.push(Block::List { heading: "Figures".to_owned(), items: figures(&reproduction.figures, format) });
    }
    if !reproduction.statements.is_empty() {
        blocks.push(Block::List { heading: "Statements".to_owned(), items: reproduction.statements.clone() });
    }
    blocks
}

fn intro(reproduced: &Reproduced) -> String {
    let Reproduction { seeds, cells, .. } = &reproduced.reproduction;
    let seeds = match (&seeds[..], seeds.first(), seeds.last()) {
        ([_, _, ..], Some(first), Some(last)) if last - first == seeds.len() as u64 - 1 => {
            format!("{} seeds ({first} to {last})", seeds.len())
        }
        (seeds, ..) => format!("seed {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let interval = if cells.iter().any(|cell| cell.ci95.is_some()) {
        " ± half of its 95 % confidence interval (Student's t)"
    } else {
        ""
    };
    let ours = format!(", {seeds}. Ours is the mean over the seeds{interval}");
    format!("{}{ours}; the error is relative to the paper's number{}.", reproduced.program, legend(cells))
}

/// What the marks behind errors mean, as far as they occur.
fn legend(cells: &[Cell]) -> String {
    let marked = |evidence: Evidence| cells.iter().any(|cell| cell.paper.is_some() && cell.evidence == evidence);
    let marks = [
        (marked(Evidence::Seen), "; s: this number had been seen when other details or its limits were chosen"),
        (marked(Evidence::ChosenOn), "; c: details were chosen so that this number comes near"),
        (marked(Evidence::Fitted), "; f: the model was changed after this number had been seen"),
        (cells.iter().any(|cell| !cell.counts), "; * does not count in the mean errors"),
    ];
    marks.iter().filter(|(occurs, _)| *occurs).map(|(_, text)| *text).collect()
}

/// A table of the paper: three lines a row in a terminal, one in Markdown.
fn numbers(grid: &Grid<'_>, format: OutputFormat) -> Table {
    let of_table = grid.unit(None);
    // The paper has no numbers of our own VMs.
    let printed = grid.cells.iter().any(|cell| cell.paper.is_some());
    let what = match (printed, format) {
        (false, _) => "ours",
        (true, OutputFormat::Markdown) => "paper / ours (error)",
        (true, _) => "paper, ours, error",
    };
    let by_formula = grid.cells.iter().all(|cell| cell.source == Source::Formula);
    let formula = if by_formula { " (formula test)" } else { "" };
    let mut rows = Vec::new();
    for &row in &grid.rows {
        let cells = |show: &dyn Fn(&Cell) -> String| -> Vec<String> {
            let cells = grid.columns.iter().map(|column| grid.cell(row, column));
            cells.map(|cell| cell.map_or_else(String::new, show)).collect()
        };
        let unit = grid.unit(Some(row));
        let label = match &unit {
            Some(unit) if of_table.is_none() => format!("{row}, {unit}"),
            _ => row.to_owned(),
        };
        // A row of several units has them in its cells.
        let of_cell = |cell: &Cell| match unit {
            Some(_) => String::new(),
            None => format!(" {}", spoken(&cell.unit)),
        };
        let mut line = |name: String, show: &dyn Fn(&Cell) -> String| {
            rows.push([vec![name], cells(show)].concat());
        };
        if !printed {
            line(label, &|cell| format!("{}{}", ours(cell), of_cell(cell)));
        } else if format == OutputFormat::Markdown {
            line(label, &|cell| match cell.paper {
                Some(_) => format!("{} / {} ({}){}", theirs(cell), ours(cell), error(cell), of_cell(cell)),
                None => format!("- / {}{}", ours(cell), of_cell(cell)),
            });
        } else {
            line(label, &|cell| format!("{}{}", theirs(cell), of_cell(cell)));
            line("  ours".to_owned(), &ours);
            line("  error".to_owned(), &error);
        }
    }
    let unit = of_table.map(|unit| format!(", {unit}")).unwrap_or_default();
    let columns = grid.columns.iter().map(|column| (*column).to_owned());
    Table {
        title: format!("{}{unit}: {what}{formula}", named("Table", grid.name)),
        header: [String::new()].into_iter().chain(columns).collect(),
        rows,
        text_columns: 1,
    }
}

fn choices(reproduction: &Reproduction) -> Table {
    let rows = reproduction.choices.iter();
    let by = |evidence: Evidence| match evidence {
        Evidence::Forecast => "no number",
        Evidence::Seen => "no number, but results had been seen",
        Evidence::ChosenOn => "numbers marked c",
        Evidence::Fitted => "numbers marked f, once they were seen",
    };
    let row = |choice: &Choice| {
        vec![choice.name.clone(), choice.value.clone(), by(choice.evidence).to_owned(), choice.reason.clone()]
    };
    Table {
        title: "Choices that the paper leaves open".to_owned(),
        header: ["subject", "choice", "chosen by", "reason"].map(str::to_owned).to_vec(),
        rows: rows.map(row).collect(),
        text_columns: 4,
    }
}

/// The errors of each alternative.
fn alternatives(reproduction: &Reproduction) -> Table {
    let found = |errors: &[GroupError], group: &str| {
        let error = errors.iter().find(|error| error.group == group);
        error.map_or_else(|| "-".to_owned(), |error| percent(error.mean_absolute_relative_error))
    };
    let is_tried = |group: &&str| {
        reproduction.alternatives.iter().any(|other| other.errors.iter().any(|error| error.group == *group))
    };
    let groups: Vec<&str> = reproduction.errors.iter().map(|error| error.group.as_str()).filter(is_tried).collect();
    let count = |[right, all]: [u64; 2]| if all == 0 { "-".to_owned() } else { format!("{right} of {all}") };
    let other = |other: &Alternative| {
        let name = format!("{}: {}", other.name, other.value);
        let errors = groups.iter().map(|group| found(&other.errors, group));
        let counts = [other.pairs_right, other.claims_hold].map(count);
        [name].into_iter().chain(errors).chain(counts).collect::<Vec<String>>()
    };
    let header = groups.iter().map(|&group| group.to_owned());
    Table {
        title:
            "Alternatives: the same errors with another choice; the ranked pairs in the paper's order; the claims that hold"
                .to_owned(),
        header: [String::new()].into_iter().chain(header).chain(["pairs", "claims"].map(str::to_owned)).collect(),
        rows: reproduction.alternatives.iter().map(other).collect(),
        text_columns: 1,
    }
}

/// Names the series of each figure; the pictures and the JSON hold their points.
fn figures(series: &[Series], format: OutputFormat) -> Vec<String> {
    let hint = if format == OutputFormat::Table { "; --output draws it" } else { "" };
    let described = |(name, series): (&str, Vec<&Series>)| {
        let lines: Vec<String> =
            series.iter().map(|series| format!("{} ({} points)", series.name, series.points.len())).collect();
        let axes = series.first().map(|first| format!("{} over {}: ", first.y, first.x)).unwrap_or_default();
        format!("{}, {axes}{}{hint}.", named("Figure", name), lines.join(", "))
    };
    parts(series, |series| &series.figure).into_iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use traces::results::reproduction::{Bar, Claim, Rank, RankedPair, Verdict};

    use super::*;
    use crate::reproduce::grid::tests::cell;

    fn reproduced() -> Reproduced {
        let columns = ["real cats", "real deadline", "real cfq", "virtual cats", "virtual deadline", "virtual cfq"];
        let rows = [("mean response", "ms"), ("variance response", "ms2"), ("throughput", "sectors/ms")];
        let cells = rows
            .iter()
            .flat_map(|(row, unit)| columns.map(|column| cell(["2", row, column], unit, Some(28_651.71), 32_442.0)));
        let error = |group: &str, mean: f64, bar, evidence| GroupError {
            group: group.to_owned(),
            cells: 9,
            mean_absolute_relative_error: mean,
            bar,
            evidence,
        };
        let errors = vec![
            error("Table 2, virtual", 0.084, Some(0.12), Evidence::ChosenOn),
            error("Table 3, virtual", 0.208, Some(0.2), Evidence::Fitted),
            error("Tables 2 and 3, real", 0.13, None, Evidence::Forecast),
        ];
        let long = "a reason that needs several lines in any terminal, so long that it goes beyond the width of one";
        let reproduction = Reproduction {
            schema_version: 1,
            paper: "Somebody 2010: A title".to_owned(),
            seeds: (1..=10).collect(),
            choices: vec![Choice::new("real drive", long, long).by(Evidence::Fitted)],
            cells: cells.chain([cell(["shadow cache", "recall", "real cats"], "share", None, 0.97)]).collect(),
            alternatives: vec![Alternative {
                name: "a hit in the line's cache".to_owned(),
                value: "slowed down with the disk".to_owned(),
                errors: errors.clone(),
                pairs_right: [11, 12],
                claims_hold: [0, 0],
            }],
            errors,
            bars: vec![
                Bar::new("recall of it", 0.987, Some(0.97), None, Evidence::Forecast),
                Bar::new("slowest read, ms", 1001.0, None, Some(1000.0), Evidence::Forecast),
                Bar::new("gain, %", 27.9, None, Some(29.0), Evidence::Forecast)
                    .within(Some([26.6, 29.2]))
                    .limited_later(),
                Bar::new("loss, %", 20.2, Some(25.0), Some(37.0), Evidence::Seen),
            ],
            ranks: vec![Rank {
                what: "Table 2, virtual, mean response".to_owned(),
                order: ["deadline", "cats"].map(str::to_owned).to_vec(),
                ours: ["cats", "deadline"].map(str::to_owned).to_vec(),
                pairs: vec![RankedPair {
                    better: "deadline".into(),
                    worse: "cats".into(),
                    apart: Some(0.003),
                    right: 1,
                }],
                right: 1,
                seeds: 10,
                evidence: Evidence::Forecast,
            }],
            claims: vec![Claim {
                place: "Figure 5(c)".to_owned(),
                says: "the map phase is longer".to_owned(),
                ours: "94 s and 75 s".to_owned(),
                verdict: Verdict::Contradicts,
                evidence: Evidence::Forecast,
            }],
            figures: vec![Series {
                figure: "1".to_owned(),
                scheduler: None,
                name: "reads".to_owned(),
                x: "distance in million sectors".to_owned(),
                y: "service time in ms".to_owned(),
                points: vec![[1.0, 2.0]],
            }],
            statements: vec![long.to_owned()],
        };
        Reproduced { program: "iocast 1".to_owned(), reproduction }
    }

    #[test]
    fn everything_fits_the_terminal() {
        for width in [80, 160] {
            let text = render(&reproduced(), OutputFormat::Table, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let tables = text.lines().filter(|line| line.starts_with('┌')).count();
            // At 80 columns the real system's half of Table 2 stands above the virtual one's.
            assert_eq!(tables, if width == 80 { 10 } else { 8 }, "{text}");
        }
    }

    #[test]
    fn reproduction_in_short_counts_bars_pairs_and_statements() {
        let mut reproduction = reproduced().reproduction;
        let says = "3 of 6 bars are reached; 1 of 10 ranked pairs, over all seeds, have the paper's order; 0 of 1 statements \
                    hold.";
        assert_eq!(in_short(&reproduction).as_deref(), Some(says));
        (reproduction.errors, reproduction.bars) = (Vec::new(), Vec::new());
        (reproduction.ranks, reproduction.claims) = (Vec::new(), Vec::new());
        assert_eq!(in_short(&reproduction), None);
    }

    #[test]
    fn each_number_stands_with_its_error_and_each_bar_with_its_verdict() {
        let text = render(&reproduced(), OutputFormat::Table, 160);
        let line = |words: &str| {
            let found = text.lines().find(|line| line.contains(words));
            found.unwrap_or_else(|| panic!("{words}: {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(line("variance response, ms²").contains("┆ 28652 ┆"));
        assert!(text.contains("32442 ± 324") && text.contains("+13.2 %"), "{text}");
        assert_eq!(line("Table 2, virtual "), "│ Table 2, virtual ┆ 9 ┆ 8.4 % ┆ 12.0 % ┆ reached (chosen on) │");
        assert_eq!(line("Table 3, virtual "), "│ Table 3, virtual ┆ 9 ┆ 20.8 % ┆ 20.0 % ┆ missed (fitted) │");
        assert_eq!(line("Tables 2 and 3, real "), "│ Tables 2 and 3, real ┆ 9 ┆ 13.0 % ┆ - ┆ - │");
        assert_eq!(line("│ recall of it "), "│ recall of it ┆ 0.99 ┆ 0.97 ┆ - ┆ reached │");
        assert_eq!(line("│ slowest read"), "│ slowest read, ms ┆ 1001.00 ┆ - ┆ 1000.00 ┆ missed │");
        assert_eq!(line("│ gain, %"), "│ gain, % ┆ 27.90 ┆ - ┆ 29.00 ┆ reached~ (limit set later) │");
        assert_eq!(line("│ loss, %"), "│ loss, % ┆ 20.20 ┆ 25.00 ┆ 37.00 ┆ missed (seen) │");
        assert!(text.contains("Other bars; ~ if the confidence interval passes a limit"), "{text}");
        assert!(
            line("Table 2, virtual, mean response")
                .ends_with("┆ deadline, cats ┆ cats, deadline ┆ deadline before cats~: 1 of 10 │")
        );
        assert!(text.contains("~ within 3 % in the paper"), "{text}");
        assert!(line("Figure 5(c)").ends_with("┆ the map phase is longer ┆ 94 s and 75 s ┆ contradicts the paper │"));
        assert!(line("a hit in the line").ends_with("8.4 % ┆ 20.8 % ┆ 13.0 % ┆ 11 of 12 ┆ - │"));
        assert!(line("iocast 1").starts_with("iocast 1, 10 seeds (1 to 10). Ours is the mean"));
        assert!(!text.contains('*'), "all cells count");

        let mut fitted = reproduced();
        fitted.reproduction.cells[0].evidence = Evidence::Fitted;
        fitted.reproduction.cells[1].evidence = Evidence::Seen;
        fitted.reproduction.ranks[0].evidence = Evidence::ChosenOn;
        let text = render(&fitted, OutputFormat::Markdown, 160);
        assert!(text.contains("(+13.2 % s)") && text.contains("; s: this number had been seen"), "{text}");
        assert!(text.contains("(+13.2 % f)") && !text.contains("% c)"), "{text}");
        assert!(
            text.contains("; f: the model was changed after this number had been seen.") && !text.contains("; c: ")
        );
        assert!(text.contains("numbers marked f, once they were seen"), "{text}");
        assert!(text.contains("| Table 2, virtual, mean response (chosen on) |"), "{text}");
    }

    #[test]
    fn markdown_has_a_cell_for_each_number() {
        let mut reproduced = reproduced();
        reproduced.reproduction.cells[0].counts = false;
        reproduced.reproduction.seeds = vec![7];
        let text = render(&reproduced, OutputFormat::Markdown, 80);
        assert!(text.contains("### Table 2: paper / ours (error)\n\n| "), "{text}");
        assert!(text.contains("| mean response, ms ") && text.contains("| 28652 / 32442 ± 324 (+13.2 %*) |"), "{text}");
        // Of what the paper has no numbers of, there are ours alone.
        assert!(text.contains("share: ours\n") && text.contains("| 0.97 ± 0.01 |"), "{text}");
        assert!(text.contains("iocast 1, seed 7."), "{text}");
        assert!(
            text.contains("* does not count") && text.contains("a hit in the line's cache: slowed down with the disk")
        );
    }
}
