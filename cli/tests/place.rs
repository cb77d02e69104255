//! `iocast place` from the outside.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn iocast() -> Command {
    Command::new(env!("CARGO_BIN_EXE_iocast"))
}

fn capture(vm: &str) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples/lab-virtio/runs");
    samples.join(format!("alone-{vm}/1/{vm}.parquet")).display().to_string()
}

/// A plan of three machines on two drives.
fn plan() -> String {
    let vm = |name: &str, limit: &str| format!("[[vm]]\nname = {name:?}\ncapture = {:?}\n{limit}\n", capture(name));
    [
        "predictor = \"casale\"\nstart = \"15s\"\nend = \"45s\"\nseparate = [[\"mail\", \"oltp\"]]\n".to_owned(),
        "[[lun]]\nname = \"one\"\ndrive = \"cheetah-15k4-mechanical\"\n".to_owned(),
        "[[lun]]\nname = \"two\"\ndrive = \"cheetah-9lp\"\n".to_owned(),
        vm("mail", "read_p99 = \"200ms\""),
        vm("web", "read_iops = 60"),
        vm("oltp", "read_response = \"45ms\""),
    ]
    .concat()
}

fn said(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    let output = iocast().arg("place").arg(&path).assert().failure();
    String::from_utf8(output.get_output().stderr.clone()).unwrap()
}

#[test]
fn machines_are_placed_confirmed_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, plan()).unwrap();
    let stem = folder.path().join("disturbs");
    let run = || {
        let mut command = iocast();
        command.arg("place").arg(&path).arg("-o").arg(&stem).args(["--force", "--output-format", "json"]);
        command.assert().success().get_output().stdout.clone()
    };
    let bytes = run();
    assert_eq!(bytes, run());
    let placed: Value = serde_json::from_slice(&bytes).unwrap();
    let of = |lun: usize| -> Vec<&str> {
        let vms = placed["luns"][lun]["vms"].as_array().unwrap();
        vms.iter().map(|vm| vm["vm"].as_str().unwrap()).collect()
    };
    let all: Vec<&str> = (0..2).flat_map(of).collect();
    assert_eq!(all.len(), 3);
    assert!((0..2).all(|lun| !(of(lun).contains(&"mail") && of(lun).contains(&"oltp"))), "{all:?}");
    // Whoever is alone gets in the replay what it gets alone; whoever is not gets less.
    for lun in placed["luns"].as_array().unwrap() {
        let vms = lun["vms"].as_array().unwrap();
        for vm in vms {
            let rate = |of: &str| vm[of]["read_iops"].as_f64().unwrap();
            assert!(if vms.len() == 1 { rate("alone") == rate("replayed") } else { rate("alone") > rate("replayed") });
        }
    }
    let limits = placed["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 3);
    let slack: Vec<f64> = limits.iter().map(|limit| limit["slack"].as_f64().unwrap()).collect();
    assert!(slack.is_sorted() && limits.iter().all(|limit| limit["kept"].is_boolean()), "{limits:?}");
    let left = placed["interference"]["left"].as_array().unwrap();
    assert!(left[0][0].is_null() && left[0][1].as_f64().is_some_and(|left| left > 0.0 && left < 1.0));
    for ending in ["svg", "png"] {
        assert!(std::fs::metadata(stem.with_extension(ending)).unwrap().len() > 1000);
    }
    let table = iocast().arg("place").arg(&path).assert().success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(
        table.contains("alone / forecast / replayed") && (table.contains("binds") || table.contains("exceeded")),
        "{table}"
    );
}

#[test]
fn why_a_group_has_no_forecast_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    // Three busy machines on one drive: more than a method for less than all of its time can tell.
    let text = plan().replace("casale", "hol").replace("separate = [[\"mail\", \"oltp\"]]\n", "");
    let second = "[[lun]]\nname = \"two\"\ndrive = \"cheetah-9lp\"\n";
    assert!(text.contains(second));
    std::fs::write(&path, text.replace(second, "")).unwrap();
    let output = iocast().env("COLUMNS", "200").arg("place").arg(&path).assert().success();
    let said = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(said.contains("no forecast on one: hol holds up to a utilisation of 0.95"), "{said}");
    assert!(said.contains("No assignment that was found has a forecast for every limit"), "{said}");
}

#[test]
fn plans_that_cannot_be_are_refused_with_what_would_be_right() {
    for (from, to, says) in [
        (
            "[[\"mail\", \"oltp\"]]",
            "[[\"mail\", \"olpt\"]]",
            "separate names \"olpt\", which is no machine of the plan",
        ),
        ("[[\"mail\", \"oltp\"]]", "[[\"mail\", \"mail\"]]", "twice in one group"),
        ("name = \"two\"", "name = \"one\"", "two LUNs are called one"),
        ("\"cheetah-9lp\"", "\"cheetah-9pl\"", "LUN two"),
        ("read_iops = 60", "read_iops = 0", "machine web: limits are above 0"),
        ("read_iops = 60", "read_iop = 60", "unknown field `read_iop`"),
        ("predictor = \"casale\"", "predictor = \"casal\"", "casale"),
        ("predictor = \"casale\"", "predictor = \"twin\"", "one that goes by profiles (casale, casale-refined, hol"),
        ("predictor = \"casale\"", "predictor = \"residual\"", "residual plays captures request by request"),
        ("start = \"15s\"", "start = \"15 parsecs\"", "plan.toml"),
    ] {
        let text = plan();
        assert!(text.contains(from), "{from}");
        let said = said(&text.replacen(from, to, 1));
        assert!(said.contains(says), "{said:?} does not say {says:?}");
    }
    assert!(said("[[lun]]\nname = \"a\"\n").contains("needs a [[vm]] and a [[lun]] at least"));
    assert!(said(&plan().replace("mail.parquet", "nowhere.parquet")).contains("nowhere.parquet"));
}
