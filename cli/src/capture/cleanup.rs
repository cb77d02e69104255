//! `iocast capture cleanup`: removes what killed captures and labs have left, and switches their tracing off.

use anyhow::Result;
use capture::block::{Cleaned, clean_up};
use serde_json::json;

use crate::arguments::capture::Cleanup;
use crate::output::{Table, print, print_json};
use crate::output_format::OutputFormat;

pub fn run(arguments: &Cleanup) -> Result<()> {
    let found = clean_up()?;
    if arguments.output_format == OutputFormat::Json {
        let rows = found.iter().map(|cleaned| match cleaned {
            Cleaned::Removed(path) => json!({ "path": path, "removed": true }),
            Cleaned::InUse(path, pid) => json!({ "path": path, "removed": false, "pid": pid }),
        });
        return print_json(&json!({ "schema_version": 1, "found": rows.collect::<Vec<_>>() }));
    }
    if found.is_empty() {
        return print("no capture has left anything\n");
    }
    let rows = found.iter().map(|cleaned| match cleaned {
        Cleaned::Removed(path) => vec![path.display().to_string(), "removed: its process has ended".to_owned()],
        Cleaned::InUse(path, pid) => vec![path.display().to_string(), format!("left alone: process {pid} uses it")],
    });
    let table = Table {
        title: "Left by captures and labs".to_owned(),
        header: ["found", "done"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        text_columns: 2,
    };
    print(&table.render(arguments.output_format))
}
