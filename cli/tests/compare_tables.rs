//! What `iocast compare` prints and draws for people.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::Path;

use program::{failure, iocast, json, sample, stdout};
use serde_json::Value;

#[test]
fn tables_and_markdown_show_every_scheduler() {
    let arguments = ["compare", &sample("web.parquet"), "--pacing", "closed", "--limit", "2000"];
    let table = stdout(&[&arguments[..], &["--details"]].concat());
    let markdown = stdout(&[&arguments[..], &["--details", "--output-format", "markdown"]].concat());
    for text in [&table, &markdown] {
        let classes =
            ["Reads and writes", "Writes", "R mean", "R p99", "cache hits", "standard deviation", "sectors/ms"];
        for word in ["fifo", "sstf", "cscan", "deadline", "cats", "p99.99", "throughput"].into_iter().chain(classes) {
            assert!(text.contains(word), "{word} is missing");
        }
        assert!(!text.contains("variance") && !text.contains("Flushes"), "absent classes are left out: {text}");
    }
    assert!(markdown.contains("### Reads and writes\n\n|") && markdown.contains("<details><summary>Settings"));
    // A table of five schedulers fits a terminal of 80 columns.
    assert!(table.lines().filter(|line| line.starts_with('│')).all(|line| line.chars().count() <= 80));
    // The line of each percentile that 2,000 requests cannot support is empty.
    let p9999 = table.lines().find(|line| line.contains("p99.99")).unwrap();
    assert!(p9999.matches('–').count() == 5, "{p9999}");
}

#[test]
fn comparison_begins_with_its_answer() {
    let text = stdout(&["compare", &sample("mail.parquet"), "--pacing", "closed"]);
    let result = json(&["compare", &sample("mail.parquet"), "--pacing", "closed"]);
    let runs = result["runs"].as_array().unwrap();
    let best = |of: &dyn Fn(&Value) -> f64| {
        let run = runs.iter().min_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
        run["scheduler"]["name"].as_str().unwrap().to_owned()
    };
    let p99 = best(&|run| run["read"]["response_percentiles_ns"]["p99"].as_f64().unwrap());
    let throughput = best(&|run| -run["all"]["bytes_per_s"].as_f64().unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("Reads, p99: {p99} is best with ")), "{text}");
    assert!(lines[1].starts_with(&format!("Throughput: {throughput} is best with ")), "{text}");
    assert!(lines[2].starts_with("Cost of cats, in deadline's figures: writes, p99 15.9 times"), "{text}");
    // One line per scheduler, and the settings last.
    assert_eq!(text.lines().filter(|line| line.starts_with("│ ")).count(), 1 + runs.len());
    let end = text.trim_end().replace('\n', " ");
    assert!(end.ends_with("--details prints all figures and settings."), "{text}");
}

#[test]
fn times_of_a_fast_drive_have_three_digits() {
    let text =
        stdout(&["compare", &sample("web.parquet"), "--pacing", "closed", "--drive", "nvme-ssd", "--limit", "3000"]);
    assert!(text.contains("│ none ") && text.contains("│ bfq "), "Linux's schedulers on a drive of today: {text}");
    let row = text.lines().find(|line| line.contains("│ mq-deadline")).unwrap();
    let times: Vec<&str> = row.split(['│', '┆']).map(str::trim).filter(|cell| cell.ends_with("µs")).collect();
    assert!(times.len() >= 2, "{row}");
    for time in times {
        let digits = time.chars().filter(char::is_ascii_digit).count();
        assert_eq!(digits, 3, "{time}");
    }
}

#[test]
fn picture_of_a_comparison_is_written_and_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("mail").display().to_string();
    let arguments = ["compare", &sample("mail.parquet"), "--pacing", "closed", "--limit", "1000", "-o", &stem];
    stdout(&arguments);
    let svg = std::fs::read_to_string(format!("{stem}.svg")).unwrap();
    for word in ["mail on cheetah-15k4", "reads, p99", "throughput", "cscan"] {
        assert!(svg.contains(word), "{word} is missing");
    }
    assert!(!svg.contains("paper"), "no paper is beside these bars");
    assert!(std::fs::read(format!("{stem}.png")).unwrap().starts_with(b"\x89PNG"));
    let (_, message) = failure(&arguments);
    assert!(message.contains("exists; overwrite it with --force"), "{message}");
}

#[test]
fn readme_shows_the_output_of_the_demo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let demo = ["compare", "traces/samples/mail.parquet", "--drive", "cheetah-15k4", "--pacing", "closed"];
    let output =
        iocast().current_dir(&root).args(demo).args(["--schedulers", "fifo,sstf,cscan,deadline,cats"]).output();
    let printed = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(shown.trim_end(), printed.trim_end(), "README.md shows something else than the demo prints");
}
