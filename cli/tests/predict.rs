//! `iocast predict` on the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod parquet_table;
mod program;

use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use parquet_table::table;
use program::{iocast, sample};
use serde_json::{Value, json};

fn json_of(arguments: &[&str]) -> Value {
    let output = iocast().arg("predict").args(arguments).args(["--output-format", "json"]).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

/// Standard error and exit code of a run that fails.
fn refused(arguments: &[&str]) -> (String, i32) {
    let output = iocast().arg("predict").args(arguments).assert().failure();
    let output = output.get_output();
    (String::from_utf8(output.stderr.clone()).unwrap(), output.status.code().unwrap())
}

fn profile(folder: &Path, name: &str, profile: &Value) -> String {
    let path = folder.join(name);
    std::fs::write(&path, profile.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn captures_and_their_profiles_give_the_same_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("alone").display().to_string();
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let mut of_captures = json_of(&[&mail, &web, "-o", &stem]);
    let mut of_profiles = json_of(&[&format!("{stem}-mail.json"), &format!("{stem}-web.json")]);
    let again = ["predict", &mail, &web, "--predictors", "isolation", "-o", &stem, "--force"];
    let table = String::from_utf8(iocast().args(again).assert().success().get_output().stdout.clone()).unwrap();
    let written = table.split_once("\nWritten: ").unwrap().1.split_whitespace().collect::<String>();
    assert_eq!(written, format!("{stem}-mail.json,{stem}-web.json"));
    // All but one, which plays the captures themselves and says so.
    let twin = |result: &mut Value| result["pairs"][0]["predictors"].as_object_mut().unwrap().remove("twin").unwrap();
    assert!(twin(&mut of_captures)["total_read_iops"].as_f64().unwrap() > 0.0);
    assert!(twin(&mut of_profiles)["refused"].as_str().unwrap().contains("give the captures themselves"));
    let relied_on = |result: &mut Value| result.as_object_mut().unwrap().remove("recommended").unwrap();
    assert_eq!((relied_on(&mut of_captures), relied_on(&mut of_profiles)), (json!("twin"), json!("qpn")));
    let missing = |result: &mut Value| result.as_object_mut().unwrap().remove("missing").unwrap().to_string();
    assert!(missing(&mut of_captures).contains("web.parquet@1g"));
    assert!(missing(&mut of_profiles).contains("Which traces are the profiles of? alone-mail, alone-web are given"));
    assert!(of_captures == of_profiles, "captures and profiles have different forecasts");
    let pair = &of_captures["pairs"][0];
    assert_eq!(pair["vms"], json!(["mail", "web"]));
    let reads: f64 =
        of_captures["alone"].as_array().unwrap().iter().map(|vm| vm["reads"]["iops"].as_f64().unwrap()).sum();
    let isolation = pair["predictors"]["isolation"]["total_read_iops"].as_f64().unwrap();
    assert!((isolation / reads - 1.0).abs() < 1e-12);
    // The figures of stat for the same requests.
    let stat = iocast().args(["stat", &mail, "--output-format", "json"]).assert().success();
    let stat: Value = serde_json::from_slice(&stat.get_output().stdout).unwrap();
    let reads = &of_captures["alone"][0]["reads"];
    assert_eq!(reads["response_ns"], stat["stages"]["device_time"]["read"]["mean_ns"]);
    assert_eq!(reads["found_total"], stat["arrival_queues"]["at_issue"]["seen_by_reads"]["total_mean"]);
    assert_eq!(reads["requests"], stat["device_requests"]["read"]["requests"]);
    let streams = of_captures["alone"][0]["streams"].as_array().unwrap();
    assert!(streams.iter().any(|stream| stream["think_ns"].as_f64().is_some_and(|think| think > 0.0)));
    assert!(!of_captures["alone"][0]["footprint"]["runs"].as_array().unwrap().is_empty());
}

#[test]
fn profile_written_by_hand_needs_rates_responses_and_arrival_queues() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, reads: f64| {
        let operation = json!({"iops": reads, "response_ns": 5e6, "found_total": 1.0});
        profile(folder.path(), &format!("{name}.json"), &json!({"vm": name, "reads": operation}))
    };
    let (one, other) = (of("one", 100.0), of("other", 300.0));
    let forecast = json_of(&[&one, &other, "--predictors", "casale,casale:found=own,isolation"]);
    let predictors = &forecast["pairs"][0]["predictors"];
    assert_eq!(predictors["casale"]["read_response_ns"], json!([7.5e6, 7.5e6]));
    assert_eq!(predictors["casale"]["write_response_ns"], json!([null, null]));
    assert_eq!(predictors["casale"]["mix_read"], json!(1.0));
    let refused = predictors["casale:found=own"]["refused"].as_str().unwrap();
    assert!(refused.contains("other: Casale's formulas need found_reads of reads"), "{refused}");
    // A name on the command line goes before that of the profile.
    let renamed = json_of(&[&format!("third={one}"), &other, "--predictors", "isolation"]);
    assert_eq!(renamed["pairs"][0]["vms"], json!(["third", "other"]));
    let table = iocast().args(["predict", &one, &other]).assert().success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(
        table.contains("one with other") && table.contains("hol has no forecast: one: hol needs service_ns"),
        "{table}"
    );
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let good = json!({"vm": "good", "reads": {"iops": 100.0, "response_ns": 5e6, "found_total": 1.0}});
    let good = profile(folder.path(), "good.json", &good);
    let milliseconds = json!({"vm": "ms", "reads": {"iops": 100.0, "response_ns": 50.0, "found_total": 4.0}});
    let milliseconds = profile(folder.path(), "ms.json", &milliseconds);
    let broken = profile(folder.path(), "broken.json", &json!({"reads": {}}));
    let newer = profile(folder.path(), "newer.json", &json!({"vm": "newer", "schema_version": 99}));
    let missing = folder.path().join("missing.parquet").display().to_string();
    let cases: [(&[&str], &str, i32); 8] = [
        (&[&good, &milliseconds], "ms: 100.0 requests a second with their response times make 5.000e-6", 1),
        (&[&good, &broken], "broken.json: is no isolation profile", 1),
        (&[&good, &newer], "newer.json: its schema_version is 99", 1),
        (&[&good, &missing], "missing.parquet", 1),
        (&[&good, &good], "two VMs are named `good`; give one another name, OTHER=", 2),
        (&[&good, &milliseconds, "--predictors", "casal"], "unknown predictor `casal`; did you mean casale", 2),
        (&[&good, &milliseconds, "--predictors", "casale:max_write_conn=40"], "at most max_conn, which is 32", 2),
        (&[&good, &milliseconds, "--start", "5s", "--end", "1s"], "--end must be later than --start", 2),
    ];
    for (arguments, words, code) in cases {
        let (said, exit) = refused(arguments);
        assert!(said.contains(words) && exit == code, "{arguments:?} ({exit}): {said}");
    }
    // Where no predictor holds there is no result.
    let (said, exit) = refused(&[&good, &format!("other={good}"), "--predictors", "sum"]);
    assert!(said.contains("no predictor has a forecast: good: sum needs busy_share") && exit == 1, "{said}");
}

#[test]
fn traces_of_also_inform_the_twin_and_are_not_forecast() {
    let (mail, web, oltp) = (sample("mail.parquet"), sample("web.parquet"), sample("oltp.parquet"));
    let own = json_of(&[&mail, &web, "--predictors", "twin,isolation"]);
    let also = json_of(&[&mail, &web, "--also", &oltp, "--predictors", "twin,twin:device=own,isolation"]);
    let of = |result: &Value, name: &str| result["pairs"][0]["predictors"][name].clone();
    assert_eq!(also["pairs"][0]["vms"], json!(["mail", "web"]));
    assert_eq!(also["alone"].as_array().unwrap().len(), 2);
    // The evidence for the device is named with its digest.
    let found = &also["also"];
    assert_eq!((found.as_array().unwrap().len(), &found[0]["vm"]), (1, &json!("oltp")));
    assert_eq!(found[0]["trace"]["sha256"].as_str().unwrap().len(), 64);
    let (twin, without) = (of(&also, "twin"), of(&own, "twin"));
    assert!(twin["notes"].to_string().contains("also inferred from 1 further trace"), "{}", twin["notes"]);
    assert!(twin["read_response_ns"] != without["read_response_ns"]);
    assert_eq!(of(&also, "twin:device=own"), without);
    assert_eq!(of(&also, "isolation"), of(&own, "isolation"));
    let folder = tempfile::tempdir().unwrap();
    let by_hand = profile(folder.path(), "by-hand.json", &json!({"vm": "by-hand", "reads": {}, "writes": {}}));
    let (said, code) = refused(&[&mail, &by_hand, "--also", &oltp]);
    assert!(code == 2 && said.contains("by-hand.json") && said.contains("--also"), "{code} {said}");
    let (said, code) = refused(&[&mail, &web, "--also", &web]);
    assert!(code == 2 && said.contains("two VMs are named `web`"), "{code} {said}");
    let (said, _) = refused(&[&mail, &web, "--also", "nothing.parquet"]);
    assert!(said.contains("nothing.parquet"), "{said}");
    // Response times of another layer are of another kind, and tell nothing of these.
    let wire = folder.path().join("wire.parquet").display().to_string();
    iocast().args(["convert", &oltp, &wire, "--layer", "wire"]).assert().success();
    let (said, code) = refused(&[&mail, &web, "--also", &wire]);
    assert!(code == 1 && said.contains("wire at layer wire"), "{code} {said}");
}

/// The argument of a VM with its place: mail at the beginning of the drive, web behind it.
fn placed(vm: &str) -> String {
    format!("{}@{}", sample(&format!("{vm}.parquet")), if vm == "mail" { "0" } else { "4g" })
}

/// The options of a closed replay of VMs by compare.
fn comparing(vms: &[&str]) -> Vec<String> {
    let options =
        "compare --drive cheetah-9lp --schedulers fifo --pacing closed --per-vm --end 20s --output-format json";
    let vms = vms.iter().map(|vm| format!("--vm={vm}={}", placed(vm)));
    options.split(' ').map(str::to_owned).chain(vms).collect()
}

/// The mean response times in ns of the VMs' reads, by name, while all of them are active.
fn compared(vms: &[&str]) -> Vec<f64> {
    let output = iocast().args(comparing(vms)).assert().success();
    let result: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let vms = vms.iter().map(|vm| {
        let of = result["runs"][0]["vms"].as_array().unwrap().iter().find(|one| one["vm"] == **vm).unwrap();
        of["read"]["response_time"]["mean_ns"].as_f64().unwrap()
    });
    vms.collect()
}

/// The mean response time in ns of the first `reads` reads that complete in a closed replay of a VM alone.
fn of_first(reads: usize, vm: &str, folder: &Path) -> f64 {
    let path = folder.join(format!("{vm}.parquet"));
    iocast().args(comparing(&[vm])).arg("--per-request").arg(&path).assert().success();
    let rows = table(&path);
    let operation = rows.column_by_name("operation").unwrap().as_string::<i32>();
    let times = |name: &str| rows.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values();
    let completions = times("completed_ns").iter().zip(times("response_ns")).enumerate();
    let mut of_reads: Vec<(u64, u64)> = completions
        .filter(|(row, _)| operation.value(*row) == "read")
        .map(|(_, (completed, response))| (*completed, *response))
        .collect();
    of_reads.sort_unstable();
    of_reads[..reads].iter().map(|(_, response)| *response as f64).sum::<f64>() / reads as f64
}

#[test]
fn captures_are_replayed_on_a_drive_alone_and_together() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("on").display().to_string();
    let (mail, web) = (placed("mail"), placed("web"));
    let on = ["--drive", "cheetah-9lp", "--end", "20s"];
    let replayed = json_of(&[&[mail.as_str(), &web, "--predictors", "twin,isolation", "-o", &stem], &on[..]].concat());
    let together = compared(&["mail", "web"]);
    for (index, name) in ["mail", "web"].into_iter().enumerate() {
        let near = |one: &Value, other: f64| (one.as_f64().unwrap() / other - 1.0).abs() < 1e-9;
        // Together both measure until the first VM has used up its trace.
        let truth = &replayed["pairs"][0]["truth"]["read_response_ns"][index];
        assert!(near(truth, together[index]), "{name} together: {truth} for {together:?}");
        // Alone compare goes on to the end.
        let reads = &replayed["alone"][index]["reads"];
        let (alone, count) = (&reads["response_ns"], reads["requests"].as_u64().unwrap() as usize);
        let expected = of_first(count, name, folder.path());
        assert!(near(alone, expected), "{name} alone: {alone} instead of {expected}");
        assert!(truth.as_f64() > alone.as_f64());
    }
    let made = &replayed["alone"][0]["trace"]["made"];
    assert_eq!((&made["replayed_on"], &made["replayed_behind"]), (&json!("cheetah-9lp"), &json!("fifo, depth 1")));
    assert!(replayed["pairs"][0]["predictors"]["twin"]["total_read_iops"].as_f64().unwrap() > 0.0);
    assert_eq!(replayed["overlap"], json!([[null, 0.0], [0.0, null]]));
    // The profiles take the place of the captures on that drive.
    let stored = json_of(&[&format!("{stem}-mail.json"), &format!("{stem}-web.json"), "--predictors", "isolation"]);
    let isolation = |result: &Value| result["pairs"][0]["predictors"]["isolation"].clone();
    assert_eq!(isolation(&stored), isolation(&replayed));
    // The stack before the drive counts.
    let deadline = json_of(&[&[mail.as_str(), &web, "--predictors", "isolation", "--depth", "4"], &on[..]].concat());
    let layers = ["--stack", "lun=fifo@depth=4"];
    let stacked = json_of(&[&[mail.as_str(), &web, "--predictors", "isolation"], &on[..], &layers].concat());
    assert!(isolation(&deadline) == isolation(&stacked) && isolation(&deadline) != isolation(&replayed));
    let table = iocast().args(["predict", &mail, &web, "--predictors", "isolation"]).args(on).assert().success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(table.contains("(replayed): measured until the first VM had used up its trace: "), "{table}");
}

#[test]
fn vms_on_a_faster_drive_have_rates_until_their_traces_are_used_up() {
    let run = |vm: &str, place: &str| sample(&format!("lab-suite/disk/runs/alone-{vm}/1/{vm}.parquet")) + place;
    let on = ["--start", "10s", "--drive", "sata-ssd", "--predictors", "isolation"];
    let result = json_of(&[&[run("web", "@0").as_str(), &run("kv", "@17g")], &on[..]].concat());
    // Over the whole replays, with write-back at its recorded times, they would be 270 and 220.
    for (vm, captured_there) in [(0, 646.0), (1, 457.0)] {
        let of = [&result["alone"][vm]["reads"]["iops"], &result["pairs"][0]["truth"]["read_iops"][vm]];
        let near = |iops: &Value| (captured_there * 0.9..captured_there * 1.3).contains(&iops.as_f64().unwrap());
        assert!(of.into_iter().all(near), "{vm}: {of:?}");
    }
}

#[test]
fn replay_on_a_drive_accepts_traces_of_any_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (mail, web, oltp) = (sample("mail.parquet"), sample("web.parquet"), sample("oltp.parquet"));
    let on = ["--drive", "hp-c2490a", "--map", "scale", "--end", "10s", "--predictors", "isolation"];
    // A VM given with --also does not move the others on the drive.
    let two = json_of(&[&[mail.as_str(), &web], &on[..]].concat());
    let three = json_of(&[&[mail.as_str(), &web, "--also", &oltp], &on[..]].concat());
    assert_eq!((&two["pairs"], &two["alone"]), (&three["pairs"], &three["alone"]));
    assert!(
        two["pairs"][0]["truth"]["notes"][0].as_str().unwrap().contains(" of mail, "),
        "{}",
        two["pairs"][0]["truth"]
    );
    // The layer of the recording does not matter: the figures come from the drive.
    let wire = path("mail.parquet");
    iocast().args(["convert", &mail, &wire, "--layer", "wire"]).assert().success();
    let (said, _) = refused(&[&wire, &web, "--predictors", "isolation"]);
    assert!(said.contains("mail at layer wire"), "{said}");
    let of_wire = json_of(&[&[wire.as_str(), &web], &on[..]].concat());
    assert_eq!(of_wire["pairs"], two["pairs"]);
    // Replays on one storage cannot be mixed with captures, or with replays on another.
    let stored = |stem: &str, drive: &str| {
        let stem = path(stem);
        json_of(&[&mail, &web, "--drive", drive, "--end", "10s", "--predictors", "isolation", "-o", &stem]);
        ["mail", "web"].map(|vm| format!("{stem}-{vm}.json"))
    };
    let (on_9lp, on_10k) = (stored("9lp", "cheetah-9lp"), stored("10k", "atlas-10k"));
    let (said, exit) = refused(&[&on_9lp[0], &on_10k[1], "--predictors", "isolation"]);
    assert!(
        said.contains("mail was replayed on cheetah-9lp behind fifo, depth 1 and web was replayed on atlas"),
        "{said}"
    );
    let (recorded, _) = refused(&[&on_9lp[0], &web, "--predictors", "isolation"]);
    assert!(exit == 1 && recorded.contains("and web was recorded where it ran"), "{recorded}");
    // The result of a replay can be learned from.
    let known = path("known.json");
    let twin = [&mail, &web, "--drive", "cheetah-9lp", "--end", "10s", "--predictors", "twin,isolation"];
    std::fs::write(&known, json_of(&twin).to_string()).unwrap();
    let learned = json_of(&[&mail, &web, "--predictors", "twin,residual", "--learn-from", &known]);
    assert!(learned["pairs"][0]["predictors"]["residual"]["total_read_iops"].as_f64().is_some(), "{learned}");
    std::fs::write(&known, json_of(&[&mail, &web, "--predictors", "isolation"]).to_string()).unwrap();
    let (said, _) = refused(&[&mail, &web, "--predictors", "residual", "--learn-from", &known]);
    assert!(said.contains("known.json: holds no consolidation with a known result"), "{said}");
}

#[test]
fn profiles_refuse_a_place_and_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("at").display().to_string();
    let (mail, web) = (sample("mail.parquet"), format!("{}@17g", sample("web.parquet")));
    let captures = json_of(&[&mail, &web, "--predictors", "isolation", "-o", &stem]);
    let [mail, web] = ["mail", "web"].map(|vm| format!("{stem}-{vm}.json"));
    let profiles = json_of(&[&mail, &web, "--predictors", "isolation"]);
    assert_eq!(profiles["overlap"], captures["overlap"]);
    assert_eq!(profiles["overlap"], json!([[null, 0.0], [0.0, null]]));
    let (said, exit) = refused(&[&mail, &format!("{web}@17g")]);
    assert!(said.contains("a profile belongs to the place where it was measured") && exit == 2, "{said}");
    let (said, exit) = refused(&[&mail, &web, "--start", "5s"]);
    assert!(said.contains("--start and --end select a part of a trace") && exit == 2, "{said}");
    let mut odd: Value = serde_json::from_str(&std::fs::read_to_string(&web).unwrap()).unwrap();
    odd["footprint"]["runs"] = json!([[0, u64::MAX], [0, u64::MAX]]);
    std::fs::write(&web, odd.to_string()).unwrap();
    let (said, exit) = refused(&[&mail, &web, "--predictors", "isolation"]);
    assert!(said.contains("web: footprint must be ascending runs of pieces") && exit == 1, "{said}");
}

#[test]
fn inputs_that_cannot_be_replayed_on_a_drive_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let by_hand = json!({"vm": "by-hand", "reads": {"iops": 100.0, "response_ns": 5e6, "found_total": 1.0}});
    let by_hand = profile(folder.path(), "by-hand.json", &by_hand);
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let on = ["--drive", "cheetah-9lp"];
    let cases: [(&[&str], &str, i32); 6] = [
        (&[&mail, &by_hand, "--drive", "cheetah-9lp"], "by-hand.json: --drive replays traces, and a profile", 2),
        (&[&mail, &web, "--drive", "cheetah-9l"], "unknown drive `cheetah-9l`; did you mean cheetah-9lp", 2),
        (&[&mail, &web, "--drive", "cheetah-9lp", "--scheduler", "fifoo"], "fifoo", 2),
        (&[&mail, &web, "--drive", "cheetah-9lp", "--stack", "kvm-virti"], "did you mean kvm-virtio", 2),
        (&[&mail, &web, "--depth", "2"], "--drive <DRIVE>", 2),
        (
            &[&mail, &web, "--drive", "cheetah-9lp", "--start", "1h"],
            "mail.parquet: too few requests are left to replay",
            1,
        ),
    ];
    for (arguments, words, code) in cases {
        let (said, exit) = refused(arguments);
        assert!(said.contains(words) && exit == code, "{arguments:?} ({exit}): {said}");
    }
    let far = format!("{web}@8g");
    let (said, exit) = refused(&[&[mail.as_str(), &far], &on[..]].concat());
    assert!(said.contains("--map wrap|scale|remap brings addresses onto the drive") && exit == 1, "{said}");
    json_of(&[&[mail.as_str(), &far, "--predictors", "isolation", "--map", "wrap"], &on[..]].concat());
}

#[test]
fn window_leaves_out_requests_outside_it() {
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let whole = json_of(&[&mail, &web]);
    let part = json_of(&[&mail, &web, "--start", "2s", "--end", "8s"]);
    let span = |of: &Value| of["alone"][0]["span_ns"].as_u64().unwrap();
    assert!(span(&part) < 7_000_000_000 && span(&whole) > 60_000_000_000, "{} {}", span(&part), span(&whole));
    let (said, _) = refused(&[&mail, &web, "--start", "900s"]);
    assert!(said.contains("no request lies in the window of --start and --end"), "{said}");
}

#[test]
fn learning_predictor_corrects_earlier_errors() {
    let folder = tempfile::tempdir().unwrap();
    let output = iocast()
        .args([
            "validate",
            "consolidation",
            &sample("lab-virtio"),
            "--predictors",
            "residual",
            "--output-format",
            "json",
        ])
        .assert()
        .success();
    let known: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    // A learning predictor adds those that it learns from. Each pair learned from the pair that shares no VM with it.
    assert_eq!(known["summary"].as_object().unwrap().keys().collect::<Vec<_>>(), ["isolation", "residual", "twin"]);
    let path = folder.path().join("known.json");
    std::fs::write(&path, &output.get_output().stdout).unwrap();
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    let untaught = json_of(&[&mail, &web, "--predictors", "residual"]);
    let said = untaught["pairs"][0]["predictors"]["residual"]["refused"].as_str().unwrap();
    assert!(said.contains("--learn-from"), "{said}");
    let taught = json_of(&[&mail, &web, "--predictors", "residual", "--learn-from", &path.display().to_string()]);
    let of = |name: &str| taught["pairs"][0]["predictors"][name]["read_response_ns"][0].as_f64().unwrap();
    assert!(of("residual") > 0.0 && (of("residual") / of("twin") - 1.0).abs() > 1e-6);
    let intervals = &taught["pairs"][0]["predictors"]["residual"]["intervals_90"]["read_response_ns"][0];
    assert!(intervals[0].as_f64().unwrap() < of("residual") && intervals[1].as_f64().unwrap() > of("residual"));
    let (said, _) = refused(&[&mail, &web, "--learn-from", &mail]);
    assert!(said.contains("mail.parquet"), "{said}");
}

#[test]
fn forecasts_are_compared_with_the_labs_measurements() {
    let folder = sample("lab-virtio");
    let output = iocast().args(["validate", "consolidation", &folder, "--output-format", "json"]).assert().success();
    let result: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let pairs = result["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 6);
    for pair in pairs {
        assert!(
            pair["truth"]["read_response_ns"]
                .as_array()
                .unwrap()
                .iter()
                .all(|ns| ns.as_f64().is_some_and(|ns| ns > 1e6))
        );
    }
    // By the definition, of one figure of one predictor.
    let mut errors = Vec::new();
    for pair in pairs {
        for vm in 0..2 {
            let of = |forecast: &Value| forecast["read_response_ns"][vm].as_f64().unwrap();
            let (truth, forecast) = (of(&pair["truth"]), of(&pair["predictors"]["casale"]));
            errors.push((forecast / truth - 1.0).abs());
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let summary = &result["summary"]["casale"]["read_response"];
    assert!((summary["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert_eq!((summary["forecasts"].as_u64(), summary["left_out"].as_u64()), (Some(12), Some(0)));
    let error = |name: &str, figure: &str| result["summary"][name][figure]["mean"].as_f64().unwrap();
    // The aims (docs/validation/forecasts.md). No other predictor is better; `residual` is the twin, corrected.
    let aims = [("read_response", 0.10), ("read_iops", 0.10), ("write_iops", 0.10), ("write_response", 0.15)];
    for (figure, bound) in aims {
        let twin = error("twin", figure);
        assert!(twin <= bound, "{figure}: {twin}");
        for (name, summary) in result["summary"].as_object().unwrap() {
            let other = summary[figure]["mean"].as_f64();
            let is_other = !["twin", "residual"].contains(&name.as_str());
            assert!(!is_other || other.is_none_or(|other| other > twin), "{name} {figure}: {other:?} {twin}");
        }
    }
    // Intervals that should hold nine tenths of truths hold most of them.
    let within = result["summary"]["twin"]["read_response"]["within_stated"].as_f64().unwrap();
    assert!(within > 0.8, "{within}");
    assert!(error("casale", "read_response") < 0.31 && error("isolation", "read_response") > 0.6);
    // The table of one predictor only: the others' figures are those above.
    let refined = ["validate", "consolidation", &folder, "--predictors", "casale-refined"];
    let table = iocast().args(refined).assert().success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(table.contains("over 6 groups") && table.contains("casale-refined"), "{table}");
}

#[test]
fn groups_of_a_part_of_a_split_are_compared_alone() {
    let folder = tempfile::tempdir().unwrap();
    let split = folder.path().join("split.toml");
    let workloads = "[workloads]\ntrain = [\"mail\", \"web\"]\nvalidation = [\"file\"]\ntest = [\"oltp\"]\n";
    std::fs::write(&split, format!("{workloads}[drives]\ntrain = [\"lab-virtio\"]\n")).unwrap();
    let lab = sample("lab-virtio");
    let of = |part: &str| {
        let split = split.to_str().unwrap();
        let arguments = ["validate", "consolidation", &lab, "--split", split, "--part", part, "--predictors", "sum"];
        let output = iocast().args(arguments).args(["--output-format", "json"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), said)
    };
    for (part, groups) in [("train", 1), ("validation", 2), ("test", 3)] {
        let (code, result, said) = of(part);
        assert_eq!((code, result["pairs"].as_array().unwrap().len()), (Some(0), groups), "{said}");
        assert!(result["truth"].as_str().unwrap().ends_with(&format!(", the part {part}")), "{result}");
    }
    std::fs::write(&split, "[workloads]\ntest = [\"mail\", \"web\", \"file\", \"oltp\"]\n[drives]\n").unwrap();
    assert!(of("test").2.contains("the split has no drive `lab-virtio`"));
    std::fs::write(&split, format!("{workloads}[drives]\ntest = [\"lab-virtio\"]\n")).unwrap();
    let (code, _, said) = of("train");
    assert!(code == Some(2) && said.contains("no VMs ran together in the part"), "{said}");
}

#[test]
fn a_stopped_lab_is_compared_as_far_as_it_came() {
    // The sample lab as if it had been stopped in its second repetition, when one VM had run alone. No capture of that
    // repetition is there.
    let folder = tempfile::tempdir().unwrap();
    let of_sample = |name: &str| std::fs::canonicalize(sample(&format!("lab-virtio/{name}"))).unwrap();
    let link = |name: &str| {
        let to = folder.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(of_sample(name), to).unwrap();
    };
    link("plan.toml");
    for group in std::fs::read_dir(of_sample("runs")).unwrap() {
        link(&format!("runs/{}/1", group.unwrap().file_name().to_str().unwrap()));
    }
    let mut lab: Value = serde_json::from_slice(&std::fs::read(of_sample("lab.json")).unwrap()).unwrap();
    let runs = lab["runs"].as_array_mut().unwrap();
    let planned = runs.len();
    runs.retain(|run| run["repetition"] == 1 || (run["repetition"] == 2 && run["group"] == "alone-mail"));
    let missing = planned - runs.len();
    lab["planned_runs"] = planned.into();
    std::fs::write(folder.path().join("lab.json"), lab.to_string()).unwrap();
    let path = folder.path().display().to_string();
    let output = iocast().args(["validate", "consolidation", &path, "--predictors", "sum"]).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains(&format!("lacks {missing} of the {planned} runs of its plan")), "{said}");
    let table = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(table.contains("over 6 groups"), "{table}");
    // So does its report say.
    let page = folder.path().join("page.html");
    iocast().args(["report", &path, "-o", page.to_str().unwrap()]).assert().success();
    assert!(std::fs::read_to_string(page).unwrap().contains(&format!("lacks {missing} of the {planned} runs")));
}

#[test]
fn folder_without_lab_results_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let output = iocast().args(["validate", "consolidation", &path]).assert().failure();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("lab.json: cannot be read") && said.contains("iocast capture lab"), "{said}");
    std::fs::write(folder.path().join("lab.json"), "{}").unwrap();
    let output = iocast().args(["validate", "consolidation", &path]).assert().failure();
    assert!(String::from_utf8(output.get_output().stderr.clone()).unwrap().contains("lab.json: is no result of a lab"));
}
