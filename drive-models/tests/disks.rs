//! Disks that were built from published figures reproduce them.
#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use iocast_drives::{Completion, DriveModel, build};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

fn drive(spec: &str) -> Box<dyn DriveModel> {
    build(&spec.parse().unwrap()).unwrap().drive
}

/// Serves one read and says when it is done.
fn read(drive: &mut dyn DriveModel, at: Timestamp, lba: u64, sectors: u64) -> Timestamp {
    let request = Request::new(at, Operation::Read, Lba::new(lba), Sectors::new(sectors));
    let mut completions: Vec<Completion> = Vec::new();
    drive.submit(at, RequestId(0), &request);
    while completions.is_empty() {
        let next = drive.next_event().unwrap();
        drive.advance(next, &mut completions);
    }
    completions[0].finished
}

/// MB/s of reading 64 MB in requests of 128 KB from `lba` on.
fn sequential_mb_per_s(spec: &str, lba: u64) -> f64 {
    let mut drive = drive(spec);
    let mut at = Timestamp::ZERO;
    for nth in 0..512 {
        at = read(&mut *drive, at, lba + nth * 256, 256);
    }
    64.0 * 1.048576 / Nanos::from_ns(at.as_ns()).as_s_f64()
}

/// Mean of 20,000 random page reads in ms.
fn random_read_ms(spec: &str) -> f64 {
    let mut drive = drive(spec);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(15_000);
    let pages = drive.capacity().count() / 8;
    let mut at = Timestamp::ZERO;
    for _ in 0..20_000 {
        at = read(&mut *drive, at, random.random_range(0..pages) * 8, 8);
    }
    at.as_ns() as f64 / 20_000.0 / 1e6
}

#[track_caller]
fn assert_near(ours: f64, published: f64, relative: f64) {
    assert!((ours / published - 1.0).abs() < relative, "{ours} is not {published}");
}

#[test]
fn sata_disks_stream_at_their_rates() {
    assert_near(sequential_mb_per_s("sata-500", 0), 140.0, 0.03);
    assert_near(sequential_mb_per_s("sata-7200", 0), 255.0, 0.03);
    let inside = drive("sata-7200").capacity().count() - 512 * 256;
    assert_near(sequential_mb_per_s("sata-7200", inside), 127.0, 0.1);
}

#[test]
fn random_reads_take_overhead_seek_and_half_a_turn() {
    // The mean of the line 4.25 + 5.25 d/D over uniform accesses, of Geist et al. 2010.
    assert_near(random_read_ms("cheetah-15k4:cache=off"), 6.0, 0.01);
    assert_near(random_read_ms("cheetah-15k4-mechanical"), 6.0, 0.05);
    assert_near(random_read_ms("sata-500"), 8.5 + 4.17 + 0.1, 0.03);
    assert_near(random_read_ms("sata-7200"), 8.2 + 4.17 + 0.1, 0.03);
}
