//! The buffer: timings worked out by hand on the small drive of the other tests.

use super::super::*;
use super::{read, small_with, time, write};

const CACHE: &[(&str, &str)] = &[("segments", "2"), ("segment_sectors", "30"), ("read_ahead_sectors", "8")];

pub(super) fn cached(more: &[(&str, &str)]) -> Mechanical {
    small_with(&[CACHE, more].concat())
}

#[test]
fn sequential_hit_within_the_pause_takes_the_sequential_time() {
    let mut drive = cached(&[("read_hit_sequential", "100us"), ("sequential_pause", "20ms")]);
    let done_us = time(&mut drive, 0, &read(2, 2));
    let sequential = HIT_2 - 400;
    assert_eq!(time(&mut drive.clone(), done_us + 19_990, &read(4, 2)), sequential);
    assert_eq!(time(&mut drive.clone(), done_us + 20_010, &read(4, 2)), HIT_2);
    assert_eq!(time(&mut drive.clone(), done_us + 10_000, &read(6, 2)), HIT_2);
    // A write is not gone on with by a read.
    let mut written = drive.clone();
    time(&mut written, done_us + 8000, &write(3, 1));
    assert_eq!(time(&mut written, done_us + 19_000, &read(4, 2)), HIT_2);
    // A write in between ends the run.
    time(&mut drive, done_us + 8000, &write(70, 1));
    assert_eq!(time(&mut drive, done_us + 19_000, &read(4, 2)), HIT_2);
}

/// The time of a read from the buffer in µs: `read_hit`, two sectors on the bus, completion.
const HIT_2: u64 = 500 + 102 + 10;

#[test]
fn read_of_sectors_read_ahead_is_a_hit_and_any_other_a_miss() {
    let mut drive = cached(&[]);
    // Sectors 2 and 3 have passed at 4 ms, 4 to 9 at 10 ms, and 10 and 11 after the head skew at 14 ms.
    assert_eq!(time(&mut drive, 0, &read(2, 2)), 4000 + 102 + 10);
    assert_eq!(time(&mut drive.clone(), 15_000, &read(10, 2)), HIT_2);
    // It stops eight sectors behind the read: 11 and 12 have to come round, until 25 ms.
    assert_eq!(time(&mut drive.clone(), 15_000, &read(11, 2)), 10_000 + 102 + 10);
    // The sectors before it were never read.
    assert_eq!(time(&mut drive, 15_000, &read(1, 2)), 8000 + 102 + 10);
}

#[test]
fn hit_waits_for_sectors_still_being_read_ahead() {
    let mut drive = cached(&[]);
    time(&mut drive, 0, &read(2, 2));
    // At 6.1 ms, sector 5 has gone by and 6 and 7 come in until 8 ms.
    assert_eq!(time(&mut drive.clone(), 6100, &read(6, 2)), 8000 - 6100 + 51 + 10);
    // One that leaves a gap to the sectors in the buffer is no such stream: the command comes in time all the same.
    assert_eq!(time(&mut drive, 6100, &read(8, 1)), 9000 - 6100 + 51 + 10);
}

#[test]
fn hit_extends_read_ahead_unless_switched_off() {
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("read_ahead_on_hit", setting)]);
        time(&mut drive, 0, &read(2, 2));
        // While it still reads on, and after it has stopped behind sector 11.
        assert_eq!(time(&mut drive.clone(), 8200, &read(4, 2)), HIT_2);
        let mut later = drive.clone();
        assert_eq!(time(&mut drive, 8200, &read(4, 2)), HIT_2);
        assert_eq!(time(&mut drive, 40_000, &read(12, 2)) == HIT_2, hit);
        assert_eq!(time(&mut later, 30_000, &read(10, 2)), HIT_2);
        assert_eq!(time(&mut later, 80_000, &read(18, 2)) == HIT_2, hit);
    }
}

#[test]
fn another_access_stops_read_ahead_and_takes_the_least_recently_used_segment() {
    let mut drive = cached(&[]);
    time(&mut drive, 0, &read(2, 2));
    // Another cylinder at 5.05 ms: 4 is in the buffer, 5 not.
    time(&mut drive, 5050, &read(70, 1));
    let hit_1 = 500 + 51 + 10;
    assert_eq!(time(&mut drive.clone(), 40_000, &read(4, 1)), hit_1);
    assert_ne!(time(&mut drive.clone(), 40_000, &read(5, 1)), hit_1);
    // A third stream takes the segment of the first, a fourth that of the second.
    time(&mut drive, 40_000, &read(30, 1));
    assert_ne!(time(&mut drive.clone(), 80_000, &read(4, 1)), hit_1);
    assert_eq!(time(&mut drive.clone(), 80_000, &read(70, 1)), hit_1);
    time(&mut drive, 80_000, &read(50, 1));
    assert_ne!(time(&mut drive, 120_000, &read(70, 1)), hit_1);
}

#[test]
fn a_whole_track_is_read_as_it_comes_round() {
    let drive = |more: &[(&str, &str)]| {
        let mut drive = cached(&[&[("read_whole_track", "on")], more].concat());
        time(&mut drive, 0, &read(5, 1));
        drive
    };
    // From 15 ms on sectors 0 to 4 have come round. Sector 10 is on the next track.
    assert_eq!(time(&mut drive(&[]), 30_000, &read(2, 2)), HIT_2);
    assert_eq!(time(&mut drive(&[]), 14_000, &read(2, 2)), 1000 + 51 + 10);
    assert_eq!(time(&mut drive(&[]), 30_000, &read(10, 2)), HIT_2);
    assert_ne!(time(&mut drive(&[("read_ahead_within_track", "on")]), 30_000, &read(10, 2)), HIT_2);
    // Another access before that leaves nothing of them.
    let mut left = drive(&[]);
    time(&mut left, 8000, &read(70, 1));
    assert_ne!(time(&mut left, 40_000, &read(2, 2)), HIT_2);
}

#[test]
fn read_ahead_can_require_a_sequence_and_sent_sectors_can_be_dropped() {
    let mut drive = cached(&[("read_ahead_needs_sequence", "on")]);
    time(&mut drive, 0, &read(2, 2));
    assert_ne!(time(&mut drive, 30_000, &read(4, 2)), HIT_2);
    assert_eq!(time(&mut drive, 60_000, &read(6, 2)), HIT_2);
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("keeps_read", setting)]);
        time(&mut drive, 0, &read(2, 2));
        assert_eq!(time(&mut drive.clone(), 30_000, &read(2, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive, 30_000, &read(6, 2)), HIT_2);
        assert_eq!(time(&mut drive.clone(), 60_000, &read(4, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive, 60_000, &read(8, 2)), HIT_2);
    }
}

#[test]
fn write_invalidates_old_data_and_its_own_is_readable_if_switched_on() {
    for (setting, hit) in [("on", true), ("off", false)] {
        let mut drive = cached(&[("read_hits_written", setting)]);
        time(&mut drive, 0, &read(2, 4));
        time(&mut drive, 30_000, &write(4, 2));
        assert_eq!(time(&mut drive.clone(), 60_000, &read(4, 2)) == HIT_2, hit);
        assert_eq!(time(&mut drive.clone(), 60_000, &read(6, 2)), HIT_2);
        assert_ne!(time(&mut drive, 60_000, &read(3, 2)), HIT_2);
    }
}

pub(super) const BACK: &[(&str, &str)] = &[
    ("write_cache", "back"),
    ("write_hit", "200us"),
    ("write_hit_sequential", "150us"),
    ("dirty_runs", "2"),
    ("dirty_sectors", "8"),
    ("destage_delay", "1ms"),
];

#[test]
fn a_write_into_the_buffer_completes_at_once_and_moves_the_arm_later() {
    let mut drive = small_with(BACK);
    assert_eq!(time(&mut drive, 0, &write(70, 2)), 200 + 102);
    assert_eq!(drive.standing.heads.cylinder, 0);
    // A read before the delay is over goes first.
    let mut early = drive.clone();
    assert_eq!(time(&mut early, 1000, &read(3, 1)), 4000 - 1000 + 51 + 10);
    // After it, the arm moves: it leaves at 1.302 ms + 300 us, is there 2.5 + 0.5 ms later, writes sector 0 and
    // 1 of the track that begins at 7 ms, and is back 2.5 ms after 9 ms for sector 3 at 13 ms.
    assert_eq!(
        drive.serve(Timestamp::from_ns(2_000_000), &read(3, 1)).time.as_ns() / 1000,
        13_000 - 2000 + 1000 + 51 + 10
    );
    // Data that still wait can be read; a request only partly among them has to be on the medium first.
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    assert_eq!(time(&mut drive.clone(), 500, &read(70, 2)), HIT_2);
    let service = drive.serve(Timestamp::from_ns(500_000), &read(71, 2));
    assert_eq!(service.time.as_ns() / 1000, 18_000 - 500 + 2000 + 102 + 10);
    assert_eq!(drive.write_cache.as_ref().unwrap().oldest(), None);
}

#[test]
fn write_waits_while_the_write_cache_is_full() {
    // Two runs, or eight sectors; a run that goes on is none of its own.
    let mut drive = small_with(BACK);
    for (at, lba, sectors, hit) in [(0, 70, 2, 200), (350, 72, 2, 150), (700, 30, 2, 200)] {
        assert_eq!(time(&mut drive, at, &write(lba, sectors)), hit + 102);
    }
    let more = drive.serve(Timestamp::from_ns(1_010_000), &write(50, 1)).time.as_ns() / 1000;
    // The oldest run is written from 7 to 11 ms.
    assert_eq!(more, 11_000 - 1010 + 200 + 51);
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 6));
    let more = drive.serve(Timestamp::from_ns(600_000), &write(30, 3)).time.as_ns() / 1000;
    assert_eq!(more, 13_000 - 600 + 200 + 153, "six and three sectors are too many");
    // A write that never fits goes through.
    let mut drive = small_with(BACK);
    assert_eq!(time(&mut drive, 0, &write(3, 9)), 3000 + 7000 + 2000 + 2000 + 20);
}

#[test]
fn flushes_and_forced_writes_wait_for_the_medium() {
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    let flush = Request::new(Timestamp::ZERO, Operation::Flush, Lba::ZERO, Sectors::ZERO);
    assert_eq!(drive.clone().serve(Timestamp::from_ns(500_000), &flush).time.as_ns() / 1000, 9000 - 500);
    let mut forced = write(72, 1);
    forced.flags |= Flags::FUA;
    // Behind the older data, and one turn later on the same track.
    assert_eq!(drive.serve(Timestamp::from_ns(500_000), &forced).time.as_ns() / 1000, 10_000 - 500 + 20);
    assert_eq!(drive.clone().serve(Timestamp::from_ns(30_000_000), &flush).time.as_ns() / 1000, 300);
    assert_eq!(ServiceModel::write_cache(&drive), WriteCache::Volatile { fua: true });
    assert_eq!(ServiceModel::write_cache(&cached(&[])), WriteCache::Through);
}

#[test]
fn overheads_are_longer_after_a_read() {
    let mut drive = small_with(&[("read_after_read", "150us"), ("write_after_read", "250us")]);
    // The next sector comes at 4 ms: 100 + 150 us are in time until 3.75 ms, 300 + 250 us and a sector on the bus until
    // 3.398 ms.
    let done = |at_us: u64, after: u64| 4000 + 1000 + after - at_us;
    for (at_us, turns) in [(3740, 0), (3760, 1)] {
        let mut drive = drive.clone();
        drive.standing.after_read = true;
        assert_eq!(time(&mut drive, at_us, &read(4, 1)), done(at_us, 51 + 10) + turns * 10_000);
    }
    for (at_us, turns) in [(3390, 0), (3410, 1)] {
        let mut drive = drive.clone();
        drive.standing.after_read = true;
        assert_eq!(time(&mut drive, at_us, &write(4, 1)), done(at_us, 20) + turns * 10_000);
    }
    // Not after a write, and not on a new drive.
    assert_eq!(time(&mut drive.clone(), 3760, &read(4, 1)), done(3760, 51 + 10));
    time(&mut drive, 0, &read(2, 1));
    assert!(drive.standing.after_read);
    time(&mut drive, 20_000, &write(2, 1));
    assert_eq!(time(&mut drive, 33_760, &read(4, 1)), done(3760, 51 + 10));
}

#[test]
fn transfer_begins_when_its_watermark_is_reached() {
    // Two sectors that take 4 ms on the bus and 2 ms on the medium.
    let slow = [("bus_byte_ps", "3906250")];
    let with = |key, value| small_with(&[&slow[..], &[(key, value)]].concat());
    for (share, done) in [("1", 5000 + 4000), ("0.5", 4000 + 4000), ("0", 3000 + 4000)] {
        assert_eq!(time(&mut with("read_watermark", share), 0, &read(3, 2)), done + 10, "{share}");
    }
    // A bus as fast as the medium still has the last sector to send.
    let mut even = small_with(&[("bus_byte_ps", "1953125"), ("read_watermark", "0")]);
    assert_eq!(time(&mut even, 0, &read(3, 2)), 5000 + 1000 + 10);
    // All of a write is there at 0.3 + 4 ms, half of it at 2.3 ms, a sector at 2.3 ms at the soonest.
    for (share, at_us, done) in [
        ("1", 0, 15_000),
        ("1", 8600, 13_000 + 2000),
        ("1", 8800, 23_000 + 2000),
        ("0.5", 600, 5000),
        ("0.5", 800, 15_000),
        ("0", 600, 5000),
        ("0", 800, 15_000),
    ] {
        assert_eq!(
            time(&mut with("write_watermark", share), at_us, &write(3, 2)),
            done - at_us + 20,
            "{share} {at_us}"
        );
    }
    // Four sectors are on the medium at 7 ms, and over the bus at 0.3 + 8 ms.
    assert_eq!(time(&mut with("write_watermark", "0"), 0, &write(3, 4)), 8300 + 20);
    // While the arm moves, the bus goes on: the medium is at it from 7 to 11 ms.
    assert_eq!(time(&mut with("write_watermark", "0"), 3600, &write(70, 4)), 8300 + 20);
}

#[test]
fn runs_go_to_the_medium_one_after_another_and_stop_read_ahead() {
    let mut drive = small_with(BACK);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 400, &write(30, 2));
    // The first is written until 9 ms, so that at 8 ms the second has not begun.
    drive.serve(Timestamp::from_ns(8_000_000), &read(3, 1));
    assert_eq!(drive.write_cache.as_ref().unwrap().oldest().map(|run| run.start), Some(30));
    // A run is due once the read has ended at 4 ms: nothing has been read ahead by then.
    let mut drive = cached(BACK);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 400, &read(2, 2));
    drive.serve(Timestamp::from_ns(30_000_000), &write(50, 1));
    assert!(!drive.serve(Timestamp::from_ns(30_500_000), &read(4, 1)).hit);
}

#[test]
fn oldest_run_is_destaged_first_with_its_newest_data() {
    let all = |more: &[(&str, &str)]| small_with(&[BACK, more].concat());
    // A run that goes on waits again: since 1.152 ms, until 2.152 ms.
    let mut drive = all(&[]);
    time(&mut drive, 0, &write(70, 2));
    time(&mut drive, 900, &write(72, 2));
    assert_eq!(time(&mut drive, 2100, &read(3, 1)), 4000 - 2100 + 51 + 10);
    // The younger of two runs has the whole of 20 and 21, the older only 21.
    let mut drive = all(&[]);
    time(&mut drive, 0, &write(21, 2));
    time(&mut drive, 400, &write(20, 2));
    assert_eq!(time(&mut drive, 800, &read(20, 2)), HIT_2);
    // The older has 21 and 22, but 21 is newer in the other.
    assert_eq!(drive.write_cache.as_ref().unwrap().find(21, 23), Some(false));
    // A request that touches a run has nothing of it.
    assert_eq!(drive.write_cache.as_ref().unwrap().find(23, 25), None);
    assert_eq!(drive.write_cache.as_ref().unwrap().find(19, 20), None);
}

#[test]
fn sent_sectors_are_dropped_even_without_read_ahead_on_hits() {
    let mut drive = cached(&[("keeps_read", "off"), ("read_ahead_on_hit", "off")]);
    time(&mut drive, 0, &read(2, 2));
    assert_eq!(time(&mut drive, 30_000, &read(6, 2)), HIT_2);
    assert_ne!(time(&mut drive.clone(), 60_000, &read(6, 2)), HIT_2);
    assert_eq!(time(&mut drive, 60_000, &read(8, 2)), HIT_2);
}

#[test]
fn extreme_requests_and_settings_are_served() {
    for (segment_sectors, ahead) in [("1", "1048576"), ("1048576", "1048576"), ("1", "0")] {
        for on in ["on", "off"] {
            let mut drive = small_with(&[
                ("segments", "2"),
                ("segment_sectors", segment_sectors),
                ("read_ahead_sectors", ahead),
                ("read_whole_track", on),
                ("keeps_read", on),
                ("read_hits_written", on),
                ("read_ahead_within_track", on),
                ("write_cache", "back"),
                ("bus_byte_ps", "1000000000"),
            ]);
            let rotation = drive.rotation();
            let mut now = Timestamp::ZERO;
            for lba in [0, 75, 79, 80, 81, u64::MAX - 1, u64::MAX] {
                for sectors in [0, 1, 5, 2000, u64::from(u32::MAX)] {
                    for request in [read(lba, sectors), write(lba, sectors), read(lba, sectors)] {
                        drive.access(now, &request);
                        drive.completes_at(&rotation, &request);
                        drive.between(request.lba, Lba::new(79), request.sectors());
                        now = now.saturating_add(drive.serve(now, &request).time);
                    }
                }
            }
        }
    }
}

#[test]
fn minimum_read_ahead_completes_before_another_access() {
    let hit_1 = 500 + 51 + 10;
    for (least, five) in [("0", false), ("2", true), ("3", true)] {
        let mut drive = cached(&[("read_ahead_least", least)]);
        time(&mut drive, 0, &read(2, 2));
        let alone = drive.clone();
        // As in the test before the last: at 5.05 ms sector 4 has passed and 5 has not.
        let other = time(&mut drive, 5050, &read(70, 1));
        assert_eq!(time(&mut drive.clone(), 40_000, &read(5, 1)) == hit_1, five, "{least}");
        assert_eq!(time(&mut drive, 40_000, &read(4, 1)), hit_1);
        // The cost that a scheduler asks for is the time that it will take.
        let asked = alone.access(Timestamp::from_ns(5_050_000), &read(70, 1));
        assert_eq!(asked.as_ns() / 1000, other, "{least}");
    }
}

#[test]
fn hit_protects_a_segment_under_lru_but_not_under_fifo() {
    let hit_1 = 500 + 51 + 10;
    for (replacement, kept) in [("lru", true), ("fifo", false)] {
        let mut drive = cached(&[("segment_replacement", replacement)]);
        time(&mut drive, 0, &read(2, 2));
        time(&mut drive, 40_000, &read(70, 1));
        assert_eq!(time(&mut drive, 80_000, &read(3, 1)), hit_1);
        time(&mut drive, 120_000, &read(50, 1));
        assert_eq!(time(&mut drive, 160_000, &read(3, 1)) == hit_1, kept, "{replacement}");
    }
}
