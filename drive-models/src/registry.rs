//! The table of all drive models, and drives built from what the command line says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use traces::DescriptionError;
use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

use crate::array::{self, MemberParts, Parts};
use crate::description::{Contradiction, Description};
use crate::drive::DriveModel;
use crate::empirical::{self, Cells};
use crate::mechanical::{self, Mechanical, Mechanics};
use crate::profile::{PROFILES, Profile, WHAT, find_model};
use crate::queued::{self, Queued};
use crate::throttle::{self, Behind, Throttle, virtual_disk};
use crate::{fixed, flash, linear};

/// One drive model.
pub struct Model {
    /// The name on the command line and in profiles.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
    /// Makes one.
    pub build: Build,
}

impl Model {
    /// Its tunables and, if it serves one request at a time, those of the queue that such a drive may have.
    pub fn all_tunables(&self) -> Vec<Tunable> {
        let queue = if self.build.serves_one_at_a_time() { queued::TUNABLES } else { &[] };
        [self.tunables, queue].concat()
    }

    /// Checks what `spec` gives against [`Model::all_tunables`], one by one.
    pub(crate) fn settings(&self, spec: &Spec) -> Result<Settings, SpecError> {
        Settings::resolve(spec, &self.all_tunables())
    }

    /// The description that a drive has which is named by its model alone.
    pub fn default_description(&self) -> Description {
        let of = |profile| Profile::shipped(profile).map(|profile| profile.description);
        let found = match self.build {
            Build::FromSettings(_) | Build::Checked { .. } => None,
            Build::WithMechanics(_) => of(DEFAULT_MECHANICS),
            Build::WithCells(_) => of(DEFAULT_CELLS),
            Build::WithMembers { .. } => Some(Description::Parts(Parts::default())),
            Build::OverDrive { .. } => Some(Description::Behind(Behind::default())),
        };
        found.unwrap_or(Description::SettingsAlone)
    }
}

/// Makes an array of its members.
pub type BuildArray = fn(&Settings, Vec<MemberParts>) -> Result<Box<dyn DriveModel>, Contradiction>;

/// Makes a throttle in front of a virtual disk.
pub type BuildThrottle = fn(&Settings, Box<dyn DriveModel>) -> Result<Throttle<Box<dyn DriveModel>>, Contradiction>;

/// What a model is made from.
pub enum Build {
    /// Settings resolved against its tunables; it serves one request at a time.
    FromSettings(fn(&Settings) -> Box<dyn DriveModel>),
    /// Settings which, each fine by itself, can contradict one another.
    Checked {
        /// Finds the first that does.
        check: fn(&Settings) -> Result<(), Contradiction>,
        /// Makes one of settings that do not.
        build: fn(&Settings) -> Box<dyn DriveModel>,
    },
    /// Settings, and the seek curve and layout of a profile; it serves one request at a time.
    WithMechanics(fn(&Settings, &Mechanics) -> Box<dyn DriveModel>),
    /// Settings, and the measured service times of a profile.
    WithCells(fn(&Settings, &Cells) -> Box<dyn DriveModel>),
    /// Settings, and as many drives with schedulers as its tunable `members` says.
    WithMembers {
        /// Finds the first setting that contradicts another.
        check: fn(&Settings) -> Result<(), Contradiction>,
        /// Makes one of settings that do not, if they do not contradict the members either.
        build: BuildArray,
    },
    /// Settings, and the drive that it stands in front of.
    OverDrive {
        /// Finds the first setting that contradicts another.
        check: fn(&Settings) -> Result<(), Contradiction>,
        /// Makes one of settings that do not.
        build: BuildThrottle,
    },
}

impl Build {
    /// Whether settings that are each fine contradict one another.
    ///
    /// # Errors
    /// The first that does.
    pub fn check(&self, settings: &Settings) -> Result<(), Contradiction> {
        match self {
            Build::Checked { check, .. } | Build::WithMembers { check, .. } | Build::OverDrive { check, .. } => {
                check(settings)
            }
            Build::FromSettings(_) | Build::WithMechanics(_) | Build::WithCells(_) => Ok(()),
        }
    }

    fn serves_one_at_a_time(&self) -> bool {
        matches!(self, Build::FromSettings(_) | Build::WithMechanics(_))
    }
}

/// The profile whose seek curve and layout a model has that is named without a profile.
const DEFAULT_MECHANICS: &str = "cheetah-15k5";
/// The same of measured service times.
const DEFAULT_CELLS: &str = "qemu-virtio";

/// Every drive model.
pub const MODELS: &[Model] = &[
    linear::MODEL,
    mechanical::MODEL,
    array::MODEL,
    flash::MODEL,
    empirical::MODEL,
    fixed::MODEL,
    throttle::MODEL,
    virtual_disk::MODEL,
];

/// A drive with its tunables as they are in force.
pub struct Built {
    /// The profile's or model's name as it was given.
    pub name: String,
    /// The model.
    pub model: &'static Model,
    /// All tunables.
    pub settings: Settings,
    /// What it is made of beside them.
    pub description: Description,
    /// The drive.
    pub drive: Box<dyn DriveModel>,
}

/// Why a drive cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The name or a tunable is not known, or a value is not accepted.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The profile is not accepted.
    #[error(transparent)]
    Profile(#[from] DescriptionError),
    /// A part of an array or a throttle cannot be built.
    #[error("{whole}: its {part}: {error}")]
    Part {
        /// The array or throttle.
        whole: String,
        /// `member`, `scheduler` or `virtual`.
        part: &'static str,
        /// Why not.
        error: Box<DriveError>,
    },
    /// A drive is, through however many others, a part of itself: an array's member, a throttle's virtual disk.
    #[error("a drive cannot be a part of itself: {0}")]
    Recursion(String),
}

/// Builds the drive that `spec` names: a shipped profile, a model, or the path of a profile
/// (anything that ends in `.toml`), with tunables on top.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value or profile that is not accepted.
pub fn build(spec: &Spec) -> Result<Built, DriveError> {
    resolve(spec, &[])?.built()
}

/// Builds the drive of a profile that is not (yet) a file.
///
/// # Errors
/// A profile that its model does not accept.
pub fn build_profile(profile: Profile) -> Result<Built, DriveError> {
    let spec = Spec { name: profile.name.clone(), given: Vec::new() };
    resolve_profile(Some(profile), &spec, &[])?.built()
}

/// The arm and platter of the drive that `spec` names, if it has them.
///
/// # Errors
/// As [`build`].
pub fn build_mechanical(spec: &Spec) -> Result<Option<Mechanical>, DriveError> {
    let Resolved { settings, description, .. } = resolve(spec, &[])?;
    match description {
        Description::Mechanics(mechanics) => Ok(Some(Mechanical::new(&settings, &mechanics))),
        _ => Ok(None),
    }
}

/// The throttle that `spec` names, if it names one, with its settings and report within reach.
///
/// # Errors
/// As [`build`].
pub fn build_throttle(spec: &Spec) -> Result<Option<Throttle<Box<dyn DriveModel>>>, DriveError> {
    resolve(spec, &[])?.throttle()
}

/// What a spec names, its settings in accord with one another.
struct Resolved {
    name: String,
    model: &'static Model,
    settings: Settings,
    /// Of the kind that the model is built with.
    description: Description,
    /// What every member is, if it is an array, or what it stands in front of, if it is a throttle.
    inner: Option<Box<Resolved>>,
    /// Where the profile's settings and parts stand that are in force.
    lines: BTreeMap<String, usize>,
}

impl Resolved {
    fn built(self) -> Result<Built, DriveError> {
        let drive = self.drive()?;
        let Resolved { name, model, settings, description, .. } = self;
        Ok(Built { name, model, settings, description, drive })
    }

    fn drive(&self) -> Result<Box<dyn DriveModel>, DriveError> {
        let settings = &self.settings;
        match (&self.model.build, &self.description, &self.inner) {
            (Build::FromSettings(build), ..) => Ok(Queued::in_front_of(build(settings), settings)),
            (Build::WithMechanics(build), Description::Mechanics(mechanics), _) => {
                Ok(Queued::in_front_of(build(settings, mechanics), settings))
            }
            (Build::Checked { build, .. }, ..) => Ok(build(settings)),
            (Build::WithCells(build), Description::Cells(cells), _) => Ok(build(settings, cells)),
            (Build::WithMembers { build, .. }, Description::Parts(parts), Some(member)) => {
                let one = || -> Result<MemberParts, DriveError> {
                    Ok((member.drive()?, schedulers::build(&parts.scheduler)?.scheduler))
                };
                let members = (0..settings.count("members")).map(|_| one()).collect::<Result<_, _>>()?;
                build(settings, members).map_err(|contradiction| {
                    let tunable = contradiction.tunable;
                    self.blame(tunable, contradiction.among(settings, &self.name).into())
                })
            }
            (Build::OverDrive { .. }, ..) => Ok(Box::new(self.throttle()?.expect("it is a throttle"))),
            _ => unreachable!("a description is read for its model"),
        }
    }

    fn throttle(&self) -> Result<Option<Throttle<Box<dyn DriveModel>>>, DriveError> {
        let (Build::OverDrive { build, .. }, Some(inner)) = (&self.model.build, &self.inner) else { return Ok(None) };
        let throttle = build(&self.settings, inner.drive()?);
        throttle.map(Some).map_err(|contradiction| contradiction.among(&self.settings, &self.name).into())
    }

    /// The error, with its line if the profile says what is to blame.
    fn blame(&self, key: &str, error: DriveError) -> DriveError {
        match self.lines.get(key) {
            Some(&line) => {
                DescriptionError { what: WHAT, name: self.name.clone(), line: Some(line), problem: error.to_string() }
                    .into()
            }
            None => error,
        }
    }

    /// Resolves what every member of an array is, or what stands behind a throttle.
    fn resolve_inner(&self, within: &[PathBuf]) -> Result<Option<Box<Resolved>>, DriveError> {
        let refused = |part: &'static str, error: DriveError| match self.lines.get(part) {
            Some(_) => self.blame(part, error),
            None => DriveError::Part { whole: self.name.clone(), part, error: Box::new(error) },
        };
        let (part, spec) = match &self.description {
            Description::Parts(parts) => {
                schedulers::build(&parts.scheduler).map_err(|error| refused("scheduler", error.into()))?;
                ("member", &parts.member)
            }
            Description::Behind(behind) => ("virtual", &behind.disk),
            Description::SettingsAlone | Description::Mechanics(_) | Description::Cells(_) => return Ok(None),
        };
        resolve(spec, within).map(|inner| Some(Box::new(inner))).map_err(|error| refused(part, error))
    }
}

/// `within` are the files of the profiles whose member this is.
fn resolve(spec: &Spec, within: &[PathBuf]) -> Result<Resolved, DriveError> {
    let mut within = within.to_vec();
    let profile = if spec.name.ends_with(".toml") {
        let path = Path::new(&spec.name);
        let profile = Profile::read(path)?;
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if within.contains(&file) {
            return Err(DriveError::Recursion(spec.name.clone()));
        }
        within.push(file);
        Some(profile)
    } else {
        Profile::shipped(&spec.name)
    };
    resolve_profile(profile, spec, &within)
}

/// The same with the profile that `spec` names, if it names one.
fn resolve_profile(profile: Option<Profile>, spec: &Spec, within: &[PathBuf]) -> Result<Resolved, DriveError> {
    let model = match &profile {
        Some(profile) => find_model(&profile.model).expect("a profile names a model that exists"),
        None => find_model(&spec.name).ok_or_else(|| unknown(&spec.name))?,
    };
    let mut own = spec.clone();
    let mut description =
        profile.as_ref().map_or_else(|| model.default_description(), |profile| profile.description.clone());
    description = match description {
        Description::Parts(parts) => Description::Parts(parts.take_from(&mut own.given)?),
        Description::Behind(behind) => Description::Behind(behind.take_from(&mut own.given)?),
        other => other,
    };
    let settings = match &profile {
        Some(profile) => profile.resolve(model, &own)?,
        None => model.settings(&own)?,
    };
    model.build.check(&settings).map_err(|contradiction| contradiction.among(&settings, &spec.name))?;
    let mut lines = profile.map_or_else(BTreeMap::new, |profile| profile.lines);
    lines.retain(|key, _| !spec.given.iter().any(|(given, _)| given.split('.').next() == Some(key)));
    let resolved = Resolved { name: spec.name.clone(), model, settings, description, inner: None, lines };
    let inner = resolved.resolve_inner(within)?;
    Ok(Resolved { inner, ..resolved })
}

fn unknown(name: &str) -> SpecError {
    let profiles = PROFILES.iter().map(|(profile, _)| *profile);
    let known = profiles.chain(MODELS.iter().map(|model| model.name));
    SpecError::UnknownName { kind: "drive", name: name.to_owned(), near: nearest(name, known) }
}

#[cfg(test)]
mod tests {
    use traces::spec::Unit;

    use super::*;

    /// The text of a shipped profile.
    fn text_of(name: &str) -> &'static str {
        PROFILES.iter().find(|(shipped, _)| *shipped == name).unwrap().1
    }

    #[test]
    fn every_models_defaults_are_accepted_and_build() {
        for model in MODELS {
            let spec = Spec { name: model.name.to_owned(), given: Vec::new() };
            for tunable in model.tunables {
                let given = vec![(tunable.name.to_owned(), tunable.default.to_owned())];
                Settings::resolve(&Spec { name: model.name.to_owned(), given }, model.tunables).unwrap();
            }
            assert!(build(&spec).unwrap().drive.capacity().count() > 0);
        }
    }

    #[test]
    fn every_shipped_profile_builds() {
        for (name, _) in PROFILES {
            let built = build(&name.parse().unwrap()).unwrap();
            assert_eq!(built.name, *name);
        }
    }

    #[test]
    fn every_shipped_profile_says_against_what_it_was_checked() {
        for (name, _) in PROFILES {
            let said = Profile::shipped(name).unwrap().validation;
            let kinds = ["validated against ", "unvalidated: ", "fitted to "];
            assert!(kinds.iter().any(|kind| said.len() > kind.len() && said.starts_with(kind)), "{name}: {said}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 512, ..Default::default() })]
        /// Values at the ends of their ranges, in any combination, are accepted or refused.
        #[test]
        fn no_combination_of_settings_panics(ends in proptest::collection::vec(0u8..4, 32)) {
            for model in MODELS {
                let value = |(tunable, end): (&Tunable, &u8)| {
                    let (min, max) = (tunable.range.0, tunable.range.1.min(u64::MAX / 1_000_000));
                    let number = [min, max, min + (max - min) / 1000][usize::from(end % 3)];
                    let value = match tunable.unit {
                        _ if *end == 3 => return None,
                        Unit::Time => format!("{number}ns"),
                        Unit::Count | Unit::Counts | Unit::Bytes => number.to_string(),
                        Unit::Decimal => format!("{}.{:03}", number / 1000, number % 1000),
                        Unit::TimesAt(_) => "none".to_owned(),
                        Unit::Switch => if *end == 0 { "on" } else { "off" }.to_owned(),
                        Unit::Choice(words) => words[usize::from(*end) % words.len()].to_owned(),
                    };
                    Some((tunable.name.to_owned(), value))
                };
                let given = model.all_tunables().iter().zip(&ends).filter_map(value).collect();
                let settings = model.settings(&Spec { name: model.name.to_owned(), given }).unwrap();
                let _ = model.build.check(&settings);
            }
        }
    }

    #[test]
    fn what_is_given_wins_over_the_profile() {
        let built = build(&"cheetah-15k4:cache=off,a=1ms".parse().unwrap()).unwrap();
        assert_eq!((built.settings.word("cache"), built.settings.word("a")), ("off", "1ms"));
        assert_eq!(built.settings.word("b"), "5.25ms");
    }

    #[test]
    fn unknown_names_list_the_near_ones() {
        let error = build(&"cheetah-15k6".parse().unwrap()).err().unwrap();
        assert_eq!(
            error.to_string(),
            "unknown drive `cheetah-15k6`; did you mean cheetah-15k4, cheetah-15k5, cheetah-4lp?"
        );
        let error = build(&"cheetah-15k4:cach=on".parse().unwrap()).err().unwrap();
        assert_eq!(error.to_string(), "`cheetah-15k4` has no tunable `cach`; did you mean cache?");
    }

    #[test]
    fn a_profile_of_ones_own_is_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, text_of("cheetah-15k4").replace("4.25ms", "3ms")).unwrap();
        let built = build(&path.display().to_string().parse().unwrap()).unwrap();
        assert_eq!((built.model.name, built.settings.word("a")), ("linear", "3ms"));
        let error = build(&"absent.toml".parse().unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("drive profile absent.toml: "), "{error}");
    }

    #[test]
    fn a_profile_may_say_what_queue_its_drive_has() {
        let queue = "[settings]\nqueue_depth = { value = \"8\", source = \"y\" }";
        let profile = Profile::parse("x", &text_of("cheetah-15k4").replacen("[settings]", queue, 1)).unwrap();
        let in_force = profile.resolve(&linear::MODEL, &"x".parse().unwrap()).unwrap();
        assert_eq!((in_force.count("queue_depth"), in_force.word("queue_order")), (8, "satf"));
    }

    #[test]
    fn a_bad_profile_is_refused_with_its_line() {
        let good = text_of("cheetah-15k4");
        for (from, to, message) in [
            ("model = \"linear\"", "model = \"cubic\"", "drive profile x at line 2: there is no model `cubic`"),
            (
                "\"4.25ms\"",
                "\"-4.25ms\"",
                "drive profile x at line 7: x:a=`-4.25ms` is not a time such as 250us, 7ms or 1.5s",
            ),
            ("a = {", "aa = {", "drive profile x at line 7: `x` has no tunable `aa`; did you mean a?"),
            ("summary = ", "summary 5 = ", "drive profile x at line 3: "),
            ("validation = \"", "validation = \"\"#", "drive profile x at line 4: validation is empty: "),
            (
                "[settings]",
                "[settings]\nqueue_depth = { value = \"-1\", source = \"y\" }",
                "drive profile x at line 7: x:queue_depth=`-1` is not a whole number",
            ),
        ] {
            let error = Profile::parse("x", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let unsourced = good.replacen("source = \"Geist et al. 2010, section 5\"", "source = \" \"", 1);
        let error = Profile::parse("x", &unsourced).unwrap_err().to_string();
        assert_eq!(error, "drive profile x at line 13: `segment_sectors` has no source");
        let without = good.lines().filter(|line| !line.starts_with("hit")).collect::<Vec<_>>().join("\n");
        let error = Profile::parse("x", &without).unwrap_err().to_string();
        assert_eq!(error, "drive profile x at line 6: `hit` is missing from [settings]: service time of a cache hit");
    }
}
