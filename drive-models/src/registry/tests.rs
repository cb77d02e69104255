use traces::spec::Tunable;

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
                (*end < 3).then(|| (tunable.name.to_owned(), tunable.extreme(*end, (min, max))))
            };
            let given = model.all_tunables().iter().zip(&ends).filter_map(value).collect();
            let settings = model.settings(&Spec { name: model.name.to_owned(), given }).unwrap();
            let _ = (model.check)(&settings);
        }
    }
}

#[test]
fn settings_of_a_spec_win_over_the_profile() {
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
fn profile_can_set_the_queue_of_its_drive() {
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
