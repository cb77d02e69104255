use proptest::prelude::*;
use traces::spec::Spec;

use super::*;
use crate::drive::{Completion, DriveModel};
use traces::RequestId;

fn model(settings: &str) -> Linear {
    let spec: Spec = format!("linear:{settings}").parse().unwrap();
    Linear::new(&Settings::resolve(&spec, MODEL.tunables).unwrap())
}

fn drive(settings: &str) -> SingleServer<Linear> {
    SingleServer::new(model(settings))
}

fn read(lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors))
}

fn serve_all(drive: &mut SingleServer<Linear>, requests: &[Request]) -> Vec<Completion> {
    for (id, request) in requests.iter().enumerate() {
        drive.submit(Timestamp::ZERO, RequestId(id as u32), request);
    }
    let mut done = Vec::new();
    drive.advance(Timestamp::MAX, &mut done);
    done
}

#[test]
fn the_papers_line_at_its_ends_and_in_the_middle() {
    let drive = model("cache=off");
    let cost = |d| drive.between(Lba::ZERO, Lba::new(d), Sectors::new(8)).as_ns();
    let capacity = drive.capacity.count();
    assert_eq!(cost(0), 4_250_000);
    assert_eq!(cost(capacity), 9_500_000);
    assert_eq!(cost(capacity / 2), 6_875_000);
    assert_eq!(drive.between(Lba::new(capacity), Lba::ZERO, Sectors::ZERO).as_ns(), 9_500_000);
}

#[test]
fn distance_counts_from_the_end_of_the_request_before() {
    let mut drive = drive("cache=off,a=1ms,b=1s,capacity=512000");
    let done = serve_all(&mut drive, &[read(0, 8), read(8, 8), read(116, 8), read(24, 1)]);
    let seeks: Vec<u64> = done.iter().map(|c| c.seek.count()).collect();
    assert_eq!(seeks, [0, 0, 100, 100]);
    // A sector is 1 ms of the 1,000 of this drive.
    let times: Vec<u64> = done.iter().map(|c| c.finished.since(c.started).as_ns() / 1_000_000).collect();
    assert_eq!(times, [1, 1, 101, 101]);
}

#[test]
fn one_at_a_time_in_the_order_submitted() {
    let mut drive = drive("cache=off,b=0");
    let done = serve_all(&mut drive, &[read(0, 8), read(0, 8), read(0, 8)]);
    for (index, completion) in done.iter().enumerate() {
        assert_eq!(completion.id, RequestId(index as u32));
        assert_eq!(completion.started, Timestamp::from_ns(4_250_000 * index as u64));
        assert_eq!(completion.finished, completion.started + Nanos::from_us(4_250));
    }
}

#[test]
fn transfer_is_free_unless_asked_for() {
    let drive = model("cache=off,a=0,b=0,per_byte_ps=6667");
    assert_eq!(drive.between(Lba::ZERO, Lba::ZERO, Sectors::new(8)).as_ns(), 4096 * 6667 / 1000);
}

#[test]
fn a_read_that_was_prefetched_is_a_hit_and_moves_no_arm() {
    let mut drive = drive("cache=on");
    let done = serve_all(&mut drive, &[read(1000, 8), read(1008, 64), read(2000, 8)]);
    assert_eq!(done.iter().map(|c| c.hit).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(done[1].finished.since(done[1].started), Nanos::from_us(250));
    assert_eq!(done[2].seek, Sectors::new(2000 - 1008));
    assert_eq!(drive.cost().access(Timestamp::ZERO, &read(2000, 8)), Nanos::from_us(250));
}

#[test]
fn the_slope_is_exact_over_the_whole_cheetah() {
    let (b, capacity) = (Nanos::from_us(5_250), Sectors::new(143_374_744));
    let slope = Slope::new(b, capacity);
    for distance in (0..143_374_744u64).step_by(397) {
        let exact = u128::from(b.as_ns()) * u128::from(distance) / 143_374_744;
        assert_eq!(u128::from(slope.times(Sectors::new(distance)).as_ns()), exact);
    }
}

#[test]
fn segments_are_replaced_first_in_first_out() {
    let mut drive = drive("segments=2,prefetch_sectors=16,segment_sectors=32");
    let done = serve_all(&mut drive, &[read(0, 8), read(1000, 8), read(2000, 8), read(8, 8), read(2008, 16)]);
    assert_eq!(done.iter().map(|c| c.hit).collect::<Vec<_>>(), [false, false, false, false, true]);
}

#[test]
fn the_next_event_is_the_first_completion() {
    let mut drive = drive("cache=off,b=0");
    for id in 0..3 {
        drive.submit(Timestamp::ZERO, RequestId(id), &read(0, 8));
    }
    assert_eq!(drive.next_event(), Some(Timestamp::from_ns(4_250_000)));
}

#[test]
fn writes_neither_hit_nor_fill_the_cache() {
    let mut drive = drive("cache=on");
    let mut write = read(1000, 8);
    write.operation = Operation::Write;
    let done = serve_all(&mut drive, &[write, read(1000, 8), write]);
    assert!(done.iter().all(|c| !c.hit));
}

proptest! {
    #[test]
    fn slope_times_distance_is_the_exact_quotient_rounded_down(b in 0u64..100_000_000, capacity in 1u64..(1 << 32), share in 0u64..=1000) {
        let distance = (u128::from(capacity) * u128::from(share) / 1000) as u64;
        prop_assume!(u128::from(distance) * u128::from(capacity) < 1 << 64);
        let exact = u128::from(b) * u128::from(distance) / u128::from(capacity);
        let slope = Slope::new(Nanos::from_ns(b), Sectors::new(capacity));
        prop_assert_eq!(u128::from(slope.times(Sectors::new(distance)).as_ns()), exact);
    }
}
