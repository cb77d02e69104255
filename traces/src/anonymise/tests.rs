use proptest::prelude::*;

use super::*;
use crate::record::Observed;
use crate::request::Request;
use crate::trace::Layer;

const KEY: &[u8; 16] = b"sixteen bytes ok";

fn request(lba: u64, sectors: u64) -> Record {
    Record::arrived(Request::new(Timestamp::from_ns(7), Operation::Read, Lba::new(lba), Sectors::new(sectors)))
}

fn with_addresses(key: &[u8], end: u64, longest: u64) -> Anonymiser {
    Anonymiser::new(key).unwrap().with_addresses(Lba::new(end), Sectors::new(longest)).unwrap()
}

fn meta() -> TraceMeta {
    let mut meta = TraceMeta::new("blktrace", Layer::GuestQueue, "monotonic");
    meta.clock.zero_unix_ns = Some(1_700_000_000_000_000_000);
    meta.vms = vec!["mail.example.org".to_owned(), "web.example.org".to_owned()];
    meta.streams = BTreeMap::from([(4711, "postgres".to_owned()), (4712, "/customers/acme".to_owned())]);
    for (key, value) in [("host", "rack7"), ("message", "for acme"), ("source_format", "vscsi")] {
        meta.provenance.insert(key.to_owned(), value.to_owned());
    }
    meta.capacity_sectors = Some(Sectors::new(1 << 30));
    meta
}

#[test]
fn no_name_message_or_time_of_day_is_left() {
    let anonymous = Anonymiser::new(KEY).unwrap().meta(&meta());
    let text = serde_json::to_string(&anonymous).unwrap();
    for secret in ["mail", "web", "example", "postgres", "acme", "rack7", "4711", "4712", "1700000000"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(anonymous.vms.len(), 2);
    assert_eq!(anonymous.streams.len(), 2);
    assert_eq!(anonymous.provenance.keys().collect::<Vec<_>>(), ["host", "source_format"]);
    assert_eq!(anonymous.provenance["source_format"], "vscsi");
    assert_eq!(anonymous.capacity_sectors, meta().capacity_sectors);
}

#[test]
fn of_captures_of_events_methods_and_counts_stay_and_the_device_does_not() {
    let mut meta = meta();
    for format in ["blktrace", "blkparse", "ftrace", "trace-pipe-raw", "parquet", "other"] {
        for (key, value) in [("merges", "5"), ("device", "254:16"), ("zero_ns", "77"), ("kernel", "6.1-acme")] {
            meta.provenance.insert(format!("{format}.{key}"), value.to_owned());
        }
    }
    meta.provenance.insert("capture.files.web".to_owned(), "[\"/srv/acme.img\"]".to_owned());
    let anonymous = Anonymiser::new(KEY).unwrap().meta(&meta).provenance;
    for format in ["blktrace", "blkparse", "ftrace", "trace-pipe-raw"] {
        assert_eq!(anonymous[&format!("{format}.merges")], "5");
        assert!(anonymous[&format!("{format}.device")].starts_with(&format!("{format}.device-")));
    }
    assert_eq!(anonymous.len(), 2 + 4 * 2, "{anonymous:?}");
}

#[test]
fn a_name_has_one_pseudonym_per_key_and_kind() {
    let one = Anonymiser::new(b"one is the first key").unwrap();
    assert_eq!(one.pseudonym("vm", "web"), Anonymiser::new(b"one is the first key").unwrap().pseudonym("vm", "web"));
    assert_ne!(one.pseudonym("vm", "web"), Anonymiser::new(b"two is the other key").unwrap().pseudonym("vm", "web"));
    let digits = |name: String| name.rsplit_once('-').unwrap().1.to_owned();
    assert_ne!(digits(one.pseudonym("vm", "web")), digits(one.pseudonym("stream", "web")));
    for short in [&b""[..], &KEY[..15]] {
        let said = Anonymiser::new(short).err().unwrap().to_string();
        assert!(said.contains(&format!("{} bytes", short.len())) && said.contains("/dev/urandom"), "{said}");
    }
}

#[test]
fn a_pseudonym_is_hmac_sha_256_of_the_length_prefixed_parts() {
    // From Python: hmac.new(KEY, message, "sha256").hexdigest()[:16]
    assert_eq!(Anonymiser::new(KEY).unwrap().pseudonym("vm", "web"), "vm-412be88b1fe63e27");
}

#[test]
fn records_and_metadata_agree_on_stream_numbers_and_zero_stays() {
    let mut anonymiser = Anonymiser::new(KEY).unwrap();
    let mut record = request(0, 8);
    record.request.stream = StreamId(4711);
    let number = anonymiser.record(&record).unwrap().request.stream.0;
    let postgres = anonymiser.pseudonym("stream", "postgres");
    assert_eq!(anonymiser.meta(&meta()).streams[&number], postgres);
    record.request.stream = StreamId(0);
    assert_eq!(anonymiser.record(&record).unwrap().request.stream, StreamId(0));
}

#[test]
fn without_addresses_only_the_stream_number_of_a_record_and_the_clocks_zero_change() {
    let mut record = request(123, 8);
    record.request.stream = StreamId(9);
    record.observed.completed = Some(Timestamp::from_ns(99));
    let mut anonymous = Anonymiser::new(KEY).unwrap().record(&record).unwrap();
    assert_ne!(anonymous.request.stream, record.request.stream);
    anonymous.request.stream = record.request.stream;
    record.request.arrival = Timestamp::ZERO;
    record.observed.completed = Some(Timestamp::from_ns(99 - 7));
    assert_eq!(anonymous, record);
}

#[test]
fn the_clock_begins_at_the_first_request_and_times_keep_their_distances() {
    let day = 1_226_000_000_000_000_000;
    let at = |ns: u64| Timestamp::from_ns(day + ns);
    let mut anonymiser = Anonymiser::new(KEY).unwrap();
    for ns in [0, 5, 77] {
        let mut record = request(8, 8);
        record.request.arrival = at(ns);
        record.observed.inserted = Some(at(ns + 1));
        record.observed.issued = Some(at(ns + 2));
        record.observed.completed = Some(at(ns + 3));
        let anonymous = anonymiser.record(&record).unwrap();
        assert_eq!(anonymous.request.arrival.as_ns(), ns);
        let Observed { inserted, issued, completed, .. } = anonymous.observed;
        assert_eq!([inserted, issued, completed].map(|time| time.unwrap().as_ns()), [ns + 1, ns + 2, ns + 3]);
    }
}

#[test]
fn a_flush_has_no_address_to_permute() {
    let mut flush = request(0, 0);
    flush.request.operation = Operation::Flush;
    let anonymous = with_addresses(KEY, 1 << 30, 8).record(&flush).unwrap();
    assert_eq!(anonymous.request.lba, flush.request.lba);
}

#[test]
fn what_was_not_announced_is_an_error() {
    let mut anonymiser = with_addresses(KEY, 1_000, 8);
    assert!(anonymiser.record(&request(992, 8)).is_ok());
    for (lba, sectors) in [(993, 8), (1_000, 1), (0, 9), (u64::MAX, 8)] {
        assert!(anonymiser.record(&request(lba, sectors)).is_err(), "{lba} {sectors}");
    }
    let anonymiser = Anonymiser::new(KEY).unwrap();
    assert!(anonymiser.with_addresses(Lba::new(u64::MAX), Sectors::new(8)).is_err());
}

#[test]
fn the_capacity_is_that_of_the_permuted_space() {
    let end = 5 * REGION_SECTORS.count();
    let mut anonymiser = with_addresses(KEY, end, 1_024);
    let capacity = anonymiser.meta(&meta()).capacity_sectors.unwrap().count();
    assert_eq!(capacity % (REGION_SECTORS.count() + 2_048), 0);
    for region in 0..5 {
        let record = anonymiser.record(&request((region + 1) * REGION_SECTORS.count() - 1_024, 1_024)).unwrap();
        assert!(record.request.end().sector() <= capacity);
    }
}

#[test]
fn memory_does_not_grow_with_the_streams() {
    let mut known = HashMap::new();
    for key in 0..3 * REMEMBERED {
        assert_eq!(remember(&mut known, key, || key), key);
    }
    assert!(known.len() <= REMEMBERED);
}

proptest! {
    #[test]
    fn different_keys_permute_differently(key in any::<[u8; 16]>(), other in any::<[u8; 16]>()) {
        prop_assume!(key != other);
        let places = |key: &[u8]| {
            let mut anonymiser = with_addresses(key, 1 << 32, 8);
            let at = |region| request(region * REGION_SECTORS.count(), 8);
            (0..64).map(|region| anonymiser.record(&at(region)).unwrap().request.lba).collect::<Vec<_>>()
        };
        prop_assert_ne!(places(&key), places(&other));
        prop_assert_eq!(places(&key), places(&key));
    }

    /// What did not overlap does not overlap afterwards; what lay in one region keeps its
    /// distance, and with it its overlap.
    #[test]
    fn nothing_comes_to_overlap_and_distances_within_a_region_survive(
        key in any::<[u8; 16]>(),
        first in (0u64..20 << 21, 1u64..5_000),
        apart in prop_oneof![0u64..10_000, 0u64..10 << 21],
        second_sectors in 1u64..5_000,
    ) {
        let (lba, sectors) = first;
        let mut anonymiser = with_addresses(&key, 40 << 21, 5_000);
        let (first, second) = (request(lba, sectors), request(lba + apart, second_sectors));
        let shift = anonymiser.addresses.as_ref().unwrap().shift;
        let region = |record: &Record| (record.request.lba.sector() + shift) / REGION_SECTORS.count();
        let together = region(&first) == region(&second);
        let mapped = (anonymiser.record(&first).unwrap().request, anonymiser.record(&second).unwrap().request);
        if together {
            prop_assert_eq!(mapped.1.lba.sector() - mapped.0.lba.sector(), apart);
            prop_assert_eq!(mapped.0.overlaps(&mapped.1), first.request.overlaps(&second.request));
        } else {
            prop_assert!(!mapped.0.overlaps(&mapped.1));
        }
        prop_assert_eq!(mapped.0.lba.sector() % ALIGNMENT_SECTORS, lba % ALIGNMENT_SECTORS);
    }
}
