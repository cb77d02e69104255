//! Exact times, worked out by hand.

use traces::Flags;
use traces::spec::Spec;

use super::super::*;

/// One die whose row is one page of one unit of 4 KiB.
const BASE: &str = "command=1us,read_overhead=3us,write_overhead=5us,read_time=50us,program_time=1ms,erase_time=2ms,\
     planes=1,page=4k,mapping_unit=4k,channel_byte_ps=2500,link_byte_ps=500,pages_per_block=4,channels=1,dies=1,\
     capacity=16m,buffer=64k,precondition=sequential";
/// 4096 bytes at 2.5 ns.
const CHANNEL: u64 = 10_240;
/// 4096 bytes at 0.5 ns.
const LINK: u64 = 2_048;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A drive of [`BASE`] with other settings on top.
pub(super) fn drive(settings: &str) -> Flash {
    let mut given: Vec<(String, String)> = Vec::new();
    for text in [BASE, settings].into_iter().filter(|text| !text.is_empty()) {
        let spec: Spec = format!("flash:{text}").parse().unwrap();
        given.retain(|(known, _)| spec.given.iter().all(|(key, _)| key != known));
        given.extend(spec.given);
    }
    Flash::new(&Settings::resolve(&Spec { name: "flash".to_owned(), given }, MODEL.tunables).unwrap())
}

pub(super) fn request(operation: Operation, unit: u64, units: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(unit * 8), Sectors::new(units * 8))
}

/// Submits each request at its time and returns when each is complete.
fn complete(drive: &mut Flash, requests: &[(u64, Request)]) -> Vec<u64> {
    let mut completions = Vec::new();
    for (id, (at, request)) in requests.iter().enumerate() {
        let at = Timestamp::from_ns(*at);
        drive.advance(at, &mut completions);
        assert!(drive.accepts(request));
        drive.submit(at, RequestId(id as u32), request);
    }
    drive.advance(Timestamp::MAX, &mut completions);
    assert_eq!(drive.next_event(), None);
    let mut finished = vec![0; requests.len()];
    completions.iter().for_each(|done| finished[done.id.index()] = done.finished.as_ns());
    finished
}

fn reads(settings: &str, units: &[u64]) -> Vec<u64> {
    let requests: Vec<_> = units.iter().map(|&unit| (0, request(Operation::Read, unit, 1))).collect();
    complete(&mut drive(settings), &requests)
}

#[test]
fn a_read_is_command_cells_channel_link() {
    let expected = US + 50 * US + CHANNEL + LINK + 3 * US;
    assert_eq!(reads("", &[7]), [expected]);
    let cost = drive("").cost().between(Lba::ZERO, Lba::new(800), Sectors::new(8));
    assert_eq!(cost.as_ns(), expected);
}

#[test]
fn reads_on_one_die_follow_one_another() {
    let first = US + 50 * US + CHANNEL;
    let second = first + 50 * US + CHANNEL;
    assert_eq!(reads("", &[0, 1]), [first, second].map(|read| read + LINK + 3 * US));
}

#[test]
fn reads_on_two_dies_of_a_channel_share_the_channel() {
    let first = US + 50 * US + CHANNEL;
    assert_eq!(reads("dies=2", &[0, 1]), [first, first + CHANNEL].map(|read| read + LINK + 3 * US));
}

#[test]
fn reads_on_two_channels_share_nothing_but_controller_and_link() {
    let first = US + 50 * US + CHANNEL;
    // The second is understood a microsecond later and finds the link still busy for another.
    assert_eq!(reads("channels=2", &[0, 1]), [first + LINK, first + 2 * LINK].map(|read| read + 3 * US));
    assert_eq!(reads("channels=2,link_byte_ps=0", &[0, 1]), [first, first + US].map(|read| read + 3 * US));
}

#[test]
fn one_read_over_many_dies_goes_on_in_parallel() {
    let mut drive = drive("channels=4");
    let done = complete(&mut drive, &[(0, request(Operation::Read, 0, 4))]);
    assert_eq!(done, [US + 50 * US + CHANNEL + 4 * LINK + 3 * US]);
}

#[test]
fn units_of_one_page_are_read_together() {
    let mut drive = drive("page=16k,link_byte_ps=0");
    let done = complete(&mut drive, &[(0, request(Operation::Read, 1, 2))]);
    assert_eq!(done, [US + 50 * US + 2 * CHANNEL + 3 * US]);
}

#[test]
fn only_the_sectors_asked_for_go_over_the_link() {
    let mut drive = drive("");
    let read = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(6), Sectors::new(1));
    assert_eq!(complete(&mut drive, &[(0, read)]), [US + 50 * US + CHANNEL + LINK / 8 + 3 * US]);
}

#[test]
fn a_write_is_complete_in_the_buffer() {
    let done = complete(&mut drive(""), &[(0, request(Operation::Write, 0, 1))]);
    assert_eq!(done, [US + LINK + 5 * US]);
}

#[test]
fn sata_has_one_direction_at_a_time() {
    // The read's data is ready while the write's comes over the link.
    let ready = US + 50 * US + CHANNEL;
    let write_at = ready - LINK - 1;
    let requests = [(0, request(Operation::Read, 0, 1)), (write_at, request(Operation::Write, 1, 1))];
    let nvme = complete(&mut drive(""), &requests);
    let sata = complete(&mut drive("interface=sata,depth=32"), &requests);
    let written = write_at + US + LINK;
    assert_eq!(nvme, [ready + LINK + 3 * US, written + 5 * US]);
    assert_eq!(sata, [written + LINK + 3 * US, written + 5 * US]);
}

#[test]
fn a_read_waits_for_the_program_on_its_die_unless_that_is_suspended() {
    let requests = [
        (0, request(Operation::Write, 0, 1)),
        (100 * US, request(Operation::Read, 1, 1)),
        (100 * US, request(Operation::Flush, 0, 0)),
    ];
    let programmed = US + LINK + CHANNEL + MS;
    let tail = 50 * US + CHANNEL + LINK + 3 * US;
    let done = complete(&mut drive(""), &requests);
    assert_eq!(done[1..], [programmed + tail, programmed + 5 * US]);
    let done = complete(&mut drive("suspensions=1,suspend_time=20us"), &requests);
    let away = 20 * US + 50 * US + CHANNEL;
    assert_eq!(done[1..], [101 * US + 20 * US + tail, programmed + away + 5 * US]);
}

#[test]
fn a_program_is_suspended_no_more_often_than_allowed() {
    let mut requests = vec![(0, request(Operation::Write, 0, 1))];
    requests.extend((1..=3).map(|nth| (nth * 200 * US, request(Operation::Read, nth, 1))));
    let done = complete(&mut drive("suspensions=2,suspend_time=0"), &requests);
    let away = 50 * US + CHANNEL;
    let programmed = US + LINK + CHANNEL + MS + 2 * away;
    let after = [200 * US, 400 * US].map(|at| at + US + away + LINK + 3 * US);
    assert_eq!(done[1..], [after[0], after[1], programmed + away + LINK + 3 * US]);
}

#[test]
fn units_in_the_buffer_are_read_from_the_buffer() {
    let mut drive = drive("");
    let requests = [(0, request(Operation::Write, 0, 1)), (100 * US, request(Operation::Read, 0, 1))];
    assert_eq!(complete(&mut drive, &requests)[1], 101 * US + LINK + 3 * US);
    // Once it is programmed, it comes from the cells.
    let late = 5 * MS;
    assert_eq!(complete(&mut drive, &[(late, request(Operation::Read, 0, 1))]), [late + 54 * US + CHANNEL + LINK]);
}

#[test]
fn read_of_unwritten_or_trimmed_units_needs_no_cells() {
    let mut empty = drive("precondition=empty");
    let done = complete(&mut empty, &[(0, request(Operation::Read, 0, 1))]);
    assert_eq!(done, [US + LINK + 3 * US]);
    let requests = [(0, request(Operation::Discard, 0, 2)), (MS, request(Operation::Read, 1, 1))];
    assert_eq!(complete(&mut drive(""), &requests), [US + 5 * US, MS + US + LINK + 3 * US]);
    // A discard of half a unit frees nothing.
    let half = Request::new(Timestamp::ZERO, Operation::Discard, Lba::new(0), Sectors::new(4));
    let requests = [(0, half), (MS, request(Operation::Read, 0, 1))];
    assert_eq!(complete(&mut drive(""), &requests)[1], MS + 54 * US + CHANNEL + LINK);
}

#[test]
fn a_flush_waits_for_the_buffer_unless_that_is_protected() {
    let requests = [(0, request(Operation::Write, 0, 1)), (20 * US, request(Operation::Flush, 0, 0))];
    let programmed = US + LINK + CHANNEL + MS;
    assert_eq!(complete(&mut drive(""), &requests)[1], programmed + 5 * US);
    assert_eq!(complete(&mut drive("power_loss_protection=on"), &requests)[1], 26 * US);
    let caches = [
        ("", WriteCache::Volatile { fua: true }),
        ("power_loss_protection=on", WriteCache::Through),
        ("interface=sata,depth=32", WriteCache::Volatile { fua: false }),
    ];
    for (settings, cache) in caches {
        assert_eq!(drive(settings).write_cache(), cache, "{settings}");
    }
}

#[test]
fn a_flush_fills_up_a_row_and_a_forced_write_is_programmed() {
    // A row holds four units; one alone waits for others until a flush.
    let mut lone = drive("page=16k");
    complete(&mut lone, &[(0, request(Operation::Write, 0, 1))]);
    assert_eq!(lone.written().programmed_units, 0);
    complete(&mut lone, &[(MS, request(Operation::Flush, 0, 0))]);
    assert_eq!(lone.written(), WriteCounts { host_units: 1, programmed_units: 4 });
    let mut forced = request(Operation::Write, 0, 1);
    forced.flags = Flags::FUA;
    assert_eq!(complete(&mut drive(""), &[(0, forced)]), [US + LINK + CHANNEL + MS + 5 * US]);
}

#[test]
fn rewriting_a_waiting_unit_costs_nothing() {
    let mut drive = drive("page=16k");
    let writes: Vec<_> = (0..100).map(|nth| (nth * 10 * US, request(Operation::Write, 0, 1))).collect();
    complete(&mut drive, &writes);
    assert_eq!(drive.written().programmed_units, 0);
}

/// When each of `count` writes completes that are kept coming from `from` on, 8 at a time.
fn saturate(drive: &mut Flash, from: u64, count: u64, mut unit: impl FnMut(u64) -> u64) -> Vec<u64> {
    let mut completions = Vec::new();
    let (mut submitted, mut finished, mut now) = (0, Vec::new(), Timestamp::from_ns(from));
    while (finished.len() as u64) < count {
        while submitted < count && submitted < finished.len() as u64 + 8 {
            drive.submit(now, RequestId((submitted % 16) as u32), &request(Operation::Write, unit(submitted), 1));
            submitted += 1;
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut completions);
        finished.extend(completions.drain(..).map(|done: Completion| done.finished.as_ns()));
    }
    finished
}

#[test]
fn a_full_buffer_writes_at_the_speed_of_the_cells() {
    let mut drive = drive("precondition=empty");
    let finished = saturate(&mut drive, 0, 400, |nth| nth);
    assert!(finished[10] < 100 * US, "16 units fit the buffer");
    let programs: Vec<u64> = finished[100..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(programs.iter().all(|&time| time == MS + CHANNEL), "{programs:?}");
}

#[test]
fn dies_program_in_parallel() {
    let mut drive = drive("precondition=empty,channels=4");
    let finished = saturate(&mut drive, 0, 800, |nth| nth);
    assert_eq!(finished[700] - finished[300], 100 * (MS + CHANNEL));
}

#[test]
fn a_block_is_erased_once_for_as_many_pages_as_it_has() {
    let mut drive = drive("");
    let finished = saturate(&mut drive, 0, 6000, |nth| nth % 4096);
    let (from, to) = (2000, 5000);
    // Blocks have four pages, and all that is on them is overwritten.
    let expected = (to - from) as u64 * (MS + CHANNEL) + (to - from) as u64 / 4 * 2 * MS;
    let took = finished[to] - finished[from];
    assert!(took.abs_diff(expected) <= 4 * MS, "{took} for {expected}");
    assert_eq!(drive.written().host_units, drive.written().programmed_units);
}

#[test]
fn random_writes_go_at_the_speed_of_the_cells_less_garbage_collection() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
    let mut drive = drive("pages_per_block=32,precondition=random,over_provisioning=0.2");
    let mut unit = |_| random.random_range(0..4096);
    let start = saturate(&mut drive, 0, 1000, &mut unit)[999];
    let written = drive.written();
    let took = saturate(&mut drive, start, 20_000, &mut unit)[19_999] - start;
    let host = drive.written().host_units - written.host_units;
    let programmed = drive.written().programmed_units - written.programmed_units;
    let busy = programmed * (MS + CHANNEL) + (programmed - host) * (50 * US + CHANNEL) + programmed / 32 * 2 * MS;
    assert!(programmed > host * 2, "something is moved");
    assert!(took.abs_diff(busy) < busy / 100, "{took} ns for {busy} ns of work on the only die");
}

#[test]
fn no_more_commands_than_the_depth() {
    let mut drive = drive("depth=2");
    let read = request(Operation::Read, 0, 1);
    for id in 0..2 {
        assert!(drive.accepts(&read));
        drive.submit(Timestamp::ZERO, RequestId(id), &read);
    }
    assert!(!drive.accepts(&read));
    let mut completions = Vec::new();
    while completions.is_empty() {
        drive.advance(drive.next_event().unwrap(), &mut completions);
    }
    assert!(drive.accepts(&read));
}
