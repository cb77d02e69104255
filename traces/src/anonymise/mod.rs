//! Removes from a trace what identifies its owner, and keeps what a replay needs.
//!
//! *Names* of VMs, processes, cgroups, hosts and devices become pseudonyms: the first 64 bits of
//! HMAC-SHA-256 over the kind of name and the name. The same name under the same key is the same pseudonym in every
//! trace, so that traces of one site can be distinguished or put together. Without the key a name can be neither read
//! back nor guessed and confirmed.
//!
//! *Stream numbers* (process ids) go through a keyed permutation of 1 … 2³²−1; zero, "not known",
//! stays. *VM numbers* are indices and stay.
//!
//! *Provenance* that says how a trace was made ([`TECHNICAL_KEYS`], [`TECHNICAL_EVENT_KEYS`]) stays, names in it
//! ([`NAME_KEYS`]) become pseudonyms, and everything else, such as messages and headers, is
//! dropped. So is the time of day: the clock begins at the first request, whatever it counted from (1970, the host's
//! start, the day of a recording), and times relative to each other stay as they are.
//!
//! *Addresses* stay unless [`Anonymiser::with_addresses`] asks for more. Then the address space is shifted by a keyed
//! multiple of 1 MiB below a region's size and cut into regions of [`REGION_SECTORS`] (1 GiB). A keyed permutation puts
//! them in another order. Each is followed by a gap as long as the longest request. Within a region distances, overlaps
//! and the alignment to 1 MiB survive. A request that reaches over the end of its region stays whole and lies in the
//! gap, so that it overlaps no request that it did not overlap before. It no longer overlaps requests of the next
//! region, and seek distances between regions are those of another disk.

mod permutation;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use permutation::Permutation;

use crate::formats::FORMATS;
use crate::record::Record;
use crate::request::{Operation, StreamId};
use crate::trace::TraceMeta;
use crate::units::{Lba, Sectors, Timestamp};

/// A region of addresses that stays in one piece: 1 GiB.
pub const REGION_SECTORS: Sectors = Sectors::new(1 << 21);

/// What shifts and gaps are multiples of, so that alignment survives: 1 MiB.
const ALIGNMENT_SECTORS: u64 = 1 << 11;

/// Provenance keys whose values stay: they name methods, versions and counts, never places.
pub const TECHNICAL_KEYS: &[&str] =
    &["converted_by", "lost_events", "skipped_records", "source_format", "vscsi_version"];

/// The same of captures of events, behind the format's name and a point: `blktrace.arrivals`.
pub const TECHNICAL_EVENT_KEYS: &[&str] = &[
    "arrivals",
    "bounces",
    "byte_order",
    "cpus",
    "driver_data_events",
    "events_of_other_devices",
    "files",
    "losses_of_unknown_number",
    "merges",
    "messages",
    "numbers",
    "other_events",
    "page_bytes",
    "passthrough_events",
    "remaps",
    "requests_without_data",
    "requeues",
    "resolution",
    "splits",
    "stack_trace_lines",
    "zone_commands",
];

/// Provenance keys whose values become pseudonyms; `device` also behind the name of a format of
/// events and a point.
pub const NAME_KEYS: &[&str] = &["cgroup", "converted_from", "device", "host", "hostname", "vm"];

/// The key of a capture of events without its format's name; `None` if it is none.
fn event_key(key: &str) -> Option<&str> {
    let (format, key) = key.split_once('.')?;
    FORMATS.iter().any(|row| row.name == format && row.open_events.is_some()).then_some(key)
}

/// The shortest key in bytes: 128 bits, if they are random.
pub const KEY_BYTES_MIN: usize = 16;

/// Pseudonyms that are kept for reuse before they are computed anew, so that memory stays bounded.
const REMEMBERED: usize = 1 << 16;

/// Why a trace cannot be anonymised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnonymiseError {
    /// Whoever tries all short keys finds it, and with it the names.
    #[error(
        "the key has {0} bytes, but needs {KEY_BYTES_MIN} at least; make a random one: head -c 32 /dev/urandom | base64"
    )]
    ShortKey(usize),
    /// The permuted address space would not fit 64 bits.
    #[error("an address space of {end} sectors with requests of {longest} sectors is too large to permute")]
    TooLarge {
        /// First sector above all.
        end: Lba,
        /// The longest request.
        longest: Sectors,
    },
    /// A request lies outside of what the permutation was made for.
    #[error("a request of {sectors} sectors at {lba} is longer or higher than was announced")]
    Outside {
        /// Its address.
        lba: Lba,
        /// Its length.
        sectors: Sectors,
    },
}

/// Anonymises traces under one key.
pub struct Anonymiser {
    mac: Hmac<Sha256>,
    streams: Permutation,
    known_streams: HashMap<u32, u32>,
    addresses: Option<Addresses>,
    /// The arrival of the first record, which becomes the clock's zero.
    zero: Option<Timestamp>,
}

impl Anonymiser {
    /// Pseudonyms under `key`; addresses stay.
    ///
    /// # Errors
    /// [`AnonymiseError::ShortKey`].
    pub fn new(key: &[u8]) -> Result<Anonymiser, AnonymiseError> {
        if key.len() < KEY_BYTES_MIN {
            return Err(AnonymiseError::ShortKey(key.len()));
        }
        let mac = Hmac::new_from_slice(key).expect("HMAC takes keys of any length");
        let streams = Permutation::new(&mac, "stream number", u64::from(u32::MAX));
        Ok(Anonymiser { mac, streams, known_streams: HashMap::new(), addresses: None, zero: None })
    }

    /// Permutes addresses too. `end` is the device's capacity or the first sector above all
    /// requests, whichever is higher, and `longest` the longest request: what a first pass over
    /// the trace finds.
    ///
    /// # Errors
    /// [`AnonymiseError::TooLarge`].
    pub fn with_addresses(mut self, end: Lba, longest: Sectors) -> Result<Anonymiser, AnonymiseError> {
        self.addresses = Some(Addresses::new(&self.mac, end, longest)?);
        Ok(self)
    }

    /// The metadata of the anonymised trace.
    pub fn meta(&self, meta: &TraceMeta) -> TraceMeta {
        let mut anonymous = meta.clone();
        anonymous.clock.zero_unix_ns = None;
        anonymous.vms = meta.vms.iter().map(|name| self.pseudonym("vm", name)).collect();
        anonymous.streams = meta
            .streams
            .iter()
            .map(|(&stream, name)| (self.streams_number(stream), self.pseudonym("stream", name)))
            .collect();
        anonymous.provenance = self.provenance(&meta.provenance);
        if let (Some(addresses), Some(capacity)) = (&self.addresses, &mut anonymous.capacity_sectors) {
            *capacity = addresses.capacity();
        }
        anonymous
    }

    /// The record of the anonymised trace. Records come in order of arrival.
    ///
    /// # Errors
    /// [`AnonymiseError::Outside`] if addresses are permuted and this one was not announced.
    pub fn record(&mut self, record: &Record) -> Result<Record, AnonymiseError> {
        let mut anonymous = *record;
        let zero = *self.zero.get_or_insert(record.request.arrival);
        let (request, observed) = (&mut anonymous.request, &mut anonymous.observed);
        let times = [&mut observed.inserted, &mut observed.issued, &mut observed.completed];
        for time in times.into_iter().flatten().chain([&mut request.arrival]) {
            *time = Timestamp::from_ns(time.saturating_since(zero).as_ns());
        }
        let request = &mut anonymous.request;
        let stream = request.stream.0;
        let streams = &self.streams;
        request.stream = StreamId(remember(&mut self.known_streams, stream, || number(streams, stream)));
        if let Some(addresses) = &mut self.addresses
            && request.operation != Operation::Flush
        {
            request.lba = addresses.map(request.lba, request.sectors())?;
        }
        Ok(anonymous)
    }

    /// The pseudonym of a name: its kind, a hyphen and 16 hexadecimal digits.
    pub fn pseudonym(&self, kind: &str, name: &str) -> String {
        format!("{kind}-{:016x}", keyed(&self.mac, &["name", kind, name]))
    }

    fn streams_number(&self, stream: u32) -> u32 {
        number(&self.streams, stream)
    }

    fn provenance(&self, provenance: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let kept = provenance.iter().filter_map(|(key, value)| {
            let of_events = event_key(key).unwrap_or_default();
            let value = if TECHNICAL_KEYS.contains(&key.as_str()) || TECHNICAL_EVENT_KEYS.contains(&of_events) {
                value.clone()
            } else if NAME_KEYS.contains(&key.as_str()) || of_events == "device" {
                self.pseudonym(key, value)
            } else {
                return None;
            };
            Some((key.clone(), value))
        });
        kept.collect()
    }
}

/// The number of an anonymous stream; zero stays zero.
fn number(streams: &Permutation, stream: u32) -> u32 {
    match stream.checked_sub(1) {
        None => 0,
        Some(index) => streams.apply(u64::from(index)) as u32 + 1,
    }
}

/// Looks up what was computed before, in bounded memory.
fn remember<K: Copy + Eq + Hash, V: Copy>(known: &mut HashMap<K, V>, key: K, compute: impl FnOnce() -> V) -> V {
    if let Some(&value) = known.get(&key) {
        return value;
    }
    if known.len() == REMEMBERED {
        known.clear();
    }
    let value = compute();
    known.insert(key, value);
    value
}

/// 64 bits of HMAC-SHA-256 over some parts, each preceded by its length so that no two lists of
/// parts are the same message.
fn keyed(mac: &Hmac<Sha256>, parts: &[&str]) -> u64 {
    let mut mac = mac.clone();
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    first_64_bits(mac)
}

fn first_64_bits(mac: Hmac<Sha256>) -> u64 {
    let code = mac.finalize().into_bytes();
    code.iter().take(8).fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// The shifted and permuted address space.
struct Addresses {
    end: Lba,
    longest: Sectors,
    /// Added before regions are cut.
    shift: u64,
    /// From the beginning of one region's place to that of the next.
    stride: u64,
    regions: Permutation,
    known_places: HashMap<u64, u64>,
}

impl Addresses {
    fn new(mac: &Hmac<Sha256>, end: Lba, longest: Sectors) -> Result<Addresses, AnonymiseError> {
        let region = REGION_SECTORS.count();
        let shift = keyed(mac, &["address shift"]) % (region / ALIGNMENT_SECTORS) * ALIGNMENT_SECTORS;
        let places = || {
            let gap = longest.count().checked_next_multiple_of(ALIGNMENT_SECTORS)?;
            let stride = region.checked_add(gap)?;
            let regions = end.sector().checked_add(shift)?.div_ceil(region).max(1);
            stride.checked_mul(regions).map(|_| (stride, regions))
        };
        let (stride, regions) = places().ok_or(AnonymiseError::TooLarge { end, longest })?;
        let regions = Permutation::new(mac, "address region", regions);
        Ok(Addresses { end, longest, shift, stride, regions, known_places: HashMap::new() })
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.stride * self.regions.size())
    }

    fn map(&mut self, lba: Lba, sectors: Sectors) -> Result<Lba, AnonymiseError> {
        let end = lba.sector().checked_add(sectors.count());
        if sectors > self.longest || end.is_none_or(|end| end > self.end.sector()) {
            return Err(AnonymiseError::Outside { lba, sectors });
        }
        let shifted = lba.sector() + self.shift;
        let (region, within) = (shifted / REGION_SECTORS.count(), shifted % REGION_SECTORS.count());
        let regions = &self.regions;
        let place = remember(&mut self.known_places, region, || regions.apply(region));
        Ok(Lba::new(place * self.stride + within))
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            one.pseudonym("vm", "web"),
            Anonymiser::new(b"one is the first key").unwrap().pseudonym("vm", "web")
        );
        assert_ne!(
            one.pseudonym("vm", "web"),
            Anonymiser::new(b"two is the other key").unwrap().pseudonym("vm", "web")
        );
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
}
