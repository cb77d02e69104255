//! The two digests of a row's outputs.
//!
//! `whole` covers every byte. `figures` covers the values in the order of the file, so that a renamed key or a
//! rewritten sentence does not change it:
//!
//! | file | part in `figures` |
//! |---|---|
//! | JSON | numbers, booleans and nulls; no keys, no strings, no schema version, which a renamed key may raise |
//! | Parquet | all values of all rows except strings |
//! | decision log (`.tsv`) | everything except the line with the names of the columns |
//! | error messages, profiles (`.toml`), tables (`.md`), pictures | nothing |
//! | others (traces) | every byte |

use std::error::Error;
use std::fmt::Write;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

/// Hexadecimal digits that are kept of a SHA-256. 64 bits exclude accidental collisions.
const DIGITS: usize = 16;

/// Digests of a row's outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Digest of the values only.
    pub figures: String,
    /// Digest of every byte.
    pub whole: String,
}

/// An output: the name of its file and its bytes.
pub type Output = (String, Vec<u8>);

/// Digests of `outputs`, which are in the order of their names.
///
/// # Errors
/// A JSON or Parquet file that cannot be read.
pub fn of(outputs: &[Output]) -> Result<Digests, Box<dyn Error>> {
    let (mut figures, mut whole) = (Sha256::new(), Sha256::new());
    for (name, bytes) in outputs {
        whole.update(format!("{name} {}\n", bytes.len()));
        whole.update(bytes);
        let values = values(name, bytes).map_err(|error| format!("{name}: {error}"))?;
        figures.update(format!("{}\n", values.len()));
        figures.update(values);
    }
    Ok(Digests { figures: hexadecimal(figures), whole: hexadecimal(whole) })
}

/// The beginning of the SHA-256 of `text`.
pub fn of_text(text: &str) -> String {
    hexadecimal(Sha256::new_with_prefix(text))
}

fn hexadecimal(hasher: Sha256) -> String {
    let mut digits = String::new();
    for byte in hasher.finalize().iter().take(DIGITS / 2) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// The part of a file that `figures` covers.
fn values(name: &str, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "json" => {
            serde_json::from_slice::<IgnoredAny>(bytes)?;
            json_values(bytes)
        }
        "parquet" => parquet_values(bytes)?,
        "tsv" => bytes.iter().copied().skip_while(|byte| *byte != b'\n').collect(),
        "stderr" | "toml" | "md" | "svg" | "png" => Vec::new(),
        _ => bytes.to_vec(),
    })
}

/// Numbers, booleans and nulls of well-formed JSON, one a line, as they are written there.
fn json_values(json: &[u8]) -> Vec<u8> {
    const VERSION: &[u8] = b"\"schema_version\"";
    let mut values = Vec::new();
    let mut skipped = false;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let start = at;
        match byte {
            b'"' => {
                at += 1;
                while json.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                skipped = json.get(start..at) == Some(VERSION);
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            _ => {
                while json.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)) {
                    at += 1;
                }
                if !std::mem::take(&mut skipped) {
                    values.extend_from_slice(&json[start..at]);
                    values.push(b'\n');
                }
            }
        }
    }
    values
}

/// All values of a Parquet file except strings, one a line.
fn parquet_values(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(bytes))?;
    let mut values = String::new();
    for row in reader.get_row_iter(None)? {
        row_values(&row?, &mut values);
    }
    Ok(values.into_bytes())
}

fn row_values(row: &Row, values: &mut String) {
    for (_, field) in row.get_column_iter() {
        match field {
            Field::Str(_) | Field::Bytes(_) => {}
            Field::Group(group) => row_values(group, values),
            field => {
                let _ = writeln!(values, "{field}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(name: &str, text: &str) -> Digests {
        of(&[(name.to_owned(), text.as_bytes().to_vec())]).unwrap()
    }

    #[test]
    fn figures_ignore_keys_strings_and_schema_version() {
        let old = digests(
            "a.json",
            r#"{"schema_version": 1, "alone": {"rate": 1.5e-3, "said": "3 \" 4"}, "ok": [true, null]}"#,
        );
        let new = digests(
            "a.json",
            r#"{"schema_version": 2, "together": {"iops": 1.5e-3, "said": "5"}, "ok": [true, null]}"#,
        );
        assert_eq!(old.figures, new.figures);
        assert_ne!(old.whole, new.whole);
    }

    #[test]
    fn figures_change_with_a_value_or_the_order_of_values() {
        let json = |text: &str| digests("a.json", text).figures;
        let values = json("[1, 2, false, null]");
        for other in
            ["[1, 3, false, null]", "[2, 1, false, null]", "[1, 2, true, null]", "[12, false, null]", "[1, 2, false]"]
        {
            assert_ne!(values, json(other), "{other}");
        }
    }

    #[test]
    fn figures_of_a_trace_are_its_bytes_and_of_a_message_nothing() {
        assert_ne!(digests("a.csv", "x\n1\n").figures, digests("a.csv", "y\n1\n").figures);
        assert_eq!(digests("a.tsv", "x\n1\n").figures, digests("a.tsv", "y\n1\n").figures);
        assert_eq!(digests("a.stderr", "no").figures, digests("a.stderr", "never").figures);
    }

    #[test]
    fn figures_of_parquet_are_its_values() {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/data/small.parquet");
        let bytes = std::fs::read(sample).unwrap();
        let values = String::from_utf8(parquet_values(&bytes).unwrap()).unwrap();
        assert!(values.lines().count() > 10 && values.lines().any(|line| line.parse::<u64>().is_ok()), "{values}");
    }

    #[test]
    fn output_that_is_no_json_is_an_error() {
        assert!(of(&[("1.json".to_owned(), b"nothing".to_vec())]).is_err());
    }
}
