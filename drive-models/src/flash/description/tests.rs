use super::*;
use crate::registry::build;
use crate::{PROFILES, Profile};

#[test]
fn contradictory_setting_of_a_profile_is_refused_with_its_line() {
    let (_, good) = PROFILES.iter().find(|(name, _)| *name == "sata-ssd").unwrap();
    let line = |key: &str| good[..good.find(&format!("\n{key} = ")).unwrap() + 1].matches('\n').count() + 1;
    for (key, from, to, message) in [
        ("depth", "\"32\"", "\"33\"", "x:depth=`33` is not at most 32, the depth of native command queueing"),
        ("page", "\"16k\"", "\"10k\"", "x:page=`10k` is not a multiple of mapping_unit=4k"),
        ("mapping_unit", "\"4k\"", "\"1000\"", "x:mapping_unit=`1000` is not a multiple of 512 bytes"),
        ("buffer", "\"8m\"", "\"31k\"", "x:buffer=`31k` is not at least 32768, a page in each plane"),
        ("simulated", "\"4g\"", "\"64m\"", "x:simulated=`64m` is not at least 134217728, 128 blocks of a row"),
        ("capacity", "\"960197124096\"", "\"1m\"", "x:capacity=`1m` is not at least 134217728, 128 blocks"),
        ("program_time", "\"1550us\"", "\"-1ms\"", "x:program_time=`-1ms` is not a time"),
        ("channels", "\"8\"", "\"0\"", "x:channels=`0` is not from 1 to 256"),
        ("over_provisioning", "\"0.145\"", "\"0\"", "x:over_provisioning=`0` is not from 0.020 to 10.000"),
    ] {
        let start = good.find(&format!("\n{key} = ")).unwrap();
        let text = format!("{}{}", &good[..start], good[start..].replacen(from, to, 1));
        let error = Profile::parse("x", &text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("drive profile x at line {}: {message}", line(key))), "{error}");
    }
    let without: Vec<&str> = good.lines().filter(|line| !line.starts_with("erase_time")).collect();
    let error = Profile::parse("x", &without.join("\n")).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "drive profile x at line {}: `erase_time` is missing from [settings]: to erase a block in each plane, tBERS",
            good[..good.find("[settings]").unwrap()].matches('\n').count() + 1
        )
    );
    let seek = format!("{good}\n[empirical]\nsource = \"x\"\ncells = []\n");
    let error = Profile::parse("x", &seek).unwrap_err().to_string();
    assert!(error.ends_with("a flash drive has no [empirical]"), "{error}");
}

#[test]
fn contradictory_setting_on_the_command_line_is_refused() {
    let error = build(&"nvme-ssd:interface=sata".parse().unwrap()).err().unwrap().to_string();
    assert!(error.starts_with("nvme-ssd:depth=`1023` is not at most 32"), "{error}");
    for spec in ["flash:simulated=64g", "flash:simulated=1t,mapping_unit=512"] {
        let error = build(&spec.parse().unwrap()).err().unwrap().to_string();
        assert!(error.contains("` is not less than 16777216 units"), "{error}");
    }
    let error = build(&"flash:channels=1,dies=2,pages_per_block=1".parse().unwrap()).err().unwrap().to_string();
    assert_eq!(error, "flash:pages_per_block=`1` is not at least 2, for 4 over all dies");
}

#[test]
fn the_shipped_profiles_map_tens_of_megabytes() {
    for name in ["sata-ssd", "nvme-ssd"] {
        let profile = Profile::shipped(name).unwrap();
        let settings = profile.resolve(&crate::flash::MODEL, &name.parse().unwrap()).unwrap();
        let geometry = FlashGeometry::new(&settings).unwrap();
        let places = (u64::from(geometry.data_blocks) + 3) * u64::from(geometry.block_units());
        assert!(4 * (geometry.units + places) < 20 << 20, "{name}");
        assert!(geometry.units * geometry.scale() >= geometry.drive_units);
    }
}
