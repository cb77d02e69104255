//! `docs/validation/papers.md` against one seed of the same commands: everything that does not depend on the seeds is
//! the same, and nobody has edited a block by hand. `long_papers.rs` compares every figure with all seeds.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod generated;

use std::collections::BTreeSet;

use generated::{Block, digest_of, document, parts, printed};

fn blocks() -> Vec<Block> {
    let (blocks, _) = parts(&std::fs::read_to_string(document()).unwrap());
    blocks.into_iter().map(|(_, block)| block).collect()
}

#[test]
fn blocks_are_the_text_that_was_generated() {
    for block in blocks() {
        let arguments = block.arguments.join(" ");
        assert_eq!(digest_of(&block.text), block.digest, "`iocast {arguments}`: its block was edited by hand");
    }
}

#[test]
fn every_paper_has_a_block() {
    let of_blocks: BTreeSet<String> = blocks().iter().map(|block| block.arguments[1].clone()).collect();
    let list = printed(&["list".into(), "papers".into(), "--output-format".into(), "json".into()]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let papers = list.as_array().unwrap().iter().map(|paper| paper["name"].as_str().unwrap().to_owned());
    assert_eq!(of_blocks, papers.collect());
}

fn one_seed_agrees(paper: &str) {
    let block = blocks().into_iter().find(|block| block.arguments[1] == paper).unwrap();
    let one_seed = ["--seeds", "1", "--alternatives", "off"].map(str::to_owned);
    let now = printed(&[&block.arguments[..], &one_seed].concat());
    let [documented, now] = [&block.text, &now].map(|text| seedless(text));
    for (documented, now) in documented.iter().zip(&now) {
        assert!(documented.allows(now), "{paper}: the document has {documented:?}, the program prints {now:?}");
    }
    assert_eq!(documented.len(), now.len(), "{paper}: lines that do not depend on the seeds");
}

#[test]
fn geist_2010_with_one_seed_agrees_with_its_block() {
    one_seed_agrees("geist2010");
}

#[test]
fn kim_2015_with_one_seed_agrees_with_its_block() {
    one_seed_agrees("kim2015");
}

#[test]
fn casale_2011_with_one_seed_agrees_with_its_block() {
    one_seed_agrees("casale2011");
}

#[test]
fn noorshams_2014_with_one_seed_agrees_with_its_block() {
    one_seed_agrees("noorshams2014");
}

/// A line of a block: text, or the cells of a row of a table.
#[derive(Debug)]
struct Line<'a> {
    section: &'a str,
    cells: Vec<&'a str>,
}

/// The lines but for the one that names the seeds, the alternatives, which one seed leaves out, and what only lays out.
fn seedless(text: &str) -> Vec<Line<'_>> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        section = line.strip_prefix("### ").unwrap_or(section);
        let rule = line.starts_with("|-");
        if line.is_empty() || rule || line.starts_with("iocast ") {
            continue;
        }
        if section.starts_with("Alternatives: ") && (line.starts_with('|') || line.starts_with('#')) {
            continue;
        }
        lines.push(match line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
            Some(row) => Line { section, cells: row.split('|').map(str::trim).collect() },
            None => Line { section: "", cells: vec![line] },
        });
    }
    lines
}

impl Line<'_> {
    /// Whether one seed may print the other line where all seeds print this one.
    fn allows(&self, one_seed: &Line<'_>) -> bool {
        let same = |(column, (all, one)): (usize, (&&str, &&str))| all == one || self.varies(column, all, one);
        self.section == one_seed.section
            && self.cells.len() == one_seed.cells.len()
            && self.cells.iter().zip(&one_seed.cells).enumerate().all(same)
    }

    /// Whether a cell depends on the seeds, and the part of it that does not is the same.
    fn varies(&self, column: usize, all: &str, one: &str) -> bool {
        match self.section {
            "" => {
                let from_seeds = [
                    "- What each part of CATS changes",
                    "- By variance, the least first,",
                    "- Alone, the web server writes",
                    "- Equation (6) on the writes of replayed VMs",
                    "- Weights that were searched",
                    "- f can express",
                ];
                from_seeds.iter().any(|start| all.starts_with(start) && one.starts_with(start))
            }
            "Mean absolute relative errors" => matches!(column, 2 | 4) && !self.cells[0].contains(", measured, "),
            bars if bars.starts_with("Other bars") => {
                matches!(column, 1 | 4) && !self.cells[0].starts_with("formula test")
            }
            ranks if ranks.starts_with("Ranks, ") => column >= 2,
            words if words.starts_with("What the paper says in words") => column >= 2,
            table if table.contains(", measured, ") || column == 0 => false,
            errors if errors.contains(" errors, replayed, ") => true,
            table => {
                // The gains of BA come from means over the seeds and have no interval of their own.
                let depends = all.contains(" ± ") || table.starts_with("Figure 6 gain of BA");
                let papers = |cell: &str| cell.split_once(" / ").map(|(papers, _)| papers.to_owned());
                depends && papers(all) == papers(one)
            }
        }
    }
}
