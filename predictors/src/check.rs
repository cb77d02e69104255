//! Checks isolation profiles before any predictor uses them.
//!
//! Profiles may be written by hand or come from different sources. The checks find impossible figures, wrong units (by
//! Little's law), equal names, and traces of different layers or storages.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};

use crate::predict_error::PredictError;
use crate::profile::is_possible;

/// A VM needs at least this many requests: a single request gives no rate.
const REQUESTS_MIN: u64 = 2;
/// The largest count of a profile, so that the sum of all that a file can hold fits 64 bits. 30,000 requests per second for
/// a year are fewer.
const COUNT_MAX: u64 = 1 << 40;
/// The arrival queue may differ by this factor from the number of outstanding requests by Little's law. Bursts cause
/// factors of tens; a wrong unit causes a factor of a thousand.
const LITTLE_FACTOR_MAX: f64 = 500.0;

/// Checks that there are two VMs or more, that each profile is possible, and that all were measured on the same layer
/// and storage.
///
/// # Errors
/// The reason, with the names of the VMs.
pub fn check(alone: &[IsolationProfile]) -> Result<(), PredictError> {
    if alone.len() < 2 {
        return Err(PredictError::TooFew(alone.len()));
    }
    for (index, profile) in alone.iter().enumerate() {
        if alone[..index].iter().any(|other| other.vm == profile.vm) {
            return Err(PredictError::SameName(profile.vm.clone()));
        }
        of_one(profile)?;
    }
    let layers = |profile: &IsolationProfile| profile.trace.as_ref().map(|trace| trace.layer);
    let measured: Vec<&IsolationProfile> = alone.iter().filter(|profile| profile.trace.is_some()).collect();
    same_storage(&measured)?;
    if let Some(pair) = measured.windows(2).find(|pair| layers(pair[0]) != layers(pair[1])) {
        let of = |profile: &IsolationProfile| {
            format!("{} at layer {}", profile.vm, layers(profile).map_or("", |layer| layer.name()))
        };
        return Err(PredictError::Disagree(format!(
            "{} was recorded, and {}: response times of different layers cannot be compared; capture both at the same \
             layer, or state the layer with --layer",
            of(pair[0]),
            of(pair[1])
        )));
    }
    Ok(())
}

/// Key of the drive of a replay, in [`traces::results::TraceProvenance::made`] of its profile.
pub const REPLAYED_ON: &str = "replayed_on";
/// Key of the scheduler, depth or stack of a replay, beside [`REPLAYED_ON`].
pub const REPLAYED_BEHIND: &str = "replayed_behind";

/// Checks that all VMs were replayed on the same storage, or none.
fn same_storage(measured: &[&IsolationProfile]) -> Result<(), PredictError> {
    let storage = |profile: &IsolationProfile| {
        let made = profile.trace.as_ref().map(|trace| &trace.made)?;
        Some(format!("replayed on {} behind {}", made.get(REPLAYED_ON)?, made.get(REPLAYED_BEHIND)?))
    };
    let Some(pair) = measured.windows(2).find(|pair| storage(pair[0]) != storage(pair[1])) else { return Ok(()) };
    let of = |profile: &IsolationProfile| {
        format!("{} was {}", profile.vm, storage(profile).unwrap_or_else(|| "recorded where it ran".to_owned()))
    };
    Err(PredictError::Disagree(format!(
        "{} and {}: their figures alone come from two devices; replay both on the same drive (--drive), or give \
         traces of the same device",
        of(pair[0]),
        of(pair[1])
    )))
}

/// Checks that no count is so large that sums of counts could overflow.
///
/// # Errors
/// The VM, and the largest count that is accepted.
pub fn counts(profile: &IsolationProfile) -> Result<(), PredictError> {
    let of_operation = |operation: &IsolatedOperation| {
        let batches = operation.batches.map_or([0; 2], |batches| [batches.count, batches.max]);
        let found = operation.found_joint.iter().flat_map(|&(reads, writes, times)| [reads, writes, times]);
        found.chain(batches).chain([operation.requests]).max().unwrap_or(0)
    };
    let of_streams = profile.streams.iter().map(|stream| stream.reads.max(stream.writes).max(stream.thinks)).max();
    let largest = of_operation(&profile.reads).max(of_operation(&profile.writes)).max(of_streams.unwrap_or(0));
    if largest > COUNT_MAX {
        let what = format!("a count of {largest}; counts must be numbers of at most {COUNT_MAX}");
        return Err(PredictError::profile(profile, what));
    }
    Ok(())
}

fn of_one(profile: &IsolationProfile) -> Result<(), PredictError> {
    counts(profile)?;
    let wrong = |what: String| Err(PredictError::profile(profile, what));
    let operations = [("reads", &profile.reads), ("writes", &profile.writes)];
    for (name, operation) in operations {
        if let Some(figure) = figures(operation).find(|figure| !figure.is_finite() || *figure < 0.0) {
            return wrong(format!(
                "{name} have a figure of {figure}; rates, times and lengths must be numbers of at least 0"
            ));
        }
        if operation.iops > 0.0 && operation.response_ns.is_none_or(|response| response <= 0.0) {
            return wrong(format!(
                "{} {name} a second without a response time: the trace has no completions, or the profile lacks \
                 response_ns",
                operation.iops
            ));
        }
        if operation.requests > 0
            && operation.requests < REQUESTS_MIN
            && profile.reads.requests + profile.writes.requests < REQUESTS_MIN
        {
            return wrong(format!("a single request ({name}) gives no rate; capture for longer"));
        }
    }
    if profile.reads.iops + profile.writes.iops <= 0.0 {
        return wrong("neither reads nor writes; a VM without requests does not disturb the others".to_owned());
    }
    if !is_possible(&profile.footprint) {
        return wrong("footprint must be ascending runs of pieces, on a device of less than 2^64 sectors".to_owned());
    }
    if profile.busy_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return wrong("busy_share must be a share of time, from 0 to 1".to_owned());
    }
    little(profile)
}

/// Checks the arrival queue against Little's law: outstanding requests are rate times response time, and a request
/// finds about as many.
fn little(profile: &IsolationProfile) -> Result<(), PredictError> {
    let operations = [&profile.reads, &profile.writes];
    let outstanding: f64 =
        operations.iter().map(|operation| operation.iops * operation.response_ns.unwrap_or(0.0) / 1e9).sum();
    let rate: f64 = operations.iter().map(|operation| operation.iops).sum();
    let found: f64 =
        operations.iter().map(|operation| operation.iops * operation.found_total.unwrap_or(0.0)).sum::<f64>() / rate;
    let any = operations.iter().any(|operation| operation.found_total.is_some());
    // Below one outstanding request the law gives no bound: a single client finds no request however busy it is.
    let suspicious = any
        && (found > 1.0 && found > LITTLE_FACTOR_MAX * outstanding
            || outstanding > 1.0 && outstanding > LITTLE_FACTOR_MAX * (found + 1.0));
    if !suspicious {
        return Ok(());
    }
    Err(PredictError::profile(
        profile,
        format!(
            "{rate:.1} requests a second with their response times make {outstanding:.3e} outstanding requests, but a \
             request finds {found:.3e}: their units disagree; rates are per second, response_ns and service_ns are nanoseconds"
        ),
    ))
}

/// The figures of an operation that must be finite and at least 0.
fn figures(operation: &IsolatedOperation) -> impl Iterator<Item = f64> {
    let IsolatedOperation { iops, response_ns, service_ns, service_square_ns2, .. } = operation;
    let IsolatedOperation { found_total, found_reads, found_writes, mean_bytes, response_variance_ns2, .. } = operation;
    let batches = operation.batches.map(|batches| [batches.mean, batches.mean_square]);
    [Some(*iops), *response_ns, *service_ns, *service_square_ns2, *found_total, *found_reads, *found_writes]
        .into_iter()
        .chain([*mean_bytes, *response_variance_ns2])
        .flatten()
        .chain(batches.into_iter().flatten())
}
