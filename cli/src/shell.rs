//! `iocast completions` and `iocast man`: what a shell and `man` get from the command line's own description.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Command;
use clap_mangen::Man;
use traces::whole_file::write_whole;

use crate::arguments;
use crate::arguments::Cli;
use crate::error::UsageError;
use crate::output;

/// The program's name.
const PROGRAM: &str = "iocast";

pub fn completions(arguments: &arguments::Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command_line(), PROGRAM, &mut script);
    output::print_as_it_is(&String::from_utf8(script)?)
}

pub fn man(arguments: &arguments::Man) -> Result<()> {
    let command = built();
    match &arguments.output {
        Some(folder) => {
            let written = write_pages(&command, folder)?;
            output::print(&format!("{} pages in {}\n", written.len(), folder.display()))
        }
        None => {
            let words: Vec<&str> = arguments.subcommand.iter().flat_map(|word| word.split_whitespace()).collect();
            output::print_as_it_is(&page(find(&command, &words)?)?)
        }
    }
}

/// The command line, in which each subcommand knows its full name.
fn built() -> Command {
    let mut command = Cli::command_line().disable_help_subcommand(true);
    command.build();
    command
}

/// The subcommand that `words` name.
///
/// # Errors
/// There is none; the error names those that there are.
pub fn find<'a>(command: &'a Command, words: &[&str]) -> Result<&'a Command, UsageError> {
    words.iter().try_fold(command, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let names: Vec<&str> = visible(command).map(Command::get_name).collect();
            match names.as_slice() {
                [] => UsageError(format!("{} has no subcommand {word}", command.get_name())),
                names => {
                    UsageError(format!("{} has no subcommand {word}; it has {}", command.get_name(), names.join(", ")))
                }
            }
        })
    })
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The manual page of a subcommand.
fn page(command: &Command) -> Result<String> {
    let mut page = Vec::new();
    Man::new(command.clone()).manual("iocast manual").source(traces::program_version()).render(&mut page)?;
    // clap_mangen has no name of its own for this section, and would fill the lines of commands. It comes last.
    Ok(String::from_utf8(page)?
        .replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n.nf\n")
        .replace(".SH EXTRA\n", ".SH NOTES\n.nf\n"))
}

/// Writes the pages of `command` and of all subcommands below it. Returns their files.
fn write_pages(command: &Command, folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    ensure!(folder.is_dir(), "{} is no folder", folder.display());
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    write_whole(&path, page(command)?.as_bytes())?;
    let mut written = vec![path];
    for subcommand in visible(command) {
        written.extend(write_pages(subcommand, folder)?);
    }
    Ok(written)
}
