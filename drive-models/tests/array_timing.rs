//! Arrays of members that take the same time for everything, timed by hand.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use iocast_drives::{Completion, DriveModel, WriteCache};
use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};

const MS: u64 = 1_000_000;

fn array(settings: &str) -> Box<dyn DriveModel> {
    iocast_drives::build(&format!("raid:member=fixed,{settings}").parse().unwrap()).unwrap().drive
}

fn request(operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(sectors))
}

fn read(lba: u64, sectors: u64) -> Request {
    request(Operation::Read, lba, sectors)
}

fn write(lba: u64, sectors: u64) -> Request {
    request(Operation::Write, lba, sectors)
}

/// Submits each request at its time in ms, and returns when each was done in ms and its completion.
fn run(drive: &mut dyn DriveModel, requests: &[(u64, Request)]) -> Vec<(u64, Completion)> {
    let mut completions = Vec::new();
    for (id, (at, request)) in requests.iter().enumerate() {
        let at = Timestamp::from_ns(at * MS);
        drive.advance(at, &mut completions);
        drive.submit(at, RequestId(id as u32), request);
    }
    while completions.len() < requests.len() {
        let next = drive.next_event().expect("requests are outstanding");
        drive.advance(next, &mut completions);
    }
    completions.sort_by_key(|completion| completion.id);
    completions.into_iter().map(|completion| (completion.finished.as_ns() / MS, completion)).collect()
}

fn times(settings: &str, requests: &[(u64, Request)]) -> Vec<u64> {
    run(&mut *array(settings), requests).into_iter().map(|(time, _)| time).collect()
}

fn hits(settings: &str, requests: &[(u64, Request)]) -> Vec<bool> {
    run(&mut *array(settings), requests).into_iter().map(|(_, completion)| completion.hit).collect()
}

#[test]
fn raid_0_of_two_does_two_at_a_time() {
    let settings = "level=0,members=2";
    assert_eq!(
        times(settings, &[(0, read(0, 8)), (0, read(128, 8)), (0, read(8, 8)), (0, read(136, 8))]),
        [1, 1, 2, 2]
    );
    assert_eq!(times(settings, &[(0, read(0, 8)), (0, read(0, 8)), (0, read(256, 8))]), [1, 2, 3]);
    // One request over both members takes both, and completes with the later.
    assert_eq!(times(settings, &[(0, read(0, 8)), (0, read(0, 256)), (0, read(128, 8))]), [1, 2, 2]);
}

#[test]
fn raid_1_reads_from_the_shorter_queue_then_the_nearer_head() {
    let settings = "level=1,members=2";
    assert_eq!(times(settings, &[(0, read(0, 8)), (0, read(0, 8)), (0, read(0, 8))]), [1, 1, 2]);
    assert_eq!(times(settings, &[(0, write(0, 8)), (0, read(0, 8)), (0, read(0, 8))]), [1, 2, 2]);
    // The heads end at 1008 and 500,008; the next reads go to the nearer one.
    let done = run(
        &mut *array(settings),
        &[
            (0, read(1000, 8)),
            (0, read(500_000, 8)),
            (5, read(499_000, 8)),
            (10, read(1108, 8)),
            (15, read(400_000, 8)),
        ],
    );
    let seeks: Vec<u64> = done.iter().map(|(_, completion)| completion.seek.count()).collect();
    assert_eq!(seeks, [1000, 500_000, 1008, 100, 99_008]);
    assert_eq!(times("level=1,members=2,failed=2", &[(0, read(0, 8)), (0, read(0, 8)), (0, write(0, 8))]), [1, 2, 3]);
}

#[test]
fn raid_10_stripes_over_pairs() {
    let requests = [(0, read(0, 8)), (0, read(0, 8)), (0, read(128, 8)), (0, read(128, 8)), (0, read(0, 8))];
    assert_eq!(times("level=10,members=4", &requests), [1, 1, 1, 1, 2]);
    assert_eq!(times("level=10,members=4,failed=1", &requests), [1, 2, 1, 1, 3]);
}

#[test]
fn a_small_write_with_parity_reads_then_writes() {
    assert_eq!(times("level=5,members=5", &[(0, write(0, 8)), (5, read(0, 8)), (5, write(0, 512))]), [2, 6, 7]);
    // The first row's end, a full row, the next one's start: none waits for another, but for members.
    assert_eq!(times("level=5,members=3", &[(0, write(0, 256))]), [1]);
    assert_eq!(times("level=5,members=5,failed=5", &[(0, write(0, 8))]), [1]);
    assert_eq!(times("level=6,members=9", &[(0, write(0, 8)), (0, read(384, 8))]), [2, 1]);
}

#[test]
fn a_degraded_read_asks_every_survivor() {
    // Row 0 of five: the lost data unit is on member 0; a read of it keeps all others busy.
    let requests = [(0, read(0, 8)), (0, read(128, 8)), (0, read(256, 8)), (0, read(384, 8))];
    assert_eq!(times("level=5,members=5", &requests), [1, 1, 1, 1]);
    assert_eq!(times("level=5,members=5,failed=1", &requests), [1, 2, 2, 2]);
}

#[test]
fn each_member_has_its_scheduler() {
    // Waiting behind the first: the sweep goes up from it, first come first served does not.
    let requests = [(0, read(1000, 8)), (0, read(9000, 8)), (0, read(3000, 8)), (0, read(5000, 8))];
    let settings = "level=1,members=2,failed=2";
    assert_eq!(times(&format!("{settings},scheduler=fifo"), &requests), [1, 2, 3, 4]);
    assert_eq!(times(&format!("{settings},scheduler=cscan"), &requests), [1, 4, 2, 3]);
    // A drive that is given all at once has no choice left.
    assert_eq!(times(&format!("{settings},scheduler=cscan,depth=4"), &requests), [1, 2, 3, 4]);
}

#[test]
fn the_overhead_is_added_to_everything_once() {
    assert_eq!(
        times("level=5,members=5,overhead=3ms", &[(0, read(0, 8)), (0, write(0, 8)), (10, read(0, 8))]),
        [4, 6, 14]
    );
}

#[test]
fn a_second_read_of_a_block_is_a_hit() {
    let settings = "level=5,members=5,read_cache=1m,overhead=2ms";
    let requests = [(0, read(0, 8)), (10, read(0, 8)), (20, read(4, 8)), (30, write(64, 8)), (40, read(64, 8))];
    assert_eq!(times(settings, &requests), [3, 12, 23, 34, 42]);
    assert_eq!(hits(settings, &requests), [false, true, false, false, true]);
    // Sixteen tracks: the seventeenth drives out the one used longest ago, which is not the first.
    let mut requests: Vec<_> = (0..16).map(|track| (track * 10, read(track * 128, 8))).collect();
    requests.extend([(160, read(0, 8)), (170, read(16 * 128, 8)), (180, read(0, 8)), (190, read(128, 8))]);
    assert_eq!(hits(settings, &requests)[16..], [true, false, true, false]);
}

#[test]
fn read_of_sectors_being_fetched_waits_for_the_fetch() {
    let settings = "level=0,members=2,read_cache=1m,scheduler=fifo";
    assert_eq!(times(settings, &[(0, read(0, 8)), (0, read(0, 8)), (0, read(8, 8)), (0, read(12, 4))]), [1, 1, 2, 2]);
}

#[test]
fn a_sequential_run_is_read_ahead() {
    let settings = "level=0,members=4,read_cache=16m,prefetch=512k";
    // From its second track on a run finds everything there, however long it is.
    let run: Vec<_> = (0..100).map(|track| (track * 5, read(track * 128, 128))).collect();
    assert_eq!(hits(settings, &run).iter().filter(|&&hit| !hit).count(), 2);
    // So it does with requests that do not fit tracks.
    let run: Vec<_> = (0..100).map(|index| (index * 5, read(8 + index * 48, 48))).collect();
    assert_eq!(hits(settings, &run).iter().rposition(|&hit| !hit), Some(2));
    // Jumps are not a run.
    let jumps: Vec<_> = (0..50).map(|jump| (jump * 5, read(jump * 1000, 8))).collect();
    assert!(hits(settings, &jumps).iter().all(|&hit| !hit));
    assert!(hits("level=0,members=4,read_cache=16m", &run).iter().all(|&hit| !hit));
}

#[test]
fn a_write_takes_the_overhead_where_there_is_a_write_cache() {
    let settings = "level=5,members=5,write_cache=1m,overhead=2ms";
    assert_eq!(
        times(settings, &[(0, write(0, 8)), (0, write(0, 8)), (10, read(0, 8)), (20, read(0, 16))]),
        [2, 2, 12, 23]
    );
    assert_eq!(hits(settings, &[(0, write(0, 8)), (10, read(0, 8)), (20, read(4, 8))]), [true, true, false]);
}

#[test]
fn a_full_write_cache_is_as_fast_as_destaging() {
    // 64 KiB hold 16 pages, each in a row of its own; one row at a time takes 2 ms: read, then write.
    let settings = "level=5,members=5,write_cache=64k,high_water=100,low_water=100,destages=1";
    let writes: Vec<_> = (0..20).map(|row| (0, write(row * 512, 8))).collect();
    let mut expected = vec![0; 16];
    expected.extend([2, 4, 6, 8]);
    assert_eq!(times(settings, &writes), expected);
    assert_eq!(hits(settings, &writes)[14..18], [true, true, false, false]);
    // Two rows at a time go twice as fast, as their members differ: rows 0 and 1 of fifteen, data on members 0 and 14,
    // parity on 14 and 13.
    let settings = settings.replace("members=5", "members=15").replace("destages=1", "destages=2");
    let writes: Vec<_> = (0..18).map(|row| (0, write(row * 14 * 128 + 512, 8))).collect();
    assert_eq!(times(&settings, &writes)[16..], [2, 2]);
}

#[test]
fn destaging_goes_from_the_high_to_the_low_water_mark() {
    // 16 pages; above 8 it begins, at 4 it ends. A fixed member is busy for as long as it destages.
    let settings = "level=1,members=2,write_cache=64k,high_water=50,low_water=25,destages=1";
    let busy = |pages: u64| {
        let mut drive = array(settings);
        let mut completions = Vec::new();
        for page in 0..pages {
            drive.submit(Timestamp::ZERO, RequestId(page as u32), &write(page * 1000, 8));
        }
        let mut last = 0;
        while let Some(next) = drive.next_event() {
            drive.advance(next, &mut completions);
            last = next.as_ns() / MS;
        }
        assert_eq!(completions.len() as u64, pages);
        last
    };
    assert_eq!((busy(8), busy(9), busy(12)), (0, 5, 8));
}

#[test]
fn full_row_is_destaged_as_a_full_stripe_write() {
    let busy = |settings: &str, writes: &[Request]| {
        let mut drive = array(settings);
        for (id, request) in writes.iter().enumerate() {
            drive.submit(Timestamp::ZERO, RequestId(id as u32), request);
        }
        let mut completions = Vec::new();
        let mut last = 0;
        while let Some(next) = drive.next_event() {
            drive.advance(next, &mut completions);
            last = next.as_ns() / MS;
        }
        last
    };
    let settings = "level=5,members=5,stripe_unit=4k,track=4k,write_cache=64k,high_water=0,low_water=0,destages=1";
    // The first write leaves at once, on its own; the others of the rows after it find each other.
    let rows: Vec<Request> = (0..12).map(|page| write(page * 8, 8)).collect();
    let parts: Vec<Request> = [0, 4, 8].map(|page| write(page * 8, 8)).to_vec();
    assert_eq!((busy(settings, &parts), busy(settings, &rows)), (6, 2 + 2 + 1 + 1));
}

#[test]
fn write_past_the_write_cache_drops_older_data_in_it() {
    let settings = "level=0,members=2,write_cache=4k,track=4k,high_water=100";
    let requests = |second| [(0, write(0, 8)), (1, second), (10, read(0, 8))];
    assert_eq!(hits(settings, &requests(write(0, 64))), [true, false, false]);
    assert_eq!(hits(settings, &requests(write(8, 64))), [true, false, true]);
}

#[test]
fn schedulers_of_members_are_notified_of_completions() {
    // They count the requests below them and would stop.
    for scheduler in ["sfq,scheduler.depth=1", "kyber", "anticipatory", "ba"] {
        let requests: Vec<_> = (0..300).map(|nth| (0, read(nth * 8, 8))).collect();
        let settings = format!("level=0,members=2,depth=4,scheduler={scheduler}");
        assert_eq!(run(&mut *array(&settings), &requests).len(), 300, "{scheduler}");
    }
}

#[test]
fn write_larger_than_the_write_cache_goes_past_it() {
    let settings = "level=0,members=2,write_cache=64k";
    assert_eq!(times(settings, &[(0, write(0, 8)), (0, write(0, 512)), (5, write(0, 8))]), [0, 1, 5]);
}

#[test]
fn flushes_go_to_the_members_unless_the_write_cache_is_non_volatile() {
    let cache = |settings: &str| array(settings).write_cache();
    assert_eq!(cache("level=5"), WriteCache::Through);
    assert_eq!(cache("level=5,member.write_cache=volatile"), WriteCache::Volatile { fua: false });
    assert_eq!(cache("level=5,member.write_cache=volatile-fua"), WriteCache::Volatile { fua: true });
    assert_eq!(cache("level=5,member.write_cache=volatile,write_cache=1m"), WriteCache::Through);
    // It goes ahead of waiting requests, to every member, and takes as long as the last of them.
    let settings = "level=0,members=2,member.write_cache=volatile,member.flush=7ms";
    let flush = request(Operation::Flush, 0, 0);
    assert_eq!(times(settings, &[(0, read(0, 8)), (0, read(0, 8)), (0, flush), (0, read(128, 8))]), [1, 9, 8, 8]);
}

#[test]
fn a_discard_and_a_request_of_no_length_complete_at_once() {
    let settings = "level=5,members=5";
    assert!(!array(settings).discards());
    assert_eq!(
        times(settings, &[(0, request(Operation::Discard, 0, 8)), (3, read(0, 0)), (4, write(8, 0))]),
        [0, 3, 4]
    );
}

#[test]
fn an_array_is_a_drive_that_may_be_a_member() {
    // RAID-50: two RAID-5 of three, striped.
    let settings = "raid:level=0,members=2,member=raid,member.level=5,member.members=3,member.member=fixed";
    let mut drive = iocast_drives::build(&settings.parse().unwrap()).unwrap().drive;
    let done = run(&mut *drive, &[(0, write(0, 8)), (0, write(128, 8)), (0, read(0, 8))]);
    assert_eq!(done.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [2, 2, 3]);
}

#[test]
fn access_costs_the_time_of_a_member_or_only_the_overhead() {
    let mut drive = array("level=5,members=5,read_cache=1m,overhead=2ms");
    let cost = |drive: &dyn DriveModel| drive.cost().access(Timestamp::ZERO, &read(0, 8)).as_ns() / MS;
    assert_eq!(cost(&*drive), 3);
    run(&mut *drive, &[(0, read(0, 8))]);
    assert_eq!((cost(&*drive), drive.cost().position()), (2, Lba::new(8)));
}

#[test]
fn array_built_with_contents_equals_the_registrys_with_a_read_cache() {
    use iocast_drives::array::{self, Contents, Geometry, Level, MemberParts};

    let part = || -> MemberParts {
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        (iocast_drives::build(&"fixed".parse().unwrap()).unwrap().drive, scheduler)
    };
    let size = part().0.capacity();
    let geometry = Geometry::new(Level::Raid5, 5, Sectors::new(128), size);
    // A stream that soon finds its sectors read ahead, and reads at random beside it.
    let stream = (0..60).map(|n| (n * 2, read(n * 64, 64)));
    let random = (0..60).map(|n| (n * 2 + 1, read(1_000_000 + n * n * 8 % 7919 * 8, 8)));
    let mut requests: Vec<(u64, Request)> = stream.chain(random).collect();
    requests.sort_by_key(|(at, _)| *at);
    for (ahead, caches) in [(2048, "read_cache=1g,prefetch=1m,"), (0, "")] {
        let overhead = traces::Nanos::from_us(100);
        let contents = (ahead > 0).then(|| Contents::new(&geometry, Sectors::new(1 << 21), Sectors::new(ahead)));
        let mut ours = array::with_contents(geometry, overhead, contents, (0..5).map(|_| part()).collect());
        let settings =
            format!("scheduler=fifo,level=5,members=5,stripe_unit=64k,depth=1,overhead=100us,track=64k,{caches}");
        let mut registrys = array(settings.trim_end_matches(','));
        let (ours, registrys) = (run(&mut ours, &requests), run(&mut *registrys, &requests));
        let hits = ours.iter().filter(|(_, completion)| completion.hit).count();
        assert_eq!(hits > 40, ahead > 0, "{hits}");
        for ((at, completion), (expected, other)) in ours.iter().zip(&registrys) {
            assert_eq!((at, completion.finished, completion.hit), (expected, other.finished, other.hit));
        }
    }
}

#[test]
fn passed_requests_leave_the_read_cache_as_served_ones_do() {
    use iocast_drives::array::{self, Contents, Geometry, Level, MemberParts};

    let part = || -> MemberParts {
        let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
        (iocast_drives::build(&"fixed".parse().unwrap()).unwrap().drive, scheduler)
    };
    let geometry = Geometry::new(Level::Raid5, 5, Sectors::new(128), part().0.capacity());
    // Reads at random, each behind the one before once in three times, in so little that much is there already, and
    // some writes.
    let mut lba = 0;
    let request = |n: u64| {
        lba = if n.is_multiple_of(3) { (n * n * 31 + n * 977) % 9000 * 16 } else { lba + 64 };
        let operation = if n % 11 == 5 { Operation::Write } else { Operation::Read };
        (n * 1000, Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(64)))
    };
    let requests: Vec<(u64, Request)> = (0..3000).map(request).collect();
    let mut registrys =
        array("scheduler=fifo,level=5,members=5,stripe_unit=64k,overhead=100us,track=64k,read_cache=1g,prefetch=512k");
    let served = run(&mut *registrys, &requests);
    let mut contents = Contents::new(&geometry, Sectors::new(1 << 21), Sectors::new(1024));
    let mut half = None;
    let mut hits = 0;
    for (n, ((_, request), (_, completion))) in requests.iter().zip(&served).enumerate() {
        if n == requests.len() / 2 {
            half = Some(contents.clone());
        }
        let passed = contents.pass(request.operation, request.lba, request.sectors());
        if request.operation == Operation::Read {
            assert_eq!(passed.missing.is_none(), completion.hit, "{n}");
            hits += usize::from(completion.hit);
        }
    }
    assert!((500..2500).contains(&hits), "{hits}");
    // An array that begins with the contents of another goes on like that one.
    let parts = (0..5).map(|_| part()).collect();
    let mut ours = array::with_contents(geometry, traces::Nanos::from_us(100), half, parts);
    let held = Request::new(Timestamp::ZERO, Operation::Read, requests[9].1.lba, Sectors::new(64));
    let mut written = read(140_000 * 8, 64);
    assert!(ours.holds(&held) && !ours.holds(&written));
    written.operation = Operation::Write;
    ours.written(&written);
    written.operation = Operation::Read;
    assert!(ours.holds(&written));
    let rest = &requests[requests.len() / 2..];
    for ((_, completion), (_, expected)) in run(&mut ours, rest).iter().zip(&served[requests.len() / 2..]) {
        assert_eq!(completion.hit, expected.hit);
    }
}
