//! The policies of a hypervisor: VMs get their shares, reservations and limits, and no more. VMs
//! are numbered from zero; ids count the requests of a script.

use iocast_schedulers::{Capacity, Dispatch};
use proptest::prelude::*;
use traces::Operation::{Read, Write};
use traces::{Nanos, RequestId, Timestamp};

use crate::driver::{Driver, Ids, ms};

/// VMs that always have something waiting, over a device that serves one request at a time.
struct Backlog {
    driver: Driver,
    /// How long a request of each VM is, in sectors.
    sectors: Vec<u64>,
    /// The number of requests sent of each VM.
    sent: Vec<u64>,
}

impl Backlog {
    fn new(spec: &str, sectors: &[u64]) -> Backlog {
        let mut backlog =
            Backlog { driver: Driver::new(spec), sectors: sectors.to_vec(), sent: vec![0; sectors.len()] };
        for vm in 0..sectors.len() {
            backlog.join(vm);
        }
        backlog
    }

    /// Twenty requests of a VM come; from then on one for each that is sent.
    fn join(&mut self, vm: usize) {
        for _ in 0..20 {
            self.driver.of_vm(vm as u16, Read, 0, self.sectors[vm]);
        }
    }

    /// Serves until a time, each request for `service`.
    fn serve(&mut self, until: Timestamp, service: Nanos) -> Vec<u64> {
        self.sent.fill(0);
        while self.driver.now < until {
            match self.driver.dispatch() {
                Dispatch::Send(RequestId(id)) => {
                    let vm = usize::from(self.driver.requests[id as usize].vm.0);
                    self.sent[vm] += 1;
                    self.driver.of_vm(vm as u16, Read, 0, self.sectors[vm]);
                    self.driver.now += service;
                    self.driver.complete(id);
                }
                Dispatch::WaitUntil(time) => self.driver.now = time,
                Dispatch::Idle => panic!("idle with a backlog"),
            }
        }
        self.sent.clone()
    }
}

/// The VMs of the requests sent now.
fn vms(driver: &mut Driver, count: usize) -> Vec<u16> {
    let sent: Ids = driver.up_to(count);
    sent.iter().map(|&id| driver.requests[id as usize].vm.0).collect()
}

#[test]
fn sfq_sends_in_order_of_start_tags() {
    let mut driver = Driver::new("sfq:weights=1+2");
    // Start tags in sectors over weight: VM 0 at 0, 8, 16; VM 1 at 0, 4, 8, 12, 16.
    for vm in [0, 0, 0, 1, 1, 1, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.all(), [0, 3, 4, 1, 5, 6, 2, 7]);
}

#[test]
fn sfq_charges_sectors_or_requests() {
    for (cost, expected) in [("sectors", [0, 1, 1, 1, 1, 0]), ("requests", [0, 1, 0, 1, 0, 1])] {
        let mut driver = Driver::new(&format!("sfq:cost={cost}"));
        for vm in [0, 0, 0, 0, 1, 1, 1, 1, 1, 1] {
            driver.of_vm(vm, Read, 0, if vm == 0 { 32 } else { 8 });
        }
        assert_eq!(vms(&mut driver, 6), expected, "{cost}");
    }
}

#[test]
fn sfq_gives_a_vm_that_was_idle_no_credit() {
    let mut driver = Driver::new("sfq:depth=100");
    for _ in 0..20 {
        driver.of_vm(0, Read, 0, 8);
    }
    assert_eq!(driver.up_to(10).len(), 10);
    for _ in 0..3 {
        driver.of_vm(1, Read, 0, 8);
    }
    // The virtual time is 9 requests: VM 1 gets one for it, and then one for each of VM 0.
    assert_eq!(vms(&mut driver, 6), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn sfq_starts_even_after_everything_was_idle() {
    let mut driver = Driver::new("sfq");
    for vm in [0, 0, 0] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.all(), [0, 1, 2]);
    for id in 0..3 {
        driver.complete(id);
    }
    for vm in [0, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 3), [0, 1, 1]);
    // But not while something is below: VM 0 has had more then.
    for vm in [0, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 2), [0, 1]);
}

#[test]
fn sfq_keeps_at_most_its_depth_below() {
    let mut driver = Driver::new("sfq:depth=2");
    driver.reads(&[0, 8, 16, 24]);
    assert_eq!(driver.all(), [0, 1]);
    driver.complete(1);
    assert_eq!(driver.all(), [2]);
    // One that comes back frees capacity, and keeps its place before later ones.
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0]);
    driver.complete(0).complete(2);
    assert_eq!(driver.all(), [3]);
    // 32 by default.
    let mut driver = Driver::new("sfq");
    driver.reads(&[0; 40]);
    assert_eq!(driver.all().len(), 32);
}

#[test]
fn sfq_charges_growth_by_a_merge_to_the_next_request() {
    let mut driver = Driver::new("sfq");
    driver.of_vm(0, Read, 8, 8);
    driver.front_merge(0);
    // VM 0 goes on at 16, VM 1 at 0, 8, 16.
    for vm in [0, 1, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.all(), [0, 2, 3, 1, 4]);
    // A joined one is not charged twice.
    let mut driver = Driver::new("sfq");
    for (vm, start) in [(0, 0), (0, 8)] {
        driver.of_vm(vm, Read, start, 8);
    }
    driver.join(0, 1);
    for vm in [0, 1, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.all(), [0, 3, 4, 2, 5]);
}

#[test]
fn all_pass_over_requests_without_capacity() {
    for name in ["sfq", "mclock", "token-bucket", "ba:below=cscan"] {
        let mut driver = Driver::new(name);
        driver.writes(&[10]).reads(&[20]).writes(&[30]).reads(&[40]);
        driver.capacity = Capacity { writes: 0, ..Capacity::UNLIMITED };
        assert_eq!(driver.all(), [1, 3], "{name}");
        driver.capacity = Capacity { reads: 0, ..Capacity::UNLIMITED };
        assert_eq!(driver.all(), [0, 2], "{name}");
    }
}

/// The bound on completed service, over a device that completes the youngest first.
#[test]
fn sfq_completes_within_its_bound_with_a_depth() {
    let depth = 4;
    let mut driver = Driver::new(&format!("sfq:weights=1+3,depth={depth}"));
    let sectors = [24, 8];
    for n in 0..4000 {
        driver.of_vm(n % 2, Read, 0, sectors[usize::from(n % 2)]);
    }
    let (mut below, mut done) = (Ids::new(), [0_u64; 2]);
    for _ in 0..1000 {
        below.extend(driver.all());
        assert_eq!(below.len(), depth);
        let id = below.pop().unwrap();
        driver.complete(id);
        let vm = usize::from(driver.requests[id as usize].vm.0);
        done[vm] += sectors[vm];
        let bound = (depth as u64 + 1) * (24 + 8_u64.div_ceil(3));
        assert!(done[0].abs_diff(done[1] / 3) <= bound, "{done:?}");
    }
}

proptest! {
    /// Goyal, Vin and Cheng's bound on the service sent, at every moment.
    #[test]
    fn sfq_shares_within_its_bound(
        weights in prop::array::uniform2(1_u64..50), sectors in prop::array::uniform2(1_u64..300), depth in 1_u64..9,
    ) {
        let mut backlog =
            Backlog::new(&format!("sfq:weights={}+{},depth={depth}", weights[0], weights[1]), &sectors);
        let mut total = [0_u64; 2];
        for _ in 0..300 {
            let until = backlog.driver.now + Nanos::from_ns(1);
            for (vm, sent) in backlog.serve(until, Nanos::from_us(10)).into_iter().enumerate() {
                total[vm] += sent * sectors[vm];
            }
            let share = |vm: usize| total[vm] as f64 / weights[vm] as f64;
            let bound = sectors[0] as f64 / weights[0] as f64 + sectors[1] as f64 / weights[1] as f64;
            prop_assert!((share(0) - share(1)).abs() <= bound + 0.1, "{total:?} {weights:?}");
        }
    }
}

#[test]
fn mclock_shares_by_weight_whatever_the_unit_of_the_weights() {
    for weights in ["1+2+4", "1000+2000+4000"] {
        let mut backlog = Backlog::new(&format!("mclock:weights={weights}"), &[8, 8, 8]);
        let sent = backlog.serve(ms(10_000), Nanos::from_ms(10));
        for (vm, expected) in [143, 286, 571].into_iter().enumerate() {
            assert!(sent[vm].abs_diff(expected) <= 3, "{weights}: {sent:?}");
        }
    }
}

#[test]
fn mclock_meets_reservations_and_shares_the_rest() {
    // 100 a second: VM 0 would get 10 by weight and has 40; the other 60 go 4 to 5.
    let mut backlog = Backlog::new("mclock:weights=1+4+5,reservations=40+0+0", &[8, 8, 8]);
    let sent = backlog.serve(ms(20_000), Nanos::from_ms(10));
    for (vm, expected) in [800, 533, 667].into_iter().enumerate() {
        assert!(sent[vm].abs_diff(expected) <= 5, "{sent:?}");
    }
}

#[test]
fn mclock_does_not_charge_service_by_weight_to_the_reservation() {
    // VM 0 alone gets all 100 a second; when a heavy VM comes it still has its 20.
    let mut backlog = Backlog::new("mclock:weights=1+99,reservations=20+0", &[8, 8]);
    for id in 20..40 {
        backlog.driver.remove(id);
    }
    assert_eq!(backlog.serve(ms(5000), Nanos::from_ms(10)), [500, 0]);
    backlog.join(1);
    let sent = backlog.serve(ms(15_000), Nanos::from_ms(10));
    assert!(sent[0].abs_diff(200) <= 12, "{sent:?}");
}

#[test]
fn mclock_counts_a_reservation_towards_the_share() {
    // 25 reserved of 100, and half by weight: half of the total.
    let mut backlog = Backlog::new("mclock:reservations=25+0", &[8, 8]);
    let sent = backlog.serve(ms(10_000), Nanos::from_ms(10));
    assert!(sent[0].abs_diff(500) <= 5, "{sent:?}");
}

#[test]
fn mclock_keeps_limits_and_gives_the_rest_to_the_others() {
    let mut backlog = Backlog::new("mclock:weights=9+1,limits=30+0", &[8, 8]);
    let sent = backlog.serve(ms(10_000), Nanos::from_ms(10));
    assert!(sent[0] <= 301 && sent[0] >= 290 && sent[0] + sent[1] == 1000, "{sent:?}");
    // Also when the device would have been idle.
    let mut backlog = Backlog::new("mclock:limits=30", &[8]);
    assert!(backlog.serve(ms(10_000), Nanos::from_ms(10))[0] <= 301);
}

#[test]
fn mclock_waits_for_the_first_limit_or_reservation() {
    for (tunables, times) in [
        ("limits=10", [0, 100, 200]),
        ("limits=10,reservations=20", [0, 50, 100]),
        ("limits=1000,reservations=20", [0, 1, 2]),
    ] {
        let mut driver = Driver::new(&format!("mclock:{tunables}"));
        driver.reads(&[0, 8, 16]);
        for time in times {
            if ms(time) > driver.now {
                assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(time)), "{tunables}");
                driver.time(ms(time));
            }
            assert!(matches!(driver.dispatch(), Dispatch::Send(_)), "{tunables} at {time} ms");
        }
        assert_eq!(driver.dispatch(), Dispatch::Idle);
    }
}

#[test]
fn mclock_forgets_what_a_limit_or_a_reservation_left_unused() {
    let mut driver = Driver::new("mclock:limits=10");
    driver.reads(&[0]);
    assert_eq!(driver.next(), 0);
    driver.time(ms(5000)).reads(&[0, 8]);
    assert_eq!(driver.next(), 1);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(5100)));
    // VM 1's reservation is 10 a second from when it asks; before, nothing was due to it.
    let mut driver = Driver::new("mclock:weights=1000+1,reservations=0+10,depth=100");
    driver.of_vm(1, Read, 0, 8);
    assert_eq!(driver.next(), 0);
    driver.time(ms(5000));
    for vm in [0, 0, 0, 1, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 4), [1, 0, 0, 0]);
}

#[test]
fn mclock_serves_reservations_before_weights_and_the_earliest_first() {
    let mut driver = Driver::new("mclock:weights=1+1+100,reservations=10+20+0,depth=100");
    for vm in [0, 0, 1, 1, 2, 2] {
        driver.of_vm(vm, Read, 0, 8);
    }
    // R tags: VM 0 at 0 and 100 ms, VM 1 at 0 and 50 ms.
    driver.time(ms(100));
    assert_eq!(driver.all(), [0, 2, 3, 1, 4, 5]);
}

#[test]
fn mclock_moves_the_turns_of_the_others_to_now_when_a_vm_comes() {
    let mut driver = Driver::new("mclock:depth=1000");
    for _ in 0..100 {
        driver.of_vm(0, Read, 0, 8);
    }
    // VM 0's next turn is at 50 s by its tags.
    assert_eq!(driver.up_to(50).len(), 50);
    driver.time(ms(1));
    for _ in 0..10 {
        driver.of_vm(1, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 8), [0, 1, 0, 1, 0, 1, 0, 1]);
    // VM 2 comes when VM 0 and 1 have five each to their names, and starts level with them.
    driver.time(ms(2));
    for _ in 0..10 {
        driver.of_vm(2, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 6), [0, 1, 2, 0, 1, 2]);
    // It starts level with the one whose turn is the nearest.
    let mut driver = Driver::new("mclock");
    for vm in [0, 0, 0, 1, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.next(), 0);
    driver.time(ms(1));
    for _ in 0..3 {
        driver.of_vm(2, Read, 0, 8);
    }
    assert_eq!(vms(&mut driver, 3), [1, 2, 0]);
}

#[test]
fn mclock_keeps_at_most_its_depth_below() {
    let mut driver = Driver::new("mclock:depth=2");
    driver.reads(&[0, 8, 16, 24]);
    assert_eq!(driver.all(), [0, 1]);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0]);
    driver.complete(1);
    assert_eq!(driver.all(), [2]);
    let mut driver = Driver::new("mclock");
    driver.reads(&[0; 40]);
    assert_eq!(driver.all().len(), 32);
}

const BUCKET: &str = "token-bucket:rate=8k,burst=8k";

#[test]
fn a_bucket_holds_its_burst_and_then_gives_its_rate() {
    let mut driver = Driver::new(BUCKET);
    // 4 KiB each: two at once, and then one every half second.
    driver.reads(&[0, 8, 16, 24]);
    assert_eq!(driver.all(), [0, 1]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(500)));
    driver.time(ms(499));
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(500)));
    driver.time(ms(500));
    assert_eq!(driver.all(), [2]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(1000)));
    // However long nothing comes, it holds no more than its burst.
    driver.time(ms(60_000)).reads(&[32, 40]);
    assert_eq!(driver.all(), [3, 4]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(60_500)));
}

#[test]
fn a_request_longer_than_the_bucket_goes_when_it_is_full_and_leaves_a_debt() {
    let mut driver = Driver::new(BUCKET);
    for sectors in [8, 48, 8, 0] {
        driver.of_vm(0, Write, 0, sectors);
    }
    assert_eq!(driver.next(), 0);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(500)));
    driver.time(ms(500));
    assert_eq!(driver.next(), 1);
    // 24 KiB of 8: 16 in debt, and 4 to have.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(3000)));
    driver.time(ms(3000));
    assert_eq!(driver.all(), [2, 3]);
}

#[test]
fn buckets_are_by_weight_and_the_oldest_request_goes_first() {
    let mut driver = Driver::new("token-bucket:weights=1+2,rate=8k,burst=4k");
    for vm in [1, 0, 1, 0, 1, 1] {
        driver.of_vm(vm, Read, 0, 8);
    }
    assert_eq!(driver.all(), [0, 1, 2]);
    // VM 1 has its next 4 KiB in 250 ms, VM 0 in 500.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(250)));
    driver.time(ms(500));
    assert_eq!(driver.all(), [3, 4, 5]);
    let mut backlog = Backlog::new("token-bucket:weights=1+3,rate=400k,burst=4k", &[8, 8]);
    assert_eq!(backlog.serve(ms(10_000), Nanos::from_us(100)), [1000, 3002]);
}

#[test]
fn what_comes_back_brings_its_tokens_and_goes_first() {
    let mut driver = Driver::new("token-bucket:rate=8k,burst=4k");
    driver.reads(&[0, 8]);
    assert_eq!(driver.next(), 0);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(500)));
}

#[test]
fn a_merged_request_needs_tokens_for_its_whole_length() {
    let mut driver = Driver::new(BUCKET);
    driver.reads(&[0, 16]).front_merge(1);
    assert_eq!(driver.all(), [0]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(500)));
}
