//! `iocast worker`: runs the tasks that come as an Arrow stream, and answers each with its result.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _, stdin, stdout};

use anyhow::{Context, Result};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;

use super::rows::Row;
use super::task::{RESULT_COLUMNS, TASK_COLUMNS, Task};

/// Results that are sent together. They wait for one another, and each may hold histograms of some KiB.
const ROWS_PER_BATCH: usize = 16;

const INPUT: &str = "the tasks on standard input";

/// Runs tasks until the input ends or nobody reads the results.
///
/// # Errors
/// An input that is no Arrow stream of tasks; an error of the operating system.
pub fn run() -> Result<()> {
    let mut input = BufReader::new(stdin().lock());
    let out = BufWriter::new(stdout().lock());
    let mut results = StreamWriter::try_new(out, &RESULT_COLUMNS.empty().schema()).map_err(of_output)?;
    results.get_mut().flush().context(OUTPUT)?;
    if !input.fill_buf().context(INPUT)?.is_empty() {
        for tasks in StreamReader::try_new(input, None).context(INPUT)? {
            let tasks = TASK_COLUMNS.rows(&tasks.context(INPUT)?).context(INPUT)?;
            for some in tasks.chunks(ROWS_PER_BATCH) {
                let rows: Vec<Row> =
                    some.iter().map(|row| Ok(Task::of(row.clone())?.run())).collect::<Result<_>>().context(INPUT)?;
                results.write(&RESULT_COLUMNS.batch(&rows)?).map_err(of_output)?;
                results.get_mut().flush().context(OUTPUT)?;
            }
        }
    }
    results.finish().map_err(of_output)?;
    results.get_mut().flush().context(OUTPUT)
}

const OUTPUT: &str = "standard output";

/// The operating system's error, so that a closed pipe is known as one.
fn of_output(error: ArrowError) -> anyhow::Error {
    match error {
        ArrowError::IoError(_, error) => anyhow::Error::new(error).context(OUTPUT),
        other => other.into(),
    }
}
