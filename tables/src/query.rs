//! What the command line asks for, as a table.

use anyhow::{Result, anyhow, ensure};
use polars::prelude::{LazyFrame, PolarsError};
use polars::sql::SQLContext;
use traces::spec::nearest;

use crate::arguments::{Arguments, UsageError};
use crate::grouped::grouped;
use crate::named::NAMED;
use crate::requests::Requests;

/// The name of the table in queries.
const TABLE: &str = "requests";

/// The table that `arguments` ask for. Its query runs when it is written.
///
/// # Errors
/// An unknown table, column or name; a query that is no SQL; files that cannot be read.
pub fn table(arguments: &Arguments, requests: &Requests) -> Result<LazyFrame> {
    if let Some(name) = &arguments.table {
        let Some(named) = NAMED.iter().find(|named| named.name == name) else {
            let known: Vec<&str> = NAMED.iter().map(|named| named.name).collect();
            let error =
                format!("no table is called `{name}`{}; there are {}", did_you_mean(name, &known), known.join(", "));
            return Err(UsageError(error).into());
        };
        return (named.make)(requests);
    }
    if let Some(query) = &arguments.sql {
        return answer(query, requests);
    }
    for column in &arguments.by {
        requests.check_column(column)?;
    }
    grouped(requests, &arguments.by, &arguments.quantile)
}

/// The answer to a query.
fn answer(query: &str, requests: &Requests) -> Result<LazyFrame> {
    let mut context = SQLContext::new();
    context.register(TABLE, requests.rows.clone());
    let answered = context.execute(query).and_then(|mut rows| Ok((rows.collect_schema()?, rows)));
    let (schema, rows) = answered.map_err(|error| in_query(&error, requests))?;
    ensure!(
        !schema.is_empty(),
        UsageError("--sql: this gives no table; a query begins with select or with".to_owned())
    );
    Ok(rows)
}

/// An error of polars about a query, with what would help.
fn in_query(error: &PolarsError, requests: &Requests) -> anyhow::Error {
    let text = error.to_string();
    // polars goes on with the plan of the query, line by line.
    let first = text.lines().next().unwrap_or_default();
    let quoted = |text: &str, mark: char| text.split(mark).nth(1).map(str::to_owned);
    if first.contains("relation ") && first.contains("was not found") {
        return UsageError(format!("--sql: {first}; the table is called `{TABLE}`")).into();
    }
    if is_unknown_column(error) {
        let name = quoted(first, '"').or_else(|| quoted(first, '\''));
        return match name.filter(|name| !requests.columns.contains(name)) {
            Some(name) => requests.unknown_column(&name).context("--sql"),
            None => anyhow!(UsageError(format!("--sql: {first}"))),
        };
    }
    UsageError(format!("--sql: {first}")).into()
}

fn is_unknown_column(error: &PolarsError) -> bool {
    match error {
        PolarsError::ColumnNotFound(_) | PolarsError::SchemaFieldNotFound(_) => true,
        PolarsError::Context { error, .. } | PolarsError::ExprContext { error, .. } => is_unknown_column(error),
        _ => false,
    }
}

/// ` (did you mean …?)`, or nothing.
pub fn did_you_mean(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        near if near.is_empty() => String::new(),
        near => format!(" (did you mean {}?)", near.join(", ")),
    }
}
