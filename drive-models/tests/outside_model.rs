//! A model that is defined outside the crate: one row, with a section of its own, builds drives like any other.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use iocast_drives::model_row::{memory_without_tables, never_contradict, queue_of_one_at_a_time};
use iocast_drives::single_server::{Service, ServiceModel};
use iocast_drives::{
    BuildError, DriveDescription, DriveError, DriveModel, ModelRow, PartBuilder, ProfileError, Registry, Section,
    Sections, SingleServer,
};
use schedulers::AccessCost;
use serde::Deserialize;
use toml::Spanned;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

/// A drum: a head for each track, so that an access takes half a turn of waiting and nothing to seek.
const DRUM: ModelRow = ModelRow {
    name: "drum",
    summary: "a head for each track",
    tunables: &[Tunable::new("turn", Unit::Time, "20ms", "one turn").within(2, 1_000_000_000)],
    one_at_a_time: true,
    queue_depth: queue_of_one_at_a_time,
    is_rotational: true,
    check: never_contradict,
    memory: memory_without_tables,
    sections: &[Section::of::<DrumText>("drum")],
    describe,
};

const PROFILE: &str = r#"model = "drum"
summary = "a small drum"
validation = "unvalidated: a test"
[drum]
tracks = 80
[settings]
turn = { value = "10ms", source = "a test" }
"#;

const REGISTRY: Registry = Registry { models: &[DRUM], profiles: &[("small", PROFILE)] };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrumText {
    tracks: Spanned<u64>,
}

#[derive(Debug)]
struct Tracks(u64);

fn describe(sections: Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError> {
    let Some(mut sections) = sections else { return Ok(Box::new(Tracks(100))) };
    let DrumText { tracks } = sections.take("drum");
    match *tracks.get_ref() {
        0 => Err(ProfileError::at(tracks.span().start, "tracks = 0: a drum has at least one")),
        tracks => Ok(Box::new(Tracks(tracks))),
    }
}

impl DriveDescription for Tracks {
    fn build(&self, settings: &Settings, _: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        Ok(Box::new(SingleServer::new(Drum { capacity: Sectors::new(self.0 * 10), turn: settings.nanos("turn") })))
    }
}

struct Drum {
    capacity: Sectors,
    turn: Nanos,
}

impl AccessCost for Drum {
    fn position(&self) -> Lba {
        Lba::ZERO
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
        Nanos::from_ns(self.turn.as_ns() / 2)
    }
}

impl ServiceModel for Drum {
    fn serve(&mut self, started: Timestamp, request: &Request) -> Service {
        Service { time: self.access(started, request), seek: Sectors::ZERO, hit: false }
    }
}

/// How long the drive takes for a read.
fn time(drive: &mut dyn DriveModel) -> Nanos {
    let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
    drive.submit(Timestamp::ZERO, RequestId(0), &request);
    drive.next_event().unwrap().since(Timestamp::ZERO)
}

#[test]
fn drive_is_built_from_model_profile_and_settings() {
    for (spec, capacity, ms) in
        [("drum", 1000, 10), ("small", 800, 5), ("small:turn=6ms", 800, 3), ("drum:queue_depth=4", 1000, 10)]
    {
        let mut built = REGISTRY.build(&spec.parse().unwrap()).unwrap();
        assert_eq!(built.drive.capacity(), Sectors::new(capacity), "{spec}");
        assert_eq!(time(&mut *built.drive), Nanos::from_us(1000 * ms), "{spec}");
        assert!(built.description.downcast_ref::<Tracks>().is_some());
    }
}

#[test]
fn profile_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let name = path.display().to_string();
    let refused = || -> DriveError { REGISTRY.build(&name.parse().unwrap()).err().unwrap() };
    for (from, to, message) in [
        ("tracks = 80", "tracks = 0", " at line 5: tracks = 0: a drum has at least one"),
        ("tracks = 80", "heads = 80", " at line 5: unknown field `heads`, expected `tracks`"),
        ("[drum]\ntracks = 80\n", "", " at line 1: [drum] is missing: a drum drive needs it"),
        (
            "[drum]",
            "[tape]",
            " at line 4: unknown field `tape`, expected one of `model`, `summary`, `validation`, `settings`, `drum`",
        ),
        ("\"10ms\"", "\"-1\"", " at line 7: "),
        ("model = \"drum\"", "model = \"linear\"", " at line 1: there is no model `linear`"),
    ] {
        std::fs::write(&path, PROFILE.replacen(from, to, 1)).unwrap();
        let (error, message) = (refused().to_string(), format!("drive profile {name}{message}"));
        assert!(error.starts_with(&message), "{error}");
    }
    let error = REGISTRY.build(&"dram".parse().unwrap()).err().unwrap().to_string();
    assert_eq!(error, "unknown drive `dram`; did you mean drum?");
}
