//! What a forecast lacks: questions to the user, each with the option that answers it and what is assumed without it.

use predictors::{Outcomes, ranked};
use traces::origin::without_folders;
use traces::results::isolation::{Footprint, IsolationProfile};
use traces::results::prediction::Outcome;
use traces::{Nanos, Sectors};

use super::profiles::VmInput;
use crate::arguments::Predict;
use crate::units::span;

/// The questions about the VMs `inputs`: first those that run together, whose profiles are `alone`, then the others.
pub fn questions(
    inputs: &[VmInput],
    [alone, also]: [&[IsolationProfile]; 2],
    forecasts: &Outcomes,
    arguments: &Predict,
) -> Vec<String> {
    let on_recorded_device = arguments.replayed_on.drive.is_none();
    let places = if on_recorded_device { places(inputs, alone, also) } else { None };
    let inputs = &inputs[..alone.len()];
    // Replays last until the first VM has used up its trace.
    let lengths = if on_recorded_device { lengths(inputs, alone, arguments.span.start) } else { None };
    let of_traces = lengths.into_iter().chain(traces(inputs, forecasts));
    places.into_iter().chain(of_traces).chain(further_traces(forecasts, arguments)).collect()
}

/// Asks for the places of the VMs' disks, if traces without a place lie across others.
fn places(inputs: &[VmInput], alone: &[IsolationProfile], also: &[IsolationProfile]) -> Option<String> {
    let together = alone.len();
    let alone: Vec<&IsolationProfile> = alone.iter().chain(also).collect();
    let ranges: Vec<Option<(u64, u64)>> = alone.iter().map(|profile| range(&profile.footprint)).collect();
    let across = |one: usize, other: usize| match (ranges[one], ranges[other]) {
        (Some(one), Some(other)) => one.0 < other.1 && other.0 < one.1,
        _ => false,
    };
    let unplaced = |&vm: &usize| {
        let asked = !inputs[vm].is_profile() && inputs[vm].named.place.is_none();
        asked && (0..inputs.len()).any(|other| other != vm && across(vm, other))
    };
    let asked: Vec<usize> = (0..inputs.len()).filter(unplaced).collect();
    if asked.is_empty() {
        return None;
    }
    let names: Vec<&str> = asked.iter().map(|&vm| alone[vm].vm.as_str()).collect();
    Some(format!(
        "Where on the device does the disk of each VM begin ({})? Add the place to the file: {}. Assumed: the \
         recorded addresses are those of the device.",
        names.join(", "),
        example(inputs, together, &ranges)
    ))
}

/// Spans of traces differ if the longest is this many times the shortest.
const SPANS_DIFFER: f64 = 1.1;

/// Asks for the time that traces of different lengths share.
fn lengths(inputs: &[VmInput], alone: &[IsolationProfile], start: Nanos) -> Option<String> {
    let spans = inputs.iter().zip(alone).filter(|(input, _)| !input.is_profile());
    let mut spans: Vec<(f64, &str)> =
        spans.map(|(_, profile)| (profile.span_ns.as_ns() as f64, profile.vm.as_str())).collect();
    spans.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (&(shortest, short), &(longest, long)) = (spans.first()?, spans.last()?);
    // Times of the command line count from the first arrival of a trace.
    let end = (start.as_ns() as f64 + shortest) / 1e9;
    (shortest > 0.0 && longest > shortest * SPANS_DIFFER).then(|| {
        format!(
            "What do VMs do after their traces end? The trace of {short} covers {} and that of {long} {}. Add --end \
             {}s to forecast the time that all traces cover. Assumed: a VM is idle after its trace, and its rates \
             are over the longest.",
            span(shortest),
            span(longest),
            (end * 10.0).floor() / 10.0
        )
    })
}

/// The VMs as arguments, with disks one behind the other at whole GiB. Only the first ones run together.
fn example(inputs: &[VmInput], together: usize, ranges: &[Option<(u64, u64)>]) -> String {
    const GIB: u64 = 2 << 20;
    let mut place = 0u64;
    let mut arguments = Vec::new();
    for (index, (input, range)) in inputs.iter().zip(ranges).enumerate() {
        let (path, name) = (input.named.path.to_string_lossy(), &input.named.name);
        // The ellipsis says that a folder is missing.
        let path = match without_folders(&path) {
            file if file.len() < path.len() => format!("…/{file}"),
            path => path.to_owned(),
        };
        let path = if input.given { format!("{name}={path}") } else { path };
        let path = if index < together { path } else { format!("--also {path}") };
        let given = input.named.place.map(Sectors::count);
        if input.is_profile() {
            continue;
        }
        // The range of a placed VM is on the device already.
        let (at, end) = range.unwrap_or_default();
        let length = if given.is_some() { end.saturating_sub(at) } else { end };
        let begin = given.map_or(place, |given| given / GIB);
        arguments.push(if begin == 0 { format!("{path}@0") } else { format!("{path}@{begin}g") });
        place = place.max(begin.saturating_add(length.div_ceil(GIB)));
    }
    arguments.join(" ")
}

/// The first touched sector and the end of the last.
fn range(footprint: &Footprint) -> Option<(u64, u64)> {
    let (first, _) = footprint.runs.first()?;
    let (last, count) = footprint.runs.last()?;
    let sector = |piece: u64| piece.saturating_mul(footprint.piece_sectors);
    Some((sector(*first), sector(last.saturating_add(*count))))
}

/// Asks for traces in place of profiles, if a predictor that needs traces refuses for that reason.
fn traces(inputs: &[VmInput], forecasts: &Outcomes) -> Option<String> {
    let profiles: Vec<&str> =
        inputs.iter().filter(|input| input.is_profile()).map(|input| input.named.name.as_str()).collect();
    let refuses = |(name, outcome): (&String, &Outcome)| {
        matches!(outcome, Outcome::Refused { .. }) && ranked(name).1.is_some_and(|entry| entry.needs_traces)
    };
    (!profiles.is_empty() && forecasts.iter().any(refuses)).then(|| {
        format!(
            "Which traces are the profiles of? {} given as a profile, which holds no single requests; give the traces \
             of all VMs for the twin. Assumed: rates and mean response times, put into formulas.",
            if let [one] = profiles[..] { format!("{one} is") } else { format!("{} are", profiles.join(", ")) }
        )
    })
}

/// Asks for traces of further VMs, if the twin has a forecast without them.
fn further_traces(forecasts: &Outcomes, arguments: &Predict) -> Option<String> {
    let twin = |(name, outcome): (&String, &Outcome)| {
        let is = ranked(name).1.is_some_and(|entry| entry.name == "twin");
        is && matches!(outcome, Outcome::Forecast(_))
    };
    (arguments.also.is_empty() && forecasts.iter().any(twin)).then(|| {
        "Which other VMs ran alone on this device? Add the trace of each with --also FILE@PLACE; the twin learns the \
         device's dispatch order and seeks from them. Assumed: none did."
            .to_owned()
    })
}
