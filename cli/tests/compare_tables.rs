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
    let answer = text[..text.find("Response times").unwrap()].replace("\n", " ").replace(". ", ".\n");
    let lines: Vec<&str> = answer.lines().collect();
    assert!(lines[0].starts_with(&format!("Reads, p99: {p99} is best with ")), "{text}");
    assert!(lines[1].starts_with(&format!("Throughput: {throughput} is best with ")), "{text}");
    assert!(lines[1].contains(" (equal within 1 %: "), "{text}");
    assert!(lines[1].ends_with("; a few percent on one trace are no finding."), "{text}");
    assert!(
        lines[2].starts_with("Cost of cats beside deadline: writes, p99 7.10 times (683ms instead of 96.1ms)"),
        "{text}"
    );
    // One line per scheduler, and the settings last.
    assert_eq!(text.lines().filter(|line| line.starts_with("│ ")).count(), 1 + runs.len());
    let end = text.trim_end().replace('\n', " ");
    assert!(end.ends_with("--details prints all figures and settings."), "{text}");
}

#[test]
fn schedulers_are_named_with_their_tunables_and_details_list_all_of_them() {
    let web = sample("web.parquet");
    let schedulers = ["--schedulers", "mq-deadline:fifo_batch=1,kyber", "--limit", "500", "--pacing", "closed"];
    let arguments = [&["compare", &web], &schedulers[..]].concat();
    let text = stdout(&[&arguments[..], &["--details"]].concat());
    assert!(text.contains("│ mq-deadline:fifo_batch=1 "), "{text}");
    let settings = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(settings.contains("scheduler kyber (kyber: read_lat_nsec=2ms "), "{text}");
    assert!(settings.contains("scheduler mq-deadline:fifo_batch=1 (mq-deadline: fifo_batch=1 "), "{text}");
    assert_eq!(json(&arguments)["runs"][0]["scheduler"]["name"], "mq-deadline:fifo_batch=1");
}

#[test]
fn rules_add_up_to_the_requests_that_left_the_scheduler_and_one_that_never_ran_is_marked() {
    let mail = sample("mail.parquet");
    let arguments = ["compare", &mail, "--schedulers", "all", "--limit", "3000", "--pacing", "closed"];
    let result = json(&arguments);
    for (run, entry) in result["runs"].as_array().unwrap().iter().zip(schedulers::SCHEDULERS) {
        let rules = run["rules"].as_array().unwrap();
        let names: Vec<&str> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
        assert_eq!(names, entry.rules.iter().map(|rule| rule.name).collect::<Vec<&str>>(), "{}", entry.name);
        let requests: u64 = rules.iter().map(|rule| rule["requests"].as_u64().unwrap()).sum();
        assert!(rules.is_empty() || run["queue"]["dispatches"] == requests, "{}: {rules:?}", entry.name);
        let shares: f64 = rules.iter().map(|rule| rule["share"].as_f64().unwrap()).sum();
        assert!(rules.is_empty() || (shares - 1.0).abs() < 1e-9, "{}: {rules:?}", entry.name);
    }
    let text = stdout(&[&arguments[..], &["--mechanisms"]].concat());
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(['│', '┆']).map(str::trim).collect()).collect();
    let row = |scheduler: &str, rule: &str| {
        let found = rows.iter().find(|row| row.get(1..3) == Some(&[scheduler, rule]));
        found.unwrap_or_else(|| panic!("{rule} of {scheduler} is missing: {text}"))[3..5].to_vec()
    };
    assert_eq!(row("token-bucket", "throttled"), ["never", "–"]);
    assert_eq!(row("mclock", "weight-based")[1], "100.0");
    let cats = result["runs"].as_array().unwrap().iter().find(|run| run["scheduler"]["name"] == "cats").unwrap();
    assert_eq!(row("cats", "predicted hit")[0], cats["rules"][0]["requests"].to_string());
    assert!(!stdout(&arguments).contains("predicted hit"), "not without the option");
    let single =
        stdout(&["compare", &mail, "--schedulers", "fifo", "--limit", "9", "--mechanisms", "--pacing", "closed"]);
    assert!(single.contains("None of the schedulers has more than one rule."), "{single}");
}

#[test]
fn bfq_knows_whether_the_drive_turns() {
    let web = sample("web.parquet");
    let on = |rest: &[&str]| {
        let runs = json(&[&["compare", &web, "--limit", "200", "--pacing", "closed"], rest].concat())["runs"].take();
        runs.as_array().unwrap().last().unwrap().clone()
    };
    assert_eq!(on(&["--drive", "sata-7200"])["scheduler"]["settings"]["rotational"], "on");
    let ssd = on(&["--drive", "nvme-ssd"]);
    assert_eq!(
        (&ssd["scheduler"]["settings"]["rotational"], ssd["notes"].to_string().contains("SSD")),
        (&"off".into(), false)
    );
    let plain = on(&["--drive", "sata-7200", "--schedulers", "none,bfq"]);
    assert_eq!(
        (&plain["scheduler"]["settings"]["rotational"], &plain["scheduler"]["name"]),
        (&"on".into(), &"bfq:rotational=on".into())
    );
    // Where the tunable is compared, it stays as given.
    let both = on(&["--drive", "sata-7200", "--schedulers", "bfq:rotational=on,bfq"]);
    assert_eq!(both["scheduler"]["settings"]["rotational"], "off");
    assert!(both["notes"].to_string().contains("Linux has rotational=on"), "{both}");
}

#[test]
fn tunables_do_not_hide_the_baseline() {
    let web = sample("web.parquet");
    let baseline = |schedulers: &str, rest: &[&str]| {
        let given = ["compare", &web, "--limit", "200", "--pacing", "closed", "--schedulers", schedulers];
        json(&[&given, rest].concat())["baseline"].as_str().unwrap().to_owned()
    };
    assert_eq!(baseline("kyber,mq-deadline:fifo_batch=1", &[]), "mq-deadline:fifo_batch=1");
    assert_eq!(baseline("deadline:fifo_batch=1,mq-deadline", &[]), "mq-deadline", "one as it is, if there is any");
    let both = "mq-deadline:fifo_batch=1,mq-deadline";
    assert_eq!(baseline(both, &["--baseline", "mq-deadline"]), "mq-deadline");
    assert_eq!(baseline(both, &["--baseline", "mq-deadline:fifo_batch=1"]), "mq-deadline:fifo_batch=1");
}

#[test]
fn several_drives_are_answered_one_by_one() {
    let mail = sample("mail.parquet");
    let on = |schedulers: &str| {
        let drives = ["--drive", "cheetah-15k4", "--drive", "sata-7200", "--limit", "2000", "--pacing", "closed"];
        // At the depth of its queue, the order of the second drive hides that of the scheduler.
        let drives = [&drives[..], &["--depth", "1"]].concat();
        stdout(&[&["compare", &mail, "--schedulers", schedulers], &drives[..]].concat())
    };
    let text = on("fifo,satf,read-priority");
    let answers: Vec<&str> = text.lines().filter(|line| line.starts_with("Reads, p99: ")).collect();
    assert_eq!(answers.len(), 2, "{text}");
    for (answer, drive) in answers.iter().zip(["cheetah-15k4", "sata-7200"]) {
        assert_eq!(answer.matches(drive).count(), 2, "both sides are on this drive: {answer}");
    }
    // A line without a winner names the drive, and costs are said where nothing else differs.
    let nvme = ["--drive", "nvme-ssd", "--drive", "sata-7200", "--schedulers", "none,bfq:rotational=on"];
    let web = sample("web.parquet");
    let text = stdout(&[&["compare", &web, "--pacing", "closed", "--limit", "9000"], &nvme[..]].concat());
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("On nvme-ssd: ") && text.contains("no difference above 1 %"), "{text}");
    assert!(text.contains("IOPS and MB/s are set by the think times of the trace; compare response times"), "{text}");
    // With one scheduler the choice is between the drives.
    assert!(on("fifo").lines().next().unwrap().contains("cheetah-15k4 fifo is best"), "{}", on("fifo"));
}

#[test]
fn depth_is_that_of_each_drives_queue_unless_given() {
    let mail = sample("mail.parquet");
    let compare = ["compare", &mail, "--limit", "300", "--pacing", "closed", "--schedulers", "none"];
    let depth = |more: &[&str]| json(&[&compare[..], more].concat())["provenance"]["options"]["depth"].clone();
    assert_eq!(depth(&["--drive", "cheetah-15k4"]), "1");
    assert_eq!(depth(&["--drive", "sata-ssd"]), "32");
    assert_eq!(depth(&["--drive", "sata-ssd", "--depth", "4"]), "4");
    let drives = ["--drive", "sata-7200", "--drive", "nvme-ssd", "--drive", "cheetah-15k4"];
    assert_eq!(depth(&drives), "32 / 1023 / 1");
    let text = stdout(&[&compare[..], &drives].concat()).split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("depth 32 / 1023 / 1;"), "{text}");
    // The stage that is replayed is the one that is stated.
    let ssd =
        ["compare", &mail, "--schedulers", "none", "--drive", "sata-ssd", "--pacing", "asap=64", "--limit", "3000"];
    let iops = |depth: &[&str]| json(&[&ssd[..], depth].concat())["runs"][0]["all"]["iops"].as_f64().unwrap();
    assert_eq!(iops(&[]), iops(&["--depth", "32"]));
    assert!(iops(&[]) > 2.0 * iops(&["--depth", "1"]), "one request at a time leaves an SSD idle");
}

#[test]
fn cost_for_a_vm_says_over_how_many_requests_it_is() {
    let (oltp, file) = (sample("oltp.parquet"), format!("file={}@64g", sample("file.parquet")));
    let compare =
        ["compare", &oltp, "--vm", &file, "--schedulers", "cats,fifo", "--pacing", "closed", "--limit", "12000"];
    let cost = |more: &[&str]| {
        let text = stdout(&[&compare[..], &["--per-vm"], more].concat());
        let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        text[..text.find("Response times").unwrap()].to_owned()
    };
    let served = |until: &str| {
        let result = json(&[&compare[..], &["--per-vm", "--until", until]].concat());
        [0, 1].map(|run| result["runs"][run]["vms"][0]["read"]["requests"].as_u64().unwrap())
    };
    let (first, last) = (served("first"), served("last"));
    assert!(first[0] != first[1] && last[0] == last[1], "{first:?} {last:?}");
    let of_vm = cost(&["--until", "first"]);
    assert!(of_vm.contains(&format!("over {} requests instead of", first[1])), "{first:?}: {of_vm}");
    assert!(!cost(&["--until", "last"]).contains(" requests instead of"));
}

#[test]
fn figures_over_few_requests_and_drives_that_draw_their_times_are_said() {
    let mail = sample("mail.parquet");
    let words = |more: &[&str]| {
        let text = stdout(&[&["compare", &mail], more].concat());
        text.split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    let few = words(&["--limit", "90", "--schedulers", "cats,fifo"]);
    let (_, best) = few.split_once(" is best with ").unwrap();
    assert!(best.split_once(", ").unwrap().0.contains(" over "), "{few}");
    assert!(!words(&["--limit", "9000", "--schedulers", "cats,fifo"]).contains(" over "));
    let drawn =
        words(&["--limit", "90", "--schedulers", "cats,fifo", "--drive", "qemu-virtio:seed=4", "--map", "wrap"]);
    assert!(drawn.contains("qemu-virtio:seed=4: its times are drawn (seed=4); repeat the comparison"), "{drawn}");
    assert!(!few.contains("its times are drawn"));
}

#[test]
fn schedulers_without_a_choice_are_named() {
    let fast = ["compare", &sample("web.parquet"), "--pacing", "closed", "--limit", "3000", "--drive", "nvme-ssd"];
    for run in json(&fast)["runs"].as_array().unwrap() {
        let [all, chosen] = ["dispatches", "choices"].map(|name| run["queue"][name].as_u64().unwrap());
        assert!(all > 2000 && chosen * 100 < all, "{run}");
    }
    let said =
        |text: String| text.split_whitespace().collect::<Vec<&str>>().join(" ").contains("so that it had no choice");
    assert!(said(stdout(&fast)));
    // Also if it holds for one of several.
    let disk = ["compare", &sample("mail.parquet"), "--pacing", "closed", "--limit", "3000", "--drive", "sata-7200"];
    assert!(said(stdout(&[&disk[..], &["--schedulers", "mq-deadline,bfq"]].concat())));
    assert!(!said(stdout(&["compare", &sample("mail.parquet"), "--pacing", "closed", "--limit", "3000"])));
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
    let text = stdout(&arguments);
    let written = text.split_once("\nWritten: ").unwrap_or_else(|| panic!("{text}")).1;
    assert_eq!(written.split_whitespace().collect::<String>(), format!("{stem}.svg,{stem}.png"));
    let svg = std::fs::read_to_string(format!("{stem}.svg")).unwrap();
    for word in ["mail on cheetah-15k4", "pacing closed, depth 1, iocast", "reads, p99", "throughput", "cscan"] {
        assert!(svg.contains(word), "{word} is missing");
    }
    assert!(!svg.contains("paper"), "no paper is beside these bars");
    assert!(std::fs::read(format!("{stem}.png")).unwrap().starts_with(b"\x89PNG"));
    let (_, message) = failure(&arguments);
    assert!(message.contains("exists; overwrite it with --force"), "{message}");
}

#[test]
fn files_of_replays_are_named_below_the_tables_only() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs").display().to_string();
    let mail = sample("mail.parquet");
    let arguments = [
        "compare",
        &mail,
        "--pacing",
        "closed",
        "--limit",
        "500",
        "--schedulers",
        "fifo,sstf",
        "--decision-log",
        &logs,
    ];
    let written = stdout(&arguments).split_once("\nWritten: ").unwrap().1.split_whitespace().collect::<String>();
    assert_eq!(written, format!("{logs}/0-fifo.tsv,{logs}/1-sstf.tsv"));
    for format in ["json", "markdown"] {
        let text = stdout(&[&arguments[..], &["--force", "--output-format", format]].concat());
        assert!(!text.contains("Written"), "{text}");
    }
}

#[test]
fn overloaded_schedulers_are_named_where_the_picture_leaves_them_out() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("mail").display().to_string();
    let mail = sample("mail.parquet");
    let of = |schedulers| ["compare", &mail, "--limit", "2000", "--schedulers", schedulers];
    let to = ["-o", &stem];
    stdout(&[&of("mq-deadline,bfq")[..], &to].concat());
    let svg = std::fs::read_to_string(format!("{stem}.svg")).unwrap();
    for words in ["iocast 0.1.0; overloaded and left out: mq-deadline\n", "\nreads, p99, ms", "\nbfq:"] {
        assert!(svg.contains(words), "{words} is missing: {svg}");
    }
    // Nothing can be drawn if all are overloaded; the result is what it is without a picture.
    let stem = folder.path().join("none").display().to_string();
    for format in ["table", "json"] {
        let without = stdout(&[&of("mq-deadline")[..], &["--output-format", format]].concat());
        let with = [&of("mq-deadline")[..], &["-o", &stem, "--output-format", format]].concat();
        let output = iocast().args(with).output().unwrap();
        let warned = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && warned.contains("all runs are overloaded"), "{warned}");
        assert!(warned.contains(&format!("{stem}.svg and {stem}.png were not written")), "{warned}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), without);
        assert!(!Path::new(&format!("{stem}.svg")).exists());
    }
}

#[test]
fn readme_shows_the_output_of_the_demo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let demo = ["compare", "traces/samples/mail.parquet", "--drive", "cheetah-15k4", "--pacing", "closed"];
    let report = ["--report", "target/demo.html", "--force"];
    let mut program = iocast();
    program.current_dir(&root).args(demo).args(["--schedulers", "fifo,sstf,cscan,deadline,cats"]).args(report);
    let output = program.output();
    let printed = String::from_utf8(output.unwrap().stdout).unwrap();
    assert_eq!(shown.trim_end(), printed.trim_end(), "README.md shows something else than the demo prints");
}
