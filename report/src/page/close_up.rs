//! A short part of a run, request by request: which waited, and which the device served when, and where.

use std::collections::BTreeMap;

use traces::results::history::CloseUp;

use super::courses::Course;
use super::{Axis, Chart, Marks, Spans};

/// The chart of a run; none if the device served nothing.
pub(super) fn chart_of(course: &Course<'_>) -> Option<Chart> {
    let CloseUp { begin_ns, requests } = &course.history.close_up;
    let first = requests.first()?;
    let several = requests.iter().any(|request| request.vm != first.vm);
    let mut kinds: BTreeMap<(usize, bool), Spans> = BTreeMap::new();
    for request in requests {
        let class = if request.is_write { "writes" } else { "reads" };
        let spans = kinds.entry((request.vm, request.is_write)).or_insert_with(|| Spans {
            name: match course.history.vms.get(request.vm) {
                Some(vm) if several => format!("{}: {class}", vm.vm),
                _ => class.to_owned(),
            },
            ..Spans::default()
        });
        let [arrived, started, finished] =
            [request.arrived_ns, request.started_ns, request.finished_ns].map(|at| at.as_ns() as f64 / 1e9);
        let height = request.lba.sector() as f64 * 512.0 / 1e9;
        // What waits since before the part begins is shown from there on.
        spans.thin.push([arrived.max(begin_ns.as_ns() as f64 / 1e9), started, height]);
        spans.thick.push([started, finished, height]);
    }
    let about = format!(
        "{} requests of the device from {:.1} s on, thin while they wait and thick while they are served. The part is \
         chosen by its time alone.",
        requests.len(),
        begin_ns.as_ns() as f64 / 1e9
    );
    Some(Chart {
        title: format!("Waiting and service{}", course.under()),
        about,
        x: Axis::linear("time, s"),
        y: Axis::linear("address, GB"),
        marks: Marks::Spans(kinds.into_values().collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use traces::results::history::{History, ShownRequest, VmHistory};
    use traces::{Lba, Nanos, Sectors};

    #[test]
    fn requests_are_thin_while_they_wait_and_thick_in_service() {
        let request = |vm, is_write, arrived| ShownRequest {
            vm,
            is_write,
            lba: Lba::new(2_000_000),
            sectors: Sectors::new(8),
            arrived_ns: Nanos::from_ms(arrived),
            started_ns: Nanos::from_ms(2500),
            finished_ns: Nanos::from_ms(3000),
        };
        let close_up =
            CloseUp { begin_ns: Nanos::from_s(2), requests: vec![request(0, false, 1000), request(1, true, 2250)] };
        let vm = |vm: &str| VmHistory { vm: vm.to_owned(), ..VmHistory::default() };
        let history = History { close_up, vms: vec![vm("web"), vm("mail")], ..History::default() };
        let chart = chart_of(&Course::of_capture(&history)).unwrap();
        let Marks::Spans(spans) = &chart.marks else { panic!("{chart:?}") };
        assert_eq!([&spans[0].name, &spans[1].name], ["web: reads", "mail: writes"]);
        assert_eq!((&spans[0].thin[..], &spans[0].thick[..]), (&[[2.0, 2.5, 1.024]][..], &[[2.5, 3.0, 1.024]][..]));
        assert_eq!(spans[1].thin, [[2.25, 2.5, 1.024]]);
        assert!(chart.about.starts_with("2 requests of the device from 2.0 s on"), "{}", chart.about);
        assert!(chart_of(&Course::of_capture(&History::default())).is_none());
    }
}
