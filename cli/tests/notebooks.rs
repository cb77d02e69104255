//! Runs the commands and the Python of docs/notebooks.md, and compares their figures with each other and with the result
//! of the same replay. Needs `make tables notebooks`.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A table by its key: scheduler, VM, operation.
type Table = BTreeMap<[String; 3], Figures>;

/// The figures of a group.
#[derive(Clone, Copy, Debug)]
struct Figures {
    requests: u64,
    mean_ns: f64,
    p99_ns: u64,
    max_ns: u64,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs a program there, with iocast and iocast-tables on its path.
fn run(folder: &Path, program: &Path, arguments: &[&str]) -> String {
    let ours = PathBuf::from(env!("CARGO_BIN_EXE_iocast"));
    let tables = root().join("target/release");
    assert!(tables.join("iocast-tables").exists(), "make tables builds target/release/iocast-tables");
    let before = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{before}", ours.parent().unwrap().display(), tables.display());
    let output = Command::new(program).args(arguments).current_dir(folder).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// A table from CSV, by the names of its columns.
fn parsed(csv: &str) -> Table {
    let mut lines = csv.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut table = Table::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        let of = |name: &str| values[names.iter().position(|known| *known == name).unwrap()];
        let whole = |name: &str| {
            let value: f64 = of(name).parse().unwrap();
            assert!(value.fract() == 0.0 && value < 2_f64.powi(53), "{name} is {value}");
            value as u64
        };
        let figures = Figures {
            requests: whole("requests"),
            mean_ns: of("mean_ns").parse().unwrap(),
            p99_ns: whole("p99_ns"),
            max_ns: whole("max_ns"),
        };
        let key = ["scheduler", "vm", "operation"].map(|name| of(name).to_owned());
        assert!(table.insert(key, figures).is_none(), "{line} is there twice");
    }
    table
}

/// Whole numbers are equal. Means are of the same sum; the libraries add in other orders and round each time.
fn assert_same(what: &str, found: &Table, expected: &Table) {
    assert!(found.keys().eq(expected.keys()), "{what}: {:?}", found.keys());
    for (key, figures) in expected {
        let found = found[key];
        let whole = |figures: &Figures| [figures.requests, figures.p99_ns, figures.max_ns];
        assert_eq!(whole(&found), whole(figures), "{what}, {key:?}");
        let error = (found.mean_ns - figures.mean_ns).abs();
        assert!(error <= figures.mean_ns * 1e-12, "{what}, {key:?}: {} for {}", found.mean_ns, figures.mean_ns);
    }
}

/// Compares the reads and writes of each VM in a result with the table.
fn check_result(result: &Value, table: &Table) {
    let mut checked = 0;
    for run in result["runs"].as_array().unwrap() {
        for vm in run["vms"].as_array().unwrap() {
            for operation in ["read", "write"] {
                let names = [&run["scheduler"]["name"], &vm["vm"]].map(|name| name.as_str().unwrap().to_owned());
                let [scheduler, name] = names;
                let row = table[&[scheduler, name, operation.to_owned()]];
                let figures = &vm[operation];
                assert_eq!(figures["requests"], row.requests);
                assert_eq!(figures["response_time"]["max_ns"], row.max_ns);
                assert_eq!(figures["response_time"]["mean_ns"], row.mean_ns);
                // From a histogram of three digits: the upper end of the bucket that holds the value.
                let p99 = figures["response_percentiles_ns"]["p99"].as_u64().unwrap();
                assert!((row.p99_ns..=row.p99_ns + row.p99_ns / 1000).contains(&p99), "{p99} for {}", row.p99_ns);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 8);
}

#[test]
fn every_way_to_the_figures_gives_the_same() {
    let page = fs::read_to_string(root().join("docs/notebooks.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for sample in ["web.parquet", "mail.parquet"] {
        fs::copy(root().join("traces/samples").join(sample), folder.path().join(sample)).unwrap();
    }
    let shell = Path::new("sh");
    let commands = blocks(&page, "sh");
    assert_eq!(commands.len(), 2);
    for block in &commands {
        run(folder.path(), shell, &["-ec", block]);
    }
    let by = "iocast report requests.parquet --by vm,operation --quantile 0.99 -o figures.csv";
    run(folder.path(), shell, &["-ec", by]);
    let table = parsed(&fs::read_to_string(folder.path().join("figures.csv")).unwrap());
    let result: Value = serde_json::from_slice(&fs::read(folder.path().join("result.json")).unwrap()).unwrap();
    check_result(&result, &table);
    let python = root().join("target/notebooks/bin/python");
    assert!(python.exists(), "make notebooks installs what the examples need");
    let examples = blocks(&page, "python");
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert_same(example, &parsed(&run(folder.path(), &python, &["-c", example])), &table);
    }
}

/// Rows and sectors of each host and date, by each library: the folders are columns, and an unknown device is NULL.
/// pandas has no column in which some values are NULL.
const CATALOG: [&str; 3] = [
    "import duckdb
for row in duckdb.sql(\"\"\"select host, date::varchar, count(*), sum(sectors)::bigint, count(device)
    from read_parquet('fleet/**/*.parquet', hive_partitioning = true) group by all order by host\"\"\").fetchall():
    print(*row)",
    "import polars as pl
table = pl.read_parquet('fleet/**/*.parquet', hive_partitioning=True)
of = table.group_by('host', pl.col('date').cast(pl.String)).agg(
    pl.len(), pl.col('sectors').cast(pl.Int64).sum(), pl.col('device').count()).sort('host')
for row in of.iter_rows():
    print(*row)",
    "import pandas as pd
table = pd.read_parquet('fleet', partitioning='hive', columns=['host', 'date', 'sectors'])
table['host'], table['date'] = table['host'].astype(str), table['date'].astype(str)
of = table.groupby(['host', 'date']).agg(n=('sectors', 'size'), sum=('sectors', 'sum'))
for (host, date), row in of.iterrows():
    print(host, date, int(row['n']), int(row['sum']))",
];

#[test]
fn a_catalogue_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let header = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                  completed_ns,error\n";
    // One device is known: pyarrow, below pandas, cannot find the type of a column without any value.
    for (name, sectors, device) in [("web 1", 8, ""), ("mail/2", 16, "--device-name vda")] {
        let text = format!("{header}0,read,0,{sectors},,0,0,0,0,,0,500,0\n1000,write,64,8,,0,0,0,0,,1000,1900,0\n");
        fs::write(folder.path().join("trace.csv"), text).unwrap();
        let convert = format!("iocast -q convert trace.csv --catalog fleet --host '{name}' --date 2026-11-22 {device}");
        run(folder.path(), Path::new("sh"), &["-ec", &convert]);
    }
    let python = root().join("target/notebooks/bin/python");
    for example in CATALOG {
        let said = run(folder.path(), &python, &["-c", example]);
        let [mail, web] = if example.contains("pandas") { ["", ""] } else { [" 2", " 0"] };
        assert_eq!(said, format!("mail/2 2026-11-22 2 24{mail}\nweb 1 2026-11-22 2 16{web}\n"), "{example}");
    }
}
