//! The classes of drives do what the specifications say that their numbers were set for. A fit, not a validation: no
//! drive was measured.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_drives::{Completion, DriveModel, build};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};

/// A load as specifications have it: requests of one size over the whole drive, a fixed number at a time.
#[derive(Clone, Copy)]
struct Load {
    operation: Operation,
    sectors: u64,
    random: bool,
    outstanding: u32,
    requests: u64,
}

/// Requests a second in the second half of the run, and the mean time of one in us.
fn run(drive: &str, load: Load) -> (f64, f64) {
    let mut drive = build(&drive.parse().unwrap()).unwrap().drive;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let places = drive.capacity().count() / load.sectors;
    let (mut now, mut done, mut submitted, mut finished) = (Timestamp::ZERO, Vec::new(), 0u64, 0u64);
    let mut ids: Vec<u32> = (0..load.outstanding).collect();
    let (mut begun, mut total) = (vec![Timestamp::ZERO; load.outstanding as usize], 0);
    let mut middle = Timestamp::ZERO;
    while finished < load.requests {
        while submitted < load.requests
            && let Some(id) = ids.pop()
        {
            let place = if load.random { random.random_range(0..places) } else { submitted };
            let lba = Lba::new(place * load.sectors);
            let request = Request::new(now, load.operation, lba, Sectors::new(load.sectors));
            assert!(drive.accepts(&request));
            drive.submit(now, RequestId(id), &request);
            begun[id as usize] = now;
            submitted += 1;
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        for Completion { id, finished: at, .. } in done.drain(..) {
            ids.push(id.0);
            finished += 1;
            if finished == load.requests / 2 {
                middle = at;
            } else if finished > load.requests / 2 {
                total += at.since(begun[id.index()]).as_ns();
            }
        }
    }
    let half = load.requests.div_ceil(2) as f64;
    (half / now.since(middle).as_s_f64(), total as f64 / half / 1000.0)
}

const RANDOM_READ: Load =
    Load { operation: Operation::Read, sectors: 8, random: true, outstanding: 32, requests: 200_000 };
const RANDOM_WRITE: Load = Load { operation: Operation::Write, requests: 400_000, ..RANDOM_READ };
const READ: Load = Load { sectors: 256, random: false, requests: 20_000, ..RANDOM_READ };
const WRITE: Load = Load { operation: Operation::Write, requests: 40_000, ..READ };
const ALONE: Load = Load { outstanding: 1, requests: 2_000, ..RANDOM_READ };

#[test]
fn throughput_and_latency_are_those_of_the_specification() {
    let iops = |(iops, _): (f64, f64)| iops;
    let mb_per_s = |(iops, _): (f64, f64)| iops * 256.0 * 512.0 / 1e6;
    let latency = |(_, us): (f64, f64)| us;
    let deep = |load| Load { outstanding: 256, ..load };
    let sata = "sata-ssd:precondition=sequential";
    let nvme = "nvme-ssd:precondition=sequential";
    for (what, modelled, specified) in [
        ("SATA random reads/s", iops(run("sata-ssd", RANDOM_READ)), 72_000.0),
        ("SATA random writes/s", iops(run("sata-ssd", RANDOM_WRITE)), 33_000.0),
        ("SATA sequential read, MB/s", mb_per_s(run(sata, READ)), 500.0),
        ("SATA sequential write, MB/s", mb_per_s(run(sata, WRITE)), 490.0),
        ("SATA random read, us", latency(run("sata-ssd", ALONE)), 110.0),
        ("SATA sequential write, us", latency(run("sata-ssd", Load { operation: Operation::Write, ..ALONE })), 36.0),
        ("NVMe random reads/s", iops(run("nvme-ssd", deep(RANDOM_READ))), 490_000.0),
        ("NVMe random writes/s", iops(run("nvme-ssd", deep(RANDOM_WRITE))), 38_000.0),
        ("NVMe sequential read, MB/s", mb_per_s(run(nvme, deep(READ))), 3200.0),
        ("NVMe sequential write, MB/s", mb_per_s(run(nvme, deep(WRITE))), 1050.0),
        ("NVMe random read, us", latency(run("nvme-ssd", ALONE)), 85.0),
        ("NVMe random write, us", latency(run("nvme-ssd", Load { operation: Operation::Write, ..ALONE })), 20.0),
    ] {
        println!("{what}: {modelled:.0}, specified {specified}");
        let off = modelled / specified - 1.0;
        assert!(off.abs() < 0.05, "{what}: {modelled:.0}, but {specified} are specified");
    }
}
