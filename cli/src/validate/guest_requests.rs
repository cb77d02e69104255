//! A guest's capture as the requests that reached its scheduler, and the figures of a time span.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use traces::results::supports_percentile;
use traces::statistics::Distribution;
use traces::trace::ReadOptions;
use traces::{Nanos, Operation, Record, Request, Sectors, Timestamp, formats};

/// The hundredths of a percent of the percentile that is compared.
const P99: u32 = 9_900;

/// Reads a guest's capture up to `end` after its first arrival, whose time becomes zero.
///
/// # Errors
/// The capture cannot be read.
pub fn read(path: &Path, end: Nanos) -> Result<Vec<Record>> {
    let mut reader = formats::open(path, &ReadOptions::default())?;
    let mut records = Vec::new();
    let mut first = None;
    while let Some(mut record) = reader.next()? {
        let first = *first.get_or_insert(record.request.arrival);
        let since = |time: Timestamp| Timestamp::ZERO.saturating_add(time.saturating_since(first));
        if record.request.arrival.saturating_since(first) >= end {
            break;
        }
        record.request.arrival = since(record.request.arrival);
        let observed = &mut record.observed;
        for time in [&mut observed.inserted, &mut observed.issued, &mut observed.completed] {
            *time = time.map(since);
        }
        records.push(record);
    }
    Ok(unplugged(records))
}

/// The requests that the arrivals of a capture made before a scheduler saw them, in order of arrival.
///
/// A process collects its arrivals in a plug, where the kernel merges neighbours. The merged ones share the times of
/// insertion, issue and completion, and lie side by side. A replay merges only what waits for the device, and would
/// send them one by one. A request arrives when its last arrival has come, because the plug holds it until then.
/// Arrivals that were merged later, into a request in the scheduler, stay apart: their insertion is the merge.
fn unplugged(records: Vec<Record>) -> Vec<Record> {
    let mut together: BTreeMap<_, Vec<Record>> = BTreeMap::new();
    let mut requests = Vec::new();
    for record in records {
        let (request, observed) = (&record.request, &record.observed);
        match (observed.issued, observed.completed) {
            (Some(issued), Some(completed)) if request.operation.moves_data() => {
                let key = (completed, issued, observed.inserted, request.operation as u8, request.stream);
                together.entry(key).or_default().push(record);
            }
            _ => requests.push(record),
        }
    }
    for mut group in together.into_values() {
        group.sort_by_key(|record| record.request.lba);
        let mut merged: Option<Record> = None;
        for record in group {
            match &mut merged {
                Some(before) if before.request.end() == record.request.lba => {
                    before.request.set_sectors(before.request.sectors() + record.request.sectors());
                    before.request.arrival = before.request.arrival.max(record.request.arrival);
                }
                _ => requests.extend(merged.replace(record)),
            }
        }
        requests.extend(merged);
    }
    requests.sort_by_key(|record| (record.request.arrival, record.request.lba));
    requests
}

/// A request that has completed.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub request: Request,
    pub response: Nanos,
}

/// The completed reads and writes of a capture.
pub fn done(records: &[Record]) -> Vec<Done> {
    let done = |record: &Record| Some(Done { request: record.request, response: record.response_time()? });
    records.iter().filter_map(done).collect()
}

/// A request that the guest sent to its disk: one arrival, or several that were merged.
#[derive(Clone, Copy, Debug)]
pub struct AtDevice {
    pub bytes: u64,
    pub issued: Timestamp,
}

/// The requests that a capture saw at the disk. Arrivals that were merged on the way share their times.
pub fn at_device(records: &[Record]) -> Vec<AtDevice> {
    let mut requests: BTreeMap<_, u64> = BTreeMap::new();
    for Record { request, observed } in records {
        if let (Some(issued), Some(completed)) = (observed.issued, observed.completed)
            && request.operation.moves_data()
        {
            *requests.entry((issued, completed, request.operation as u8)).or_default() += request.sectors().bytes();
        }
    }
    requests.into_iter().map(|((issued, ..), bytes)| AtDevice { bytes, issued }).collect()
}

/// A figure that is compared: its name, whether more is better.
pub const FIGURES: [(&str, bool); 6] = [
    ("bytes_per_s", true),
    ("requests_per_s", true),
    ("read_response_mean_ns", false),
    ("read_response_p99_ns", false),
    ("write_response_mean_ns", false),
    ("write_response_p99_ns", false),
];

/// The values of [`FIGURES`] over the reads and writes that arrived from `begin` to before `end`. Times without
/// requests are absent, and so are percentiles that too few requests support.
pub fn figures(done: &[Done], begin: Timestamp, end: Timestamp) -> [Option<f64>; FIGURES.len()] {
    let mut bytes = 0;
    let mut responses = [Distribution::default(), Distribution::default()];
    for Done { request, response } in done {
        let of = match request.operation {
            Operation::Read => &mut responses[0],
            Operation::Write => &mut responses[1],
            Operation::Flush | Operation::Discard => continue,
        };
        if (begin..end).contains(&request.arrival) && request.sectors() > Sectors::ZERO {
            of.add(*response);
            bytes += request.sectors().bytes();
        }
    }
    let seconds = end.saturating_since(begin).as_s_f64();
    let per_s = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    let mean = |of: &Distribution| of.moments().mean_ns;
    let p99 = |of: &Distribution| {
        of.percentile_ns(P99).filter(|_| supports_percentile(of.count(), "p99")).map(|ns| ns as f64)
    };
    let [read, write] = &responses;
    [per_s(bytes), per_s(read.count() + write.count()), mean(read), p99(read), mean(write), p99(write)]
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Observed};

    use super::*;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_ns(ms * 1_000_000)
    }

    /// A write of 8 sectors: when it arrived, was inserted, issued and completed, in ms.
    fn write(lba: u64, arrival: u64, inserted: Option<u64>, issued: u64, completed: u64) -> Record {
        let request = Request::new(ms(arrival), Operation::Write, Lba::new(lba), Sectors::new(8));
        let observed =
            Observed { inserted: inserted.map(ms), issued: Some(ms(issued)), completed: Some(ms(completed)), error: 0 };
        Record { request, observed }
    }

    fn shapes(records: &[Record]) -> Vec<(u64, u64, u64)> {
        let of = |record: &Record| {
            let request = &record.request;
            (request.lba.sector(), request.sectors().count(), request.arrival.as_ns() / 1_000_000)
        };
        records.iter().map(of).collect()
    }

    #[test]
    fn arrivals_that_were_merged_in_a_plug_become_one_request() {
        // Three neighbours in one plug, and another request of the same plug that is no neighbour.
        let plug = |lba, arrival| write(lba, arrival, None, 5, 20);
        let found = unplugged(vec![plug(8, 1), plug(0, 2), plug(16, 3), plug(100, 4)]);
        assert_eq!(shapes(&found), [(0, 24, 3), (100, 8, 4)]);
        assert_eq!(found[0].response_time(), Some(Nanos::from_ms(17)));
    }

    #[test]
    fn other_neighbours_stay_apart() {
        // Merged after the request was inserted: the scheduler did that.
        let later = unplugged(vec![write(0, 1, Some(2), 9, 20), write(8, 4, Some(4), 9, 20)]);
        assert_eq!(shapes(&later), [(0, 8, 1), (8, 8, 4)]);
        // Issued or completed at other times; of other streams; of another operation.
        let mut other_stream = write(8, 2, None, 5, 20);
        other_stream.request.stream = traces::StreamId(7);
        let mut read = write(8, 2, None, 5, 20);
        read.request.operation = Operation::Read;
        for other in [write(8, 2, None, 6, 20), write(8, 2, None, 5, 21), other_stream, read] {
            assert_eq!(unplugged(vec![write(0, 1, None, 5, 20), other]).len(), 2, "{other:?}");
        }
        // Without a completion nothing is known.
        let mut lost = [write(0, 1, None, 5, 20), write(8, 2, None, 5, 20)];
        for record in &mut lost {
            record.observed.completed = None;
        }
        assert_eq!(unplugged(lost.to_vec()).len(), 2);
    }

    #[test]
    fn figures_are_of_requests_that_arrived_within_the_time() {
        let done = |operation, arrival, response| Done {
            request: Request::new(ms(arrival), operation, Lba::new(0), Sectors::new(16)),
            response: Nanos::from_ms(response),
        };
        let all = [
            done(Operation::Read, 999, 500),
            done(Operation::Read, 1000, 4),
            done(Operation::Write, 2500, 7),
            done(Operation::Read, 2999, 8),
            done(Operation::Flush, 2000, 50),
            done(Operation::Read, 3000, 500),
        ];
        let [bytes, requests, read, read_p99, write, _] = figures(&all, ms(1000), ms(3000));
        assert_eq!((bytes, requests), (Some(3.0 * 8192.0 / 2.0), Some(1.5)));
        // Two reads support no 99th percentile.
        assert_eq!((read, read_p99, write), (Some(6e6), None, Some(7e6)));
        let many = vec![done(Operation::Read, 1000, 3); 299];
        assert!(figures(&many, ms(1000), ms(3000))[3].is_some_and(|p99| (p99 / 3e6 - 1.0).abs() < 0.02));
        assert_eq!(figures(&[], ms(0), ms(0)), [None; FIGURES.len()]);
    }
}
