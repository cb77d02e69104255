//! Groups of requests: number, mean, quantiles and largest response time, requests and bytes per second.
//!
//! All of it takes two passes over the rows, in memory that grows with the number of groups.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use polars::prelude::*;
use traces::SECTOR_BYTES;

use crate::output::collect;
use crate::quantiles::{Place, Share, place, value_of};
use crate::requests::Requests;

/// The column of a request's bucket of response times, and that of its group's number.
const BUCKET: &str = "bucket";
const GROUP: &str = "group";
/// Buckets in each doubling of the response time, so that one is about 1 % wide.
const BUCKETS_PER_DOUBLING: f64 = 64.0;

/// A row per group of requests with the same values in the columns `by`. Schedulers and files are never mixed.
///
/// # Errors
/// Files that cannot be read.
pub fn grouped(requests: &Requests, by: &[String], shares: &[Share]) -> Result<LazyFrame> {
    let keys = keys(requests, by);
    let rows = requests.rows.clone().with_columns([bucket().alias(BUCKET)]);
    let of_keys = columns(&keys);
    let of_buckets = [of_keys.clone(), vec![col(BUCKET)]].concat();
    let counted = collect(rows.clone().group_by(of_buckets.clone()).agg(sums()))?.lazy();
    let groups = counted.clone().group_by(of_keys.clone()).agg(sums_of_sums()).sort(keys.clone(), sort_options());
    let groups = collect(groups.with_row_index(GROUP, None))?;
    let numbers = groups.clone().lazy().select([columns(&[GROUP]), of_keys.clone()].concat());
    let counted = collect(counted.join(numbers, of_keys.clone(), of_keys, equal()))?;
    let quantiles = quantiles(&rows, &counted, &of_buckets, groups.height(), shares)?;
    let mut table = groups.lazy().with_columns(over_time(requests)?);
    for (share, values) in shares.iter().zip(quantiles) {
        table = table.with_columns([lit(Series::new(quantile_name(*share).into(), values))]);
    }
    let figures = [columns(&["requests"]), vec![mean("response_sum_ns", "answered").alias("mean_ns")]].concat();
    let quantiles: Vec<Expr> = shares.iter().map(|share| col(quantile_name(*share))).collect();
    let rest = columns(&["max_ns", "iops", "mb_per_s"]);
    Ok(table.select([columns(&keys), figures, quantiles, rest].concat()))
}

/// The columns of a group: those of a run before those asked for, none twice.
fn keys(requests: &Requests, by: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = requests.run.iter().map(|&column| column.to_owned()).collect();
    for column in by {
        if !keys.contains(column) {
            keys.push(column.clone());
        }
    }
    keys
}

/// The name of a quantile's column.
fn quantile_name(share: Share) -> String {
    format!("{}_ns", share.name())
}

pub fn columns<S: AsRef<str>>(names: &[S]) -> Vec<Expr> {
    names.iter().map(|name| col(name.as_ref())).collect()
}

/// The mean of a sum, from integers, so that it does not depend on the order in which threads add.
pub fn mean(sum: &str, count: &str) -> Expr {
    let mean = col(sum).cast(DataType::Float64) / col(count).cast(DataType::Float64);
    when(col(count).gt(lit(0))).then(mean).otherwise(lit(NULL))
}

pub fn sort_options() -> SortMultipleOptions {
    SortMultipleOptions::default().with_maintain_order(true)
}

/// Joins rows of equal keys; absent ones are equal, too.
fn equal() -> JoinArgs {
    JoinArgs { nulls_equal: true, ..JoinArgs::new(JoinType::Inner) }
}

/// The bucket of a response time. Larger times never have a smaller one: up to a day, the logarithms of two whole
/// numbers of ns are further apart than floating point rounds.
fn bucket() -> Expr {
    let logarithm = (col("response_ns").cast(DataType::Float64) + lit(1.0)).log(lit(2.0));
    (logarithm * lit(BUCKETS_PER_DOUBLING)).cast(DataType::UInt32)
}

/// The bytes that requests moved. Flushes and discards move none.
pub fn bytes() -> Expr {
    let moves = col("operation").eq(lit("read")).or(col("operation").eq(lit("write")));
    when(moves).then(col("sectors").cast(DataType::UInt64) * lit(SECTOR_BYTES)).otherwise(lit(0_u64))
}

fn sums() -> Vec<Expr> {
    vec![
        len().cast(DataType::UInt64).alias("requests"),
        col("response_ns").count().cast(DataType::UInt64).alias("answered"),
        col("response_ns").sum().alias("response_sum_ns"),
        col("response_ns").max().alias("max_ns"),
        bytes().sum().alias("bytes"),
        col("arrival_ns").min().alias("begin_ns"),
        col("completed_ns").max().alias("end_ns"),
    ]
}

fn sums_of_sums() -> Vec<Expr> {
    let summed = ["requests", "answered", "response_sum_ns", "bytes"].map(|name| col(name).sum());
    summed.into_iter().chain([col("max_ns").max(), col("begin_ns").min(), col("end_ns").max()]).collect()
}

/// Requests and bytes per second of the whole replay, from its first arrival to its last completion.
fn over_time(requests: &Requests) -> Result<[Expr; 2]> {
    let (begin, end) =
        (col("begin_ns").min().over(columns(&requests.run))?, col("end_ns").max().over(columns(&requests.run))?);
    let seconds = (end - begin).cast(DataType::Float64) / lit(1e9);
    let per_second = |what: Expr| when(seconds.clone().gt(lit(0.0))).then(what / seconds.clone()).otherwise(lit(NULL));
    let iops = per_second(col("requests").cast(DataType::Float64));
    let mb_per_s = per_second(col("bytes").cast(DataType::Float64) / lit(1e6));
    Ok([iops.alias("iops"), mb_per_s.alias("mb_per_s")])
}

/// By share, the quantile of each group. `counted` has the number of values by group and bucket.
fn quantiles(
    rows: &LazyFrame,
    counted: &DataFrame,
    of_buckets: &[Expr],
    groups: usize,
    shares: &[Share],
) -> Result<Vec<Vec<Option<u64>>>> {
    let mut buckets: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); groups];
    for [group, bucket, count] in numbers(counted, [GROUP, BUCKET, "answered"])? {
        buckets[group as usize].insert(bucket as u32, count);
    }
    let place_in = |buckets: &BTreeMap<u32, u64>, share: &Share| place(buckets, share.rank(buckets.values().sum()));
    let places: Vec<Vec<Option<Place>>> =
        shares.iter().map(|share| buckets.iter().map(|buckets| place_in(buckets, share)).collect()).collect();
    let lies_in = |places: &Vec<Option<Place>>| -> Vec<(u32, u32)> {
        let placed = (0..).zip(places).filter_map(|(group, place)| Some((group, place.as_ref()?.bucket)));
        placed.collect()
    };
    let wanted: BTreeSet<(u32, u32)> = places.iter().flat_map(lies_in).collect();
    let values = values_in(rows, counted, of_buckets, wanted)?;
    let value = |(group, place): (u32, &Option<Place>)| {
        let place = place.as_ref()?;
        value_of(values.get(&(group, place.bucket))?, place.rank)
    };
    Ok(places.iter().map(|places| (0..).zip(places).map(value).collect()).collect())
}

/// The values in the `wanted` buckets of groups, with the number of times that each occurs: the second pass.
fn values_in(
    rows: &LazyFrame,
    counted: &DataFrame,
    of_buckets: &[Expr],
    wanted: BTreeSet<(u32, u32)>,
) -> Result<BTreeMap<(u32, u32), BTreeMap<u64, u64>>> {
    let (groups, buckets): (Vec<u32>, Vec<u32>) = wanted.into_iter().unzip();
    let wanted = df!(GROUP => groups, BUCKET => buckets)?.lazy();
    let both = columns(&[GROUP, BUCKET]);
    let keys = counted.clone().lazy().join(wanted, both.clone(), both, equal());
    let keys = collect(keys.select([of_buckets, &columns(&[GROUP])].concat()))?.lazy();
    let values = rows.clone().join(keys, of_buckets, of_buckets, equal());
    let single = columns(&[GROUP, BUCKET, "response_ns"]);
    let values = collect(values.group_by(single).agg([len().alias("requests")]))?;
    let mut found: BTreeMap<(u32, u32), BTreeMap<u64, u64>> = BTreeMap::new();
    for [group, bucket, value, count] in numbers(&values, [GROUP, BUCKET, "response_ns", "requests"])? {
        found.entry((group as u32, bucket as u32)).or_default().insert(value, count);
    }
    Ok(found)
}

/// The rows of these columns in which none is absent.
fn numbers<const N: usize>(frame: &DataFrame, names: [&str; N]) -> Result<Vec<[u64; N]>> {
    let mut rows = vec![Some([0; N]); frame.height()];
    for (index, name) in names.into_iter().enumerate() {
        let column = frame.column(name)?.cast(&DataType::UInt64)?;
        for (row, value) in rows.iter_mut().zip(column.u64()?.iter()) {
            match (row.as_mut(), value) {
                (Some(row), Some(value)) => row[index] = value,
                _ => *row = None,
            }
        }
    }
    Ok(rows.into_iter().flatten().collect())
}
