//! Runs the commands of README.md, of the tutorial and of the how-tos, in the order printed, in a fresh folder for each
//! page. A command whose comment says what it needs (root, a device, a client) is not run; that the argument parser
//! accepts it is checked beside the parser (`cli/src/arguments/documented.rs`).
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the comment of a command that is not run says.
const NEEDS: &str = "Needs ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The lines of all `sh` blocks that a user can run as they are: those without a comment that says what they need, be it
/// behind them or in the lines above them. `cargo` and `make` are left to other tests.
fn runnable(readme: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut in_block, mut needs) = (false, false);
    let mut is_continued = false;
    for line in readme.lines() {
        if in_block && is_continued {
            lines.push(line.to_owned());
            is_continued = line.ends_with('\\');
        } else if line.starts_with("```") {
            (in_block, needs) = (line == "```sh", false);
        } else if in_block && line.is_empty() {
            needs = false;
        } else if in_block {
            needs |= line.contains(NEEDS);
            let is_command = ["iocast ", "cp ", "cd ", "sed ", "(umask "].iter().any(|start| line.starts_with(start));
            if is_command && !needs {
                lines.push(line.to_owned());
                is_continued = line.ends_with('\\');
            }
        }
    }
    lines
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn every_command_of_the_readme_runs_in_the_order_printed() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines = runnable(&readme);
    for subcommand in ["compare", "stat", "convert", "predict", "place", "calibrate", "reproduce", "list"] {
        let begin = format!("iocast {subcommand} ");
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "README.md has no runnable example of {subcommand}");
    }
    // One shell for all, as a user has one.
    said(folder().path(), &lines.join("\n"));
}

/// A folder as a checkout is to a user of the samples.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("traces/samples"), &folder.path().join("traces/samples"));
    copy(&root().join("docs/examples"), &folder.path().join("docs/examples"));
    folder
}

/// What a script prints there. The line that fails is the last that is echoed.
fn said(folder: &Path, script: &str) -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_iocast"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = format!("set -ev\n{script}\n");
    let output = Command::new("sh").arg("-c").arg(&script).current_dir(folder).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the commands of a page. Each block of `text` is part of what the block of commands above it prints. Returns the
/// number of such blocks.
fn excerpts(page: &str) -> usize {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let folder = folder();
    let (mut output, mut shown) = (String::new(), 0);
    for block in text.split("```").skip(1).step_by(2) {
        match block.split_once('\n').unwrap() {
            ("sh", _) => output = said(folder.path(), &runnable(&format!("```{block}```")).join("\n")),
            ("text", text) => {
                for part in text.split("…\n") {
                    assert!(output.contains(part), "{page}: {part}\nis not in\n{output}");
                }
                shown += 1;
            }
            (other, _) => panic!("{page}: what is a block of {other}?"),
        }
    }
    shown
}

#[test]
fn commands_of_the_tutorial_print_what_stands_below_them() {
    let shown = excerpts("docs/tutorial.md");
    assert!(shown >= 7, "{shown} blocks of output");
}

#[test]
fn commands_of_the_how_tos_print_what_stands_below_them() {
    let entries = std::fs::read_dir(root().join("docs/how-to")).unwrap();
    let mut pages: Vec<String> =
        entries.map(|entry| format!("docs/how-to/{}", entry.unwrap().file_name().display())).collect();
    pages.sort();
    for page in &pages {
        assert!(excerpts(page) > 0, "{page} shows no output");
    }
    assert!(pages.len() >= 7, "{pages:?}");
}

#[test]
fn commands_that_need_something_say_so() {
    let lines = runnable(
        "```sh\n# Needs root.\niocast capture x\n\niocast stat y   # reads\niocast serve z  # Needs a client.\n\n\
         iocast list \\\n  drives\n```\n```text\niocast list\n```\n",
    );
    assert_eq!(lines, ["iocast stat y   # reads", "iocast list \\", "  drives"]);
}
