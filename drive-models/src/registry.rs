//! The table of all drive models, and drives built from what the command line says.

use std::path::Path;

use traces::spec::{Settings, Spec, SpecError, Tunable, nearest};

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
}

/// The profile whose seek curve and layout a model has that is named without a profile.
const DEFAULT_MECHANICS: &str = "cheetah-15k5";

/// Every drive model.
pub const MODELS: &[Model] = &[linear::MODEL, mechanical::MODEL, fixed::MODEL];

/// A drive with its tunables as they are in force.
pub struct Built {
    /// The profile's or model's name as it was given.
    pub name: String,
    /// The model.
    pub model: &'static Model,
    /// All tunables.
    pub settings: Settings,
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
}

/// Builds the drive that `spec` names: a shipped profile, a model, or the path of a profile
/// (anything that ends in `.toml`), with tunables on top.
///
/// # Errors
/// An unknown name or tunable with the nearest ones; a value or profile that is not accepted.
pub fn build(spec: &Spec) -> Result<Built, DriveError> {
    made(spec, resolve(spec)?)
}

/// Builds the drive of a profile that is not (yet) a file.
///
/// # Errors
/// A profile that its model does not accept.
pub fn build_profile(profile: Profile) -> Result<Built, DriveError> {
    let spec = Spec { name: profile.name.clone(), given: Vec::new() };
    made(&spec, of_profile(profile, &spec)?)
}

fn made(spec: &Spec, Resolved { model, settings, mechanics }: Resolved) -> Result<Built, DriveError> {
    let drive = match (&model.build, &mechanics) {
        (Build::FromSettings(build), _) => build(&settings),
        (Build::WithMechanics(build), mechanics) => {
            build(&settings, mechanics.as_ref().expect("resolved with its model"))
        }
    };
    Ok(Built { name: spec.name.clone(), model, settings, drive })
}

/// The arm and platter of the drive that `spec` names, if it has them.
///
/// # Errors
/// As [`build`].
pub fn build_mechanical(spec: &Spec) -> Result<Option<Mechanical>, DriveError> {
    let Resolved { settings, mechanics, .. } = resolve(spec)?;
    Ok(mechanics.map(|mechanics| Mechanical::new(&settings, &mechanics)))
}

/// What a spec names.
struct Resolved {
    model: &'static Model,
    settings: Settings,
    /// For a model that is built with mechanics, and only for such.
    mechanics: Option<Mechanics>,
}

fn resolve(spec: &Spec) -> Result<Resolved, DriveError> {
    let profile = if spec.name.ends_with(".toml") {
        Some(Profile::read(Path::new(&spec.name))?)
    } else {
        Profile::shipped(&spec.name)
    };
    if let Some(profile) = profile {
        return of_profile(profile, spec);
    }
    let model = find_model(&spec.name).ok_or_else(|| unknown(&spec.name))?;
    let mechanics = match model.build {
        Build::FromSettings(_) => None,
        Build::WithMechanics(_) => Profile::shipped(DEFAULT_MECHANICS).and_then(|profile| profile.mechanics),
    };
    Ok(Resolved { model, settings: Settings::resolve(spec, model.tunables)?, mechanics })
}

fn of_profile(profile: Profile, spec: &Spec) -> Result<Resolved, DriveError> {
    let model = find_model(&profile.model).expect("a profile names a model that exists");
    let settings = profile.resolve(model, spec)?;
    Ok(Resolved { model, settings, mechanics: profile.mechanics })
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
