//! Every command line of iocast in the documentation is accepted by the argument parser, also those that no test runs,
//! because they need root, a device or another program.

use std::path::{Path, PathBuf};

use super::{Cli, without_effect};

/// The Markdown files of a folder and of those below it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let pages = files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.chain(folders.iter().flat_map(|folder| self::pages(folder))).collect()
}

/// The words of each command of iocast in the `sh` blocks of a page, up to what the shell takes.
fn commands(page: &str) -> Vec<Vec<String>> {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    let lines = blocks.flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>());
    let command = |line: String| {
        let words = shlex::split(&line[line.find("iocast ")?..])?;
        Some(words.into_iter().take_while(|word| !["|", "||", "&&", ">", "2>"].contains(&word.as_str())).collect())
    };
    lines.filter(|line| !line.starts_with('#')).filter_map(command).collect()
}

#[test]
fn every_command_of_the_documentation_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in [vec![root.join("README.md")], pages(&root.join("docs"))].concat() {
        for words in commands(&std::fs::read_to_string(&page).unwrap()) {
            let mut command = Cli::command_line();
            let why = match command.try_get_matches_from_mut(&words) {
                Ok(matches) => without_effect(&command, &matches),
                Err(error) => Some(error.to_string()),
            };
            wrong.extend(why.map(|why| format!("{}: {}: {why}", page.display(), words.join(" "))));
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "{checked} commands");
}

#[test]
fn commands_are_found_with_their_words() {
    let page = "```sh\n# iocast no\niocast stat 'a b' \\\n  --top 3 | head\nchrt --idle 0 iocast stat b  # x\n```\n```text\niocast c\n```\n";
    assert_eq!(commands(page), [vec!["iocast", "stat", "a b", "--top", "3"], vec!["iocast", "stat", "b"]]);
}
