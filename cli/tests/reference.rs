//! The pages of `docs/reference/` are what the registries and the command line say. `make reference` writes them.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod generated;
mod program;

use generated::{Block, check, check_blocks, root};

const REMEDY: &str = "`make reference`";

/// The kinds of `iocast list` with a page each; that of workloads has a test of its own, beside their registry.
const KINDS: [&str; 6] = ["schedulers", "drives", "formats", "stacks", "predictors", "papers"];

#[test]
fn every_kind_of_part_has_its_page() {
    for kind in KINDS {
        check(&root().join(format!("docs/reference/{kind}.md")), REMEDY);
    }
    let help = program::stdout(&["help", "list"]).split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, kinds) = help.split_once("[possible values: ").unwrap();
    let mut kinds: Vec<&str> = kinds.split_once(']').unwrap().0.split(", ").collect();
    kinds.retain(|kind| *kind != "workloads");
    kinds.sort_unstable();
    let mut pages = KINDS;
    pages.sort_unstable();
    assert_eq!(kinds, pages, "a kind has no page");
}

/// The subcommands below `path`, each with those below it, as help lists them.
fn subcommands(path: &[String]) -> Vec<Vec<String>> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let help = program::stdout(&[&["help"], &words[..]].concat());
    let Some((_, listed)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let names = listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        name.split_whitespace().next().filter(|name| *name != "help")
    });
    let below = names.flat_map(|name| {
        let path = [path, &[name.to_owned()]].concat();
        [vec![path.clone()], subcommands(&path)].concat()
    });
    below.collect()
}

#[test]
fn every_subcommand_has_its_options_on_the_page() {
    let intro = "# Command line\n\nThe help of every subcommand, as `iocast help SUBCOMMAND` prints it. `iocast man` prints \
                 manual pages, and\n`iocast completions` what a shell needs to complete names.\n\n";
    let all = subcommands(&[]);
    assert!(all.len() > 30, "{} subcommands", all.len());
    let block = |(index, path): (usize, Vec<String>)| {
        let before = format!("{}## iocast {}\n\n", if index == 0 { intro } else { "\n" }, path.join(" "));
        let arguments = [vec!["help".to_owned()], path].concat();
        (before, Block { arguments, text: String::new(), digest: String::new() })
    };
    let blocks = all.into_iter().enumerate().map(block).collect();
    check_blocks(&root().join("docs/reference/command-line.md"), blocks, "", REMEDY);
}
