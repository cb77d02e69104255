//! dd and IOzone access every byte in order.

use iocast_workloads::guest::{Files, Step};
use iocast_workloads::programs::build;
use traces::{Nanos, Operation, Sectors};

use crate::driver::{drive_each, run_spec};

#[test]
fn dd_accesses_the_file_block_by_block() {
    let run = run_spec("dd:operation=write,size=2500k,bs=1m,fsync=on,repeat=2", 1000);
    let offsets: Vec<_> =
        run.accesses().iter().map(|&(_, operation, _, at, bytes)| (operation, at >> 10, bytes >> 10)).collect();
    let once = [(Operation::Write, 0, 1024), (Operation::Write, 1024, 1024), (Operation::Write, 2048, 452)];
    assert_eq!(offsets, [once, once].concat());
    assert_eq!(run.count(|step| matches!(step, Step::Sync(_))), 2);
    assert_eq!(run.count(|step| matches!(step, Step::Post(_))), 2);
    assert!(run.ended);
}

#[test]
fn dd_reads_do_not_sync_and_direct_ones_cost_no_processor_time() {
    let run = run_spec("dd:size=1m,bs=64k,fsync=on,direct=on", 1000);
    assert_eq!(run.moved(), (1 << 20, 0));
    assert_eq!(run.count(|step| matches!(step, Step::Sync(_) | Step::Sleep(_))), 0);
    assert!(run.seen.iter().all(|seen| !matches!(seen.step, Step::Access(access) if !access.direct)));
}

#[test]
fn iozone_writes_rewrites_reads_and_rereads() {
    for (tests, read, written) in [("0+1", 2, 2), ("0", 0, 2), ("1", 2, 0)] {
        let run = run_spec(&format!("iozone:tests={tests},size=1m,record=64k"), 10_000);
        assert!(run.ended);
        assert_eq!(run.moved(), (read << 20, written << 20), "{tests}");
        let accesses = run.accesses();
        for (index, &(_, _, _, offset, bytes)) in accesses.iter().enumerate() {
            assert_eq!((offset, bytes), (index as u64 % 16 * 65_536, 65_536));
        }
    }
}

#[test]
fn iozone_syncs_within_the_phase_with_e_and_after_it_without() {
    for (fsync, order) in [("on", ["sync", "post"]), ("off", ["post", "sync"])] {
        let run = run_spec(&format!("iozone:tests=0,size=64k,fsync={fsync}"), 1000);
        let ends = run.seen.iter().filter_map(|seen| match seen.step {
            Step::Sync(_) => Some("sync"),
            Step::Post(event) if event.0 % 2 == 1 => Some("post"),
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [order, order].concat(), "{fsync}");
    }
}

#[test]
fn iozone_threads_begin_each_phase_together_on_their_own_files() {
    let mut disk = Files::new(Sectors::new(1 << 20));
    let workload = build(&"iozone:size=256k,threads=3".parse().unwrap()).unwrap();
    let processes = workload.processes(&mut disk, 1).unwrap();
    let run = drive_each(processes, disk, &[100, 300, 200].map(Nanos::from_us), 10_000);
    assert!(run.ended);
    let mut phases = [0; 3];
    for seen in &run.seen {
        match seen.step {
            Step::Post(event) if event.0 % 2 == 0 => phases[seen.process] = event.0 / 2,
            Step::Access(_) => assert!(seen.at >= run.posted(2 * phases[seen.process], 3), "{seen:?}"),
            _ => {}
        }
    }
    assert_eq!(phases, [3; 3]);
    let mut files: Vec<_> = run.accesses().iter().map(|access| (access.0, access.2)).collect();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 3);
}
