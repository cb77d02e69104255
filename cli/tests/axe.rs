//! Reports under axe-core's rules of accessibility: `make accessibility`, which fetches axe-core to `IOCAST_AXE`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod browser;
mod program;

use std::path::Path;

use browser::{opened, report, sweep_report};
use program::{sample, stdout};

const RUN: &str = r#"
axe.run().then((result) => {
  const faults = result.violations.map((fault) => [fault.impact, fault.id, fault.nodes.length, fault.nodes[0].html]);
  document.documentElement.dataset.found = JSON.stringify({ faults, passed: result.passes.length });
});
"#;

/// Opens a page, narrow and wide. There may be no fault, not even a minor one.
fn check(folder: &Path, what: &str, page: &str) {
    let axe = std::env::var("IOCAST_AXE").expect("IOCAST_AXE names axe.min.js; `make accessibility` sets it");
    let axe = std::fs::read_to_string(axe).unwrap();
    for width in [390, 1440] {
        let (found, _) = opened(folder, page, width, &[&axe, RUN]);
        let faults = found["faults"].as_array().unwrap();
        assert!(faults.is_empty(), "{what}, {width}: {faults:#?}");
        assert!(found["passed"].as_u64().unwrap() > 10, "{what}: {found}");
    }
}

#[test]
fn no_report_has_a_fault_of_accessibility() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), "compare", &report(folder.path()));
    check(folder.path(), "sweep", &sweep_report(folder.path()));
    let path = folder.path().join("page.html").to_str().unwrap().to_owned();
    let (mail, web, lab) = (sample("mail.parquet"), sample("web.parquet"), sample("lab-virtio"));
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/plan.toml");
    let reported: [&[&str]; 7] = [
        &["stat", &mail, "--history"],
        &["predict", &mail, &web, "--predictors", "twin"],
        &["place", plan],
        &["reproduce", "geist2010", "--seeds", "1", "--alternatives", "off"],
        &["validate", "closed", &web, "--drive", "cheetah-15k4"],
        &["validate", "consolidation", &lab, "--predictors", "casale,sum"],
        &["validate", "cross", "--synthetic", "--vms", "2"],
    ];
    for command in reported {
        stdout(&[command, &["--report", &path, "--force"][..]].concat());
        check(folder.path(), &command[..2].join(" "), &std::fs::read_to_string(&path).unwrap());
    }
    stdout(&["report", &lab, "-o", &path, "--force"]);
    check(folder.path(), "a lab", &std::fs::read_to_string(&path).unwrap());
}
