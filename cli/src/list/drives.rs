//! The drives in `iocast list`: profiles, and the models that they are settings of.

use drive_models::{DriveDescription, MODELS, PROFILES, Profile};
use traces::spec::{Spec, Tunable};

use super::{Listed, ListedTunable, tunables};
use crate::output::{Table, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, data};

/// The shipped profiles, then the models.
pub fn listed() -> Vec<Listed> {
    let profile = |(name, _): &(&str, &str)| -> Option<Listed> {
        let Profile { name, model: of, summary, validation, settings, description, .. } = Profile::shipped(name)?;
        let model = MODELS.iter().find(|candidate| candidate.name == of)?;
        let value =
            |tunable: &Tunable| settings.get(tunable.name).map_or(tunable.default, |(value, _)| value).to_owned();
        let mut tunables = tunables(&model.all_tunables(), &value);
        tunables.extend(listed_parts(&*description));
        let (capacity_bytes, model) = (capacity_bytes(&name), Some(of));
        Some(Listed { name, summary, remark: validation, tunables, model, capacity_bytes, ..Listed::default() })
    };
    let model = |model: &drive_models::ModelRow| {
        let mut tunables = tunables(&model.all_tunables(), &|tunable| tunable.default.to_owned());
        tunables.extend(listed_parts(&*model.default_description()));
        Listed {
            name: model.name.to_owned(),
            summary: model.summary.to_owned(),
            remark: "a model with default settings, not a real drive".to_owned(),
            tunables,
            capacity_bytes: capacity_bytes(model.name),
            ..Listed::default()
        }
    };
    PROFILES.iter().filter_map(profile).chain(MODELS.iter().map(model)).collect()
}

/// The parts of an array, or the drive behind a throttle.
fn listed_parts(description: &dyn DriveDescription) -> Vec<ListedTunable> {
    let listed = |part: &drive_models::Part| ListedTunable {
        name: part.name,
        unit: part.kind.name().to_owned(),
        default: part.spec.to_string(),
        summary: part.summary,
    };
    description.parts().iter().map(listed).collect()
}

/// The capacity of a drive with the settings of its profile; `None` of a model that needs a profile.
fn capacity_bytes(name: &str) -> Option<u64> {
    let built = drive_models::build(&Spec { name: name.to_owned(), given: Vec::new() }).ok()?;
    Some(built.drive.capacity().bytes())
}

/// One line of each drive, and where there is more.
pub fn brief(listed: &[Listed], format: OutputFormat) -> String {
    let (profiles, models): (Vec<&Listed>, Vec<&Listed>) = listed.iter().partition(|entry| entry.model.is_some());
    let profile = |entry: &&Listed| {
        let capacity = entry.capacity_bytes.map_or(ABSENT.to_owned(), data);
        vec![entry.name.clone(), entry.model.clone().unwrap_or_default(), capacity, phrase(&entry.summary)]
    };
    let drives = Table {
        title: "Drives".to_owned(),
        header: ["name", "model", "capacity", "description"].map(str::to_owned).to_vec(),
        rows: profiles.iter().map(profile).collect(),
        text_columns: 4,
    };
    let model = |entry: &&Listed| vec![entry.name.clone(), phrase(&entry.summary)];
    let models = Table {
        title: "Models, which are drives with settings of yours (raid:level=6,member=nvme-ssd)".to_owned(),
        header: ["name", "description"].map(str::to_owned).to_vec(),
        rows: models.iter().map(model).collect(),
        text_columns: 2,
    };
    let more = "`iocast list drives NAME` shows the settings of one and what it was validated against, `iocast list \
                drives --details` those of all.";
    [drives.render(format), models.render(format), sentence(more, format)].join("\n")
}

/// The first phrase of a summary: what stands before a colon, a semicolon or a bracket.
fn phrase(summary: &str) -> String {
    summary.split([':', ';', '(']).next().unwrap_or(summary).trim_end().to_owned()
}
