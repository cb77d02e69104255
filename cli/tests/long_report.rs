//! A report in a browser: it shows no error, asks for nothing, needs no scroll from side to side, and its charts answer.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod browser;
mod program;

use std::path::Path;

use browser::{opened, report, sweep_report};
use program::{sample, stdout};

/// What a reader would do to the first chart: point at it, hide a line, zoom with keys and back.
const USE: &str = r#"
const figure = document.querySelector("figure");
const svg = figure.querySelector("svg.chart");
const box = svg.getBoundingClientRect();
const at = (share) => ({ clientX: box.left + share * box.width, clientY: box.top + 20, bubbles: true });
const labels = () => svg.querySelector(".ticks-x").textContent;
const key = (name) => svg.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
svg.dispatchEvent(new PointerEvent("pointermove", at(0.6)));
const reading = figure.querySelector(".reading").textContent;
const button = figure.querySelector(".legend button");
button.click();
const hidden = figure.querySelectorAll(".plot .hidden").length;
svg.dispatchEvent(new PointerEvent("pointermove", at(0.6)));
const without = figure.querySelector(".reading").textContent;
button.click();
const before = labels();
key("ArrowRight");
key("+");
const zoomed = labels();
key("Escape");
const root = document.documentElement;
root.dataset.found = JSON.stringify({
  reading, without, hidden, before, zoomed, after: labels(), name: button.textContent,
  resources: performance.getEntriesByType("resource").length,
  wide: root.scrollWidth - root.clientWidth,
  charts: document.querySelectorAll("svg.chart").length,
  focus: [svg.tabIndex, button.tabIndex],
});
"#;

#[test]
fn a_report_opens_without_errors_and_its_charts_answer() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    for width in [390, 1440] {
        let (found, said) = opened(folder.path(), &page, width, &[USE]);
        let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{console:?}");
        assert_eq!((&found["resources"], &found["wide"]), (&0.into(), &0.into()), "{width}: {found}");
        assert!(found["charts"].as_u64().unwrap() > 15, "{found}");
        let text = |key: &str| found[key].as_str().unwrap();
        let name = text("name");
        assert!(text("reading").starts_with("response time, ms ") && text("reading").contains(name), "{found}");
        assert!(!text("without").contains(name) && found["hidden"] == 1, "{found}");
        assert!(text("before") != text("zoomed") && text("before") == text("after"), "{found}");
        assert_eq!(found["focus"], serde_json::json!([0, 0]));
    }
}

#[test]
fn a_report_can_be_read_without_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    let begin = page.rfind("<script>").unwrap();
    let end = page.rfind("</script>").unwrap();
    let quiet = format!("{}{}", &page[..begin], &page[end + "</script>".len()..]);
    let count = "document.documentElement.dataset.found = JSON.stringify([...document.querySelectorAll('svg.chart')]\
                 .filter((svg) => svg.getBoundingClientRect().height > 100).length)";
    let (charts, _) = opened(folder.path(), &quiet, 800, &[count]);
    assert!(charts.as_u64().unwrap() > 15, "{charts}");
}

/// Hides the first kind of dots, and looks at what it points to.
const DOTS: &str = r#"
const figure = [...document.querySelectorAll("figure")].find((figure) => figure.querySelector(".plot .span"));
let hidden = 0;
let rows = 0;
if (figure) {
  figure.querySelector(".legend button").click();
  hidden = figure.querySelectorAll(".plot .span.hidden").length;
  rows = figure.querySelectorAll("text.row").length;
}
const root = document.documentElement;
root.dataset.found = JSON.stringify({
  hidden, rows,
  resources: performance.getEntriesByType("resource").length,
  wide: root.scrollWidth - root.clientWidth,
  pictures: [...document.querySelectorAll(".picture svg")].filter((svg) => svg.getBoundingClientRect().height > 100).length,
});
"#;

#[test]
fn reports_of_captures_forecasts_papers_and_sweeps_open_without_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html").to_str().unwrap().to_owned();
    let (mail, web) = (sample("mail.parquet"), sample("web.parquet"));
    // Of each the least number of hidden paths, of named rows, and of pictures that were drawn elsewhere.
    let cases: [(&[&str], [u64; 3]); 3] = [
        (&["stat", &mail], [1, 0, 0]),
        (&["predict", &mail, &web, "--predictors", "twin"], [1, 4, 0]),
        (&["reproduce", "geist2010", "--seeds", "1", "--alternatives", "off"], [0, 0, 4]),
    ];
    for (command, least) in cases {
        stdout(&[command, &["--report", &path, "--force"][..]].concat());
        let page = std::fs::read_to_string(&path).unwrap();
        check(folder.path(), command[0], &page, least);
    }
    check(folder.path(), "sweep", &sweep_report(folder.path()), [1, 0, 4]);
}

/// Opens a page, narrow and wide, and counts what is in it.
fn check(folder: &Path, what: &str, page: &str, least: [u64; 3]) {
    assert!(page.len() < 3_000_000, "{what}: {}", page.len());
    for width in [390, 1440] {
        let (found, said) = opened(folder, page, width, &[DOTS]);
        let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{what}: {console:?}");
        assert_eq!((&found["resources"], &found["wide"]), (&0.into(), &0.into()), "{what}, {width}: {found}");
        for (key, least) in ["hidden", "rows", "pictures"].into_iter().zip(least) {
            assert!(found[key].as_u64().unwrap() >= least, "{what}: {key}: {found}");
        }
    }
}
