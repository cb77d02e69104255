//! Reads `commands.txt` and expands its alternatives into rows.

use std::collections::BTreeMap;
use std::error::Error;

/// Alternatives by the name that stands in braces for them.
pub type Names = BTreeMap<String, Vec<String>>;

/// A row: commands that run one after another and share an output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The commands as one line, by which `digests.txt` knows the row.
    pub line: String,
    /// The exit code expected of the last command.
    pub exit: i32,
}

impl Row {
    /// The arguments of each command.
    pub fn commands(&self) -> impl Iterator<Item = Vec<&str>> {
        self.line.split("&&").map(|command| command.split_whitespace().collect())
    }
}

/// The rows of `text`, in order. `names` holds the alternatives that `iocast list` prints.
///
/// # Errors
/// An unknown name, a brace without its partner, an exit code that is not a number, or a row that occurs twice.
pub fn rows(text: &str, mut names: Names) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in joined(text).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, alternatives)) = line.split_once(" := ") {
            names.insert(name.to_owned(), alternatives.split('|').map(str::to_owned).collect());
            continue;
        }
        let (exit, line) = match line.strip_prefix("exit=") {
            Some(rest) => rest.split_once(' ').ok_or("exit=N without a command")?,
            None => ("0", line),
        };
        let exit: i32 = exit.parse()?;
        for line in expanded(line, &names)? {
            if rows.iter().any(|row| row.line == line) {
                return Err(format!("the row `{line}` occurs twice").into());
            }
            rows.push(Row { line, exit });
        }
    }
    Ok(rows)
}

/// `text` with the lines that end in a backslash joined to the next, whose indentation is dropped.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// `line` once for each alternative of each pair of braces, the last pair varying fastest.
fn expanded(line: &str, names: &Names) -> Result<Vec<String>, Box<dyn Error>> {
    let Some((before, rest)) = line.split_once('{') else {
        return Ok(vec![line.to_owned()]);
    };
    let (inside, after) = rest.split_once('}').ok_or_else(|| format!("`{line}`: a brace is not closed"))?;
    let alternatives = match names.get(inside) {
        Some(alternatives) => alternatives.clone(),
        None if inside.contains('|') => inside.split('|').map(str::to_owned).collect(),
        None => return Err(format!("`{line}`: no list is named `{inside}`").into()),
    };
    let ends = expanded(after, names)?;
    Ok(alternatives.iter().flat_map(|middle| ends.iter().map(move |end| format!("{before}{middle}{end}"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let names = Names::from([("drives".to_owned(), vec!["disk".to_owned(), "ssd".to_owned()])]);
        rows(text, names).unwrap().into_iter().map(|row| row.line).collect()
    }

    #[test]
    fn braces_expand_to_every_combination() {
        assert_eq!(lines("a {x|y z} {drives}\n"), ["a x disk", "a x ssd", "a y z disk", "a y z ssd"]);
    }

    #[test]
    fn lines_are_joined_and_definitions_used() {
        assert_eq!(lines("# about\nkind := p|\\\n  q\nshow \\\n  {kind}\n"), ["show p", "show q"]);
    }

    #[test]
    fn exit_code_is_0_unless_stated() {
        let codes: Vec<i32> = rows("a\nexit=2 b\n", Names::new()).unwrap().iter().map(|row| row.exit).collect();
        assert_eq!(codes, [0, 2]);
    }

    #[test]
    fn mistakes_are_errors() {
        for text in ["a {unknown}", "a {x|y", "exit=2", "exit=x a", "a\na"] {
            assert!(rows(text, Names::new()).is_err(), "{text}");
        }
    }
}
