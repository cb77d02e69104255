//! Tables of requests that the test makes, against slow and obvious counts; captures; what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use traces::formats::parquet::ParquetWriter;
use traces::results::requests::{RequestNames, RequestRow, RequestTable, Service, VmNames};
use traces::trace::TraceWriter as _;
use traces::{Flags, Lba, Nanos, Operation, Record, Request, Sectors, StreamId, Timestamp, TraceMeta, VmId};

/// A title of the window, a line of its own, a cell of a table, text from right to left, nothing visible.
const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\rforged\n| b | `c` \u{202e}f\u{9b}31m\u{200b}, \"q\"";
const SCHEDULERS: [&str; 2] = ["deadline", "cats"];
const VMS: [&str; 2] = ["web", HOSTILE];

/// A folder of its own for each test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Rows that look random and are the same each time.
fn rows(count: u64, seed: u64) -> Vec<RequestRow> {
    let mut state = seed;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let row = |number| {
        let arrival = Timestamp::from_ns(number * 1_000_000 + draw(1000));
        let operation = Operation::ALL[[0, 0, 1, 1, 2, 3][draw(6) as usize]];
        let sectors = Sectors::new(if operation == Operation::Flush { 0 } else { 8 * (1 + draw(16)) });
        let mut request = Request::new(arrival, operation, Lba::new(draw(1 << 30)), sectors);
        (request.vm, request.stream) = (VmId(draw(2) as u16), StreamId(draw(3) as u32));
        request.flags = Flags::from_bits_truncate(draw(32) as u8);
        // From 1 ns to 17 s, many of them equal.
        let response = Nanos::from_ns((draw(1 << 30) >> draw(31)) << draw(5));
        let issued = arrival + Nanos::from_ns(response.as_ns() / 3);
        let service =
            Service { dispatched: issued, issued, started: issued, seek: Sectors::new(draw(100)), hit: draw(4) == 0 };
        let service = (operation != Operation::Flush).then_some(service);
        RequestRow { number, request, service, completed: arrival + response, all_active: true }
    };
    (0..count).map(row).collect()
}

/// Writes a table of requests of [`SCHEDULERS`], each with its own rows.
fn write(path: &Path, of_schedulers: &[Vec<RequestRow>]) {
    let table = RequestTable::create(path).unwrap();
    let processes = BTreeMap::from([(0, "mysqld".to_owned()), (1, HOSTILE.to_owned())]);
    let vms: Vec<VmNames> = VMS.map(|vm| VmNames { vm: vm.to_owned(), processes: processes.clone() }).into();
    let mut parts = Vec::new();
    for (rows, scheduler) in of_schedulers.iter().zip(SCHEDULERS) {
        let names = RequestNames { scheduler: scheduler.to_owned(), drive: "d".to_owned(), vms: vms.clone() };
        let mut part = table.part(&names).unwrap();
        rows.iter().for_each(|row| part.push(row).unwrap());
        parts.push(part.finish().unwrap());
    }
    table.join(parts).unwrap();
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iocast-tables")).args(arguments).current_dir(folder).output().unwrap()
}

/// Standard output of a run that succeeds.
fn stdout(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a run that fails.
fn failure(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = run(folder, arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} succeeded");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The table that `arguments` ask for, as CSV in which [`HOSTILE`] is one word, so that commas only separate fields.
fn csv(folder: &Path, arguments: &[&str]) -> Vec<Vec<String>> {
    let path = folder.join("table.csv");
    stdout(folder, &[arguments, &["-o", "table.csv", "--force"]].concat());
    let quoted = format!("\"{}\"", HOSTILE.replace('"', "\"\""));
    let text = fs::read_to_string(path).unwrap().replace(&quoted, "hostile");
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn groups_have_the_figures_of_a_slow_count() {
    let folder = folder("groups");
    // More than a row group each.
    let of_schedulers = [rows(70_000, 1), rows(300, 2)];
    write(&folder.join("requests.parquet"), &of_schedulers);
    let shares = ["0.5", "0.9", "0.99", "0.999", "1", "0.000000001"];
    let arguments = ["--by", "stream,operation", "--quantile", &shares.join(","), "requests.parquet"];
    let found = csv(&folder, &arguments);
    let mut expected = Vec::new();
    for (rows, scheduler) in of_schedulers.iter().zip(SCHEDULERS) {
        let begin = rows.iter().map(|row| row.request.arrival.as_ns()).min().unwrap();
        let end = rows.iter().map(|row| row.completed.as_ns()).max().unwrap();
        let seconds = (end - begin) as f64 / 1e9;
        let mut groups: BTreeMap<(u32, &str), Vec<&RequestRow>> = BTreeMap::new();
        for row in rows {
            groups.entry((row.request.stream.0, row.request.operation.name())).or_default().push(row);
        }
        for ((stream, operation), rows) in groups {
            let mut responses: Vec<u64> =
                rows.iter().map(|row| row.completed.since(row.request.arrival).as_ns()).collect();
            responses.sort_unstable();
            let count = responses.len();
            let quantile = |share: &&str| {
                responses[((share.parse::<f64>().unwrap() * count as f64 - 1e-9).ceil() as usize).max(1) - 1]
            };
            let moved = rows.iter().filter(|row| row.request.operation.moves_data());
            let bytes: u64 = moved.map(|row| row.request.sectors().count() * 512).sum();
            let mut line = vec![scheduler.to_owned(), stream.to_string(), operation.to_owned(), count.to_string()];
            line.push(format!("{:?}", responses.iter().sum::<u64>() as f64 / count as f64));
            line.extend(shares.iter().map(quantile).chain([responses[count - 1]]).map(|value| value.to_string()));
            line.extend([count as f64 / seconds, bytes as f64 / 1e6 / seconds].map(|rate| format!("{rate:?}")));
            expected.push(line);
        }
    }
    expected.sort_by_key(|line| (line[0].clone(), line[1].parse::<u32>().unwrap(), line[2].clone()));
    let header = "scheduler,stream,operation,requests,mean_ns,p50_ns,p90_ns,p99_ns,p99.9_ns,p100_ns,p0.0000001_ns,max_ns,iops,mb_per_s";
    assert_eq!(found[0].join(","), header);
    assert_eq!(found.len() - 1, expected.len());
    for (found, expected) in found[1..].iter().zip(&expected) {
        let figures = |line: &[String]| {
            line[12..].iter().chain([&line[4]]).map(|text| text.parse::<f64>().unwrap()).collect::<Vec<f64>>()
        };
        assert_eq!([&found[..4], &found[5..12]], [&expected[..4], &expected[5..12]]);
        for (found, expected) in figures(found).into_iter().zip(figures(expected)) {
            assert!((found - expected).abs() <= expected * 1e-12, "{found} for {expected}");
        }
    }
}

#[test]
fn named_tables_hold_what_their_names_say() {
    let folder = folder("named");
    let of_schedulers = [rows(4000, 3), rows(4000, 4)];
    write(&folder.join("requests.parquet"), &of_schedulers);
    let named = |name: &str| csv(&folder, &["--table", name, "requests.parquet"]);
    let column = |table: &[Vec<String>], name: &str| -> Vec<f64> {
        let index = table[0].iter().position(|heading| heading == name).unwrap();
        table[1..].iter().map(|row| row[index].parse().unwrap()).collect()
    };
    let moving = |rows: &Vec<RequestRow>| rows.iter().filter(|row| row.request.operation.moves_data()).count() as f64;
    // By scheduler in the order of the alphabet.
    assert_eq!(column(&named("schedulers"), "requests"), [moving(&of_schedulers[1]), moving(&of_schedulers[0])]);
    assert_eq!(column(&named("responses"), "requests").iter().sum::<f64>(), 8000.0);
    let seconds = named("per-second");
    let completed_in_third =
        |rows: &Vec<RequestRow>| rows.iter().filter(|row| row.completed.as_ns() / 1_000_000_000 == 2).count();
    let third = seconds[1..].iter().find(|row| row[0] == "cats" && row[1] == "2").unwrap();
    assert_eq!(third[2], completed_in_third(&of_schedulers[1]).to_string());
    assert_eq!(column(&seconds, "requests").iter().sum::<f64>(), 8000.0);
    let waits = named("waits");
    let reads = waits[1..].iter().find(|row| row[0] == "deadline" && row[1] == "read").unwrap();
    let reads_of = || of_schedulers[0].iter().filter(|row| row.request.operation == Operation::Read);
    let waited: u64 = reads_of().map(|row| row.service.unwrap().issued.since(row.request.arrival).as_ns()).sum();
    let mean = waited as f64 / reads_of().count() as f64;
    let at = |name: &str| reads[waits[0].iter().position(|heading| heading == name).unwrap()].parse::<f64>().unwrap();
    assert!((at("waiting_mean_ns") - mean).abs() < mean * 1e-12);
    let hits = reads_of().filter(|row| row.service.unwrap().hit).count();
    assert!((at("cache_hit_share") - hits as f64 / reads_of().count() as f64).abs() < 1e-12);
    let slowest = named("slowest");
    let number = slowest[0].iter().position(|heading| heading == "number").unwrap();
    for scheduler in SCHEDULERS {
        let mut rows: Vec<&RequestRow> = of_schedulers[usize::from(scheduler == "cats")].iter().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.completed.since(row.request.arrival)), row.number));
        let found = slowest[1..].iter().filter(|row| row[0] == scheduler).map(|row| row[number].clone());
        assert_eq!(
            found.collect::<Vec<String>>(),
            rows[..10].iter().map(|row| row.number.to_string()).collect::<Vec<String>>()
        );
    }
}

#[test]
fn threads_change_no_byte_and_several_files_are_told_apart() {
    let folder = folder("threads");
    write(&folder.join("a.parquet"), &[rows(5000, 5), rows(5000, 6)]);
    write(&folder.join("b.parquet"), &[rows(2000, 7), Vec::new()]);
    for table in ["responses", "schedulers", "vms", "processes", "waits", "per-second", "slowest"] {
        let with = |threads: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_iocast-tables"));
            command.args(["--table", table, "a.parquet", "b.parquet"]).current_dir(&folder);
            let output = command.env("POLARS_MAX_THREADS", threads).output().unwrap();
            assert!(output.status.success(), "{table}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let one = with("1");
        assert_eq!(one, with("4"), "{table}");
        // A query that needs no column of either file.
        let count = stdout(&folder, &["--sql", "select count(*) from requests", "a.parquet", "b.parquet"]);
        assert!(count.contains("│ 12000 │"), "{count}");
        assert!(one.contains("│ a.parquet ┆ cats") && one.contains("│ b.parquet ┆ deadline"), "{one}");
    }
}

#[test]
fn captures_have_the_same_columns() {
    let folder = folder("captures");
    let path = folder.join("web.parquet");
    let mut writer = Box::new(ParquetWriter::create(&path).unwrap());
    let rows = rows(500, 8);
    for row in &rows {
        let mut record = Record::arrived(row.request);
        // Some were in flight when the capture ended.
        if row.number % 10 > 0 {
            record.observed.completed = Some(row.completed);
            record.observed.issued = row.service.map(|service| service.issued);
        }
        writer.write(&record).unwrap();
    }
    let mut meta = TraceMeta::new("csv", traces::Layer::GuestQueue, "clock");
    meta.vms = VMS.map(str::to_owned).into();
    meta.streams = BTreeMap::from([(1, "mysqld".to_owned())]);
    writer.finish(&meta).unwrap();
    let found = csv(&folder, &["--by", "process,operation", "web.parquet"]);
    let is_asked = |row: &&RequestRow| row.request.stream.0 == 1 && row.request.operation == Operation::Write;
    let mut responses: Vec<u64> = rows
        .iter()
        .filter(|row| row.number % 10 > 0)
        .filter(is_asked)
        .map(|row| row.completed.since(row.request.arrival).as_ns())
        .collect();
    responses.sort_unstable();
    let line = found.iter().find(|line| line[1] == "mysqld" && line[2] == "write").unwrap();
    assert_eq!(line[0], "recorded");
    assert_eq!(line[3], rows.iter().filter(is_asked).count().to_string());
    let median = responses[responses.len().div_ceil(2) - 1];
    assert_eq!([&line[5], &line[7]], [&median.to_string(), &responses[responses.len() - 1].to_string()]);
    for table in ["responses", "schedulers", "vms", "processes", "waits", "per-second", "slowest"] {
        assert!(stdout(&folder, &["--table", table, "web.parquet"]).contains("recorded"), "{table}");
    }
    let sync = csv(&folder, &["--sql", "select count(*) from requests where is_sync", "web.parquet"]);
    assert_eq!(sync[1][0], rows.iter().filter(|row| row.request.is_sync()).count().to_string());
}

#[test]
fn a_table_without_rows_is_valid() {
    let folder = folder("empty");
    write(&folder.join("requests.parquet"), &[]);
    for table in ["responses", "schedulers", "vms", "processes", "waits", "per-second", "slowest"] {
        let printed = stdout(&folder, &["--table", table, "requests.parquet"]);
        assert!(printed.contains("scheduler") && printed.lines().count() == 4, "{table}: {printed}");
    }
    assert_eq!(csv(&folder, &["--by", "vm", "requests.parquet"]).len(), 1);
}

#[test]
fn hostile_names_reach_no_terminal_and_break_no_table() {
    let folder = folder("hostile");
    let name = format!("{HOSTILE}.parquet");
    write(&folder.join(&name), &[rows(400, 9), rows(400, 10)]);
    let mut texts = vec![
        stdout(&folder, &["--table", "processes", &name]),
        stdout(&folder, &["--table", "processes", &name, "-o", &format!("{HOSTILE}.md")]),
        fs::read_to_string(folder.join(format!("{HOSTILE}.md"))).unwrap(),
    ];
    for arguments in
        [["--by", HOSTILE, &name], ["--table", HOSTILE, &name], ["--sql", HOSTILE, &name], ["--by", "vm", HOSTILE]]
    {
        texts.push(failure(&folder, &arguments).1);
    }
    for text in texts {
        let bad =
            |character: char| character != '\n' && (character.is_control() || "\u{202e}\u{200b}".contains(character));
        assert!(!text.chars().any(bad), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("forged") || line.starts_with("| b")), "{text}");
    }
    let markdown = fs::read_to_string(folder.join(format!("{HOSTILE}.md"))).unwrap();
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(markdown.lines().all(|line| bars(line) == bars(markdown.lines().next().unwrap())), "{markdown}");
}

#[test]
fn what_cannot_be_done_is_said_with_the_remedy() {
    let folder = folder("refused");
    write(&folder.join("requests.parquet"), &[rows(2000, 11)]);
    fs::write(folder.join("empty.parquet"), "").unwrap();
    fs::write(folder.join("text.parquet"), "no Parquet, whatever its name says").unwrap();
    let whole = fs::read(folder.join("requests.parquet")).unwrap();
    fs::write(folder.join("half.parquet"), &whole[..whole.len() / 2]).unwrap();
    stdout(&folder, &["--sql", "select vm from requests", "requests.parquet", "-o", "other.parquet"]);
    fs::write(folder.join("mine.csv"), "mine").unwrap();
    let file = "requests.parquet";
    for (arguments, code, wanted) in [
        (&["--by", "vn", file][..], 2, "no column is called `vn` (did you mean vm"),
        (&["--sql", "select respons_ns from requests", file], 2, "did you mean response_ns"),
        (&["--sql", "select vm from request", file], 2, "the table is called `requests`"),
        (&["--sql", "selekt 1", file], 2, "--sql: "),
        (&["--sql", "", file], 2, "--sql: "),
        (&["--sql", "drop table requests", file], 2, "--sql: this gives no table"),
        (&["--table", "vms", "--quantile", "0.9", file], 2, "cannot be used with"),
        (
            &["--table", "responces", file],
            2,
            "no table is called `responces` (did you mean responses?); there are responses",
        ),
        (&["--by", "vm", "--quantile", "99", file], 2, "`99` is no share between 0 and 1"),
        (&["--by", "vm", "none.parquet"], 1, "none.parquet: No such file"),
        (&["--by", "vm", "."], 1, "it is no file"),
        (&["--by", "vm", "empty.parquet"], 1, "empty.parquet: the file is empty"),
        (&["--by", "vm", "text.parquet"], 1, "text.parquet: it is no Parquet file"),
        (&["--by", "vm", "half.parquet"], 1, "half.parquet: it is no Parquet file, or not whole"),
        (
            &["--by", "vm", "other.parquet"],
            1,
            "other.parquet: it has no requests of iocast: the columns scheduler, drive",
        ),
        (&["--by", "vm", file, "-o", "mine.csv"], 1, "mine.csv exists; overwrite it with --force"),
        (&["--by", "vm", file, "-o", "table.xlsx"], 2, "name a file that ends with .parquet, .csv or .md"),
        (&["--by", "vm", file, "-o", "no/such/folder.csv"], 1, "no/such/folder.csv"),
        (&["--sql", "select * from requests", file, "-o", "all.md"], 2, "more than 1000 rows; write it as .csv"),
    ] {
        let (found, said) = failure(&folder, arguments);
        assert!(found == code && said.contains(wanted), "{arguments:?}: {found}, {said}");
        assert!(said.lines().skip(1).all(|line| line.starts_with("  ") || line.is_empty() || code == 2), "{said}");
    }
    assert_eq!(fs::read_to_string(folder.join("mine.csv")).unwrap(), "mine");
    assert!(!folder.join("all.md").exists() && !folder.join("no").exists());
    // Damage behind the footer is found, wherever it is, or changes nothing.
    for place in (4..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x55;
        fs::write(folder.join("damaged.parquet"), &damaged).unwrap();
        let output = run(&folder, &["--by", "vm,process,operation", "damaged.parquet"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || said.starts_with("iocast: "), "{place}: {:?} {said}", output.status);
    }
    assert_eq!(csv(&folder, &["--sql", "select number, response_ns from requests", file]).len(), 2001);
    let printed = run(&folder, &["--sql", "select number from requests", file]);
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(printed.status.success() && said.contains("these are the first 1000 rows; -o FILE.csv"), "{said}");
}
