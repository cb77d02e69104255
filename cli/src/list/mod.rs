//! `iocast list`: lists the rows of the registries.

mod drives;
mod formats;

use anyhow::{Result, ensure};
use replay::stack::{LAYER_SETTINGS, PRESETS};
use schedulers::registry::ALIASES;
use schedulers::{RuleInfo, SCHEDULERS};
use serde::Serialize;
use traces::spec::{SpecError, Tunable, library, nearest};
use workloads::programs;
use workloads::programs::description;

use crate::arguments::{List, ListWhat};
use crate::error::UsageError;
use crate::output::{Table, print, print_json};
use crate::output_format::OutputFormat;

#[derive(Default, Serialize)]
struct Listed {
    name: String,
    summary: String,
    /// The origin of a scheduler, stack or workload; the validation of a drive; the command of a paper.
    remark: String,
    /// Its other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<&'static str>,
    tunables: Vec<ListedTunable>,
    /// The rules of a scheduler, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<ListedRule>,
    /// The layers of a stack, from the guests down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<String>,
    /// The guests of a description, in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<ListedGuest>,
    /// The model of a drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The capacity of a drive, or of a model with default settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ListedTunable {
    name: &'static str,
    unit: String,
    default: String,
    summary: &'static str,
}

/// A rule of a scheduler.
#[derive(Serialize)]
struct ListedRule {
    name: &'static str,
    summary: &'static str,
}

/// A guest of a description.
#[derive(Serialize)]
struct ListedGuest {
    name: String,
    program: &'static str,
    copies: u64,
    capacity_bytes: u64,
    cache_bytes: u64,
}

pub fn run(arguments: &List) -> Result<()> {
    let knows_details = matches!(arguments.what, ListWhat::Drives | ListWhat::Schedulers);
    ensure!(
        !arguments.details || knows_details,
        UsageError(format!("--details has no effect on {}s, of which all is shown", arguments.what.kind()))
    );
    let (title, remark, listed) = match arguments.what {
        ListWhat::Schedulers => ("Schedulers", "origin", schedulers(arguments)?),
        ListWhat::Drives => ("Drives", "validation", drives::listed()),
        ListWhat::Stacks => ("Stacks", "origin", stacks()),
        ListWhat::Predictors => ("Predictors", "origin", predictors()),
        ListWhat::Papers => ("Papers", "command", papers()),
        ListWhat::Workloads => ("Workloads: programs and descriptions", "origin", workloads()?),
        ListWhat::Formats => return formats::run(arguments),
    };
    let listed = chosen(listed, arguments, |entry| &entry.name)?;
    if arguments.output_format == OutputFormat::Json {
        return print_json(&listed);
    }
    let is_detailed = arguments.details || arguments.name.is_some();
    if arguments.what == ListWhat::Drives && !is_detailed {
        return print(&drives::brief(&listed, arguments.output_format));
    }
    let row = |entry: &Listed| vec![entry.name.clone(), summary(entry), entry.remark.clone()];
    let mut tables = vec![Table {
        title: title.to_owned(),
        header: ["name", "description", remark].map(str::to_owned).to_vec(),
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
    let with_tunables = |entry: &&Listed| arguments.name.is_some() || entry.model.is_none();
    let tunables: Vec<Vec<String>> = listed.iter().filter(with_tunables).flat_map(tunable_rows).collect();
    if arguments.what == ListWhat::Stacks {
        tables.push(layers(&listed));
        tables.push(layer_settings());
    }
    if arguments.what == ListWhat::Workloads {
        tables.push(guests(&listed));
    }
    if !tunables.is_empty() {
        tables.push(Table {
            title: if arguments.what == ListWhat::Drives && arguments.details {
                "Tunables of the models with their defaults (iocast list drives NAME has the values of a profile)"
                    .to_owned()
            } else {
                "Tunables with their defaults".to_owned()
            },
            header: ["tunable", "type", "effect"].map(str::to_owned).to_vec(),
            rows: tunables,
            text_columns: 3,
        });
    }
    if arguments.what == ListWhat::Schedulers && is_detailed {
        tables.extend(rules_of(&listed));
    }
    let rendered: Vec<String> = tables.iter().map(|table| table.render(arguments.output_format)).collect();
    print(&format!("{}{}", alias_of(&listed, arguments), rendered.join("\n")))
}

/// The summary of a part and its other names.
fn summary(entry: &Listed) -> String {
    match &entry.aliases[..] {
        [] => entry.summary.clone(),
        aliases => format!("{} (also named {})", entry.summary, aliases.join(", ")),
    }
}

/// The sentence that says whose other name was given; empty if none was.
fn alias_of(listed: &[Listed], arguments: &List) -> String {
    match (listed, arguments.name.as_deref()) {
        ([entry], Some(given)) if entry.aliases.contains(&given) => {
            format!("{given} is another name of the {} {}.\n\n", arguments.what.kind(), entry.name)
        }
        _ => String::new(),
    }
}

/// The part that `arguments` name, or all.
///
/// # Errors
/// There is no part of this name.
fn chosen<T>(all: Vec<T>, arguments: &List, name: impl Fn(&T) -> &str) -> Result<Vec<T>, UsageError> {
    let Some(given) = arguments.name.as_deref() else { return Ok(all) };
    let alias = ALIASES.iter().find(|(alias, _)| *alias == given);
    let real = alias.filter(|_| arguments.what == ListWhat::Schedulers).map_or(given, |&(_, real)| real);
    let near = nearest(given, all.iter().map(&name));
    let found: Vec<T> = all.into_iter().filter(|part| name(part) == real).collect();
    if found.is_empty() {
        let error = SpecError::UnknownName { kind: arguments.what.kind(), name: given.to_owned(), near };
        return Err(UsageError(error.to_string()));
    }
    Ok(found)
}

/// Ours, or the one in the library that is named.
fn schedulers(arguments: &List) -> Result<Vec<Listed>> {
    let listed = |entry: &schedulers::Entry| Listed {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        remark: entry.origin.to_owned(),
        aliases: aliases(entry.name),
        rules: entry.rules.iter().map(|&RuleInfo { name, summary }| ListedRule { name, summary }).collect(),
        tunables: tunables(entry.tunables, &|tunable| tunable.default.to_owned()),
        ..Listed::default()
    };
    Ok(match arguments.name.as_deref().filter(|name| library(name).is_some()) {
        Some(plugin) => {
            let entry = schedulers::registry::find(plugin).map_err(UsageError::from_display)?;
            vec![Listed { name: plugin.to_owned(), ..listed(entry) }]
        }
        None => SCHEDULERS.iter().map(listed).collect(),
    })
}

/// The other names of a scheduler.
fn aliases(name: &str) -> Vec<&'static str> {
    ALIASES.iter().filter(|(_, real)| *real == name).map(|(alias, _)| *alias).collect()
}

fn predictors() -> Vec<Listed> {
    let listed = |entry: &predictors::Entry| Listed {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        remark: entry.origin.to_owned(),
        tunables: tunables(entry.tunables, &|tunable| tunable.default.to_owned()),
        ..Listed::default()
    };
    predictors::PREDICTORS.iter().map(listed).collect()
}

/// The shipped stacks.
fn stacks() -> Vec<Listed> {
    let listed = |preset: &replay::stack::Preset| Listed {
        name: preset.name.to_owned(),
        summary: preset.summary.to_owned(),
        remark: preset.origin.to_owned(),
        tunables: Vec::new(),
        layers: preset.line.split('/').map(str::to_owned).collect(),
        ..Listed::default()
    };
    PRESETS.iter().map(listed).collect()
}

/// Programs, and the shipped descriptions.
fn workloads() -> Result<Vec<Listed>> {
    let program = |entry: &programs::Entry| Listed {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        remark: entry.origin.to_owned(),
        tunables: tunables(entry.tunables, &|tunable| tunable.default.to_owned()),
        ..Listed::default()
    };
    let guest = |guest: description::Guest| ListedGuest {
        name: guest.name,
        program: guest.workload.entry.name,
        copies: guest.copies,
        capacity_bytes: guest.capacity.bytes(),
        cache_bytes: guest.cache_bytes,
    };
    let mut listed: Vec<Listed> = programs::PROGRAMS.iter().map(program).collect();
    for (name, text) in description::PRESETS {
        let description::Description { name, summary, source, guests } = description::Description::parse(name, text)?;
        let guests = guests.into_iter().map(guest).collect();
        listed.push(Listed { name, summary, remark: source, guests, ..Listed::default() });
    }
    Ok(listed)
}

/// The guests of every description.
fn guests(listed: &[Listed]) -> Table {
    let row = |description: &str, guest: &ListedGuest| {
        let gib = format!("{} GiB", guest.capacity_bytes >> 30);
        let mib = format!("{} MiB", guest.cache_bytes >> 20);
        vec![description.to_owned(), guest.name.clone(), guest.program.to_owned(), gib, mib]
    };
    let rows = |entry: &Listed| entry.guests.iter().map(|guest| row(&entry.name, guest)).collect::<Vec<_>>();
    Table {
        title: "Guests of the descriptions".to_owned(),
        header: ["description", "guest", "program", "disk", "page cache"].map(str::to_owned).to_vec(),
        rows: listed.iter().flat_map(rows).collect(),
        text_columns: 5,
    }
}

/// The rules of schedulers; `None` if they have one each.
fn rules_of(listed: &[Listed]) -> Option<Table> {
    let rows_of = |entry: &Listed| {
        let scheduler = entry.name.clone();
        let row = move |rule: &ListedRule| vec![scheduler.clone(), rule.name.to_owned(), rule.summary.to_owned()];
        entry.rules.iter().map(row).collect::<Vec<_>>()
    };
    let mut header = ["scheduler", "rule", "requests that it sends"].map(str::to_owned).to_vec();
    let mut rows: Vec<Vec<String>> = listed.iter().flat_map(rows_of).collect();
    if listed.len() == 1 {
        rows.iter_mut().chain([&mut header]).for_each(|row| _ = row.remove(0));
    }
    (!rows.is_empty()).then(|| Table {
        title: "Rules in the order in which they are tried (iocast compare --mechanisms counts them)".to_owned(),
        text_columns: header.len(),
        header,
        rows,
    })
}

/// The layers of every stack, the guests' first.
fn layers(listed: &[Listed]) -> Table {
    let rows = |entry: &Listed| {
        let name = entry.name.clone();
        entry.layers.iter().map(move |layer| vec![name.clone(), layer.clone()]).collect::<Vec<_>>()
    };
    Table {
        title: "Layers of the stacks, from the guests down (joined by / they are a line for --stack)".to_owned(),
        header: ["stack", "layer"].map(str::to_owned).to_vec(),
        rows: listed.iter().flat_map(rows).collect(),
        text_columns: 2,
    }
}

fn layer_settings() -> Table {
    let row = |setting: &Tunable| {
        let largest = setting.default == u32::MAX.to_string();
        let default = if largest { "no limit" } else { setting.default };
        vec![setting.name.to_owned(), setting.unit.describe(), default.to_owned(), setting.summary.to_owned()]
    };
    Table {
        title: "Settings of a layer (SCHEDULER@setting=value,…)".to_owned(),
        header: ["setting", "type", "default", "effect"].map(str::to_owned).to_vec(),
        rows: LAYER_SETTINGS.iter().map(row).collect(),
        text_columns: 4,
    }
}

fn papers() -> Vec<Listed> {
    let listed = |paper: &papers::Paper| Listed {
        name: paper.name.to_owned(),
        summary: paper.title.to_owned(),
        remark: format!("iocast reproduce {}", paper.name),
        ..Listed::default()
    };
    papers::PAPERS.iter().map(listed).collect()
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
