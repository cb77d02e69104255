//! Proves that a refactoring changed no result.
//!
//! The example runs the commands of `benches/examples/digests/commands.txt` with an `iocast` binary. It computes two
//! digests of the output of each row and compares them with `benches/digests.txt`. `figures` covers numbers only: it
//! changes if a result changes. `whole` covers every byte: it also changes if a key is renamed or a sentence
//! rewritten. `digest.rs` lists which part of which file `figures` covers.
//!
//! `make digests` builds `iocast` and compares. It fails if a digest differs, if a command fails, or if a row is
//! missing on either side. `make digests ARGS=--text-may-change` lists the rows that differ in `whole` alone and
//! accepts them. `make digests ARGS=--update` writes the new digests. Use it after an intended change, and state the
//! reason in the commit. `make digests IOCAST=PATH` tests another binary. Further options in ARGS:
//!
//! - `--keep DIR` stores every output in DIR. `diff -r` of two such folders shows how the outputs of two binaries
//!   differ.
//! - `--only TEXT` runs only the rows that contain TEXT.
//!
//! The outputs do not depend on the time, the number of threads, or the folder of the binary and of temporary files.
//! `OUT` replaces the path of a row's output folder. The example leaves out `capture` and `serve`, which measure real
//! time, and the output as tables and Markdown, which shows the figures of the JSON. Tunables and their defaults are
//! strings in the JSON: `whole` covers them, `figures` covers their effect.

mod commands;
mod digest;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, thread};

use commands::{Names, Row};
use digest::{Digests, Output};
use iocast_bench::cost;
use serde_json::Value;

const HEADER: &str = "\
# Digests of the outputs of the commands in benches/examples/digests/commands.txt. Equal digests prove that a
# refactoring changed no result. `figures` is of the numbers only, `whole` of every byte: the first 16 hexadecimal digits
# of SHA-256.
#
# `make digests` compares. `make digests ARGS=--text-may-change` accepts other text with equal figures. After an
# intended change, `make digests ARGS=--update` rewrites this file. benches/examples/digests/main.rs describes the method.
#
# figures        whole            commands
";

struct Options {
    program: PathBuf,
    update: bool,
    text_may_change: bool,
    keep: Option<PathBuf>,
    only: Option<String>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options()?;
    // `cargo run` becomes this process, and its compilers count as children that have ended.
    let before = cost::children_cpu_seconds().unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the package lies in no workspace")?;
    let mut rows = commands::rows(include_str!("commands.txt"), names(&options.program, root)?)?;
    rows.retain(|row| options.only.as_ref().is_none_or(|only| row.line.contains(only)));
    if rows.is_empty() {
        return Err("no row contains the text of --only".into());
    }
    if let Some(folder) = &options.keep {
        fs::create_dir_all(folder)?;
    }
    let digests = run_all(&rows, &options, root);
    let store = root.join("benches/digests.txt");
    let mut stored = if store.exists() { read(&fs::read_to_string(&store)?)? } else { BTreeMap::new() };
    if options.only.is_some() {
        stored.retain(|line, _| rows.iter().any(|row| row.line == *line));
    }
    let comparison = Comparison::new(&rows, &digests, &stored);
    comparison.print();
    if let Some(seconds) = cost::children_cpu_seconds() {
        println!("{} rows, {:.0} CPU seconds", rows.len(), seconds - before);
    }
    if options.update && comparison.failed.is_empty() {
        fs::write(&store, written(&rows, &digests))?;
        println!("wrote {}", store.display());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if comparison.holds(options.text_may_change) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("expected the path of an iocast binary")?;
    let program = Path::new(&program).canonicalize().map_err(|error| format!("{program}: {error}"))?;
    let mut options = Options { program, update: false, text_may_change: false, keep: None, only: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--update" => options.update = true,
            "--text-may-change" => options.text_may_change = true,
            "--keep" => options.keep = Some(PathBuf::from(value()?)),
            "--only" => options.only = Some(value()?),
            _ => return Err(format!("unknown argument `{argument}`").into()),
        }
    }
    if options.update && options.only.is_some() {
        return Err("--update needs all rows, --only leaves some out".into());
    }
    Ok(options)
}

/// The names that `iocast list` prints and `commands.txt` refers to.
fn names(program: &Path, root: &Path) -> Result<Names, Box<dyn Error>> {
    let list = |what: &str, wanted: fn(&Value) -> bool| -> Result<Vec<String>, Box<dyn Error>> {
        let output =
            Command::new(program).current_dir(root).args(["list", what, "--output-format", "json"]).output()?;
        let entries: Vec<Value> =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("list {what}: {error}"))?;
        let names = entries.iter().filter(|entry| wanted(entry)).filter_map(|entry| entry["name"].as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() { Err(format!("list {what} has no entry with a name").into()) } else { Ok(names) }
    };
    Ok(Names::from([
        ("schedulers".to_owned(), list("schedulers", |_| true)?),
        ("drives".to_owned(), list("drives", |_| true)?),
        ("stacks".to_owned(), list("stacks", |_| true)?),
        ("written".to_owned(), list("formats", |format| format["written"] == true)?),
    ]))
}

/// The digests of each row, or its error, in the order of `rows`. As many rows run at the same time as there are cores.
fn run_all(rows: &[Row], options: &Options, root: &Path) -> Vec<Result<Digests, String>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((at, row)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            rows.get(at).map(|row| (at, row))
        } {
            let begin = Instant::now();
            let digests = run(row, options, root).map_err(|error| error.to_string());
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            results.insert(at, digests);
            eprintln!("{:>4}/{} {:>6.1} s  {}", results.len(), rows.len(), begin.elapsed().as_secs_f64(), row.line);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}

/// Runs the commands of a row and computes the digests of their output.
fn run(row: &Row, options: &Options, root: &Path) -> Result<Digests, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().to_str().ok_or("the folder for temporary files has no name in UTF-8")?;
    let count = row.commands().count();
    for (number, arguments) in (1..).zip(row.commands()) {
        let mut command = Command::new(&options.program);
        command.current_dir(root).args(arguments.iter().map(|argument| argument.replace("OUT", out)));
        // Without --align, convert prints nothing.
        if arguments.first() != Some(&"convert") || arguments.contains(&"--align") {
            command.args(["--output-format", "json"]);
        }
        let output = command.output()?;
        let expected = if number == count { row.exit } else { 0 };
        if output.status.code() != Some(expected) {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(
                format!("command {number}: {}, not exit code {expected}: {}", output.status, message.trim()).into()
            );
        }
        if !output.stdout.is_empty() {
            fs::write(folder.path().join(format!("{number}.json")), &output.stdout)?;
        }
        if expected != 0 {
            fs::write(folder.path().join(format!("{number}.stderr")), &output.stderr)?;
        }
    }
    let outputs = outputs(folder.path(), out)?;
    if outputs.is_empty() {
        return Err("nothing was printed or written".into());
    }
    if let Some(keep) = &options.keep {
        for (name, bytes) in &outputs {
            fs::write(keep.join(format!("{}--{}", file_name(&row.line), name.replace('/', "-"))), bytes)?;
        }
    }
    digest::of(&outputs)
}

/// Every file below `folder`, in the order of their names, with the path `out` of the folder replaced.
fn outputs(folder: &Path, out: &str) -> Result<Vec<Output>, Box<dyn Error>> {
    let mut outputs = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = match String::from_utf8(fs::read(&path)?) {
                Ok(text) => text.replace(out, "OUT").into_bytes(),
                Err(error) => error.into_bytes(),
            };
            outputs.push((path.strip_prefix(folder)?.display().to_string(), bytes));
        }
    }
    outputs.sort();
    Ok(outputs)
}

/// A name for the files of a row: its text, shortened, and a few digits that keep such names apart.
fn file_name(line: &str) -> String {
    let short = line.replace("traces/samples/", "").replace(".parquet", "");
    let legible = |character: char| character.is_ascii_alphanumeric() || ".=@-".contains(character);
    let short: String =
        short.chars().map(|character| if legible(character) { character } else { '_' }).take(140).collect();
    format!("{short}-{}", &digest::of_text(line)[..6])
}

/// The digests by row that the file `text` holds.
fn read(text: &str) -> Result<BTreeMap<String, Digests>, Box<dyn Error>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (Some(figures), Some(whole), Some(row)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(format!("digests.txt: `{line}` is not two digests and a row").into());
            };
            Ok((row.to_owned(), Digests { figures: figures.to_owned(), whole: whole.to_owned() }))
        })
        .collect()
}

/// The content of `digests.txt` for these digests.
fn written(rows: &[Row], digests: &[Result<Digests, String>]) -> String {
    let lines = rows.iter().zip(digests).filter_map(|(row, digests)| {
        let Digests { figures, whole } = digests.as_ref().ok()?;
        Some(format!("{figures} {whole} {}\n", row.line))
    });
    HEADER.to_owned() + &lines.collect::<String>()
}

/// How rows differ from the stored digests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Comparison {
    failed: Vec<String>,
    figures: Vec<String>,
    text: Vec<String>,
    new: Vec<String>,
    gone: Vec<String>,
}

impl Comparison {
    fn new(rows: &[Row], digests: &[Result<Digests, String>], stored: &BTreeMap<String, Digests>) -> Comparison {
        let mut comparison = Comparison::default();
        for (row, digests) in rows.iter().zip(digests) {
            let line = row.line.clone();
            match (digests, stored.get(&line)) {
                (Err(error), _) => comparison.failed.push(format!("{line}\n    {error}")),
                (Ok(_), None) => comparison.new.push(line),
                (Ok(now), Some(then)) if now.figures != then.figures => comparison.figures.push(line),
                (Ok(now), Some(then)) if now.whole != then.whole => comparison.text.push(line),
                _ => {}
            }
        }
        let lines: BTreeSet<&String> = rows.iter().map(|row| &row.line).collect();
        comparison.gone = stored.keys().filter(|line| !lines.contains(line)).cloned().collect();
        comparison
    }

    fn holds(&self, text_may_change: bool) -> bool {
        let errors = [&self.failed, &self.figures, &self.new, &self.gone];
        errors.iter().all(|rows| rows.is_empty()) && (text_may_change || self.text.is_empty())
    }

    fn print(&self) {
        for (title, rows) in [
            ("failed", &self.failed),
            ("different figures", &self.figures),
            ("same figures, different text", &self.text),
            ("not in benches/digests.txt", &self.new),
            ("in benches/digests.txt, but not run", &self.gone),
        ] {
            if !rows.is_empty() {
                println!("{title}: {}", rows.len());
                rows.iter().for_each(|row| println!("  {row}"));
            }
        }
        if self.holds(false) {
            println!("all digests as in benches/digests.txt");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(figures: &str, whole: &str) -> Digests {
        Digests { figures: figures.to_owned(), whole: whole.to_owned() }
    }

    fn row(line: &str) -> Row {
        Row { line: line.to_owned(), exit: 0 }
    }

    #[test]
    fn stored_file_is_read_back_as_written() {
        let text = written(&[row("a"), row("b c")], &[Ok(digests("1", "2")), Ok(digests("3", "4"))]);
        assert_eq!(
            read(&text).unwrap(),
            BTreeMap::from([("a".into(), digests("1", "2")), ("b c".into(), digests("3", "4"))])
        );
        assert!(read("1 2").is_err());
    }

    #[test]
    fn only_a_difference_in_text_may_be_accepted() {
        let stored = BTreeMap::from([("a".to_owned(), digests("1", "2"))]);
        let compare = |rows: &[Row], now: Result<Digests, String>| Comparison::new(rows, &[now], &stored);
        let a = [row("a")];
        for (comparison, strict, lenient) in [
            (compare(&a, Ok(digests("1", "2"))), true, true),
            (compare(&a, Ok(digests("1", "3"))), false, true),
            (compare(&a, Ok(digests("2", "3"))), false, false),
            (compare(&a, Err("failed".to_owned())), false, false),
            (compare(&[row("b")], Ok(digests("1", "2"))), false, false),
            (compare(&[], Ok(digests("1", "2"))), false, false),
        ] {
            assert_eq!((comparison.holds(false), comparison.holds(true)), (strict, lenient), "{comparison:?}");
        }
    }
}
