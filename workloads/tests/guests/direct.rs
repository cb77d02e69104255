use iocast_workloads::guest::{Access, Event, FileId, Files, Step};
use iocast_workloads::{GuestError, Until};
use replay::ReplayError;
use traces::Operation::{Flush, Read, Write};
use traces::{Flags, Lba, Operation, Timestamp};

use super::support::*;

fn disk() -> (Files, FileId) {
    Files::raw_device(sectors(1 << 20))
}

#[test]
fn process_sends_its_next_request_after_completion_and_think_time() {
    let (files, disk) = disk();
    let read = |at| Step::Access(Access::read(disk, sectors(at), sectors(8)));
    let (program, times) = script(&[read(16), Step::Sleep(ms(3)), read(800), read(808)]);
    let seen = run(vec![guest(files, None, vec![program])], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 16, 8, 1), (4000, Read, 800, 8, 1), (5000, Read, 808, 8, 1)]);
    assert_eq!(asked(&times), [0, 1000, 4000, 5000, 6000]);
    assert!(seen.flags.iter().all(|flags| flags.contains(Flags::SYNC)));
}

#[test]
fn started_accesses_overlap_until_they_are_awaited() {
    let (files, disk) = disk();
    let start = |at| Step::Start(Access::write(disk, sectors(at), sectors(8)));
    let steps = [start(0), start(8), Step::AwaitAtMost(1), start(16), Step::AwaitAtMost(0), start(24)];
    let (program, times) = script(&steps);
    let seen = run(vec![guest(files, None, vec![program])], Until::default()).unwrap();
    let when: Vec<u64> = seen.arrivals.iter().map(|arrival| arrival.0).collect();
    // The drive serves one after another: the first is done at 1 ms, the third at 3.
    assert_eq!(when, [0, 0, 1000, 3000]);
    assert_eq!(asked(&times), [0, 0, 0, 1000, 1000, 3000, 3000]);
}

#[test]
fn await_returns_at_once_if_few_enough_accesses_are_unfinished() {
    let (files, disk) = disk();
    let start = |at| Step::Start(Access::write(disk, sectors(at), sectors(8)));
    let (program, times) = script(&[start(0), Step::AwaitAtMost(1), start(8), Step::AwaitAtMost(0)]);
    run(vec![guest(files, None, vec![program])], Until::default()).unwrap();
    assert_eq!(asked(&times), [0, 0, 0, 0, 2000]);
}

#[test]
fn read_of_a_file_with_several_extents_completes_with_the_last() {
    let mut files = Files::new(sectors(8 * 1000));
    let first = files.create(0, sectors(80)).unwrap();
    let _second = files.create(0, sectors(80)).unwrap();
    files.grow(first, sectors(120)).unwrap();
    let read = Step::Access(Access::read(first, sectors(72), sectors(1000)));
    let (program, times) = script(&[read]);
    let mut placed = guest(files, None, vec![program]);
    placed.place = Lba::new(5000);
    let seen = run(vec![placed], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 5072, 8, 1), (0, Read, 5160, 40, 1)], "cut at the end of the file");
    assert_eq!(asked(&times), [0, 2000]);
}

#[test]
fn read_after_the_end_of_a_file_completes_at_once() {
    let (files, disk) = disk();
    let (program, times) = script(&[Step::Access(Access::read(disk, sectors(1 << 20), sectors(8)))]);
    assert!(run(vec![guest(files, None, vec![program])], Until::default()).unwrap().arrivals.is_empty());
    assert_eq!(asked(&times), [0, 0]);
}

#[test]
fn sync_without_a_file_system_sends_a_flush() {
    let (files, disk) = disk();
    let (program, _) = script(&[Step::Access(Access::write(disk, sectors(0), sectors(8))), Step::Sync(disk)]);
    let seen = run(vec![guest(files, None, vec![program])], Until::default()).unwrap();
    let what: Vec<Operation> = seen.arrivals.iter().map(|arrival| arrival.1).collect();
    assert_eq!(what, [Write, Flush]);
}

#[test]
fn event_wakes_the_processes_that_wait_for_it() {
    let (files, disk) = disk();
    let read = Step::Access(Access::read(disk, sectors(0), sectors(8)));
    let met = |sleep| [Step::Sleep(ms(sleep)), Step::Post(Event(3)), Step::Await(Event(3), 2), read];
    let ((one, _), (other, times)) = (script(&met(2)), script(&met(7)));
    let seen = run(vec![guest(files, None, vec![one, other])], Until::default()).unwrap();
    assert_eq!(seen.arrivals.iter().map(|arrival| (arrival.0, arrival.4)).collect::<Vec<_>>(), [(7000, 2), (7000, 1)]);
    assert_eq!(asked(&times)[..4], [0, 7000, 7000, 7000]);
}

#[test]
fn processes_of_a_guest_share_its_processor_and_sleeps_do_not() {
    let (files, disk) = disk();
    let read = Step::Access(Access::read(disk, sectors(0), sectors(8)));
    let program = |step| script(&[step, read]);
    let times = |steps: [Step; 3]| -> Vec<u64> {
        let programs = steps.map(|step| program(step).0).into_iter().collect();
        let seen = run(vec![guest(files.clone(), None, programs)], Until::default()).unwrap();
        seen.arrivals.iter().map(|arrival| arrival.0).collect()
    };
    // First come, first served: 2 ms, then 3 ms more; the third sleeps meanwhile.
    let compute = |span| Step::Compute(ms(span));
    assert_eq!(times([compute(2), compute(3), Step::Sleep(ms(4))]), [2000, 4000, 5000]);
    assert_eq!(times([Step::Sleep(ms(2)), Step::Sleep(ms(3)), compute(4)]), [2000, 3000, 4000]);
}

#[test]
fn deadlock_of_processes_is_an_error() {
    for memory in [None, Some(memory(64))] {
        let (files, _) = disk();
        let (program, _) = script(&[Step::Sleep(ms(1)), Step::Await(Event(0), 1)]);
        let error = run(vec![guest(files, memory, vec![program])], Until::default()).err().unwrap();
        let ReplayError::Generator(error) = error else { panic!("{error}") };
        assert!(matches!(error.downcast_ref(), Some(GuestError::Deadlock { processes: 1, .. })), "{error}");
        assert_eq!(
            error.to_string(),
            "guest guest: all 1 processes that have not ended wait for events that none of them will post"
        );
    }
}

#[test]
fn endless_processes_end_at_the_given_request_or_time() {
    let (files, disk) = disk();
    let endless = || script(&[Step::Access(Access::read(disk, sectors(0), sectors(8))); 100]).0;
    let until = Until { requests: Some(7), time: None };
    assert_eq!(run(vec![guest(files.clone(), None, vec![endless()])], until).unwrap().arrivals.len(), 7);
    let until = Until { requests: None, time: Some(Timestamp::from_ns(5_000_000)) };
    assert_eq!(run(vec![guest(files, None, vec![endless()])], until).unwrap().arrivals.len(), 5);
}

#[test]
fn sleep_of_zero_length_after_an_access_takes_no_time() {
    let (files, disk) = disk();
    let read = |at| Step::Access(Access::read(disk, sectors(at), sectors(8)));
    let (program, times) = script(&[read(0), Step::Sleep(ms(0)), Step::Sleep(ms(0)), read(8)]);
    assert_eq!(run(vec![guest(files, None, vec![program])], Until::default()).unwrap().arrivals.len(), 2);
    assert_eq!(asked(&times), [0, 1000, 1000, 1000, 2000]);
}

#[test]
fn each_guest_has_its_own_part_of_the_drive() {
    let vm = |place: u64| {
        let (files, disk) = disk();
        let (program, _) = script(&[Step::Access(Access::read(disk, sectors(8), sectors(8)))]);
        let mut guest = guest(files, None, vec![program]);
        guest.place = Lba::new(place);
        guest
    };
    let seen = run(vec![vm(0), vm(1 << 20)], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 8, 8, 1), (0, Read, (1 << 20) + 8, 8, 1)]);
}
