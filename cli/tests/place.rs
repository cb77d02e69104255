//! `iocast place` on the command line.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

fn iocast() -> Command {
    Command::new(env!("CARGO_BIN_EXE_iocast"))
}

fn capture(vm: &str) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples/lab-virtio/runs");
    samples.join(format!("alone-{vm}/1/{vm}.parquet")).display().to_string()
}

/// A plan of three VMs on two drives.
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

/// What is said of a plan with a mistake.
fn said(text: &str) -> String {
    let said = said_with_code(text, 2);
    assert!(said.contains("plan.toml"), "{said}");
    said
}

fn said_with_code(text: &str, code: i32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    let output = iocast().arg("place").arg(&path).assert().code(code);
    String::from_utf8(output.get_output().stderr.clone()).unwrap()
}

#[test]
fn placement_is_confirmed_by_replay_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, plan()).unwrap();
    let stem = folder.path().join("disturbs");
    let run = || {
        let mut command = iocast();
        command.arg("place").arg(&path).arg("-o").arg(&stem).args(["--force", "--output-format", "json"]);
        command.assert().get_output().stdout.clone()
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
    // A VM that is alone on a LUN has the same figures in the replay as alone; the others have less.
    for lun in placed["luns"].as_array().unwrap() {
        let vms = lun["vms"].as_array().unwrap();
        for vm in vms {
            let rate = |of: &str| vm[of]["read_iops"].as_f64().unwrap();
            assert!(if vms.len() == 1 { rate("alone") == rate("replayed") } else { rate("alone") > rate("replayed") });
        }
    }
    let limits = placed["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 3);
    let left: Vec<f64> = limits.iter().map(|limit| limit["replayed_slack"].as_f64().unwrap()).collect();
    assert!(left.is_sorted() && limits.iter().all(|limit| limit["kept"].is_boolean()), "{limits:?}");
    let left = placed["interference"]["left"].as_array().unwrap();
    assert!(left[0][0].is_null() && left[0][1].as_f64().is_some_and(|left| left > 0.0 && left < 1.0));
    for ending in ["svg", "png"] {
        assert!(std::fs::metadata(stem.with_extension(ending)).unwrap().len() > 1000);
    }
    let elsewhere = &placed["interference_elsewhere"][0];
    assert_eq!((&placed["interference"]["lun"], &elsewhere["lun"]), (&json!("one"), &json!("two")));
    assert_ne!(elsewhere["left"], placed["interference"]["left"]);
    assert!(!String::from_utf8(bytes).unwrap().contains("Written"));
    let drawn = iocast().arg("place").arg(&path).arg("-o").arg(&stem).arg("--force").assert().get_output().clone();
    let written = String::from_utf8(drawn.stdout).unwrap().split_once("\nWritten: ").unwrap().1.replace('\n', "");
    let [svg, png] = ["svg", "png"].map(|ending| stem.with_extension(ending).display().to_string());
    assert_eq!(written.replace(' ', ""), format!("{svg},{png}"));
    let (table, code) = printed(&path);
    // The code follows from the replay, whatever the forecast was.
    let kept = limits.iter().all(|limit| limit["kept"] == true);
    assert_eq!(code, if kept { 0 } else { 3 }, "{table}");
    let says = if kept { "\n\nThe replay keeps all limits; " } else { "\n\nLimits are broken: " };
    assert!(table.contains(" to one; ") && table.contains(" to two.") && table.contains(says), "{table}");
    assert!(table.contains("alone / forecast / replayed"), "{table}");
    for lun in ["one", "two"] {
        assert!(table.contains(&format!("beside another (column), on {lun}")), "{table}");
    }
    assert_eq!(table.matches("┆ beside web").count(), 2, "{table}");
}

/// Standard output and exit code.
fn printed(plan: &Path) -> (String, i32) {
    let output = iocast().env("COLUMNS", "200").arg("place").arg(plan).assert();
    let output = output.get_output();
    (String::from_utf8(output.stdout.clone()).unwrap(), output.status.code().unwrap())
}

fn placed(folder: &Path, plan: &str) -> Value {
    let path = folder.join("plan.toml");
    std::fs::write(&path, plan).unwrap();
    let output = iocast().arg("place").arg(&path).args(["--output-format", "json"]).assert();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn sample_plan_is_placed_by_replay_and_keeps_its_limits() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/plan.toml");
    let (table, code) = printed(&path);
    assert_eq!(code, 0, "{table}");
    let begins = "mail, web and file go to gold; oltp goes to silver.\n\nThe replay keeps all limits; read_p99 of mail is the \
                  tightest, with ";
    assert!(table.starts_with(begins), "{table}");
    // Nothing but the replay was forecast, so there is one figure together, and one margin.
    assert!(table.contains("Assignment: alone / replayed together") && !table.contains("forecast"), "{table}");
    let text =
        std::fs::read_to_string(&path).unwrap().replace("../../traces", &root().join("traces").display().to_string());
    let folder = tempfile::tempdir().unwrap();
    let json = placed(folder.path(), &text);
    assert_eq!(json["predictor"], "replay");
    for lun in json["luns"].as_array().unwrap() {
        assert!(lun["vms"].as_array().unwrap().iter().all(|vm| vm["forecast"] == vm["replayed"]), "{lun}");
    }
    for limit in json["limits"].as_array().unwrap() {
        assert_eq!(limit["slack"], limit["replayed_slack"]);
    }
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn limits_that_the_replay_breaks_end_with_code_3_whatever_the_forecast_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    // sum forecasts the rates of the three VMs and no times; the replay measures both.
    let text = plan().replace("casale", "sum").replace("read_p99 = \"200ms\"", "read_p99 = \"2ms\"");
    std::fs::write(&path, text).unwrap();
    let (table, code) = printed(&path);
    assert_eq!(code, 3, "{table}");
    assert!(table.contains("\n\nLimits are broken: no assignment that was found keeps all limits"), "{table}");
    let answer = table.split("Assignment").next().unwrap().split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(answer.contains("read_p99 of mail is broken by ") && answer.ends_with("% in the replay."), "{answer}");
    let row = table.lines().find(|line| line.contains("┆ read_p99")).unwrap();
    assert!(row.contains("┆ broken by ") && !row.contains('-'), "{row}");
    let output = iocast().arg("place").arg(&path).assert().code(3);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("iocast: no assignment that was found keeps all limits"), "{said}");
}

#[test]
fn percentile_that_too_few_reads_support_is_not_printed_and_a_limit_on_it_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let of_mail = |end: &str| {
        std::fs::write(&path, plan().replace("\"45s\"", end)).unwrap();
        let text = printed(&path).0;
        let row = text.lines().find(|line| line.contains("┆ mail")).unwrap().to_owned();
        (row.split('┆').nth(4).unwrap().trim().to_owned(), text.contains("read_p99 of mail rests on "))
    };
    let (few, noted) = of_mail("\"15500ms\"");
    assert!(few == "– / – / –" && noted, "{few}");
    // Nobody knows whether such a limit is kept.
    let (text, code) = printed(&path);
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("nothing is known of read_p99 of mail") && code == 3, "{text}");
    let (many, noted) = of_mail("\"45s\"");
    assert!(!many.contains('–') && many.ends_with("ms") && !noted, "{many}");
}

#[test]
fn limit_on_a_percentile_without_a_forecast_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    // On one LUN, so that the VM with the limit has company.
    let plan = plan().replace("separate = [[\"mail\", \"oltp\"]]\n", "");
    let (begin, end) = (plan.find("[[lun]]\nname = \"two\"").unwrap(), plan.find("[[vm]]").unwrap());
    let plan = format!("{}{}", &plan[..begin], &plan[end..]);
    let notes = |plan: &str| placed(folder.path(), plan)["notes"].to_string();
    let said = "read_p99 of mail is no forecast: the predictor has means only";
    let by_formula = notes(&plan);
    assert!(by_formula.contains(said), "{by_formula}");
    assert!(!notes(&plan.replace("casale", "replay")).contains(said));
}

#[test]
fn limit_that_a_vm_breaks_even_alone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |limit: &str| plan().replace("read_p99 = \"200ms\"", &format!("read_p99 = \"{limit}\""));
    let notes = |plan: &str| placed(folder.path(), plan)["notes"].to_string();
    let broken = notes(&plan("1ms"));
    assert!(
        broken.contains("no assignment keeps read_p99 of mail: the limit is 1ms, and alone on one it is"),
        "{broken}"
    );
    assert!(!notes(&plan("200ms")).contains("no assignment keeps"));
}

#[test]
fn captures_without_drives_are_placed_by_the_twin_one_behind_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let drives = ["\ndrive = \"cheetah-15k4-mechanical\"", "\ndrive = \"cheetah-9lp\"", "predictor = \"casale\"\n"];
    let text = drives.iter().fold(plan(), |plan, drive| plan.replace(drive, ""));
    let json = placed(folder.path(), &text);
    assert_eq!(json["predictor"], "twin");
    // Predict forecasts the same of the two VMs that share a LUN, with their disks one behind the other.
    let luns = json["luns"].as_array().unwrap();
    let shared = luns.iter().map(|lun| lun["vms"].as_array().unwrap()).find(|vms| vms.len() == 2).unwrap();
    let [first, second] = [0, 1].map(|vm| shared[vm]["vm"].as_str().unwrap());
    let third = ["mail", "web", "oltp"].into_iter().find(|vm| ![first, second].contains(vm)).unwrap();
    let mut predict = iocast();
    predict.arg("predict").args([capture(first), capture(second)]).args(["--also", &capture(third)]);
    predict.args(["--start", "15s", "--end", "45s", "--predictors", "twin", "--output-format", "json"]);
    let on_top: Value = serde_json::from_slice(&predict.assert().success().get_output().stdout).unwrap();
    let on_top = on_top["pairs"][0]["predictors"]["twin"]["read_response_ns"][0].as_f64().unwrap();
    let behind = shared[0]["forecast"]["read_response_ns"].as_f64().unwrap();
    // The head travels between the disks, which takes time.
    assert!(behind > 1.02 * on_top && behind < 2.0 * on_top, "{behind} {on_top}");
    let (table, _) = printed(&folder.path().join("plan.toml"));
    assert!(table.contains("Assignment by twin: alone / forecast\n") && !table.contains("left, replayed"), "{table}");
}

#[test]
fn many_vms_are_placed_by_a_formula_and_then_by_replays_near_its_assignment() {
    let folder = tempfile::tempdir().unwrap();
    let vm = |number: usize| format!("[[vm]]\nname = \"vm{number}\"\ncapture = {:?}\nread_iops = 1\n", capture("oltp"));
    let lun = |name: &str| format!("[[lun]]\nname = {name:?}\ndrive = \"cheetah-15k4-mechanical\"\n");
    let text = ["end = \"3s\"\n".to_owned(), lun("one"), lun("two"), (0..10).map(vm).collect()].concat();
    let json = placed(folder.path(), &text);
    assert!(json["notes"].to_string().contains("10 VMs make more than 512 groups"), "{}", json["notes"]);
    assert!(json["limits"].as_array().unwrap().iter().all(|limit| limit["replayed"] == limit["forecast"]), "{json}");
    // The formula takes an SSD for a busy disk and leaves VMs on the old disk, which cannot serve two. All fit the SSD.
    let lun = |name: &str, drive: &str| format!("[[lun]]\nname = {name:?}\ndrive = {drive:?}\n");
    let vm = |(number, name): (usize, &str)| {
        format!("[[vm]]\nname = \"vm{number}\"\ncapture = {:?}\nread_iops = 100\n", capture(name))
    };
    let vms: String = ["mail", "web", "oltp"].repeat(3).into_iter().enumerate().map(vm).collect();
    let window = "start = \"15s\"\nend = \"17s\"\n".to_owned();
    let text = [window, lun("flash", "nvme-ssd"), lun("old", "cheetah-9lp"), vms].concat();
    let json = placed(folder.path(), &text);
    assert!(json["limits"].as_array().unwrap().iter().all(|limit| limit["kept"] == true), "{}", json["limits"]);
}

#[test]
fn lun_with_a_stack_is_replayed_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let lun = |rest: &str| plan().replace("\ndrive = \"cheetah-9lp\"", &format!("\ndrive = \"cheetah-9lp\"\n{rest}"));
    // One layer that is a scheduler and a depth is that scheduler with that depth, be it a line or a file beside the
    // plan.
    let deep = placed(folder.path(), &lun("scheduler = \"deadline\"\ndepth = 4"));
    let line = placed(folder.path(), &lun("stack = \"lun=deadline@depth=4\""));
    let layer = "[[layer]]\nname = \"lun\"\nscheduler = \"deadline\"\nsettings = { depth = 4 }\n";
    std::fs::write(folder.path().join("layers.toml"), layer).unwrap();
    let file = placed(folder.path(), &lun("stack = \"layers.toml\""));
    let vms = |placed: &Value| [0, 1].map(|lun| placed["luns"][lun]["vms"].clone());
    assert_eq!(vms(&deep), vms(&line));
    assert_eq!(vms(&deep), vms(&file));
    assert_ne!(vms(&deep), vms(&placed(folder.path(), &plan())));
    assert_eq!(deep["luns"][1]["before"], "deadline, depth 4");
    assert_eq!(line["luns"][1]["before"], "lun=deadline@depth=4");
    // Layers of their own, and the replay goes through them.
    let kvm = placed(folder.path(), &lun("stack = \"kvm-virtio\""));
    assert_ne!(vms(&kvm), vms(&deep));
    let replayed = kvm["luns"][1]["vms"].as_array().unwrap().iter().all(|vm| !vm["replayed"].is_null());
    assert!(replayed, "{kvm}");
}

#[test]
fn no_lun_gets_more_than_its_drive_holds() {
    let folder = tempfile::tempdir().unwrap();
    // Each of the three takes about a gigabyte of 2.1.
    let plan = plan().replace("cheetah-15k4-mechanical", "barracuda").replace("cheetah-9lp", "barracuda");
    let plan = plan.replace("separate = [[\"mail\", \"oltp\"]]\n", "");
    let one = "[[lun]]\nname = \"two\"\ndrive = \"barracuda\"\n";
    assert!(plan.contains(one));
    let placed = placed(folder.path(), &plan);
    let of = |lun: usize| placed["luns"][lun]["vms"].as_array().unwrap().len();
    assert!(of(0) <= 2 && of(1) <= 2, "{placed}");
    let said = said_with_code(&plan.replace(one, ""), 1);
    assert!(
        said.contains("no assignment was found that fits")
            && said.contains("there are too few LUNs, or the LUNs are too small"),
        "{said}"
    );
}

#[test]
fn profiles_are_placed_if_nothing_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let drives = ["\ndrive = \"cheetah-15k4-mechanical\"", "\ndrive = \"cheetah-9lp\""];
    let plan = drives.iter().fold(plan(), |plan, drive| plan.replace(drive, ""));
    let captures = placed(folder.path(), &plan);
    let stem = folder.path().join("of").display().to_string();
    let vms = ["mail", "web", "oltp"];
    let mut predict = iocast();
    predict.arg("predict").args(vms.map(capture)).args(["--start", "15s", "--end", "45s", "-o", &stem]);
    predict.args(["--predictors", "sum"]).assert().success();
    let capture = |vm: &str| format!("capture = {:?}", capture(vm));
    let of = |plan: String, vm: &str| plan.replace(&capture(vm), &format!("profile = \"of-{vm}.json\""));
    let profiles = vms.into_iter().fold(plan.clone(), of);
    assert_eq!(profiles.matches("profile = ").count(), 3);
    // The window is in the profiles.
    assert!(said(&profiles).contains("start and end select a part of a capture, and all VMs are given as profiles"));
    let profiles = profiles.replace("start = \"15s\"\nend = \"45s\"\n", "");
    assert_eq!(placed(folder.path(), &profiles), captures);
    assert_eq!(placed(folder.path(), &of(plan, "web")), captures);
}

#[test]
fn placement_states_why_a_group_has_no_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    // Three busy VMs on one drive exceed the utilisation up to which hol holds.
    let text = plan().replace("casale", "hol").replace("separate = [[\"mail\", \"oltp\"]]\n", "");
    let second = "[[lun]]\nname = \"two\"\ndrive = \"cheetah-9lp\"\n";
    assert!(text.contains(second));
    std::fs::write(&path, text.replace(second, "")).unwrap();
    let (said, _) = printed(&path);
    assert!(said.contains("no forecast on one: hol holds up to a utilisation of 0.95"), "{said}");
    // The replay states what the predictor could not.
    let limits = said.split("Limits, the tightest first").nth(1).unwrap();
    let row = limits.lines().find(|line| line.contains("mail")).unwrap();
    assert!(row.trim_end_matches(" │").ends_with('–') && row.contains("ms"), "{row}");
}

#[test]
fn impossible_plans_are_refused_with_the_remedy() {
    for (from, to, says) in [
        ("[[\"mail\", \"oltp\"]]", "[[\"mail\", \"olpt\"]]", "separate names \"olpt\", which is no VM of the plan"),
        ("[[\"mail\", \"oltp\"]]", "[[\"mail\", \"mail\"]]", "twice in one group"),
        ("name = \"two\"", "name = \"one\"", "two LUNs are called one"),
        ("\"cheetah-9lp\"", "\"cheetah-9pl\"", "LUN two"),
        ("read_iops = 60", "read_iops = 0", "VM web: each limit must be above 0"),
        ("read_iops = 60", "read_iop = 60", "unknown field `read_iop`"),
        ("predictor = \"casale\"", "predictor = \"casal\"", "casale"),
        (
            "predictor = \"casale\"",
            "predictor = \"residual\"",
            "residual learns from known consolidations, which a plan does not hold; place with replay, twin or a \
             predictor that uses profiles (qpn, qpn-refined, casale",
        ),
        ("start = \"15s\"", "start = \"15 parsecs\"", "plan.toml"),
        ("drive = \"cheetah-9lp\"", "scheduler = \"fifo\"", "LUN two: its scheduler needs a drive behind it"),
        ("drive = \"cheetah-9lp\"", "drive = \"cheetah-9lp\"\ndepth = 0", "LUN two: depth 0 lets no request through"),
        ("drive = \"cheetah-9lp\"", "drive = \"cheetah-9lp\"\nstack = \"xen-baa\"", "did you mean xen-ba"),
        (
            "drive = \"cheetah-9lp\"",
            "drive = \"cheetah-9lp\"\nstack = \"xen-ba\"\ndepth = 2",
            "LUN two: each layer of a stack has its own scheduler and depth",
        ),
        ("capture = ", "profile = ", "VM mail: a profile holds no single requests to replay"),
        ("capture = ", "profile = \"a.json\"\ncapture = ", "VM mail: it names a capture and a profile"),
        ("capture = ", "read_iops = 1 # ", "VM mail: it needs a capture or a profile"),
    ] {
        let text = plan();
        assert!(text.contains(from), "{from}");
        let said = said(&text.replacen(from, to, 1));
        assert!(said.contains(says), "{said:?} does not say {says:?}");
    }
    let bare =
        plan().replace("predictor = \"casale\"", "predictor = \"replay\"").replace("drive = \"cheetah-9lp\"\n", "");
    assert!(said(&bare).contains("predictor = \"replay\" needs a drive for every LUN"));
    assert!(said("[[lun]]\nname = \"a\"\n").contains("needs at least one [[vm]] and one [[lun]]"));
    let missing = plan().replace("mail.parquet", "nowhere.parquet");
    assert!(said_with_code(&missing, 1).contains("nowhere.parquet"));
}
