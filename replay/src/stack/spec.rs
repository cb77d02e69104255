//! The description of a stack: a line of text, a TOML file, or the name of a shipped stack.
//!
//! A line is `LAYER/LAYER/…` from the guests down. Each layer is `NAME=SCHEDULER` or `NAME=SCHEDULER@setting=value,…`;
//! the tunables of the scheduler follow its name as everywhere:
//! `guest=cfq-3.5@depth=32/hypervisor=ba:S_quantum=2s/lun=fifo@depth=32,write_depth=16`. None of these characters is
//! special to a shell.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use drive_models::DriveModel;
use schedulers::Registry;
use serde::Deserialize;
use toml::Spanned;
use traces::results::{Fairness, LayerFigures, StackFigures};
use traces::spec::{Settings, Spec, SpecError, Tunable, Unit, did_you_mean, nearest};
use traces::{DescriptionError, Request, SECTOR_BYTES, Sectors, described};

use super::presets::{PRESETS, Preset};
use super::{Counts, Layer, LayerConfig, Stack};
use crate::stage::Limits;

/// The settings of a layer, apart from its scheduler. A setting without a limit defaults to the largest number.
pub const LAYER_SETTINGS: &[Tunable] = &[
    Tunable::new("depth", Unit::Count, "1", "the most requests below each stage").within(1, U32_MAX),
    Tunable::new("write_depth", Unit::Count, "4294967295", "the most requests below each stage that are not reads")
        .within(1, U32_MAX),
    Tunable::new(
        "look_ahead",
        Unit::Switch,
        "off",
        "whether the next request is chosen before the layer below has capacity for it",
    ),
    Tunable::new("merge", Unit::Switch, "on", "whether adjacent waiting requests are merged"),
    Tunable::new("max_request", Unit::Bytes, "1280k", "the longest request made by merging; longer ones are split")
        .within(SECTOR_BYTES, Request::SECTORS_MAX.bytes()),
    Tunable::new("max_segments", Unit::Count, "128", "the most requests of the layer above that are merged into one")
        .within(1, U32_MAX),
    Tunable::new("queue", Unit::Count, "4294967295", "requests that the layer holds; more wait above it")
        .within(1, U32_MAX),
    Tunable::new(
        "per_vm",
        Unit::Choice(&["first", "on", "off"]),
        "first",
        "one stage for each VM; first: only in the first of several layers",
    ),
    Tunable::new(
        "streams",
        Unit::Choice(&["guest", "vm"]),
        "guest",
        "vm: all requests of a VM are one stream without priorities",
    ),
    Tunable::new(
        "writes",
        Unit::Choice(&["guest", "sync"]),
        "guest",
        "sync: writes become synchronous, as in a back end that submits them directly",
    ),
    Tunable::new(
        "flushes",
        Unit::Choice(&["below", "always"]),
        "below",
        "always: flushes are sequenced even if completed writes below are durable, which a guest does not know",
    ),
    Tunable::new("delay_down", Unit::Time, "0s", "time that a request takes to the layer below").within(0, DAY_NS),
    Tunable::new("delay_up", Unit::Time, "0s", "time that a completion takes from the layer below").within(0, DAY_NS),
    Tunable::new(
        "bandwidth",
        Unit::Bytes,
        "0",
        "data to and from the layer below, per second each way (119m: 1 Gbit/s); 0: unlimited",
    ),
];

const U32_MAX: u64 = u32::MAX as u64;
/// Longer delays are taken for typing errors.
const DAY_NS: u64 = 86_400_000_000_000;

/// One layer of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Its name, unique in the stack.
    pub name: String,
    /// Its scheduler, checked to exist.
    pub scheduler: Spec,
    /// The settings of [`LAYER_SETTINGS`] that were given.
    pub given: Vec<(String, String)>,
    /// The values of all [`LAYER_SETTINGS`].
    pub settings: Settings,
}

/// The description of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSpec {
    /// The name of a shipped one, the path of a file, or the line itself.
    pub name: String,
    /// From the guests down; at least one.
    pub layers: Vec<LayerSpec>,
}

/// Why a description was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The name of no shipped stack, scheduler or layer.
    #[error("{0}")]
    Name(#[from] SpecError),
    /// There is no such layer.
    #[error("stack {stack} has no layer `{layer}`; it has {}{}", layers.join(", "),
        did_you_mean(layer, layers.iter().map(String::as_str)))]
    Layer {
        /// The stack.
        stack: String,
        /// What was asked for.
        layer: String,
        /// Its layers.
        layers: Vec<String>,
    },
    /// Something in the description is wrong.
    #[error(transparent)]
    Text(#[from] DescriptionError),
    /// The file cannot be read.
    #[error("stack {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What it says.
        error: std::io::Error,
    },
}

/// A file's text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    layer: Vec<Spanned<LayerText>>,
}

fn refused(name: &str, line: Option<usize>, problem: String) -> StackError {
    DescriptionError { what: "stack", name: name.to_owned(), line, problem }.into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerText {
    name: Spanned<String>,
    scheduler: Spanned<String>,
    #[serde(default)]
    settings: BTreeMap<Spanned<String>, Spanned<Value>>,
}

/// The value of a setting, as a TOML boolean, integer or string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Switch(bool),
    Count(u64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Count(count) => count.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// The part of a layer that an error is about.
enum Blame {
    Name,
    Scheduler,
    /// The setting with this index.
    Setting(usize),
}

impl LayerSpec {
    /// A layer below `others`; its name must differ from theirs.
    fn new(
        name: &str,
        scheduler: &str,
        given: Vec<(String, String)>,
        others: &[LayerSpec],
        known: &Registry,
    ) -> Result<LayerSpec, (Blame, String)> {
        let named = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(named) {
            let problem = format!("`{name}` is no name for a layer: letters, digits, `-`, `_` and `.` make one");
            return Err((Blame::Name, problem));
        }
        if others.iter().any(|layer| layer.name == name) {
            return Err((Blame::Name, format!("two layers are named `{name}`")));
        }
        let of_scheduler = |error: SpecError| (Blame::Scheduler, format!("layer {name}: {error}"));
        let scheduler: Spec = scheduler.parse().map_err(of_scheduler)?;
        // Built once here, so that a wrong name or tunable is said before anything is read.
        known.build(&scheduler).map_err(of_scheduler)?;
        let mut spec = Spec { name: format!("layer {name}"), given: Vec::new() };
        for (index, setting) in given.iter().enumerate() {
            let wrong = |problem: String| (Blame::Setting(index), problem);
            if spec.given.iter().any(|(known, _)| *known == setting.0) {
                return Err(wrong(format!("layer {name}: `{}` is given twice", setting.0)));
            }
            spec.given.push(setting.clone());
            let settings = Settings::resolve(&spec, LAYER_SETTINGS).map_err(|error| wrong(error.to_string()))?;
            if !settings.bytes("max_request").is_multiple_of(SECTOR_BYTES) {
                return Err(wrong(format!("layer {name}: max_request is not a multiple of {SECTOR_BYTES} bytes")));
            }
        }
        let settings = Settings::resolve(&spec, LAYER_SETTINGS).map_err(|error| (Blame::Name, error.to_string()))?;
        Ok(LayerSpec { name: name.to_owned(), scheduler, given, settings })
    }

    /// The configuration of the layer. `first`: whether it is the first of several layers.
    fn config(&self, first: bool) -> LayerConfig {
        let count = |name: &str| u32::try_from(self.settings.count(name)).unwrap_or(u32::MAX);
        let limits = Limits {
            depth: count("depth"),
            write_depth: count("write_depth"),
            look_ahead: self.settings.switch("look_ahead"),
            merge: self.settings.switch("merge"),
            max_sectors: Sectors::new(self.settings.bytes("max_request") / SECTOR_BYTES),
            max_segments: count("max_segments"),
            always_flushes: self.settings.word("flushes") == "always",
        };
        LayerConfig {
            limits,
            per_vm: match self.settings.word("per_vm") {
                "first" => first,
                word => word == "on",
            },
            queue: count("queue"),
            by_vm: self.settings.word("streams") == "vm",
            sync_writes: self.settings.word("writes") == "sync",
            delay_down: self.settings.nanos("delay_down"),
            delay_up: self.settings.nanos("delay_up"),
            bandwidth: self.settings.bytes("bandwidth"),
        }
    }
}

impl fmt::Display for LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.scheduler)?;
        for (index, (name, value)) in self.given.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { '@' } else { ',' })?;
        }
        Ok(())
    }
}

impl fmt::Display for StackSpec {
    /// As a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, layer) in self.layers.iter().enumerate() {
            write!(f, "{}{layer}", if index == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

impl StackSpec {
    /// The default name of the layer in which schedulers are compared.
    pub const HYPERVISOR: &str = "hypervisor";

    /// The stack that a user names: a file if the text ends in `.toml`, a line if it contains `=`, else a shipped
    /// stack.
    ///
    /// # Errors
    /// The error in the description, and its position.
    pub fn of(text: &str) -> Result<StackSpec, StackError> {
        StackSpec::of_among(text, &Registry::builtin())
    }

    /// As [`StackSpec::of`], with schedulers among these.
    ///
    /// # Errors
    /// As [`StackSpec::of`].
    pub fn of_among(text: &str, known: &Registry) -> Result<StackSpec, StackError> {
        if StackSpec::is_file(text) {
            let file = traces::read_text(Path::new(text));
            return StackSpec::from_toml(
                text,
                &file.map_err(|error| StackError::File { path: text.to_owned(), error })?,
                known,
            );
        }
        if text.contains('=') {
            return StackSpec::from_line(text, text, known);
        }
        let Some(preset) = PRESETS.iter().find(|preset| preset.name == text) else {
            let near = nearest(text, PRESETS.iter().map(|preset| preset.name));
            return Err(SpecError::UnknownName { kind: "stack", name: text.to_owned(), near }.into());
        };
        StackSpec::shipped(preset)
    }

    /// Whether the text names a file.
    pub fn is_file(text: &str) -> bool {
        Path::new(text).extension().is_some_and(|extension| extension == "toml")
    }

    /// A shipped stack.
    ///
    /// # Errors
    /// None for the stacks in the table; a test checks that.
    pub fn shipped(preset: &Preset) -> Result<StackSpec, StackError> {
        StackSpec::from_line(preset.name, preset.line, &Registry::builtin())
    }

    /// Reads a line, with schedulers among these.
    ///
    /// # Errors
    /// The first layer that is invalid.
    pub fn from_line(name: &str, line: &str, known: &Registry) -> Result<StackSpec, StackError> {
        let fail = |problem: String| refused(name, None, problem);
        let mut layers = Vec::new();
        for text in line.split('/') {
            let (layer, rest) = text
                .split_once('=')
                .ok_or_else(|| fail(format!("`{text}` is not of the form NAME=SCHEDULER@setting=value,…")))?;
            let (scheduler, settings) = rest.split_once('@').unwrap_or((rest, ""));
            let mut given = Vec::new();
            for setting in settings.split(',').filter(|_| rest.contains('@')) {
                let (key, value) = setting
                    .split_once('=')
                    .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                    .ok_or_else(|| fail(format!("layer {layer}: `{setting}` is not of the form setting=value")))?;
                given.push((key.to_owned(), value.to_owned()));
            }
            layers.push(LayerSpec::new(layer, scheduler, given, &layers, known).map_err(|(_, problem)| fail(problem))?);
        }
        Ok(StackSpec { name: name.to_owned(), layers })
    }

    /// Reads a file's text: an array of tables `[[layer]]`, each with `name`, `scheduler` and a table `settings`.
    /// Its schedulers are among `known`.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn from_toml(name: &str, text: &str, known: &Registry) -> Result<StackSpec, StackError> {
        let fail = |offset: Option<usize>, problem: String| {
            refused(name, offset.map(|offset| described::line_of(text, offset)), problem)
        };
        let file: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map(|span| span.start), error.message().to_owned()))?;
        let mut layers = Vec::new();
        for layer in file.layer {
            let LayerText { name, scheduler, settings } = layer.into_inner();
            let given = settings.iter().map(|(key, value)| (key.get_ref().clone(), value.get_ref().to_string()));
            let layer = LayerSpec::new(name.get_ref(), scheduler.get_ref(), given.collect(), &layers, known);
            layers.push(layer.map_err(|(blame, problem)| {
                let place = match blame {
                    Blame::Name => Some(name.span()),
                    Blame::Scheduler => Some(scheduler.span()),
                    Blame::Setting(index) => settings.keys().nth(index).map(Spanned::span),
                };
                fail(place.map(|span| span.start), problem)
            })?);
        }
        if layers.is_empty() {
            return Err(fail(None, "it has no layer: write at least one [[layer]]".to_owned()));
        }
        Ok(StackSpec { name: name.to_owned(), layers })
    }

    /// The layer in which schedulers are compared: the one named, or `hypervisor`, or the last.
    ///
    /// # Errors
    /// No layer has that name.
    pub fn layer(&self, name: Option<&str>) -> Result<usize, StackError> {
        let find = |name: &str| self.layers.iter().position(|layer| layer.name == name);
        let Some(name) = name else { return Ok(find(Self::HYPERVISOR).unwrap_or(self.layers.len() - 1)) };
        find(name).ok_or_else(|| StackError::Layer {
            stack: self.name.clone(),
            layer: name.to_owned(),
            layers: self.layers.iter().map(|layer| layer.name.clone()).collect(),
        })
    }

    /// The same stack with another scheduler in one layer.
    ///
    /// # Errors
    /// The scheduler does not exist or has an invalid tunable.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn with_scheduler(self, layer: usize, scheduler: &Spec) -> Result<StackSpec, SpecError> {
        self.with_scheduler_among(layer, scheduler, &Registry::builtin())
    }

    /// As [`StackSpec::with_scheduler`], with a scheduler among these.
    ///
    /// # Errors
    /// As [`StackSpec::with_scheduler`].
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn with_scheduler_among(
        mut self,
        layer: usize,
        scheduler: &Spec,
        known: &Registry,
    ) -> Result<StackSpec, SpecError> {
        known.build(scheduler)?;
        self.layers[layer].scheduler = scheduler.clone();
        Ok(self)
    }

    /// The figures of a stack that was built from this description.
    pub fn figures(&self, built: &Stack, fairness: Fairness) -> StackFigures {
        let figures = |(spec, layer): (&LayerSpec, &Layer)| {
            let Counts { issued, switches, merged, flushes, to_drive, below, seek_sectors, hits } = layer.counts();
            let per_request = |sum: f64| (below.count > 0).then(|| sum / below.count as f64);
            let rules = schedulers::registry::find(&spec.scheduler.name).map_or(&[][..], |entry| entry.rules);
            LayerFigures {
                layer: spec.name.clone(),
                scheduler: spec.scheduler.to_string(),
                settings: spec.settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                rules: crate::figures::rules(rules, layer.schedulers().map(|scheduler| scheduler.sent_by_rule())),
                requests: issued,
                context_switches: switches,
                merged,
                flushes,
                time_to_drive: to_drive.moments(),
                time_below: below.moments(),
                seek_distance_mean_sectors: per_request(seek_sectors as f64),
                cache_hit_share: per_request(hits as f64),
            }
        };
        let layers = self.layers.iter().zip(built.layers()).map(figures).collect();
        StackFigures { spec: self.to_string(), layers, fairness }
    }

    /// The stack above `drive`.
    ///
    /// # Panics
    /// If the scheduler of a layer was set without a check.
    pub fn build(&self, drive: Box<dyn DriveModel>) -> Stack {
        self.build_among(drive, &Registry::builtin())
    }

    /// As [`StackSpec::build`], with schedulers among these.
    ///
    /// # Panics
    /// As [`StackSpec::build`]; if a scheduler is not among these.
    pub fn build_among(&self, drive: Box<dyn DriveModel>, known: &Registry) -> Stack {
        let layer = |(index, spec): (usize, &LayerSpec)| {
            let (scheduler, known) = (spec.scheduler.clone(), known.clone());
            let build = move || known.build(&scheduler).expect("checked when it was described").scheduler;
            Layer::new(Box::new(build), spec.config(index == 0 && self.layers.len() > 1))
        };
        Stack::new(self.layers.iter().enumerate().map(layer).collect(), drive)
    }
}
