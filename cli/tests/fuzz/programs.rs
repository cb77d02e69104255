//! Files that only the program reads: results, thresholds, profiles of VMs and plans of placements. Each input is a run
//! with bounds on memory and CPU time.

use std::path::Path;

use crate::harness::Target;
use crate::program::{bounded, sample, stdout};
use crate::{bytes, contents};

/// Inputs of a short run.
const SHORT_RUN: u64 = 12;

/// Runs the program, which must end by itself and without a panic. Says whether it did what it was asked.
fn run(arguments: &[&str]) -> bool {
    let output = bounded(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code != 101), "{arguments:?}: {}: {said}", output.status);
    // A difference beyond the threshold has the code 3.
    matches!(output.status.code(), Some(0 | 3))
}

/// Files beside inputs, for the rest of this process.
struct Beside(tempfile::TempDir);

impl Beside {
    fn new() -> Beside {
        Beside(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// Results of several kinds.
fn results() -> Vec<Vec<u8>> {
    let mail = sample("mail.parquet");
    let of = |arguments: &[&str]| stdout(&[arguments, &["--output-format", "json"]].concat());
    let window = ["--end", "2s"];
    let texts = [
        of(&[&["compare", &mail, "--schedulers", "fifo,bfq", "--pacing", "closed", "--history"], &window[..]].concat()),
        of(&[&["compare", &mail, "--stack", "kvm-virtio", "--pacing", "closed", "--per-vm"], &window[..]].concat()),
        of(&[&["stat", &mail, "--history"], &window[..]].concat()),
        of(&[&["predict", &mail, &sample("web.parquet")], &window[..]].concat()),
        of(&["validate", "scheduler", "cats", "--sequences", "2"]),
    ];
    let mut seeds = bytes(texts.iter().map(String::as_str));
    seeds.extend(contents("traces/samples/lab-iscsi", "lab.json"));
    seeds
}

pub(crate) fn targets() -> Vec<Target> {
    let results = results();
    let (reports, diffs, thresholds, profiles) = (Beside::new(), Beside::new(), Beside::new(), Beside::new());
    let compared = String::from_utf8(results[0].clone()).unwrap();
    let [old, same] = [diffs.write("old.json", &compared), thresholds.write("old.json", &compared)];
    let [mail, web] = ["mail.parquet", "web.parquet"].map(sample);
    stdout(&["predict", &mail, &web, "--end", "5s", "-o", &profiles.path("alone")]);
    let alone = |vm: &str| profiles.path(&format!("alone-{vm}.json"));
    let seeds = ["mail", "web"].map(|vm| std::fs::read(alone(vm)).unwrap()).to_vec();
    let other = alone("web");
    let absolute = |name: &str| std::fs::canonicalize(sample(name)).unwrap().display().to_string();
    let plan = format!(
        "end = \"1s\"\nseed = 3\nseparate = [[\"mail\", \"web\"]]\n[[lun]]\nname = \"gold\"\ndrive = \"fixed\"\n\
         scheduler = \"deadline\"\ndepth = 4\n[[lun]]\nname = \"silver\"\ndrive = \"nvme-ssd\"\n[[vm]]\nname = \"mail\"\n\
         capture = \"{}\"\nread_p99 = \"200ms\"\n[[vm]]\nname = \"web\"\ncapture = \"{}\"\nread_iops = 60\n",
        absolute("mail.parquet"),
        absolute("web.parquet")
    );
    let input = |path: &Path| path.to_str().unwrap().to_owned();
    let threshold = "default = \"5%\"\n[[figures]]\nfigure = \"read.*\"\nthreshold = \"+5%\"\n[[figures]]\nfigure = \"*ns\"\n\
                     threshold = \"-1%\"\n";
    vec![
        Target::new("result", "input.json", results.clone(), SHORT_RUN, move |path, _| {
            run(&["report", &input(path), "-o", &reports.path("report.html"), "--force"])
        }),
        Target::new("result-diff", "input.json", results, SHORT_RUN, move |path, way| {
            let _folder = &diffs;
            let other = if way.is_multiple_of(2) { old.clone() } else { input(path) };
            run(&["diff", &other, &input(path), "--threshold", "1%", "--details"])
        }),
        Target::new("threshold", "input.toml", bytes([threshold]), SHORT_RUN, move |path, _| {
            let _folder = &thresholds;
            run(&["diff", &same, &same, "--threshold", &input(path)])
        }),
        Target::new("isolation-profile", "input.json", seeds, SHORT_RUN, move |path, _| {
            let _folder = &profiles;
            run(&["predict", &input(path), &other])
        }),
        Target::new("placement-plan", "input.toml", bytes([plan.as_str()]), SHORT_RUN, move |path, _| {
            run(&["place", &input(path)])
        }),
    ]
}
