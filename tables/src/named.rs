//! The tables that have names.

use anyhow::Result;
use polars::prelude::*;

use crate::grouped::{bytes, columns, grouped, mean, sort_options};
use crate::output::collect;
use crate::quantiles::Share;
use crate::requests::Requests;

/// A table with a name.
pub struct Named {
    pub name: &'static str,
    pub make: fn(&Requests) -> Result<LazyFrame>,
}

/// The quantiles of named tables.
const SHARES: [Share; 4] =
    [Share::thousandths(500), Share::thousandths(900), Share::thousandths(990), Share::thousandths(999)];
/// The rows of `slowest` for each scheduler.
const SLOWEST: u32 = 10;

/// All of them.
pub const NAMED: [Named; 7] = [
    Named { name: "responses", make: |requests| by(requests, &["operation"]) },
    Named { name: "schedulers", make: schedulers },
    Named { name: "vms", make: |requests| by(requests, &["vm", "operation"]) },
    Named { name: "processes", make: |requests| by(requests, &["vm", "process", "operation"]) },
    Named { name: "waits", make: waits },
    Named { name: "per-second", make: per_second },
    Named { name: "slowest", make: slowest },
];

/// Response times of groups.
fn by(requests: &Requests, columns: &[&str]) -> Result<LazyFrame> {
    let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
    grouped(requests, &columns, &SHARES)
}

/// Response times of reads and writes together, as `iocast compare` has them for all.
fn schedulers(requests: &Requests) -> Result<LazyFrame> {
    let moves_data = col("operation").eq(lit("read")).or(col("operation").eq(lit("write")));
    let rows = requests.rows.clone().filter(moves_data);
    grouped(&Requests { rows, columns: requests.columns.clone(), run: requests.run.clone() }, &[], &SHARES)
}

/// Where requests spend their time: before they are sent to the drive, and at the drive.
fn waits(requests: &Requests) -> Result<LazyFrame> {
    let waiting = || col("issued_ns") - col("arrival_ns");
    let known = |column: &str| col(column).count();
    let sums = [
        len().alias("requests"),
        col("response_ns").sum().alias("response_sum"),
        known("response_ns").alias("answered"),
        waiting().sum().alias("waiting_sum"),
        col("device_ns").sum().alias("device_sum"),
        known("issued_ns").alias("issued"),
        known("device_ns").alias("served"),
        waiting().max().alias("waiting_max_ns"),
        col("device_ns").max().alias("device_max_ns"),
        col("cache_hit").sum().cast(DataType::UInt64).alias("hits"),
        known("cache_hit").alias("hit_or_not"),
        col("seek_sectors").sum().alias("seeks"),
        known("seek_sectors").alias("sought"),
    ];
    let keys = [requests.run.clone(), vec!["operation"]].concat();
    let table = requests.rows.clone().group_by(columns(&keys)).agg(sums).sort(keys.clone(), sort_options());
    let figures = vec![
        col("requests"),
        mean("response_sum", "answered").alias("mean_ns"),
        mean("waiting_sum", "issued").alias("waiting_mean_ns"),
        col("waiting_max_ns"),
        mean("device_sum", "served").alias("device_mean_ns"),
        col("device_max_ns"),
        mean("hits", "hit_or_not").alias("cache_hit_share"),
        mean("seeks", "sought").alias("seek_mean_sectors"),
    ];
    Ok(table.select([columns(&keys), figures].concat()))
}

/// What completed in each second of a replay.
fn per_second(requests: &Requests) -> Result<LazyFrame> {
    let second = (col("completed_ns") / lit(1_000_000_000_u64)).alias("second");
    let of = |operation: &str| col("operation").eq(lit(operation)).sum().alias(format!("{operation}s"));
    let sums = [
        len().alias("requests"),
        of("read"),
        of("write"),
        col("response_ns").sum().alias("response_sum"),
        col("response_ns").count().alias("answered"),
        col("response_ns").max().alias("max_ns"),
        bytes().sum().alias("bytes"),
    ];
    let keys = [columns(&requests.run), vec![second]].concat();
    let names = [requests.run.clone(), vec!["second"]].concat();
    let completed = requests.rows.clone().filter(col("completed_ns").is_not_null());
    let table = completed.group_by(keys).agg(sums).sort(names.clone(), sort_options());
    let mean = mean("response_sum", "answered").alias("mean_ns");
    let mb_per_s = (col("bytes").cast(DataType::Float64) / lit(1e6)).alias("mb_per_s");
    Ok(table.select(
        [columns(&names), columns(&["requests", "reads", "writes"]), vec![mean, col("max_ns"), mb_per_s]].concat(),
    ))
}

/// The requests of each scheduler with the longest response times. Of equal ones, those that arrived first.
fn slowest(requests: &Requests) -> Result<LazyFrame> {
    let runs = collect(requests.rows.clone().group_by(columns(&requests.run)).agg([len()]))?;
    let runs = runs.sort(requests.run.clone(), sort_options())?;
    let shown =
        ["vm", "process", "operation", "lba_sectors", "sectors", "arrival_ns", "response_ns", "device_ns", "number"];
    let shown = [columns(&requests.run), columns(&shown)].concat();
    let mut parts = vec![requests.rows.clone().select(shown.clone()).limit(0)];
    for row in 0..runs.height() {
        let mut rows = requests.rows.clone().select(shown.clone());
        for column in &requests.run {
            let value = runs.column(column)?.get(row)?.into_static();
            rows = rows.filter(col(*column).eq(lit(Scalar::new(DataType::String, value))));
        }
        parts.push(collect(slowest_of(rows)?)?.lazy());
    }
    Ok(concat(parts, UnionArgs::default())?)
}

/// The slowest of `rows`. The longest times are found first, since polars sorts by several columns in the memory of all
/// rows, but by one in that of the answer.
fn slowest_of(rows: LazyFrame) -> Result<LazyFrame> {
    let by_time = SortMultipleOptions::default().with_order_descending(true);
    let known = rows.filter(col("response_ns").is_not_null());
    let longest = known.clone().select([col("response_ns")]).sort(["response_ns"], by_time).limit(SLOWEST);
    let least = collect(longest.select([col("response_ns").min()]))?.column("response_ns")?.get(0)?.into_static();
    let order = SortMultipleOptions::default().with_order_descending_multi([true, false]);
    let slow = known.filter(col("response_ns").gt_eq(lit(Scalar::new(DataType::UInt64, least))));
    Ok(slow.sort(["response_ns", "number"], order).limit(SLOWEST))
}
