//! A report under axe-core's rules of accessibility: `make accessibility`, which fetches axe-core to `IOCAST_AXE`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod browser;
mod program;

use browser::{opened, report};

const RUN: &str = r#"
axe.run().then((result) => {
  const faults = result.violations.map((fault) => [fault.impact, fault.id, fault.nodes.length, fault.nodes[0].html]);
  document.documentElement.dataset.found = JSON.stringify({ faults, passed: result.passes.length });
});
"#;

#[test]
fn a_report_has_no_serious_fault_of_accessibility() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    let axe = std::env::var("IOCAST_AXE").expect("IOCAST_AXE names axe.min.js; `make accessibility` sets it");
    let axe = std::fs::read_to_string(axe).unwrap();
    for width in [390, 1440] {
        let (found, _) = opened(folder.path(), &page, width, &[&axe, RUN]);
        let faults = found["faults"].as_array().unwrap();
        let serious: Vec<_> =
            faults.iter().filter(|fault| ["serious", "critical"].contains(&fault[0].as_str().unwrap())).collect();
        assert!(serious.is_empty(), "{serious:#?}");
        assert!(found["passed"].as_u64().unwrap() > 10, "{found}");
        println!("{width}: {found}");
    }
}
