//! Whole pages.

use std::collections::BTreeMap;

use traces::results::history::{ClassHistory, Grid, History, VmHistory};
use traces::results::{Comparison, Part, Provenance, RuleFigures, Run, SCHEMA_VERSION, Status};
use traces::{Nanos, results};

use super::*;

/// A name that is trouble wherever it is not escaped.
const HOSTILE: &str = "</title><script>alert(\"1\")</script>\u{202e}'&amp;";

fn part(name: &str) -> Part {
    Part {
        name: name.to_owned(),
        model: name.to_owned(),
        settings: BTreeMap::from([(name.to_owned(), name.to_owned())]),
    }
}

fn history(columns: usize) -> History {
    let grid =
        Grid { row_size: 8, columns: (0..columns as u64).map(|at| vec![(170 + at % 7, 150), (200, 1)]).collect() };
    let class = ClassHistory { responses: grid.clone(), found: vec![3, 4], found_other: vec![7] };
    let vm = |vm: &str| VmHistory {
        vm: vm.to_owned(),
        requests: vec![1; columns],
        bytes: vec![4096; columns],
        served_ns: vec![1_000_000; columns],
        reads: grid.clone(),
        writes: Grid::default(),
    };
    History {
        interval_ns: Nanos::from_ms(4),
        outstanding_mean: vec![1.5; columns],
        outstanding_max: vec![2; columns],
        read: class,
        write: ClassHistory::default(),
        vms: vec![vm("web"), vm(HOSTILE)],
        seeks: vec![5, 0, 7],
        close_up: results::history::CloseUp::default(),
    }
}

fn run(name: &str, history: Option<History>) -> Run {
    let mut read = results::ClassFigures { requests: 1000, ..results::ClassFigures::default() };
    read.response_time.mean_ns = Some(2.5e6);
    read.response_percentiles_ns = BTreeMap::from([("p99".to_owned(), 12_000_000)]);
    Run {
        scheduler: part(name),
        drive: "fixed".to_owned(),
        status: Status::Comparable,
        offered_load: None,
        span_ns: Nanos::from_ms(40),
        all: read.clone(),
        read,
        write: results::ClassFigures::default(),
        other: results::ClassFigures::default(),
        queue: results::QueueFigures::default(),
        rules: vec![RuleFigures { name: HOSTILE.to_owned(), requests: 0, share: None }],
        vms: Vec::new(),
        stack: None,
        journal_commits: None,
        live: None,
        history,
        ratio: None,
        notes: vec![HOSTILE.to_owned()],
    }
}

fn comparison(runs: Vec<Run>) -> Comparison {
    let provenance = Provenance {
        program: "iocast 0.0.0".to_owned(),
        traces: Vec::new(),
        workloads: Vec::new(),
        drives: vec![part("fixed")],
        options: BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]),
        warnings: vec![HOSTILE.to_owned()],
    };
    Comparison { schema_version: SCHEMA_VERSION, provenance, baseline: None, runs }
}

fn html(runs: Vec<Run>, answer: &[String]) -> String {
    Page::of_comparison(&comparison(runs), answer, &[]).html().unwrap()
}

#[test]
fn names_of_inputs_are_text_wherever_they_stand() {
    let page = html(vec![run(HOSTILE, Some(history(9))), run("fifo", Some(history(9)))], &[HOSTILE.to_owned()]);
    assert_eq!(page.matches("<script").count(), 1, "only the page's own");
    assert!(!page.contains('\u{202e}') && !page.contains("alert(\"1\")"), "{page}");
    assert!(page.matches("alert(").count() > 10, "the names are shown");
}

#[test]
fn the_page_asks_for_nothing_and_opens_with_the_answer() {
    let page = html(vec![run("fifo", Some(history(9)))], &["fifo is best.".to_owned()]);
    for outside in ["http://", "https://", "src=\"", "@import", "url("] {
        let allowed = page.matches("http://www.w3.org/2000/svg").count();
        let found = page.matches(outside).count();
        assert!(found == 0 || (outside == "http://" && found == allowed), "{outside}");
    }
    let place = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is missing"));
    assert!(place("<p class=\"answer\">fifo is best.</p>") < place("<h2>Comparison</h2>"));
    assert!(place("<h2>Comparison</h2>") < place("<h2>Response times</h2>"));
    assert!(place("<h2>Over time</h2>") < place("<h2>Where this comes from</h2>"));
    assert!(page.contains("2.50 ms") && page.contains("12.0 ms") && page.contains("How long reads take"));
    assert!(!page.contains("How long writes take"), "there are none");
    assert_eq!(page, html(vec![run("fifo", Some(history(9)))], &["fifo is best.".to_owned()]));
}

#[test]
fn the_heading_says_what_ran_where_and_overloaded_runs_are_marked() {
    let mut overloaded = run("fifo", None);
    overloaded.status = Status::Overloaded { reason: "the queue grew".to_owned(), remedy: "slow it down".to_owned() };
    let mut given = comparison(vec![overloaded, run("sstf", None)]);
    given.provenance.options.insert("pacing".to_owned(), "recorded".to_owned());
    let html = |given: &Comparison| Page::of_comparison(given, &[], &[]).html().unwrap();
    let page = html(&given);
    assert!(page.contains("<h1>Run of  on a model of fixed, pacing recorded</h1>"), "{page}");
    assert!(page.contains("<th scope=\"row\">fifo (overloaded)</th>") && page.contains("<th scope=\"row\">sstf</th>"));
    assert!(page.contains("fifo is overloaded, so its figures may not be compared: the queue grew. slow it down."));
}

#[test]
fn ratios_set_reads_and_writes_apart_and_keep_small_ones() {
    let [mut base, mut other] = ["fifo", "ssd"].map(|name| run(name, None));
    let ratio = results::Ratio { response_time_mean: None, response_time_p99: None, throughput: None };
    (base.ratio, other.ratio) = (Some(ratio), Some(ratio));
    other.read.response_percentiles_ns.insert("p99".to_owned(), 69_000);
    let given = Comparison { baseline: Some("fifo".to_owned()), ..comparison(vec![base, other]) };
    let page = Page::of_comparison(&given, &[], &[]).html().unwrap();
    assert!(page.contains("reads p99 / fifo") && page.contains("<span class=\"value\">0.00575</span>"), "{page}");
}

#[test]
fn little_nothing_and_no_numbers_make_a_page_all_the_same() {
    let page = html(vec![run("fifo", None)], &[]);
    assert!(
        page.contains("fifo served 1000 reads in 2.50 ms on average.") && page.contains("stored without `--history`")
    );
    html(Vec::new(), &[]);
    html(vec![run("fifo", Some(History::default()))], &[]);
    html(vec![run("fifo", Some(history(1)))], &[]);
    let mut odd = run("fifo", Some(history(3)));
    odd.read.response_time.mean_ns = Some(f64::NAN);
    odd.all.bytes_per_s = f64::INFINITY;
    odd.history.as_mut().unwrap().outstanding_mean = vec![f64::NAN, f64::INFINITY, -1.0];
    let page = html(vec![odd], &[]);
    assert!(!page.contains("width:NaN") && !page.contains("width:inf"), "{page}");
}

#[test]
fn a_page_of_full_histories_is_small() {
    let full = || {
        let mut history = history(256);
        let column = |at: u64| (0..256).map(|row| (row, (row * 7919 + at * 104_729) % 90)).collect();
        let grid = Grid { row_size: 8, columns: (0..256).map(column).collect() };
        history.read.responses = grid.clone();
        history.write.responses = grid.clone();
        history.vms.iter_mut().for_each(|vm| (vm.reads, vm.writes) = (grid.clone(), grid.clone()));
        history
    };
    let runs = (0..8).map(|number| run(&format!("scheduler{number}"), Some(full()))).collect();
    let size = html(runs, &[]).len();
    assert!(size < 3_000_000, "{size}");
}

#[test]
fn times_have_three_digits_and_a_unit() {
    let shown: Vec<String> = [0.0, 999.0, 1234.0, 45_678_000.0, 4.6909e10, 1.5e12].map(comparison::time).to_vec();
    assert_eq!(shown, ["0.00 ns", "999 ns", "1.23 µs", "45.7 ms", "46.9 s", "1500 s"]);
}
