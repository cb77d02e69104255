//! Arrays as the command line and profiles describe them, and refused descriptions.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use iocast_drives::{BuiltDrive, build};
use traces::Sectors;

const DS8700: &str = include_str!("../profiles/ds8700-raid5-7.toml");

fn built(spec: &str) -> BuiltDrive {
    build(&spec.parse().unwrap()).unwrap()
}

fn refused(spec: &str) -> String {
    build(&spec.parse().unwrap()).err().expect(spec).to_string()
}

#[test]
fn parts_and_their_tunables_are_named_beside_the_arrays_own() {
    let parts = |spec: &str| {
        let built = built(spec);
        let [member, scheduler] = built.description.parts() else { panic!("an array has two parts") };
        assert_eq!((member.name, scheduler.name), ("member", "scheduler"));
        (member.spec.to_string(), scheduler.spec.to_string())
    };
    let said = |member: &str, scheduler: &str| (member.to_owned(), scheduler.to_owned());
    assert_eq!(parts("raid"), said("cheetah-15k5", "satf"));
    assert_eq!(
        parts("raid:member.cache=off,member=cheetah-15k4,level=0,scheduler=vr,scheduler.r=0.5"),
        said("cheetah-15k4:cache=off", "vr:r=0.5")
    );
    // A profile's are overlaid.
    assert_eq!(parts("ds8700-raid5-7:scheduler=fifo"), said("cheetah-15k5", "fifo"));
    assert_eq!(
        parts("iscsi-raid5-15:member.a=6ms"),
        said("linear:b=22.5ms,capacity=500107862016,per_byte_ps=12821,cache=off,a=6ms", "satf")
    );
    assert!(built("cheetah-15k4").description.parts().is_empty());
}

#[test]
fn the_shipped_arrays_are_as_large_as_their_data() {
    let sectors = |spec: &str| built(spec).drive.capacity().count();
    let member = sectors("cheetah-15k5");
    assert_eq!(sectors("ds8700-raid5-7"), member / 512 * 512 * 6);
    assert_eq!(sectors("iscsi-raid5-15"), 500_107_862_016 / 512 / 128 * 128 * 14);
    assert_eq!(sectors("raid:level=1,members=3,stripe_unit=512"), member);
    assert_eq!(sectors("raid:level=10,members=6,stripe_unit=512"), member * 3);
}

#[test]
fn impossible_settings_are_refused_with_the_reason() {
    for (spec, message) in [
        ("raid:level=6,members=3", "raid:members=`3` is not at least 4, the fewest of RAID-6"),
        ("raid:members=2", "raid:members=`2` is not at least 3, the fewest of RAID-5"),
        ("raid:level=10,members=5", "raid:members=`5` is not an even number: RAID-10 is made of pairs"),
        ("raid:members=-3", "raid:members=`-3` is not a whole number"),
        ("raid:stripe_unit=0", "raid:stripe_unit=`0` is not from 512 to 1099511627776"),
        ("raid:stripe_unit=1000", "raid:stripe_unit=`1000` is not a multiple of 512 bytes"),
        ("raid:stripe_unit=1t", "raid:stripe_unit=`1t` is not at most 146815737856, the size of a member"),
        ("raid:failed=6", "raid:failed=`6` is not at most members=5"),
        ("raid:level=0,failed=1", "raid:failed=`1` is not 0: RAID-0 with a failed member has lost its data"),
        ("raid:depth=0", "raid:depth=`0` is not from 1 to 1048576"),
        ("raid:track=5000", "raid:track=`5000` is not a multiple of 4096 bytes, a page of the write cache"),
        (
            "raid:stripe_unit=96k,write_cache=1m",
            "raid:stripe_unit=`96k` is not a multiple of track=64k, the unit of the caches",
        ),
        ("raid:read_cache=4k", "raid:read_cache=`4k` is not 0 or at least track=64k"),
        ("raid:read_cache=1t,track=4k", "raid:read_cache=`1t` is not at most 4194304 times track=4k"),
        (
            "raid:level=0,members=1024,member=fixed,member.capacity=4611686018427387904",
            "raid:members=`1024` is not so few that members of 4611686018427387904 bytes are 4 EiB together",
        ),
        ("raid:write_cache=512", "raid:write_cache=`512` is not 0 or at least 4096, a page"),
        ("raid:prefetch=64k", "raid:prefetch=`64k` is not at most half of read_cache=0"),
        ("raid:low_water=80", "raid:low_water=`80` is not at most high_water=70"),
        (
            "raid:member=cheetah-15k6",
            "raid: its member: unknown drive `cheetah-15k6`; did you mean cheetah-15k4, cheetah-15k5, cheetah-4lp?",
        ),
        ("raid:scheduler=satff", "raid: its scheduler: unknown scheduler `satff`; did you mean satf, sstf?"),
        ("raid:scheduler.aging=1", "raid: its scheduler: `satf` has no tunable `aging`; did you mean ageing?"),
        ("raid:mamber=fixed", "`raid` has no tunable `mamber`; did you mean members?"),
        ("raid:member=raid,member.members=1", "raid: its member: raid:members=`1` is not from 2 to 1024"),
    ] {
        assert_eq!(refused(spec), message, "{spec}");
    }
}

#[test]
fn drives_that_would_fill_the_memory_are_refused_before_they_are_built() {
    let too_large = [
        "raid:members=1000,member=nvme-ssd",
        "raid:members=1000,member=ds8700-raid5-7",
        "raid:members=1000,member=raid,member.members=1000,member.member=fixed",
        "throttle:virtual=raid,virtual.members=1000,virtual.member=nvme-ssd",
        "flash:buffer=16g,mapping_unit=512,page=512",
    ];
    for spec in too_large {
        let message = refused(spec);
        assert!(message.contains(" MB of memory, and a drive may take 268; fewer members"), "{spec}: {message}");
    }
    for spec in
        ["raid:members=24,member=nvme-ssd", "raid:members=1000", "raid:members=3,read_cache=256g,write_cache=64g"]
    {
        assert!(built(spec).drive.capacity() > Sectors::ZERO, "{spec}");
    }
}

#[test]
fn a_profile_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let name = path.display().to_string();
    for (from, to, message) in [
        (
            "members = { value = \"7\"",
            "members = { value = \"2\"",
            " at line 13: {name}:members=`2` is not at least 3, the fewest of RAID-5",
        ),
        ("members = { value = \"7\"", "members = { value = \"x\"", " at line 13: "),
        (
            "value = \"256k\"",
            "value = \"1t\"",
            " at line 14: {name}:stripe_unit=`1t` is not at most 146815737856, the size of a member",
        ),
        ("value = \"256k\"", "value = \"0\"", " at line 14: "),
        (
            "failed = { value = \"0\"",
            "failed = { value = \"8\"",
            " at line 15: {name}:failed=`8` is not at most members=7",
        ),
        ("value = \"satf\"", "value = \"satff\"", " at line 9: unknown scheduler `satff`"),
        ("value = \"cheetah-15k5\"", "value = \"cheetah\"", " at line 8: unknown drive `cheetah`"),
        ("value = \"cheetah-15k5\"", "value = \":\"", " at line 8: `:` is not of the form"),
        ("model = \"raid\"", "model = \"linear\"", " at line "),
        ("[array]", "[layout]", " at line 8: unknown field `member`"),
    ] {
        let text = DS8700.replacen(from, to, 1);
        assert_ne!(text, DS8700, "{from}");
        std::fs::write(&path, text).unwrap();
        let message = format!("drive profile {name}{}", message.replace("{name}", &name));
        assert!(refused(&name).starts_with(&message), "{}", refused(&name));
    }
    let from = DS8700.find("[array]").unwrap();
    let to = DS8700.find("[settings]").unwrap();
    std::fs::write(&path, format!("{}{}", &DS8700[..from], &DS8700[to..])).unwrap();
    assert_eq!(refused(&name), format!("drive profile {name} at line 3: [array] is missing: a raid drive needs it"));
    // Once overridden, it is the command line's fault.
    std::fs::write(&path, DS8700).unwrap();
    assert_eq!(refused(&format!("{name}:failed=8")), format!("{name}:failed=`8` is not at most members=7"));
}

#[test]
fn an_array_that_is_its_own_member_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made_of = |member: &str| DS8700.replacen("cheetah-15k5", &path(member), 1);
    std::fs::write(path("self.toml"), made_of("self.toml")).unwrap();
    std::fs::write(path("one.toml"), made_of("other.toml")).unwrap();
    std::fs::write(path("other.toml"), made_of("one.toml")).unwrap();
    let own = path("self.toml");
    let message = format!("drive profile {own} at line 8: a drive cannot be a part of itself: {own}");
    assert_eq!(refused(&own), message);
    assert!(refused(&path("one.toml")).contains("a drive cannot be a part of itself"));
}
