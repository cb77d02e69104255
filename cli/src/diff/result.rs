//! A stored result as a list of leaves: its figures, and the settings under which they came about.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use traces::results::SCHEMA_VERSION;
use traces::text_file::read_text;

use crate::error::UsageError;
use crate::report::kind_of;

/// The subcommands whose results are compared.
const KINDS: [&str; 4] = ["compare", "predict", "stat", "reproduce"];

/// Keys whose values say which of a list's objects one is.
const NAMES: &[&str] = &[
    "scheduler",
    "drive",
    "predictor",
    "vm",
    "vms",
    "table",
    "figure",
    "group",
    "what",
    "place",
    "says",
    "row",
    "column",
    "name",
    "rule",
    "stream",
    "id",
    "window_ns",
];

/// Longer lists of numbers are distributions and curves, whose numbers are no figures of their own.
const FIGURES_MAX: usize = 16;

/// A value within a result that has no parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    Number(f64),
    /// A figure that the run has not.
    Absent,
    Text(String),
    /// A distribution, or sentences.
    List(String),
}

/// A result of a subcommand.
pub struct StoredResult {
    pub kind: &'static str,
    /// The figures, by their keys in the result, in its order.
    pub figures: Vec<(String, Leaf)>,
    /// The objects of lists, by their keys: runs, VMs, cells of a table.
    pub elements: Vec<String>,
    /// The traces by the VM's name, or by their key in the result: their checksums and paths.
    pub traces: BTreeMap<String, (String, String)>,
    /// Options and settings, by their keys in the result.
    pub settings: BTreeMap<String, Leaf>,
}

impl StoredResult {
    /// Reads a result.
    ///
    /// # Errors
    /// No result of a subcommand in [`KINDS`], or one of another version of the schema.
    pub fn read(path: &Path) -> Result<StoredResult> {
        let name = path.display();
        let text = read_text(path).with_context(|| name.to_string())?;
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{name}: no JSON; `--output-format json` prints it"))?;
        let Some(kind) = kind_of(&value).map(|kind| kind.name).filter(|kind| KINDS.contains(kind)) else {
            bail!("{name}: no result of {}; `--output-format json` prints one", KINDS.join(", "));
        };
        let version = value.get("schema_version").and_then(Value::as_u64);
        ensure!(
            version == Some(u64::from(SCHEMA_VERSION)),
            UsageError(format!(
                "{name}: its schema_version is {}, and this iocast knows {SCHEMA_VERSION}; make the result again",
                version.map_or_else(|| "missing".to_owned(), |version| version.to_string())
            ))
        );
        let mut result = StoredResult {
            kind,
            figures: Vec::new(),
            elements: Vec::new(),
            traces: BTreeMap::new(),
            settings: BTreeMap::new(),
        };
        result.add("", &value);
        Ok(result)
    }

    fn add(&mut self, at: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(checksum) = fields.get("sha256").and_then(Value::as_str) {
                    let text = |key| fields.get(key).and_then(Value::as_str);
                    let name = text("vm").unwrap_or(at).to_owned();
                    self.traces.insert(name, (checksum.to_owned(), text("path").unwrap_or("?").to_owned()));
                    return;
                }
                // Counts for pictures are no figures, and those beside them say what has changed.
                for (key, value) in fields.iter().filter(|(key, _)| *key != "history") {
                    self.add(&joined(at, key), value);
                }
            }
            Value::Array(elements) => self.add_list(at, elements),
            Value::Number(number) => self.put(at, Leaf::Number(number.as_f64().unwrap_or(f64::NAN))),
            Value::Null => self.put(at, Leaf::Absent),
            Value::String(text) => self.put(at, Leaf::Text(text.clone())),
            Value::Bool(is) => self.put(at, Leaf::Text(is.to_string())),
        }
    }

    fn add_list(&mut self, at: &str, elements: &[Value]) {
        let is_figure = |value: &Value| matches!(value, Value::Number(_) | Value::Null);
        if !elements.is_empty() && elements.iter().all(Value::is_object) {
            let mut seen = BTreeMap::new();
            for element in elements {
                let name = name_of(element);
                let times = seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
                let which = if *times == 1 { name } else { format!("{name} #{times}") };
                let key = format!("{at}[{which}]");
                self.elements.push(key.clone());
                self.add(&key, element);
            }
        } else if (1..=FIGURES_MAX).contains(&elements.len()) && elements.iter().all(is_figure) {
            for (index, element) in elements.iter().enumerate() {
                self.add(&format!("{at}[{index}]"), element);
            }
        } else {
            self.put(at, Leaf::List(Value::Array(elements.to_vec()).to_string()));
        }
    }

    fn put(&mut self, at: &str, leaf: Leaf) {
        // The program's version, and what it noted on the way, change no figure.
        let is_remark = ["program", "provenance.program", "provenance.warnings", "schema_version"].contains(&at);
        let begins = ["provenance.", "seeds", "choices", "baseline"].iter().any(|begin| at.starts_with(begin));
        let is_setting = begins || at.contains("].scheduler.") || at.ends_with("].drive");
        if is_setting && !is_remark {
            self.settings.insert(at.to_owned(), leaf);
        } else if !is_remark && !at.ends_with(".program") && !at.ends_with(".schema_version") {
            self.figures.push((at.to_owned(), leaf));
        }
    }
}

fn joined(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// What a list's object is called. Schedulers and drives have their names without tunables, so that one stands beside
/// itself with others.
fn name_of(element: &Value) -> String {
    let base = |text: &str| text.split(':').next().unwrap_or(text).to_owned();
    let text = |value: &Value| match value {
        Value::String(text) => Some(base(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(fields) => fields.get("name").and_then(Value::as_str).map(base),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect::<Vec<&str>>().join("+")),
        _ => None,
    };
    let texts = NAMES.iter().filter_map(|key| element.get(key)).filter_map(text);
    texts.filter(|text| !text.is_empty()).collect::<Vec<String>>().join(", ")
}
