//! `iocast list`: what there is, straight from the registries.

use anyhow::Result;
use drive_models::{MODELS, PROFILES, Profile};
use schedulers::SCHEDULERS;
use serde::Serialize;
use traces::formats::FORMATS;
use traces::spec::Tunable;

use crate::arguments::{List, ListWhat, OutputFormat};
use crate::output::{Table, print, print_json};

#[derive(Serialize)]
struct Listed {
    name: String,
    summary: String,
    /// Origin of a scheduler, validation of a drive, traps of a format.
    remark: String,
    tunables: Vec<ListedTunable>,
}

#[derive(Serialize)]
struct ListedTunable {
    name: &'static str,
    unit: String,
    default: String,
    summary: &'static str,
}

pub fn run(arguments: &List) -> Result<()> {
    let (title, remark, listed) = match arguments.what {
        ListWhat::Schedulers => ("Schedulers", "origin", schedulers()),
        ListWhat::Drives => ("Drives", "validation", drives()),
        ListWhat::Formats => ("Trace formats", "units and traps", formats()),
    };
    if arguments.output_format == OutputFormat::Json {
        return print_json(&listed);
    }
    let row = |entry: &Listed| vec![entry.name.clone(), entry.summary.clone(), entry.remark.clone()];
    let mut tables = vec![Table {
        title: title.to_owned(),
        header: ["name", "what it is", remark].map(str::to_owned).to_vec(),
        rows: listed.iter().map(row).collect(),
        text_columns: 3,
    }];
    let tunable_rows = |entry: &Listed| {
        let name = entry.name.clone();
        let row = move |tunable: &ListedTunable| {
            let setting = format!("{name}:{}={}", tunable.name, tunable.default);
            vec![setting, tunable.unit.clone(), tunable.summary.to_owned()]
        };
        entry.tunables.iter().map(row).collect::<Vec<_>>()
    };
    let tunables: Vec<Vec<String>> = listed.iter().flat_map(tunable_rows).collect();
    if !tunables.is_empty() {
        tables.push(Table {
            title: "Tunables with their defaults".to_owned(),
            header: ["tunable", "takes", "what it does"].map(str::to_owned).to_vec(),
            rows: tunables,
            text_columns: 3,
        });
    }
    let rendered: Vec<String> = tables.iter().map(|table| table.render(arguments.output_format)).collect();
    print(&rendered.join("\n"))
}

fn schedulers() -> Vec<Listed> {
    let listed = |entry: &schedulers::Entry| Listed {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        remark: entry.origin.to_owned(),
        tunables: tunables(entry.tunables, &|tunable| tunable.default.to_owned()),
    };
    SCHEDULERS.iter().map(listed).collect()
}

fn drives() -> Vec<Listed> {
    let profile = |(name, _): &(&str, &str)| -> Option<Listed> {
        let Profile { name, model, summary, validation, settings } = Profile::shipped(name)?;
        let model = MODELS.iter().find(|candidate| candidate.name == model)?;
        let value = |tunable: &Tunable| settings.get(tunable.name).map_or("", |(value, _)| value).to_owned();
        Some(Listed { name, summary, remark: validation, tunables: tunables(model.tunables, &value) })
    };
    let model = |model: &drive_models::Model| Listed {
        name: model.name.to_owned(),
        summary: model.summary.to_owned(),
        remark: "a model, without a drive of its own".to_owned(),
        tunables: tunables(model.tunables, &|tunable| tunable.default.to_owned()),
    };
    PROFILES.iter().filter_map(profile).chain(MODELS.iter().map(model)).collect()
}

fn formats() -> Vec<Listed> {
    let listed = |format: &traces::formats::Format| Listed {
        name: format.name.to_owned(),
        summary: format!("{} (usually {})", format.summary, format.layer),
        remark: format.traps.to_owned(),
        tunables: Vec::new(),
    };
    FORMATS.iter().map(listed).collect()
}

fn tunables(table: &[Tunable], value: &dyn Fn(&Tunable) -> String) -> Vec<ListedTunable> {
    let listed = |tunable: &Tunable| ListedTunable {
        name: tunable.name,
        unit: tunable.unit.describe(),
        default: value(tunable),
        summary: tunable.summary,
    };
    table.iter().map(listed).collect()
}
