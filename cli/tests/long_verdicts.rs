//! What `iocast reproduce` says of Kim 2015 and of Casale 2011: which bars are reached, which claims hold, and on what
//! evidence. `reproduce.rs` does the same for Geist 2010, which takes seconds; here are its bytes by threads.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use program::{iocast, sample};
use serde_json::Value;

fn json_of(arguments: &[&str]) -> Value {
    let output = iocast().arg("reproduce").args(arguments).args(["--output-format", "json"]).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn geist_2010_has_the_same_bytes_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let written = |threads: &str, more: &[&str]| {
        let fixed = ["reproduce", "geist2010", "--seeds", "2", "--alternatives", "off", "--output", "g"];
        let mut program = iocast();
        program.args(fixed).args(more).current_dir(folder.path()).env("RAYON_NUM_THREADS", threads);
        let printed = program.assert().success().get_output().stdout.clone();
        (printed, std::fs::read(folder.path().join("g.json")).unwrap())
    };
    let (printed, first) = written("2", &["--output-format", "json"]);
    assert_eq!(printed, first);
    // A longer file is replaced whole.
    std::fs::write(folder.path().join("g.json"), vec![b' '; 10 << 20]).unwrap();
    let (printed, again) = written("1", &["--force", "--output-format", "markdown"]);
    assert!(first == again, "other bytes with one thread");
    assert!(printed == std::fs::read(folder.path().join("g.md")).unwrap());
}

#[test]
fn bars_of_kim_2015_say_what_holds_and_what_does_not() {
    let found = json_of(&["kim2015", "--seeds", "1", "--alternatives", "off"]);
    let bars = found["bars"].as_array().unwrap();
    let named = |reached: bool| -> Vec<&str> {
        bars.iter().filter(|bar| bar["reached"] == reached).map(|bar| bar["what"].as_str().unwrap()).collect()
    };
    // Known misses: four VMs lose less than the paper's, and the gains of BA are above its.
    let missed = ["loss of four VMs against one, %", "fio, greatest gain of BA, %", "IOzone, greatest gain of BA, %"];
    assert_eq!(named(false), missed);
    assert_eq!(named(true).len(), 13);
    let evidence = |what: &str| &bars.iter().find(|bar| bar["what"] == what).unwrap()["evidence"];
    assert_eq!(evidence("Terasort, execution time with cfq, s"), "chosen-on");
    // Results of dd were in view when it was made to read.
    assert_eq!(evidence("loss of four VMs against one, %"), "seen");
    assert_eq!(evidence("Terasort, change of the execution time, %"), "seen");
    assert_eq!(evidence("Jain's index with BA within 192 s"), "fitted");
    let verdicts: Vec<[&str; 2]> = (found["claims"].as_array().unwrap().iter())
        .map(|claim| [claim["place"].as_str().unwrap(), claim["verdict"].as_str().unwrap()])
        .collect();
    // BA shortens the map phase, which the paper says it makes longer.
    assert!(verdicts.contains(&["Figure 5(c)", "contradicts"]) && verdicts.contains(&["Figure 5(c)", "holds"]));
    // BA is the better one wherever something is read; writes alone leave nothing to gain.
    let right: Vec<u64> =
        found["ranks"].as_array().unwrap().iter().map(|rank| rank["right"].as_u64().unwrap()).collect();
    assert_eq!(right[1..], [1; 4]);
}

#[test]
fn tables_of_casale_2011_match_the_paper_except_for_one_cell() {
    let lab = sample("lab-virtio");
    let reproduced = json_of(&["casale2011", "--seeds", "2", "--alternatives", "off", "--lab", &lab]);
    let cells = reproduced["cells"].as_array().unwrap();
    // By formula: predicted and off by, mixes, rates and reads. Of VMs: measured, predicted and off by, with writes. The
    // replayed VMs have also their rates alone and the rules of the guests' cfq.
    let of = |source: &str| cells.iter().filter(|cell| cell["source"] == source).count();
    assert_eq!((of("formula"), of("replayed"), of("measured")), (36, 72 + 6 + 7, 72));
    assert!(cells.iter().all(|cell| cell["ours"].as_f64().is_some_and(|ours| ours.is_finite() && ours >= 0.0)));
    // Only the replayed environment is meant to be the paper's; what was changed after its figures were seen is marked.
    let is_fitted = |cell: &Value| cell["evidence"] == "fitted";
    for cell in cells.iter().filter(|cell| !cell["table"].as_str().unwrap().starts_with("rules of")) {
        assert_eq!(cell["paper"].is_null(), cell["source"] == "measured", "{cell}");
        assert_eq!(is_fitted(cell), cell["source"] == "replayed", "{cell}");
    }
    measured_cells_are_the_labs(cells);
    let figures = reproduced["figures"].as_array().unwrap();
    for figure in ["2, replayed", "3, replayed", "2, measured", "3, measured"] {
        assert_eq!(figures.iter().filter(|series| series["figure"] == figure).count(), 4, "{figure}");
    }
    for series in figures.iter().filter(|series| series["figure"].as_str().unwrap().starts_with('2')) {
        let shares = series["points"].as_array().unwrap().iter().map(|point| point[1].as_f64().unwrap());
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
    }
    let missed: Vec<f64> = (reproduced["bars"].as_array().unwrap().iter())
        .filter(|bar| bar["reached"] == false)
        .map(|bar| bar["ours"].as_f64().unwrap())
        .collect();
    assert_eq!(missed, [1.0]);
    let statements = reproduced["statements"].to_string();
    assert_eq!(statements.matches("Probably a misprint").count(), 1);
    assert!(statements.contains("Equation (6) on the writes of replayed VMs"), "{statements}");
    let claims = reproduced["claims"].as_array().unwrap();
    let of_replayed = claims.iter().filter(|claim| claim["place"].as_str().unwrap().ends_with("replayed"));
    // Of nine statements about the queues eight hold, a tenth is an input; the formulas are further off than the paper says of its VMs.
    let verdicts = |evidence: &str| -> Vec<&str> {
        let of_kind = of_replayed.clone().filter(|claim| claim["evidence"] == evidence);
        of_kind.map(|claim| claim["verdict"].as_str().unwrap()).collect()
    };
    let queues = verdicts("chosen-on");
    assert_eq!((queues.len(), queues.iter().filter(|verdict| **verdict == "holds").count()), (9, 8), "{claims:?}");
    assert_eq!(claims.iter().filter(|claim| claim["place"] == "Figure 2, an input").count(), 1);
    assert_eq!(verdicts("forecast").len(), 1, "{claims:?}");
    assert_eq!(verdicts("fitted").len(), 5, "{claims:?}");
    let table = iocast().args(["reproduce", "casale2011", "--seeds", "1", "--alternatives", "off"]).assert().success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(table.contains("Table II: paper, ours, error (formula test)"), "{table}");
    assert!(table.contains("II, replayed, requests/s: paper, ours, error"), "{table}");
    // There is no such folder where tests run.
    assert!(table.contains("No measured VMs"), "{table}");
    let other = iocast().args(["reproduce", "kim2015", "--seeds", "1", "--lab", &lab]).assert().failure();
    let said = String::from_utf8(other.get_output().stderr.clone()).unwrap();
    assert!(said.contains("kim2015 cannot be compared with measured VMs"), "{said}");
}

/// Compares with `lab.json`, which the lab wrote: the reads of mail and web together, as the drive logged them.
fn measured_cells_are_the_labs(cells: &[Value]) {
    let lab: Value = serde_json::from_str(&std::fs::read_to_string(sample("lab-virtio/lab.json")).unwrap()).unwrap();
    let reads = lab["summary"].as_array().unwrap().iter().filter(|figure| {
        figure["group"] == "together-mail-web" && figure["seen"] == "drive" && figure["figure"] == "read_iops"
    });
    let expected: f64 = reads.map(|figure| figure["mean"].as_f64().unwrap()).sum();
    let is =
        |cell: &&Value| cell["table"] == "II, measured" && cell["row"] == "web+mail" && cell["column"] == "measured R";
    let ours = cells.iter().find(is).unwrap()["ours"].as_f64().unwrap();
    // The guest's clock begins with its capture, and the drive's with the run.
    assert!((ours / expected - 1.0).abs() < 0.03, "{ours} {expected}");
}
