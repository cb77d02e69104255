//! CATS and GSW: the shadow cache, the order of the four steps, and every reading of the delay.
//! Ids count the requests of a script from zero.

use iocast_schedulers::cats::{Cats, ENTRY};
use iocast_schedulers::{Capacity, Dispatch, DistanceCost, Scheduler};
use traces::spec::Settings;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::driver::{Driver, ms};

fn cats(tunables: &str) -> Driver {
    Driver::new(&format!("cats:{tunables}"))
}

/// Every table at once, so that only the order counts.
fn undelayed(tunables: &str) -> Driver {
    cats(&format!("busdriver_delay=0ns{tunables}"))
}

/// How many predicted hits have been sent.
fn hits(driver: &Driver) -> u64 {
    driver.scheduler.sent_by_rule()[0]
}

const A_NANOSECOND: Nanos = Nanos::from_ns(1);

#[test]
fn a_read_of_what_was_sent_or_prefetched_goes_before_the_sequence() {
    for (start, is_hit) in [(1000, true), (1008, true), (1064, true), (1065, false), (999, false)] {
        let mut driver = undelayed("");
        driver.reads(&[1000, 3000, 900]);
        assert_eq!(driver.next(), 2);
        assert_eq!(driver.next(), 0);
        driver.reads(&[start]).at(2990);
        assert_eq!(driver.next(), if is_hit { 3 } else { 1 }, "{start}");
        assert_eq!(hits(&driver), u64::from(is_hit));
    }
}

#[test]
fn of_several_hits_the_oldest_goes_first() {
    let mut driver = undelayed("");
    driver.reads(&[1000]).all();
    driver.reads(&[1040, 1056, 1008]);
    assert_eq!(driver.all(), [1, 2, 3]);
    assert_eq!(hits(&driver), 3);
}

#[test]
fn a_waiting_read_becomes_a_hit_when_what_it_needs_is_fetched() {
    let mut driver = undelayed("");
    driver.at(1000).reads(&[1000, 1050, 990, 980]);
    assert_eq!(driver.next(), 0);
    // 990 is nearer along the sequence, but 1050 has been prefetched.
    driver.at(1000);
    assert_eq!(driver.next(), 1);
}

#[test]
fn the_cache_is_as_large_as_its_tunables_say() {
    for (tunables, sent, read, is_hit) in [
        (",prefetch_sectors=0", vec![1000], 1000, true),
        (",prefetch_sectors=0", vec![1000], 1008, false),
        (",segments=2", vec![1000, 5000, 9000], 5000, true),
        (",segments=2", vec![1000, 5000, 9000], 9000, true),
        (",segments=2", vec![1000, 5000, 9000], 1000, false),
        (",segments=3", vec![1000, 5000, 9000], 1000, true),
        (",segment_sectors=64", vec![1000], 1008, true),
        (",segment_sectors=64", vec![1000], 1000, false),
        (",segment_sectors=65", vec![1000], 1007, true),
    ] {
        let mut driver = undelayed(tunables);
        for start in sent {
            driver.reads(&[start]).next();
        }
        driver.reads(&[read]).next();
        assert_eq!(hits(&driver), u64::from(is_hit), "{tunables} {read}");
    }
}

#[test]
fn a_hit_that_is_sent_takes_a_segment_too() {
    let mut driver = undelayed(",segments=2,prefetch_sectors=8");
    for start in [1000, 5000, 1000, 1016, 5000] {
        driver.reads(&[start]).next();
    }
    // The second 1000 was a hit and replaced the first; 1016 was none and replaced 5000.
    assert_eq!(hits(&driver), 1);
}

#[test]
fn writes_enter_the_shadow_cache_and_discards_do_not() {
    for (operation, expected) in [(Operation::Write, 1), (Operation::Discard, 0)] {
        let mut driver = undelayed("");
        driver.arrive(operation, &[1000]).next();
        driver.reads(&[1008]).next();
        assert_eq!(hits(&driver), expected, "{operation}");
    }
    // A write is never a hit itself.
    let mut driver = undelayed("");
    driver.reads(&[1000]).next();
    driver.writes(&[5000, 1000]).reads(&[900]);
    assert_eq!(driver.next(), 3);
    assert_eq!(hits(&driver), 0);
}

#[test]
fn a_read_that_grows_is_compared_anew() {
    // 1000 to 1072 are cached; the read beside the head goes first unless the other is a hit.
    for (start, sectors, is_hit) in [(1008, 64, true), (1008, 65, false), (1000, 16, true), (999, 17, false)] {
        let mut driver = undelayed("");
        driver.reads(&[1000]).next();
        driver.reads(&[1008, 4000]).at(4000);
        let grown = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(start), Sectors::new(sectors));
        driver.scheduler.merged(Timestamp::ZERO, RequestId(1), &grown);
        assert_eq!(driver.next(), if is_hit { 1 } else { 2 }, "{sectors} sectors from {start}");
    }
}

#[test]
fn reads_go_by_table_before_writes_which_go_in_cscan_order() {
    let mut driver = undelayed(",prefetch_sectors=0");
    driver.at(100).writes(&[500, 50, 900]).reads(&[20, 82, 120, 200]).arrive(Operation::Discard, &[700]);
    assert_eq!(driver.all(), [5, 4, 3, 6, 0, 7, 2, 1]);
    // Unless there is no capacity for reads.
    let mut driver = undelayed("");
    driver.reads(&[100]).writes(&[200]);
    driver.capacity = Capacity { reads: 0, writes: 1 };
    assert_eq!(driver.all(), [1]);
    driver.capacity = Capacity { reads: 1, writes: 0 };
    assert_eq!(driver.writes(&[300]).all(), [0]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
}

#[test]
fn reads_go_in_cscan_order_while_the_oldest_is_older_than_read_delay() {
    for (late, sent) in [(Nanos::ZERO, [2, 1, 0, 3]), (A_NANOSECOND, [2, 3, 0, 1])] {
        let mut driver = undelayed(",prefetch_sectors=0");
        driver.at(100).reads(&[20, 82, 120, 200]).time(ms(100) + late);
        assert_eq!(driver.all(), sent, "{late} late");
    }
    // Until it no longer is: the last two are young.
    let mut driver = undelayed(",prefetch_sectors=0");
    driver.at(100).reads(&[900]).time(ms(60)).reads(&[20, 82, 120, 200]).time(ms(101));
    assert_eq!(driver.all(), [3, 4, 0, 2, 1]);
    // A hit still goes first.
    let mut driver = undelayed("");
    driver.reads(&[1000]).next();
    driver.reads(&[2000, 5000]).at(4000).time(ms(101)).reads(&[1008]);
    assert_eq!(driver.next(), 3);
    assert_eq!(driver.at(4000).next(), 2);
}

#[test]
fn joined_reads_are_as_old_as_the_older() {
    let mut driver = undelayed(",prefetch_sectors=0");
    driver.at(100).reads(&[208]).time(ms(50)).reads(&[200, 20, 82, 120]).join(1, 0).time(ms(100) + A_NANOSECOND);
    assert_eq!(driver.all(), [4, 1, 3, 2]);
    let mut driver = undelayed(",prefetch_sectors=0");
    driver.at(100).reads(&[200]).time(ms(50)).reads(&[208, 20, 82, 120]).join(0, 1).time(ms(100));
    assert_eq!(driver.all(), [4, 3, 2, 0]);
}

#[test]
fn no_wait_outlasts_read_delay() {
    for (reading, expected) in [
        ("between-tables", ms(101) + A_NANOSECOND),
        ("before-table", ms(100) + A_NANOSECOND),
        ("after-completion", ms(101) + A_NANOSECOND),
    ] {
        let mut driver = cats(&format!("busdriver_delay=1s,prefetch_sectors=0,busdriver_reading={reading}"));
        driver.read_of_stream(100, 1);
        if reading != "before-table" {
            assert_eq!(driver.next(), 0);
            driver.time(ms(1)).complete(0).read_of_stream(500, 2);
        }
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(expected), "{reading}");
        driver.time(expected);
        assert!(matches!(driver.dispatch(), Dispatch::Send(_)), "{reading}");
    }
}

#[test]
fn between_tables_the_sequence_is_driven_on() {
    let mut driver = cats("prefetch_sectors=0");
    driver.reads(&[100, 200, 300]);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).reads(&[110]);
    assert_eq!(driver.all(), [1, 2]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
    driver.time(ms(7));
    assert_eq!(driver.all(), [3]);
    // The next table after that is not due before 14 ms, hits or not.
    driver.reads(&[500]).reads(&[110]);
    assert_eq!(driver.all(), [5]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(14)));
    // With an idle drive and the delay past, the first request goes at once.
    driver.time(ms(14));
    assert_eq!(driver.all(), [4]);
}

#[test]
fn between_tables_a_table_is_due_after_the_delay_if_the_reads_are_others() {
    for (now, next) in [(ms(7), 3), (Timestamp::from_ns(6_999_999), 1)] {
        let mut driver = cats("prefetch_sectors=0");
        driver.reads(&[100, 200, 300]);
        assert_eq!(driver.next(), 0);
        driver.time(now).reads(&[90]);
        assert_eq!(driver.next(), next);
    }
}

#[test]
fn between_tables_one_is_built_only_when_the_reads_have_changed() {
    let spec = "cats:prefetch_sectors=0".parse().unwrap();
    let mut cats = Cats::new(&Settings::resolve(&spec, ENTRY.tunables).unwrap());
    let cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1000) };
    let request = |operation, start| Request::new(Timestamp::ZERO, operation, Lba::new(start), Sectors::new(8));
    for id in 0..9 {
        cats.insert(Timestamp::ZERO, RequestId(id), &request(Operation::Read, u64::from(id) * 100));
    }
    for (now, change, built) in [
        (0, None, 1),
        (7, None, 1),
        (8, Some((Operation::Write, 11)), 1),
        (9, Some((Operation::Read, 50)), 2),
        (15, Some((Operation::Read, 60)), 2),
        (16, None, 3),
        (30, None, 3),
    ] {
        if let Some((operation, start)) = change {
            cats.insert(ms(now), RequestId(start as u32), &request(operation, start));
        }
        assert!(matches!(cats.dispatch(ms(now), Capacity::UNLIMITED, &cost), Dispatch::Send(_)));
        assert_eq!(cats.tables_built(), built, "at {now} ms");
    }
}

#[test]
fn between_tables_a_hit_that_leaves_the_sequence_makes_a_table_due() {
    let mut cats = Cats::new(&Settings::resolve(&"cats".parse().unwrap(), ENTRY.tunables).unwrap());
    let cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(10_000) };
    for (id, start) in [(0, 0), (1, 6000), (2, 40), (3, 7000)] {
        let read = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(start), Sectors::new(8));
        cats.insert(ms(0), RequestId(id), &read);
    }
    for (now, id, built) in [(0, 0, 1), (1, 2, 1), (2, 1, 1), (7, 3, 2)] {
        assert_eq!(cats.dispatch(ms(now), Capacity::UNLIMITED, &cost), Dispatch::Send(RequestId(id)));
        assert_eq!(cats.tables_built(), built, "at {now} ms");
    }
}

#[test]
fn before_a_table_it_waits_once_and_then_drives_the_whole_sequence() {
    let mut driver = cats("busdriver_reading=before-table,prefetch_sectors=0");
    driver.reads(&[100, 200]).writes(&[300]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
    driver.time(ms(3)).reads(&[50]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
    driver.time(ms(7));
    assert_eq!(driver.next(), 3);
    // 60 is next to the head but not in the sequence; 50 is a hit.
    driver.time(ms(50)).reads(&[60, 50]);
    assert_eq!(driver.all(), [5, 0, 1]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(57)));
    driver.time(ms(57));
    assert_eq!(driver.all(), [4, 2]);
    // A wait for a read that goes away is over.
    driver.time(ms(60)).reads(&[900]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(67)));
    driver.remove(6);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.time(ms(65)).reads(&[900]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(72)));
}

/// The common rules of the two that wait after completions.
fn waits_after_completions(spec: &str) {
    let mut driver = Driver::new(spec);
    driver.read_of_stream(100, 1);
    driver.read_of_stream(200, 2);
    driver.read_of_stream(300, 2);
    assert_eq!(driver.next(), 0, "{spec}: nothing has been completed");
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(8)), "{spec}");
    driver.time(ms(2)).read_of_stream(9000, 3);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(8)), "{spec}: somebody else asked");
    driver.time(ms(3)).read_of_stream(110, 1);
    assert_eq!(driver.next(), 4, "{spec}: it has asked");
    driver.complete(4).time(ms(10));
    assert_eq!(driver.next(), 1, "{spec}: the delay is over");
    // Without capacity for any request there is no reason to wait.
    driver.complete(1).capacity = Capacity { reads: 0, writes: 1 };
    assert_eq!(driver.dispatch(), Dispatch::Idle, "{spec}");
    // Writes are held back too, but no process sends a request after a write.
    driver.writes(&[400, 500]);
    let write = driver.requests[5];
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(17)), "{spec}");
    driver.time(ms(17));
    assert_eq!(driver.next(), 5, "{spec}");
    driver.scheduler.completed(ms(17), RequestId(5), &write);
    assert_eq!(driver.next(), 6, "{spec}");
}

#[test]
fn gsw_and_one_reading_of_cats_wait_after_completions() {
    waits_after_completions("gsw");
    waits_after_completions("cats:busdriver_reading=after-completion,prefetch_sectors=0");
}

#[test]
fn a_hit_is_not_held_back_by_the_wait_after_a_completion() {
    let mut driver = cats("busdriver_reading=after-completion");
    driver.read_of_stream(1000, 1);
    driver.read_of_stream(5000, 2);
    assert_eq!(driver.next(), 0);
    driver.complete(0).read_of_stream(1008, 3);
    assert_eq!(driver.next(), 2);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
}

#[test]
fn gsw_serves_reads_and_writes_alike_in_the_optimal_sequence() {
    let mut driver = Driver::new("gsw");
    driver.at(100).reads(&[20]).writes(&[82, 120]).reads(&[200]);
    assert_eq!(driver.all(), [2, 1, 0, 3]);
}
