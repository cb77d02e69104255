//! Isolation profiles of a few requests, with each figure computed by hand.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_predictors::profile::Measure;
use traces::results::TraceProvenance;
use traces::results::isolation::IsolationProfile;
use traces::{Layer, Lba, Nanos, Observed, Operation, Record, Request, Sectors, StreamId, Timestamp, TraceMeta};

/// Stream and operation; arrival, issue (0: not recorded) and completion in ms; address.
type Row = (u32, Operation, u64, u64, u64, u64);

fn profile(rows: &[Row]) -> IsolationProfile {
    let meta = TraceMeta::new("csv", Layer::GuestQueue, "monotonic");
    let mut measure = Measure::new(&meta);
    for &(stream, operation, arrival, issued, completed, lba) in rows {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        let mut request = Request::new(at(arrival), operation, Lba::new(lba), Sectors::new(16));
        request.stream = StreamId(stream);
        let observed = Observed {
            issued: (issued > 0).then(|| at(issued)),
            completed: Some(at(completed)),
            ..Observed::default()
        };
        measure.record(&Record { request, observed });
    }
    let provenance = TraceProvenance { vm: "a".to_owned(), ..TraceProvenance::of(&meta, rows.len() as u64) };
    let (profile, left_out) = measure.finish("a", "test", provenance, &meta);
    assert_eq!(left_out, 0);
    profile
}

const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write;

#[test]
fn figures_match_those_computed_by_hand() {
    let profile = profile(&[
        (1, READ, 100, 110, 130, 0),
        (2, READ, 105, 111, 140, 1 << 20),
        (3, WRITE, 120, 120, 160, 64),
        (1, READ, 150, 150, 190, 32),
        (2, READ, 170, 170, 200, 1 << 20),
        (4, Operation::Flush, 180, 180, 210, 0),
    ]);
    // From the first issue at 110 to the last completion at 200; the flush is neither read nor written.
    assert_eq!(profile.span_ns, Nanos::from_ms(90));
    assert_eq!((profile.reads.requests, profile.writes.requests), (4, 1));
    assert!((profile.reads.iops - 4.0 / 0.09).abs() < 1e-9);
    assert_eq!(profile.reads.mean_bytes, Some(8192.0));
    // D2C: 20, 29, 40 and 30 ms.
    assert_eq!(profile.reads.response_ns, Some(29.75e6));
    assert_eq!(profile.writes.response_ns, Some(40e6));
    // From the completion before or the issue, whichever is later: reads 20 and 10, the write 20, reads 30 and 10 ms.
    assert_eq!(profile.reads.service_ns, Some(17.5e6));
    assert_eq!(profile.reads.service_square_ns2, Some((400.0 + 100.0 + 900.0 + 100.0) / 4.0 * 1e12));
    assert_eq!(profile.writes.service_ns, Some(20e6));
    // The reads find nothing, one read, the write, and the read issued at 150. The write finds the first two reads.
    assert_eq!((profile.reads.found_total, profile.reads.found_writes), (Some(0.75), Some(0.25)));
    assert_eq!((profile.writes.found_reads, profile.writes.found_writes), (Some(2.0), Some(0.0)));
    let batches = profile.reads.batches.unwrap();
    assert_eq!((batches.count, batches.max), (3, 2));
    // Streams 1 and 2 think for 20 ms (130 to 150) and 30 ms (140 to 170). Stream 3 sends nothing more, 4 only flushes.
    let thinks: Vec<(u32, u64, u64, Option<f64>)> =
        profile.streams.iter().map(|stream| (stream.stream, stream.reads, stream.writes, stream.think_ns)).collect();
    assert_eq!(thinks, [(1, 2, 0, Some(20e6)), (2, 2, 0, Some(30e6)), (3, 0, 1, None)]);
    assert_eq!(profile.footprint.runs, [(0, 1), (512, 1)]);
}

#[test]
fn record_without_issue_time_counts_as_issued_on_arrival() {
    let with = profile(&[(1, READ, 100, 100, 130, 0), (1, READ, 140, 140, 150, 0)]);
    let without = profile(&[(1, READ, 100, 0, 130, 0), (1, READ, 140, 0, 150, 0)]);
    assert_eq!(with, without);
    assert_eq!(with.reads.response_ns, Some(20e6));
    assert_eq!(with.busy_share, Some(0.8));
}

#[test]
fn stream_with_outstanding_requests_does_not_think() {
    let profile = profile(&[
        (1, READ, 100, 100, 200, 0),
        (1, READ, 110, 110, 120, 64),
        (1, READ, 150, 150, 160, 128),
        (1, READ, 230, 230, 240, 0),
    ]);
    assert_eq!((profile.streams[0].thinks, profile.streams[0].think_ns), (1, Some(30e6)));
}
