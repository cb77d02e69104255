//! The table of all drive models, and drives built from what the command line says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

use crate::array::{self, ArraySettings, Contradiction, MemberParts, Parts};
use crate::drive::DriveModel;
use crate::mechanical::{Mechanical, Mechanics};
use crate::profile::{PROFILES, Profile, ProfileError, find_model};
use crate::{fixed, linear, mechanical};

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

/// What a model is made from.
pub enum Build {
    /// Settings resolved against its tunables.
    FromSettings(fn(&Settings) -> Box<dyn DriveModel>),
    /// The same, and the seek curve and layout of a profile.
    WithMechanics(fn(&Settings, &Mechanics) -> Box<dyn DriveModel>),
    /// The same, and as many drives with schedulers as its tunable `members` says.
    WithMembers(fn(&Settings, Vec<MemberParts>) -> Result<Box<dyn DriveModel>, Contradiction>),
}

/// The profile whose seek curve and layout a model has that is named without a profile.
const DEFAULT_MECHANICS: &str = "cheetah-15k5";

/// Every drive model.
pub const MODELS: &[Model] = &[linear::MODEL, mechanical::MODEL, array::MODEL, fixed::MODEL];

/// A drive with its tunables as they are in force.
pub struct Built {
    /// The profile's or model's name as it was given.
    pub name: String,
    /// The model.
    pub model: &'static Model,
    /// All tunables.
    pub settings: Settings,
    /// What it is made of, if it is an array.
    pub parts: Option<Parts>,
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
    Profile(#[from] ProfileError),
    /// An array's settings contradict each other.
    #[error("{array}: {contradiction}")]
    Contradiction {
        /// The array.
        array: String,
        /// Which and why.
        contradiction: Contradiction,
    },
    /// A part of an array cannot be built.
    #[error("{array}: its {part}: {error}")]
    Part {
        /// The array.
        array: String,
        /// `member` or `scheduler`.
        part: &'static str,
        /// Why not.
        error: Box<DriveError>,
    },
    /// An array is, through however many others, its own member.
    #[error("an array cannot be a member of itself: {0}")]
    Recursion(String),
}

/// Builds the drive that `spec` names: a shipped profile, a model, or the path of a profile
/// (anything that ends in `.toml`), with tunables on top.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value or profile that is not accepted.
pub fn build(spec: &Spec) -> Result<Built, DriveError> {
    let resolved = resolve(spec, &[])?;
    let drive = resolved.drive()?;
    let Resolved { model, settings, extra, .. } = resolved;
    let parts = match extra {
        Extra::Members(members) => Some(members.parts),
        Extra::None | Extra::Mechanics(_) => None,
    };
    Ok(Built { name: spec.name.clone(), model, settings, parts, drive })
}

/// The arm and platter of the drive that `spec` names, if it has them.
///
/// # Errors
/// As [`build`].
pub fn build_mechanical(spec: &Spec) -> Result<Option<Mechanical>, DriveError> {
    let Resolved { settings, extra, .. } = resolve(spec, &[])?;
    match extra {
        Extra::Mechanics(mechanics) => Ok(Some(Mechanical::new(&settings, &mechanics))),
        Extra::None | Extra::Members(_) => Ok(None),
    }
}

/// What a spec names.
struct Resolved {
    name: String,
    model: &'static Model,
    settings: Settings,
    extra: Extra,
    /// Where the profile's settings stand that are in force.
    lines: BTreeMap<String, usize>,
}

/// What a model is built from beside its settings.
enum Extra {
    None,
    Mechanics(Mechanics),
    Members(Box<Members>),
}

struct Members {
    parts: Parts,
    member: Resolved,
}

impl Resolved {
    fn drive(&self) -> Result<Box<dyn DriveModel>, DriveError> {
        match (&self.model.build, &self.extra) {
            (Build::FromSettings(build), _) => Ok(build(&self.settings)),
            (Build::WithMechanics(build), Extra::Mechanics(mechanics)) => Ok(build(&self.settings, mechanics)),
            (Build::WithMembers(build), Extra::Members(members)) => {
                let part = || -> Result<MemberParts, DriveError> {
                    Ok((members.member.drive()?, schedulers::build(&members.parts.scheduler)?.scheduler))
                };
                let number = self.settings.count("members");
                let parts = (0..number).map(|_| part()).collect::<Result<_, _>>()?;
                build(&self.settings, parts).map_err(|contradiction| self.contradiction(contradiction))
            }
            _ => unreachable!("resolved with its model"),
        }
    }

    /// The error, with its line if the profile says what contradicts.
    fn contradiction(&self, contradiction: Contradiction) -> DriveError {
        match self.lines.get(contradiction.tunable) {
            Some(&line) => {
                ProfileError { name: self.name.clone(), line: Some(line), problem: contradiction.problem }.into()
            }
            None => DriveError::Contradiction { array: self.name.clone(), contradiction },
        }
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
    let model = match &profile {
        Some(profile) => find_model(&profile.model).expect("a profile names a model that exists"),
        None => find_model(&spec.name).ok_or_else(|| unknown(&spec.name))?,
    };
    let mut own = spec.clone();
    let parts = match model.build {
        Build::WithMembers(_) => {
            let parts = profile.as_ref().and_then(|profile| profile.parts.clone()).unwrap_or_default();
            Some(parts.take_from(&mut own.given)?)
        }
        Build::FromSettings(_) | Build::WithMechanics(_) => None,
    };
    let settings = match &profile {
        Some(profile) => profile.resolve(model, &own)?,
        None => Settings::resolve(&own, model.tunables)?,
    };
    let mut lines = profile.as_ref().map_or_else(BTreeMap::new, |profile| profile.lines.clone());
    lines.retain(|key, _| !spec.given.iter().any(|(given, _)| given.split('.').next() == Some(key)));
    let mut resolved = Resolved { name: spec.name.clone(), model, settings, extra: Extra::None, lines };
    if let Some(parts) = parts {
        resolved.extra = Extra::Members(Box::new(resolve_members(&resolved, parts, &within)?));
    } else if let Build::WithMechanics(_) = model.build {
        let profile = profile.or_else(|| Profile::shipped(DEFAULT_MECHANICS));
        let mechanics = profile.and_then(|profile| profile.mechanics);
        resolved.extra = Extra::Mechanics(mechanics.expect("a profile of this model has mechanics"));
    }
    Ok(resolved)
}

fn resolve_members(array: &Resolved, parts: Parts, within: &[PathBuf]) -> Result<Members, DriveError> {
    ArraySettings::new(&array.settings).map_err(|contradiction| array.contradiction(contradiction))?;
    let refused = |part: &'static str, error: DriveError| match array.lines.get(part) {
        Some(&line) => ProfileError { name: array.name.clone(), line: Some(line), problem: error.to_string() }.into(),
        None => DriveError::Part { array: array.name.clone(), part, error: Box::new(error) },
    };
    schedulers::build(&parts.scheduler).map_err(|error| refused("scheduler", error.into()))?;
    let member = resolve(&parts.member, within).map_err(|error| refused("member", error))?;
    Ok(Members { parts, member })
}

fn unknown(name: &str) -> SpecError {
    let profiles = PROFILES.iter().map(|(profile, _)| *profile);
    let known = profiles.chain(MODELS.iter().map(|model| model.name));
    SpecError::UnknownName { kind: "drive", name: name.to_owned(), near: nearest(name, known) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_given_wins_over_the_profile() {
        let built = build(&"cheetah-15k4:cache=off,a=1ms".parse().unwrap()).unwrap();
        assert_eq!((built.settings.word("cache"), built.settings.word("a")), ("off", "1ms"));
        assert_eq!(built.settings.word("b"), "5.25ms");
    }

    #[test]
    fn unknown_names_list_the_near_ones() {
        let error = build(&"cheetah-15k6".parse().unwrap()).err().unwrap();
        assert_eq!(error.to_string(), "unknown drive `cheetah-15k6`; did you mean cheetah-15k4, cheetah-15k5?");
        let error = build(&"cheetah-15k4:cach=on".parse().unwrap()).err().unwrap();
        assert_eq!(error.to_string(), "`cheetah-15k4` has no tunable `cach`; did you mean cache?");
    }

    #[test]
    fn a_profile_of_ones_own_is_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, PROFILES[0].1.replace("4.25ms", "3ms")).unwrap();
        let built = build(&path.display().to_string().parse().unwrap()).unwrap();
        assert_eq!((built.model.name, built.settings.word("a")), ("linear", "3ms"));
        let error = build(&"absent.toml".parse().unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("drive profile absent.toml: "), "{error}");
    }

    #[test]
    fn a_bad_profile_is_refused_with_its_line() {
        let good = PROFILES[0].1;
        for (from, to, message) in [
            ("model = \"linear\"", "model = \"cubic\"", "drive profile x at line 2: there is no model `cubic`"),
            (
                "\"4.25ms\"",
                "\"-4.25ms\"",
                "drive profile x at line 7: x:a=`-4.25ms` is not a time such as 250us, 7ms or 1.5s",
            ),
            ("a = {", "aa = {", "drive profile x at line 7: `x` has no tunable `aa`; did you mean a?"),
            ("summary = ", "summary 5 = ", "drive profile x at line 3: "),
        ] {
            let error = Profile::parse("x", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let unsourced = good.replacen("source = \"Geist et al. 2010, section 5\"", "source = \" \"", 1);
        let error = Profile::parse("x", &unsourced).unwrap_err().to_string();
        assert_eq!(error, "drive profile x at line 13: `segment_sectors` has no source");
        let without = good.lines().filter(|line| !line.starts_with("hit")).collect::<Vec<_>>().join("\n");
        let error = Profile::parse("x", &without).unwrap_err().to_string();
        assert_eq!(error, "drive profile x: `hit` is missing from [settings]: service time of a cache hit");
    }
}
