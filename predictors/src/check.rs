//! Whether profiles can be what they say, before any method goes by them.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};

use crate::predict_error::PredictError;
use crate::profile::is_possible;

/// Fewer requests than these say little; one says nothing.
const REQUESTS_MIN: u64 = 2;
/// How far what requests find may be from what rates and responses make of it (Little's law), as a factor. Bursts make it larger by
/// tens; a unit mistaken for another by a thousand.
const LITTLE: f64 = 500.0;

/// That there are two machines or more, that each is possible, and that they were measured alike.
///
/// # Errors
/// What is wrong, and of which machine.
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
            "{} was captured and {}: response times of different layers are not of one kind; capture both at one, or say \
             with --layer what they are",
            of(pair[0]),
            of(pair[1])
        )));
    }
    Ok(())
}

/// What a replay's profile says of where it was, in [`traces::results::TraceProvenance::made`].
pub const REPLAYED_ON: &str = "replayed_on";
/// And behind what.
pub const REPLAYED_BEHIND: &str = "replayed_behind";

/// That machines were replayed on one storage, if any were.
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
        "{} and {}: what each gets alone is then of two devices; replay both on one (--drive), or take captures of one device",
        of(pair[0]),
        of(pair[1])
    )))
}

fn of_one(profile: &IsolationProfile) -> Result<(), PredictError> {
    let wrong = |what: String| Err(PredictError::profile(profile, what));
    let operations = [("reads", &profile.reads), ("writes", &profile.writes)];
    for (name, operation) in operations {
        if let Some(figure) = figures(operation).find(|figure| !figure.is_finite() || *figure < 0.0) {
            return wrong(format!("{name} have a figure of {figure}; rates, times and lengths are numbers from 0 on"));
        }
        if operation.iops > 0.0 && operation.response_ns.is_none_or(|response| response <= 0.0) {
            return wrong(format!(
                "{} {name} a second without a response time: the trace tells no completions, or the profile leaves out \
                 response_ns",
                operation.iops
            ));
        }
        if operation.requests > 0
            && operation.requests < REQUESTS_MIN
            && profile.reads.requests + profile.writes.requests < REQUESTS_MIN
        {
            return wrong(format!("a single request ({name}) tells no rate; capture for longer"));
        }
    }
    if profile.reads.iops + profile.writes.iops <= 0.0 {
        return wrong("neither reads nor writes; a machine that does nothing takes nothing of the others".to_owned());
    }
    if !is_possible(&profile.footprint) {
        return wrong(
            "footprint is runs of pieces, one behind the other, of a device of less than 2^64 sectors".to_owned(),
        );
    }
    if profile.busy_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return wrong("busy_share is a share of time, from 0 to 1".to_owned());
    }
    little(profile)
}

/// What is under way at one time is rate times response; what requests find is about that.
fn little(profile: &IsolationProfile) -> Result<(), PredictError> {
    let operations = [&profile.reads, &profile.writes];
    let outstanding: f64 =
        operations.iter().map(|operation| operation.iops * operation.response_ns.unwrap_or(0.0) / 1e9).sum();
    let rate: f64 = operations.iter().map(|operation| operation.iops).sum();
    let found: f64 =
        operations.iter().map(|operation| operation.iops * operation.found_total.unwrap_or(0.0)).sum::<f64>() / rate;
    let any = operations.iter().any(|operation| operation.found_total.is_some());
    // Under a request at a time little can be said: a lone client finds nothing however busy it is.
    let suspicious = any
        && (found > 1.0 && found > LITTLE * outstanding || outstanding > 1.0 && outstanding > LITTLE * (found + 1.0));
    if !suspicious {
        return Ok(());
    }
    Err(PredictError::profile(
        profile,
        format!(
            "{rate:.1} requests a second with their response times make {outstanding:.3e} requests under way, but a request \
             finds {found:.3e}: their units disagree; rates are per second, response_ns and service_ns are nanoseconds"
        ),
    ))
}

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
