//! Throttles and virtual disks as the command line and profiles describe them, and refused descriptions.

use iocast_drives::{MODELS, build, build_throttle};

fn refused(spec: &str) -> String {
    build(&spec.parse().unwrap()).err().expect(spec).to_string()
}

fn parts(spec: &str) -> Vec<(String, String)> {
    let built = build(&spec.parse().unwrap()).unwrap();
    built.description.parts().iter().map(|part| (part.name.to_owned(), part.spec.to_string())).collect()
}

#[test]
fn the_virtual_disk_and_its_tunables_are_named_beside_the_throttles_own() {
    let one = |disk: &str| vec![("virtual".to_owned(), disk.to_owned())];
    assert_eq!(parts("throttle"), one("virtual-disk"));
    assert_eq!(parts("throttle:virtual.service=2ms,k=3,virtual=fixed"), one("fixed:service=2ms"));
    assert_eq!(parts("throttle:virtual=sata-ssd"), one("sata-ssd"));
    assert_eq!(parts("linear"), []);
    let both =
        [("member", "cheetah-15k5"), ("scheduler", "satf")].map(|(name, part)| (name.to_owned(), part.to_owned()));
    assert_eq!(parts("raid"), both);
    // A throttle within an array, and one before another.
    assert!(build(&"raid:member=throttle,member.virtual.service=2ms".parse().unwrap()).is_ok());
    assert!(build(&"throttle:virtual=throttle,virtual.virtual=raid".parse().unwrap()).is_ok());
    assert!(build_throttle(&"fixed".parse().unwrap()).unwrap().is_none());
}

#[test]
fn impossible_settings_are_refused_with_the_reason() {
    for (spec, message) in [
        ("throttle:k=0", "throttle:k=`0` is not from 0.001 to 1000000"),
        ("throttle:k=eight", "throttle:k=`eight` is not a decimal number of at most three places such as 0.2"),
        ("throttle:k=8,k_min=9", "throttle:k=`8` is not at least k_min=9"),
        ("throttle:k=8,k_max=7.5", "throttle:k=`8` is not at most k_max=7.5"),
        ("throttle:k_min=9,k_max=7", "throttle:k_max=`7` is not at least k_min=9"),
        ("throttle:raise=1", "throttle:raise=`1` is not from 1.001 to 1000"),
        ("throttle:lower=1", "throttle:lower=`1` is not from 0.001 to 0.999"),
        ("throttle:dynamic=yes", "throttle:dynamic=`yes` is not on|off"),
        ("throttle:timer=-1ms", "throttle:timer=`-1ms` is not a time such as 250us, 7ms or 1.5s"),
        ("throttle:segments=0", "throttle:segments=`0` is not from 1 to 4096"),
        ("throttle:capacity=1g", "`throttle` has no tunable `capacity`"),
        ("throttle:virtal=fixed", "`throttle` has no tunable `virtal`"),
        ("throttle:queue_depth=4", "`throttle` has no tunable `queue_depth`"),
        (
            "throttle:virtual=virtual-disc",
            "throttle: its virtual: unknown drive `virtual-disc`; did you mean virtual-disk?",
        ),
        (
            "throttle:virtual.servise=1ms",
            "throttle: its virtual: `virtual-disk` has no tunable `servise`; did you mean service",
        ),
        ("throttle:virtual=:", "`:` is not of the form name:tunable=value,tunable=value"),
        ("virtual-disk:cache=64k", "virtual-disk:cache=`64k` is not 0 or at least region=1m"),
        ("virtual-disk:region=5000", "virtual-disk:region=`5000` is not a multiple of 512 bytes"),
        ("virtual-disk:region=4k,cache=1t", "virtual-disk:cache=`1t` is not at most 4194304 times region=4k"),
        (
            "virtual-disk:cache=1g,cached=2ms",
            "virtual-disk:cached=`2ms` is not at most service=1ms, what a request takes without",
        ),
        ("virtual-disk:cv=11", "virtual-disk:cv=`11` is not from 0.000 to 10.000"),
        ("virtual-disk:drift=up", "virtual-disk:drift=`up` is not off|linear|steps"),
        ("virtual-disk:drift_over=0", "virtual-disk:drift_over=`0` is not from "),
    ] {
        assert!(refused(spec).starts_with(message), "{spec}: {}", refused(spec));
    }
}

/// A profile with every tunable at its default, in front of `disk`.
fn profile(disk: &str) -> String {
    let model = MODELS.iter().find(|model| model.name == "throttle").unwrap();
    let setting = |tunable: &traces::spec::Tunable| {
        format!("{} = {{ value = \"{}\", source = \"a test\" }}\n", tunable.name, tunable.default)
    };
    let settings: String = model.tunables.iter().map(setting).collect();
    format!(
        "model = \"throttle\"\nsummary = \"one\"\nvalidation = \"unvalidated: a test\"\n\n[throttle]\n\
         virtual = {{ value = \"{disk}\", source = \"a test\" }}\n\n[settings]\n{settings}"
    )
}

#[test]
fn a_profile_may_describe_a_throttle_and_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let name = path.display().to_string();
    let good = profile("virtual-disk:service=3ms");
    std::fs::write(&path, &good).unwrap();
    assert_eq!(parts(&name)[0].1, "virtual-disk:service=3ms");
    assert_eq!(parts(&format!("{name}:virtual.service=4ms,k=2"))[0].1, "virtual-disk:service=4ms");
    for (from, to, message) in [
        ("virtual-disk", "virtual-disc", " at line 6: unknown drive `virtual-disc`; did you mean virtual-disk?"),
        ("virtual-disk:service", "virtual-disk:servise", " at line 6: `virtual-disk` has no tunable `servise`"),
        ("source = \"a test\" }\n\n", "source = \"\" }\n\n", " at line 6: `virtual` has no source"),
        ("virtual =", "member =", " at line 6: unknown field `member`, expected `virtual`"),
        ("[throttle]", "[array]", " at line 6: unknown field `virtual`"),
        ("model = \"throttle\"", "model = \"linear\"", " at line "),
        ("k = { value = \"8\"", "k = { value = \"0.0001\"", " at line 9: "),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        std::fs::write(&path, text).unwrap();
        let message = format!("drive profile {name}{message}");
        assert!(refused(&name).starts_with(&message), "{}", refused(&name));
    }
    let (from, to) = (good.find("[throttle]").unwrap(), good.find("[settings]").unwrap());
    std::fs::write(&path, format!("{}{}", &good[..from], &good[to..])).unwrap();
    let missing = format!("drive profile {name} at line 1: [throttle] is missing: a throttle drive needs it");
    assert_eq!(refused(&name), missing);
    std::fs::write(&path, profile(&name)).unwrap();
    let within = format!("drive profile {name} at line 6: a drive cannot be a part of itself: {name}");
    assert_eq!(refused(&name), within);
}
