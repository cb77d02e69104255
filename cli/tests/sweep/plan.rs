//! A plan in a folder with traces, what is swept of it, and what the tables hold.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;

use crate::parquet_table::table;
use crate::program::{failure, iocast, sample};
use crate::scratch::Scratch;

/// A folder with copies of two samples and a plan.
pub struct Plan {
    pub scratch: Scratch,
}

/// Eighteen tasks: two traces alone and together, in two windows, under two schedulers of which one has two values.
pub const SMALL: &str = "traces = ['*.parquet']
schedulers = ['fifo', { name = 'deadline', fifo_batch = [1, 16] }]
drives = ['cheetah-15k4']
pacing = 'closed'
map = 'remap'
windows = [{ end = '4s' }, { start = '4s', limit = 300 }]
[pairs]
";

impl Plan {
    pub fn new(text: &str) -> Plan {
        let scratch = Scratch::new();
        for name in ["mail", "web"] {
            fs::copy(sample(&format!("{name}.parquet")), scratch.path(&format!("{name}.parquet"))).unwrap();
        }
        fs::write(scratch.path("plan.toml"), text).unwrap();
        Plan { scratch }
    }

    pub fn arguments(&self, out: &str, more: &[&str]) -> Vec<String> {
        let own = ["sweep".to_owned(), self.scratch.str("plan.toml"), "--out".to_owned(), self.scratch.str(out)];
        own.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Runs the sweep, and gives what it printed.
    pub fn sweep(&self, out: &str, threads: u32, more: &[&str]) -> String {
        let mut command = iocast();
        command.args(self.arguments(out, more)).env("RAYON_NUM_THREADS", threads.to_string());
        String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
    }

    pub fn fails(&self, out: &str, more: &[&str]) -> (i32, String) {
        failure(&self.arguments(out, more).iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub fn results(&self, out: &str) -> Vec<u8> {
        fs::read(self.scratch.path(out).join("results.parquet")).unwrap()
    }

    pub fn parts(&self, out: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.scratch.path(out).join("parts")).into_iter().flatten();
        let mut parts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        parts.retain(|part| part.extension().is_some_and(|ending| ending == "parquet"));
        parts.sort();
        parts
    }

    pub fn table(&self, out: &str) -> RecordBatch {
        table(&self.scratch.path(out).join("results.parquet"))
    }
}

pub fn text(table: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let column = table.column_by_name(column).unwrap();
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row).to_owned())
}

pub fn whole(table: &RecordBatch, column: &str, row: usize) -> i64 {
    table.column_by_name(column).unwrap().as_primitive::<Int64Type>().value(row)
}

pub fn real(table: &RecordBatch, column: &str, row: usize) -> serde_json::Value {
    let column = table.column_by_name(column).unwrap();
    let value = column.as_primitive::<Float64Type>().value(row);
    if column.is_null(row) { serde_json::Value::Null } else { value.into() }
}

/// Twenty tasks that take seconds.
pub const LONG: &str = "traces = ['mail.parquet']
schedulers = ['fifo', 'cscan', { name = 'deadline', fifo_batch = { from = 1, to = 18, step = 1 } }]
drives = ['cheetah-15k4']
";

pub fn spawn(arguments: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocast"));
    command.args(arguments).env("RAYON_NUM_THREADS", "2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The tasks of a folder as an Arrow stream.
pub fn tasks(plan: &Plan, out: &str) -> Vec<u8> {
    let tasks = table(&plan.scratch.path(out).join("tasks.parquet"));
    let mut writer = StreamWriter::try_new(Vec::new(), &tasks.schema()).unwrap();
    // Two batches.
    writer.write(&tasks.slice(0, 7)).unwrap();
    writer.write(&tasks.slice(7, tasks.num_rows() - 7)).unwrap();
    writer.into_inner().unwrap()
}

pub fn worker(input: &[u8]) -> std::process::Output {
    let mut command = iocast();
    command.arg("worker").write_stdin(input).output().unwrap()
}

/// The errors of tasks that a worker has run.
pub fn errors(worker: &std::process::Output) -> Vec<Option<String>> {
    let batches = StreamReader::try_new(&worker.stdout[..], None).unwrap().map(Result::unwrap);
    let of = |batch: RecordBatch| (0..batch.num_rows()).map(|row| text(&batch, "error", row)).collect::<Vec<_>>();
    batches.flat_map(of).collect()
}
