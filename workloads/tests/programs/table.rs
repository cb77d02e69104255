//! The tables in `docs/reference/workloads.md` agree with the registries; `IOCAST_UPDATE_DOCS=1` writes them. The example
//! in `docs/workloads.md` is accepted.

use std::fmt::Write;
use std::path::PathBuf;

use iocast_workloads::programs::description::{Description, PRESETS};
use iocast_workloads::programs::{PROGRAMS, build};

/// A page of the documentation.
fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

fn programs() -> String {
    let mut table = String::new();
    for entry in PROGRAMS {
        let ends = if build(&entry.name.parse().unwrap()).unwrap().ends() { "ends by itself" } else { "runs on" };
        writeln!(
            table,
            "### {}\n\n{}: {}. Origin: {}. It {ends}. Events: {}.\n",
            entry.name,
            entry.name,
            entry.summary,
            entry.origin,
            if entry.events.is_empty() { "none".to_owned() } else { entry.events.join(", ") }
        )
        .unwrap();
        writeln!(table, "| tunable | value | default | meaning |\n|---|---|---|---|").unwrap();
        for tunable in entry.tunables {
            let value = tunable.unit.describe().replace('|', "\\|");
            writeln!(table, "| `{}` | {value} | {} | {} |", tunable.name, tunable.default, tunable.summary).unwrap();
        }
        table.push('\n');
    }
    table
}

fn presets() -> String {
    let mut table = String::from("| name | content | source |\n|---|---|---|\n");
    for (name, _) in PRESETS {
        let Description { summary, source, .. } = Description::find(name).unwrap();
        writeln!(table, "| `{name}` | {summary} | {source} |").unwrap();
    }
    table
}

/// The text with the part between two marks replaced.
fn with(text: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name}: written by `workloads/tests/programs/table.rs` -->\n");
    let (before, rest) = text.split_once(&begin).unwrap();
    let end = format!("<!-- end of {name} -->");
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}\n{}\n\n{end}{after}", table.trim_end())
}

#[test]
fn the_documentation_has_every_program_tunable_and_preset() {
    let path = page("reference/workloads.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = with(&with(&text, "programs", &programs()), "presets", &presets());
    if std::env::var("IOCAST_UPDATE_DOCS").is_ok_and(|value| value == "1") {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert!(
        text == expected,
        "docs/reference/workloads.md has other tables than the registries; `make reference` writes it anew"
    );
}

#[test]
fn the_documented_example_is_accepted() {
    let text = std::fs::read_to_string(page("workloads.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let description = Description::parse("example", example).unwrap();
    assert_eq!(description.guests.len(), 2);
    assert_eq!(description.populate(1).unwrap()[1].processes.len(), 2);
}
