//! What a replay is made of. What is accepted is replayed: some requests of a mail and of a web server.

use std::path::Path;

use drive_models::{BuiltDrive, MODELS, PROFILES, Profile, build_profile};
use replay::host::Single;
use replay::metrics::Class;
use replay::sources::{AddressMap, MergedTraces, Pacing, TimeWindow, VmTrace, paced};
use replay::stack::{LAYER_SETTINGS, PRESETS, StackError, StackSpec};
use replay::{Engine, Host, Limits, Metrics, Source, Stage};
use schedulers::{Registry, SCHEDULERS};
use traces::spec::{Tunable, parse_list};
use traces::trace::ReadOptions;
use traces::{InMemoryTrace, Nanos, Record, Sectors, Timestamp, TraceMeta, formats};
use workloads::Until;
use workloads::plan::{GuestPlan, GuestSettings, Named};
use workloads::programs::{PROGRAMS, description};

use crate::harness::Target;
use crate::{bytes, contents, root, text};

/// Requests of a replay.
const REQUESTS: u64 = 100;
/// Inputs of a short run.
const SHORT_RUN: u64 = 200;

const PACINGS: [Pacing; 3] = [Pacing::Recorded, Pacing::Asap(8), Pacing::Closed];

#[derive(Clone)]
struct Load(Vec<(TraceMeta, Vec<Record>)>);

impl Load {
    fn read() -> Load {
        let of = |name: &str| {
            let path = root().join("traces/samples").join(name);
            let mut reader = formats::open(&path, &ReadOptions::default()).unwrap();
            let records = (0..REQUESTS).map_while(|_| reader.next().unwrap()).collect();
            (reader.meta().clone(), records)
        };
        Load(["mail.parquet", "web.parquet"].map(of).to_vec())
    }

    /// Replays the load in one of the pacings.
    fn replay<H: Host>(&self, host: H, capacity: Sectors, way: usize) -> bool {
        let trace = |(meta, records): &(TraceMeta, Vec<Record>)| VmTrace {
            name: "vm".to_owned(),
            path: "trace".into(),
            reader: Box::new(InMemoryTrace::new(meta.clone(), records.clone())),
            map: AddressMap::Wrap { place: Sectors::ZERO },
        };
        let window = TimeWindow { limit: Some(REQUESTS), ..TimeWindow::default() };
        let traces = MergedTraces::new(self.0.iter().map(trace).collect(), window, capacity);
        run(paced(traces, PACINGS[way % PACINGS.len()]), host)
    }
}

/// Runs to the end. Says whether it got there with a request.
fn run<S: Source, H: Host>(source: S, host: H) -> bool {
    let Ok(ended) = Engine::on(source, host, Metrics::new()).run() else { return false };
    [Class::Read, Class::Write].iter().any(|&class| ended.observer.total(class).bytes > 0)
}

/// Replays the load under fifo on a drive that was accepted.
fn on_drive(load: &Load, built: BuiltDrive, way: usize) -> bool {
    let limits = Limits { depth: built.queue_depth(), ..Limits::default() };
    let stage = Stage::new(schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler, limits);
    let capacity = built.drive.capacity();
    load.replay(Single::new(stage, built.drive), capacity, way)
}

fn drive(spec: &str) -> BuiltDrive {
    drive_models::build(&spec.parse().unwrap()).unwrap()
}

/// A part without tunables, with all at their defaults, and with each at an extreme.
fn specs(name: &str, tunables: &[Tunable]) -> Vec<String> {
    let set = |tunable: &Tunable, value: &str| format!("{}={value}", tunable.name);
    let defaults: Vec<String> = tunables.iter().map(|tunable| set(tunable, tunable.default)).collect();
    let extreme = |tunable: &Tunable| format!("{name}:{}", set(tunable, &tunable.extreme(1, tunable.range)));
    let all = format!("{name}:{}", defaults.join(","));
    [name.to_owned(), all].into_iter().chain(tunables.iter().map(extreme)).collect()
}

fn scheduler(path: &Path, load: &Load, way: usize) -> bool {
    let Ok(specs) = parse_list(text(path).trim_end()) else { return false };
    let built = specs.iter().filter_map(|spec| schedulers::build(spec).ok()).take(3);
    let replayed = built.map(|built| {
        let drive = drive(["cheetah-15k4", "nvme-ssd", "fixed"][way % 3]).drive;
        let limits = Limits { depth: [1, 4, 32][way / 3 % 3], look_ahead: way % 2 == 1, ..Limits::default() };
        let capacity = drive.capacity();
        load.replay(Single::new(Stage::new(built.scheduler, limits), drive), capacity, way)
    });
    replayed.collect::<Vec<bool>>().contains(&true)
}

fn stack(stack: Result<StackSpec, StackError>, load: &Load, way: usize) -> bool {
    let Ok(stack) = stack else { return false };
    let drive = drive(["cheetah-15k4", "nvme-ssd", "fixed"][way % 3]).drive;
    let capacity = drive.capacity();
    load.replay(stack.build(drive), capacity, way)
}

/// Runs the guests of a workload for some requests.
fn guests(what: &str, way: usize) -> bool {
    let settings = GuestSettings {
        seed: 1,
        capacity: None,
        cache_bytes: [0, 1 << 20, 64 << 20][way % 3],
        keeps_journal: way % 2 == 1,
    };
    let until = Until { requests: Some(REQUESTS), time: Some(Timestamp::ZERO + Nanos::from_ms(2_000)) };
    let named = Named { name: None, what: what.to_owned(), place: None };
    let built = drive(["cheetah-15k4", "nvme-ssd", "fixed:capacity=2t"][way / 6 % 3]);
    let Ok(plan) = GuestPlan::new(&[named], settings, until, built.drive.capacity()) else { return false };
    let Ok(source) = plan.source() else { return false };
    let stage = Stage::new(schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler, Limits::default());
    plan.provenance().is_ok() && run(source, Single::new(stage, built.drive))
}

fn drive_spec(path: &Path, load: &Load, way: usize) -> bool {
    let Ok(spec) = text(path).trim_end().parse() else { return false };
    let Ok(built) = drive_models::build(&spec) else { return false };
    on_drive(load, built, way)
}

fn profile(path: &Path, load: &Load, way: usize) -> bool {
    let Ok(profile) = Profile::parse("fuzzed", &text(path)) else { return false };
    let Ok(built) = build_profile(profile) else { return false };
    on_drive(load, built, way)
}

/// Drives with parts that defaults leave out.
const DRIVES: [&str; 6] = [
    "raid:level=5,members=5,member=fixed,write_cache=64k,read_cache=1m,prefetch=256k,overhead=100us",
    "raid:level=6,members=8,member=nvme-ssd,failed=2",
    "raid:level=10,members=4,scheduler=deadline,member=cheetah-9lp,write_cache=16m",
    "throttle:k=8,virtual.service=2ms",
    "ds8700-raid5-7:member=sata-ssd,scheduler=fifo",
    "cheetah-15k5:write_cache=back,queue_depth=32,queue_order=satf,age_limit=500ms",
];

/// Drives by their models and profiles.
fn drives() -> Vec<String> {
    let models = MODELS.iter().flat_map(|model| specs(model.name, &model.all_tunables()));
    let queued = |(name, _): &(&str, &str)| format!("{name}:queue_depth=4,queue_order=satf");
    models.chain(PROFILES.iter().map(queued)).chain(DRIVES.map(str::to_owned)).collect()
}

/// Shipped stacks, and two layers of which the first has its settings at extremes.
fn lines() -> Vec<String> {
    let layers = specs("guest=none", LAYER_SETTINGS).into_iter();
    let two = |layer: String| format!("{}/hypervisor=sfq@depth=8", layer.replacen(':', "@", 1));
    PRESETS.iter().map(|preset| preset.line.to_owned()).chain(layers.map(two)).collect()
}

/// The file of a stack with all settings.
fn stack_file() -> String {
    let setting = |tunable: &Tunable| format!("{} = \"{}\"\n", tunable.name, tunable.default);
    let settings: String = LAYER_SETTINGS.iter().map(setting).collect();
    let layer = |name: &str| format!("[[layer]]\nname = \"{name}\"\nscheduler = \"bfq\"\n[layer.settings]\n{settings}");
    layer("guest") + &layer("hypervisor")
}

/// Programs of few files: ten millions, or SURGE's million by default, take seconds.
fn programs() -> Vec<String> {
    let all = PROGRAMS.iter().flat_map(|entry| specs(entry.name, entry.tunables));
    let few = all.filter(|spec| !spec.starts_with("surge") && !spec.contains("files=10000000"));
    let surge = "surge:files=1000,directories=10,popularity=by-name,metadata=on,processes=5,direct=off,sleep_scale=1";
    few.chain([surge.to_owned()]).collect()
}

pub(crate) fn targets() -> Vec<Target> {
    let load = Load::read();
    let with = |work: fn(&Path, &Load, usize) -> bool| {
        let load = load.clone();
        move |path: &Path, way: usize| work(path, &load, way)
    };
    let seeds = |texts: Vec<String>| texts.into_iter().map(String::into_bytes).collect::<Vec<_>>();
    let schedulers = SCHEDULERS.iter().flat_map(|entry| specs(entry.name, entry.tunables)).collect();
    let profiles = bytes(PROFILES.iter().map(|(_, text)| *text));
    let fewer_files = |text: &str| text.replace("surge:direct=", "surge:files=1000,direct=");
    let descriptions = description::PRESETS.iter().map(|(_, text)| fewer_files(text)).collect();
    let jobs = ["capture/lab/workloads", "capture/lab/plans/schedulers", "benches/examples/digests"];
    let jobs = jobs.iter().flat_map(|folder| contents(folder, ".fio")).map(|job| {
        let job = String::from_utf8(job).unwrap();
        job.replace("${RUNTIME}", "2").replace("${SEED}", "7")
    });
    let drives = Target::new("drive", "input", seeds(drives()), SHORT_RUN, with(drive_spec));
    let profiles = Target::new("profile", "input", profiles, SHORT_RUN, with(profile));
    let programs =
        Target::new("workload", "input", seeds(programs()), SHORT_RUN, |path, way| guests(text(path).trim_end(), way));
    let descriptions = Target::new("workload-file", "input.toml", seeds(descriptions), SHORT_RUN, |path, way| {
        guests(path.to_str().unwrap(), way)
    });
    let fio_jobs = Target::new("fio-job", "input.fio", seeds(jobs.collect()), SHORT_RUN, |path, way| {
        guests(path.to_str().unwrap(), way)
    });
    vec![
        Target::new("scheduler", "input", seeds(schedulers), SHORT_RUN, with(scheduler)),
        // A simulated SSD takes up to 300 MB, files and processes of guests 900 MB.
        Target { resident_max_mb: 450, ..drives },
        Target { resident_max_mb: 450, ..profiles },
        Target { resident_max_mb: 1200, ..programs },
        Target { resident_max_mb: 1200, ..descriptions },
        Target { resident_max_mb: 1200, ..fio_jobs },
        Target::new(
            "stack",
            "input",
            seeds(lines()),
            SHORT_RUN,
            with(|path, load, way| {
                stack(StackSpec::from_line("fuzzed", text(path).trim_end(), &Registry::builtin()), load, way)
            }),
        ),
        Target::new(
            "stack-file",
            "input",
            seeds(vec![stack_file()]),
            SHORT_RUN,
            with(|path, load, way| stack(StackSpec::from_toml("fuzzed", &text(path), &Registry::builtin()), load, way)),
        ),
    ]
}
