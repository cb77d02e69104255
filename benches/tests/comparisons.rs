//! Whole runs over folders of scenarios: what passes, what is a miss and at which line, baselines, results for others.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use iocast_bench::outcome::{Outcome, figure_line};
use iocast_bench::scenario::Scenario;
use schedulers::{Registry, fifo};
use tempfile::TempDir;

/// Two seconds of the mail server, under two schedulers of which one gets `figures`.
fn scenario(figures: &str, rest: &str) -> String {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/samples/mail.parquet");
    format!(
        "question = \"Which?\"\ndrive = \"cheetah-15k4\"\npacing = \"closed\"\nto = \"2s\"\n[[vm]]\ntrace = \"{}\"\n\
         [[scheduler]]\nspec = \"sstf\"\n[[scheduler]]\nspec = \"fifo\"\nreason = \"it does not sort\"\n{figures}\n{rest}",
        trace.display()
    )
}

/// The line of the first figure in [`scenario`].
const FIRST: usize = 12;

struct Folder {
    folder: TempDir,
    known: Registry,
}

impl Folder {
    fn of(scenarios: &[(&str, &str)]) -> Folder {
        let made = Folder { folder: tempfile::tempdir().unwrap(), known: Registry::builtin() };
        fs::create_dir(made.path("scenarios")).unwrap();
        for (name, text) in scenarios {
            fs::write(made.file(name), text).unwrap();
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, scenario: &str) -> PathBuf {
        self.path(&format!("scenarios/{scenario}.toml"))
    }

    /// What is printed, and whether all is as expected.
    fn run(&self, line: &str) -> Result<(String, bool), String> {
        let arguments = line.split_whitespace().map(str::to_owned);
        let (scenarios, summary, baselines) = (self.path("scenarios"), self.path("summary.md"), self.path("kept"));
        let run = iocast_bench::run(&self.known, &scenarios, arguments, Some(&summary), &baselines);
        run.map_err(|error| error.to_string())
    }

    fn refusal(text: &str) -> String {
        Folder::of(&[("one", text)]).run("").unwrap_err()
    }
}

/// The value that a figure of fifo has.
fn measured(figure: &str) -> u64 {
    let folder = Folder::of(&[("one", &scenario("requests = 0", ""))]);
    let scenario = Scenario::read(&folder.file("one"), &folder.known).unwrap();
    let outcome = Outcome::of(scenario, &folder.known).unwrap();
    let figures = outcome.figures_of("fifo").unwrap();
    figures.iter().find(|measured| measured.name == figure).unwrap().by_seed[0]
}

#[test]
fn figures_are_exact_and_a_miss_names_its_line_and_the_new_one() {
    let (requests, mean) = (measured("requests"), measured("read_response_mean_ns"));
    let expect = |mean: u64| scenario(&format!("requests = {requests}\nread_response_mean_ns = {mean}"), "");
    let (text, passed) = Folder::of(&[("one", &expect(mean))]).run("").unwrap();
    assert!(passed && text.contains("Exactly as expected: 2 of 2 figures.") && text.contains("1 passed, 0 failed"));
    let folder = Folder::of(&[("one", &expect(mean + 1))]);
    let (text, passed) = folder.run("").unwrap();
    assert!(!passed, "{text}");
    let place = format!("{}:{}", folder.file("one").display(), FIRST + 1);
    let line = format!("\nread_response_mean_ns = {mean} # {place}, was {}\n", mean + 1);
    assert!(text.contains(&line) && !text.contains("requests = "), "{text}");
    assert!(text.contains("fifo differs from the expected figures, which were explained by: \"it does not sort\""));
    assert!(text.contains(&format!("| fifo | read_response_mean_ns | {} | {mean} | -0.00 % |", mean + 1)), "{text}");
    assert!(text.contains("1 of 2 figures differ") && text.contains("0 passed, 1 failed"), "{text}");
    // The line as it is printed is the one to put in.
    let mut lines: Vec<String> = fs::read_to_string(folder.file("one")).unwrap().lines().map(str::to_owned).collect();
    lines[FIRST] = figure_line("read_response_mean_ns", &[mean]);
    fs::write(folder.file("one"), lines.join("\n")).unwrap();
    assert!(folder.run("").unwrap().1);
}

#[test]
fn a_tolerance_is_kept_to_the_last_nanosecond() {
    let mean = measured("read_response_mean_ns");
    let passes = |expected: u64, tolerance: &str| {
        let figures = format!("tolerance = \"{tolerance}\"\nread_response_mean_ns = {expected}");
        Folder::of(&[("one", &scenario(&figures, ""))]).run("").unwrap().1
    };
    // The least and the greatest expected value of which the measured one is within 2 %.
    let (least, greatest) = ((mean * 100).div_ceil(102), mean * 100 / 98);
    assert!(passes(least, "2%") && passes(greatest, "2%") && passes(mean, "0%"));
    assert!(!passes(least - 1, "2%") && !passes(greatest + 1, "2%") && !passes(mean + 1, "0%"));
    for wrong in ["2", "two%", "-1%", "1.2345%"] {
        let error = Folder::refusal(&scenario(&format!("requests = 1\ntolerance = \"{wrong}\""), ""));
        assert!(error.contains(&format!("at line {}: a tolerance is a text such as", FIRST + 1)), "{error}");
    }
}

#[test]
fn bounds_are_multiples_of_another_scheduler_or_values() {
    let bound = |limit: &str| {
        let bound = format!(
            "[[bound]]\nscheduler = \"sstf\"\nfigure = \"write_response_mean_ns\"\n{limit}\nreason = \"it sorts\"\n"
        );
        let folder = Folder::of(&[("one", &scenario("", &bound))]);
        let (text, passed) = folder.run("").unwrap();
        (text.replace(&folder.file("one").display().to_string(), "FILE"), passed)
    };
    let (text, passed) = bound("at_most = 0.9\nof = \"fifo\"");
    assert!(passed && text.contains("| write_response_mean_ns of sstf at most 0.9 of fifo's | 0."), "{text}");
    let (text, passed) = bound("at_most = 0.1\nof = \"fifo\"");
    assert!(!passed && text.contains("does not hold: it is 0.") && text.contains("because: \"it sorts\""), "{text}");
    let new = text.split("at_most = ").nth(1).unwrap();
    assert!(new.contains(&format!(" # FILE:{}, was 0.1\n", FIRST + 4)), "{new}");
    // As it is printed, it holds; a thousandth less does not.
    let ratio: f64 = new.split(' ').next().unwrap().parse().unwrap();
    assert!(bound(&format!("at_most = {ratio}\nof = \"fifo\"")).1);
    assert!(!bound(&format!("at_most = {}\nof = \"fifo\"", ratio - 0.001)).1);
    assert!(bound("at_least = 0.1\nof = \"fifo\"").1 && !bound("at_least = 0.95\nof = \"fifo\"").1);
    assert!(bound("at_most = 1000000000000").1 && !bound("at_most = 1").1 && bound("at_least = 1").1);
}

#[test]
fn a_baseline_shows_old_new_and_change() {
    let folder = Folder::of(&[("one", &scenario(&format!("requests = {}", measured("requests")), ""))]);
    let error = folder.run("--baseline old").unwrap_err();
    assert!(error.starts_with("there is no baseline `old` in "), "{error}");
    assert!(error.contains("save it first with --save-baseline old"), "{error}");
    let (text, _) = folder.run("--save-baseline old").unwrap();
    let kept = folder.path("kept/old.json");
    assert!(text.contains(&format!("Baseline old is {}", kept.display())), "{text}");
    let (text, passed) = folder.run("--baseline old").unwrap();
    assert!(passed && text.contains("As in baseline old: 18 of 18 figures."), "{text}");
    // A shorter part of the trace has other figures.
    let before = fs::read_to_string(folder.file("one")).unwrap();
    fs::write(
        folder.file("one"),
        before.replace("to = \"2s\"", "to = \"1s\"").replace("requests = ", "tolerance = \"99%\"\nrequests = "),
    )
    .unwrap();
    let (text, passed) = folder.run("--baseline old --save-baseline new").unwrap();
    let old = measured("requests");
    let row = text.lines().find(|line| line.starts_with("| fifo | requests |")).unwrap();
    assert!(row.starts_with(&format!("| fifo | requests | {old} | ")) && row.ends_with(" % |") && row.contains("| -"));
    assert!(passed, "a baseline is for information only: {text}");
    // A run of some scenarios keeps what is known of the others.
    fs::write(folder.file("two"), scenario("", BOUND)).unwrap();
    folder.run("two --save-baseline new").unwrap();
    assert!(fs::read_to_string(folder.path("kept/new.json")).unwrap().contains("\"one\": {"));
    assert!(folder.run("--baseline nev").unwrap_err().contains("did you mean new?"));
    for outside in ["../x", "a/b", ".hidden"] {
        assert!(folder.run(&format!("--save-baseline {outside}")).unwrap_err().contains("is no name for a baseline"));
    }
    fs::write(&kept, "{}").unwrap();
    assert!(folder.run("--baseline old").unwrap_err().contains("this is no baseline of this version"));
}

const BOUND: &str =
    "[[bound]]\nscheduler = \"sstf\"\nfigure = \"span_ns\"\nat_most = 2.0\nof = \"fifo\"\nreason = \"so\"\n";

#[test]
fn figures_go_to_trackers_and_tables_to_the_summary() {
    let folder = Folder::of(&[("one", &scenario("", BOUND)), ("two", &scenario("", BOUND))]);
    let json = folder.path("figures.json");
    fs::write(folder.path("summary.md"), "before\n").unwrap();
    let (text, _) = folder.run(&format!("two --json {}", json.display())).unwrap();
    assert_eq!(fs::read_to_string(folder.path("summary.md")).unwrap(), format!("before\n{text}"));
    let tracked: Vec<serde_json::Value> = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(tracked.iter().all(|row| row["name"].as_str().unwrap().starts_with("two / ")));
    let of = |name: &str| tracked.iter().find(|row| row["name"] == name);
    let row = of("two / fifo / read_response_mean_ns").unwrap();
    let expected = serde_json::json!({
        "name": "two / fifo / read_response_mean_ns",
        "unit": "ns",
        "value": measured("read_response_mean_ns"),
        "extra": "Which?",
    });
    assert_eq!(*row, expected);
    // More requests are not worse.
    assert!(of("two / fifo / requests").is_none() && of("two / fifo / bytes").is_none());
}

#[test]
fn an_overloaded_or_empty_replay_is_no_result() {
    let open = scenario("requests = 1", "").replace("\"closed\"", "\"scaled=0.2\"");
    let error = Folder::refusal(&open);
    assert!(error.starts_with("scenario one, scheduler sstf: the drive is overloaded: "), "{error}");
    assert!(error.ends_with("replay it closed, scaled or on a faster drive"), "{error}");
    let empty = scenario("requests = 1", "").replace("to = \"2s\"", "from = \"9h\"");
    assert!(Folder::refusal(&empty).ends_with("no request was replayed; check `from`, `to` and `limit`"));
}

#[test]
fn a_bound_that_no_number_keeps_has_no_new_line() {
    // No head moves on an SSD: nothing is a multiple of nothing.
    let bound = BOUND.replace("span_ns", "seek_sectors");
    let folder = Folder::of(&[("one", &scenario("", &bound).replace("cheetah-15k4", "nvme-ssd"))]);
    let (text, passed) = folder.run("").unwrap();
    assert!(!passed && text.contains(&format!("No limit holds; see {}:", folder.file("one").display())), "{text}");
    assert!(!text.contains("NaN #") && !text.contains("```toml"), "{text}");
}

#[test]
fn the_span_of_a_vm_is_no_figure_for_trackers_and_a_guests_mistake_has_its_line() {
    let guests = |second: &str| {
        format!(
            "question = \"?\"\ndrive = \"cheetah-15k4\"\nlimit = 50\n[[vm]]\nname = \"a\"\nworkload = \"dd:size=8m\"\n\
             [[vm]]\nname = \"b\"\nworkload = \"{second}\"\n[[scheduler]]\nspec = \"fifo\"\nrequests = 1\nreason = \"so\"\n"
        )
    };
    let folder = Folder::of(&[("one", &guests("dd:size=8m"))]);
    let json = folder.path("figures.json");
    folder.run(&format!("--json {}", json.display())).unwrap();
    let tracked = fs::read_to_string(json).unwrap();
    assert!(tracked.contains("one / fifo / a.read_response_mean_ns") && tracked.contains("one / fifo / span_ns"));
    assert!(!tracked.contains("a.span_ns"), "{tracked}");
    // The second table [[vm]] begins at line 7.
    let error = Folder::refusal(&guests("dd:sizes=8m"));
    assert!(error.contains("at line 7: ") && error.contains("size"), "{error}");
}

#[test]
fn mistakes_are_told_with_their_line_and_what_is_near() {
    for (figures, rest, line, wanted) in [
        ("read_response_mean = 1", "", FIRST, "no figure `read_response_mean`; did you mean read_response_mean_ns"),
        ("requests = \"many\"", "", FIRST, "`requests` is a whole number"),
        ("requests = [1, 2]", "", FIRST, "`requests` is a whole number"),
        ("mail.requests = 1", "", FIRST, "no figure `mail.requests`"),
        ("", "[[scheduler]]\nspec = \"fiffo\"\n", FIRST + 2, "unknown scheduler `fiffo`"),
        ("", "[[scheduler]]\nspec = \"fifo\"\n", FIRST + 2, "scheduler `fifo` is named twice"),
        ("", "[[scheduler]]\nspec = \"none\"\nrequests = 1\n", FIRST + 2, "the figures of `none` need a `reason`"),
        ("", "[[scheduler]]\nspec = \"none\"\ndrive = \"cheeta\"\n", FIRST + 3, "cheetah"),
        ("", &BOUND.replace("\"fifo\"", "\"fifa\""), FIRST + 5, "is `fifa`; did you mean fifo?"),
        ("", &BOUND.replace("span_ns", "span"), FIRST + 3, "no figure `span`; did you mean span_ns"),
        ("", &BOUND.replace("at_most", "most"), FIRST + 4, "unknown field `most`"),
        ("", &BOUND.replace("at_most = 2.0\n", ""), FIRST + 2, "either `at_most` or `at_least`"),
        ("", &BOUND.replace("\"so\"", "\" \""), FIRST + 2, "a bound needs a `reason`"),
    ] {
        let error = Folder::refusal(&scenario(figures, rest));
        assert!(error.contains(&format!("one.toml at line {line}: ")) && error.contains(wanted), "{error}");
    }
    let nothing = Folder::refusal(&scenario("", ""));
    assert!(nothing.contains("it checks nothing: state a figure of a scheduler, or a [[bound]]"), "{nothing}");
    let empty = Folder::of(&[]).run("").unwrap_err();
    assert!(empty.contains("there is no scenario here"), "{empty}");
}

#[test]
fn keys_without_effect_are_refused() {
    let of_trace = scenario("requests = 1", "");
    let of_workload = "question = \"?\"\ndrive = \"cheetah-15k4\"\nto = \"1s\"\nguest_cache = \"0\"\n[[vm]]\n\
                       workload = \"fio:rw=randread\"\n[[scheduler]]\nspec = \"fifo\"\nreason = \"so\"\nrequests = 1\n";
    for (text, key, wanted) in [
        (of_trace.as_str(), "seeds = [1, 2]", "`seeds` has no effect"),
        (&of_trace, "guest_cache = \"1m\"", "`guest_cache` has no effect"),
        (&of_trace, "guest_journal = false", "`guest_journal` has no effect"),
        (&of_trace, "in = \"lun\"", "`in` names a layer of a stack"),
        (&of_trace, "depth = 0", "depth 0 lets no request through"),
        (&of_trace, "stack = \"bare\"\ndepth = 2", "`depth` has no effect"),
        (&of_trace, "stack = \"bear\"", "did you mean bare"),
        (of_workload, "pacing = \"closed\"", "`pacing` has no effect"),
        (of_workload, "seeds = []", "name at least one seed"),
    ] {
        let error = Folder::refusal(&format!("{key}\n{text}"));
        assert!(error.contains(wanted), "{key}: {error}");
    }
    assert!(Folder::refusal(&of_trace.replace("pacing = \"closed\"\n", "")).contains("traces need a `pacing`"));
    let both =
        of_trace.replace("[[scheduler]]\nspec = \"sstf\"", "[[vm]]\nworkload = \"dd\"\n[[scheduler]]\nspec = \"sstf\"");
    assert!(Folder::refusal(&both).contains("VMs have traces or workloads, not both"));
    let again = of_trace.replace("[[vm]]\n", "[[vm]]\nname = \"again\"\ntrace = \"/dev/null\"\n[[vm]]\n");
    assert!(Folder::refusal(&again).contains("VMs again and mail lie at one place"));
}

#[test]
fn each_seed_has_its_value_and_each_vm_its_figures() {
    let text = |figures: &str| {
        format!(
            "question = \"?\"\ndrive = \"sata-500\"\nseeds = [1, 2]\nto = \"500ms\"\nguest_cache = \"0\"\n[[vm]]\n\
             name = \"a\"\nworkload = \"fio:rw=randread,size=64m\"\n[[vm]]\nname = \"b c\"\n\
             workload = \"fio:rw=randread,size=64m\"\n[[scheduler]]\nspec = \"sstf\"\nreason = \"so\"\n{figures}\n"
        )
    };
    let folder = Folder::of(&[("one", &text("a.requests = [0, 0]\n\"b c\".requests = [0, 0]\nrequests = [0, 0]"))]);
    let (printed, _) = folder.run("").unwrap();
    assert!(printed.contains("Means over 2 seeds."), "{printed}");
    let lines: Vec<&str> = printed.lines().filter_map(|line| line.split_once(" # ").map(|(line, _)| line)).collect();
    let counts = |line: &str| -> Vec<u64> {
        let list = line.split_once(" = [").unwrap().1.trim_end_matches(']');
        list.split(", ").map(|count| count.parse().unwrap()).collect()
    };
    assert!(lines[0].starts_with("a.requests = [") && lines[1].starts_with("\"b c\".requests = ["), "{lines:?}");
    let (a, b, all) = (counts(lines[0]), counts(lines[1]), counts(lines[2]));
    assert!(a[0] != a[1], "seeds differ: {a:?}");
    assert!(a[0] + b[0] <= all[0] && all[0] <= a[0] + b[0] + 2, "{lines:?}");
    fs::write(folder.file("one"), text(&lines.join("\n"))).unwrap();
    assert!(folder.run("").unwrap().1);
    let error = Folder::refusal(&text("requests = 5"));
    assert!(error.contains("`requests` is a list of 2 whole numbers, one for each seed"), "{error}");
}

#[test]
fn a_scheduler_of_ones_own_runs_alone_and_in_a_layer() {
    let mine = schedulers::Entry { name: "mine", summary: "as they come", ..fifo::ENTRY };
    let known = Registry::builtin().with(Box::leak(Box::new(mine)));
    let bound = BOUND.replace("\"sstf\"", "\"mine\"").replace("2.0", "1.0");
    let text = scenario("", &format!("[[scheduler]]\nspec = \"mine\"\n{bound}"));
    let stacked = format!("stack = \"guest=mine@depth=8/hypervisor=sstf/lun=mine@depth=2\"\n{text}");
    let folder = Folder { known, ..Folder::of(&[("alone", &text), ("stacked", &stacked)]) };
    let (printed, passed) = folder.run("").unwrap();
    assert!(passed && printed.contains("2 passed, 0 failed"), "{printed}");
    assert!(Folder::refusal(&text).contains("unknown scheduler `mine`"));
    assert!(Folder::refusal(&stacked).contains("layer guest: unknown scheduler `mine`"));
}

#[test]
fn scenarios_are_listed_and_filtered_by_name() {
    let folder = Folder::of(&[("mail-alone", &scenario("", BOUND)), ("web", "broken")]);
    assert_eq!(folder.run("--list").unwrap(), ("mail-alone\nweb\n".to_owned(), true));
    assert_eq!(folder.run("--list alone").unwrap().0, "mail-alone\n");
    assert!(folder.run("mail").unwrap().0.contains("1 passed"));
    assert!(folder.run("web").is_err() && folder.run("").is_err());
    assert!(folder.run("wab").unwrap_err().contains("no scenario has `wab` in its name; did you mean web?"));
    assert!(folder.run("--help").unwrap().0.contains("Usage: cargo bench"));
    assert!(folder.run("--verbose").unwrap_err().contains("there is no option `--verbose`"));
}

#[test]
fn documented_scenario_is_an_excerpt_of_a_shipped_one_and_every_key_is_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(folder.join("../docs/scenarios.md")).unwrap();
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shipped = fs::read_to_string(folder.join("scenarios/demo.toml")).unwrap();
    for line in block.lines() {
        assert!(shipped.lines().any(|known| known == line), "{line}");
    }
    let described = |key: &str| page.contains(&format!("`{key}`")) || page.contains(&format!(".{key}`"));
    for entry in fs::read_dir(folder.join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in the table of those that ship");
        let text = fs::read_to_string(path).unwrap();
        for key in text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
            let key = key.rsplit('.').next().unwrap();
            assert!(described(key), "{key} is not described");
        }
    }
    for figure in iocast_bench::scenario::figures::FIGURES {
        assert!(described(figure.name), "{} is not described", figure.name);
    }
}
