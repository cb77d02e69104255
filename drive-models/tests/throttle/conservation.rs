//! Rules that a throttle obeys under any load, with a k that changes.

use iocast_drives::throttle::Throttle;
use iocast_drives::{Completion, DriveModel};
use proptest::prelude::*;
use traces::{Request, RequestId, Timestamp};

use crate::submission::{Boxed, CAPACITY, load, throttle};
use crate::timing::DISKS;

const RULES: &[&str] = &[
    "k=1,raise=1.5,lower_at=2",
    "k=0.01,raise=1.001,lower=0.999,lower_at=1,timer=1ms",
    "k=20,lower=0.5,lower_at=3,overhead=100us,timer=10ms,hit=1us",
];

fn dynamic(rules: &str, disk: &str) -> Throttle<Boxed> {
    throttle(&format!("throttle:dynamic=on,{rules},{disk},virtual.capacity={CAPACITY}"))
}

/// Replays with at most `depth` outstanding; ids are reused.
fn replay(drive: &mut dyn DriveModel, requests: &[Request], depth: usize) -> Vec<Completion> {
    let (mut all, mut completions, mut waiting) = (Vec::new(), Vec::new(), requests.iter().peekable());
    let mut free: Vec<u32> = (0..depth as u32).collect();
    let mut submitted = vec![None; depth];
    let mut now = Timestamp::ZERO;
    loop {
        while let Some(request) = waiting.next_if(|request| request.arrival <= now && !free.is_empty()) {
            let id = free.pop().unwrap();
            assert!(drive.accepts(request));
            drive.submit(now, RequestId(id), request);
            submitted[id as usize] = Some(now);
        }
        let arrival = waiting.peek().filter(|_| !free.is_empty()).map(|request| request.arrival);
        let event = drive.next_event();
        assert_eq!(free.len() < depth, event.is_some(), "something happens as long as something is outstanding");
        let Some(time) = [arrival, event].into_iter().flatten().min() else { return all };
        assert!(time >= now, "time goes back");
        now = time;
        drive.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let at = submitted[completion.id.index()].take().expect("completes once, and only what was submitted");
            assert!(at <= completion.started && completion.started <= completion.finished, "{completion:?}");
            assert_eq!(completion.finished, now, "said late");
            free.push(completion.id.0);
            all.push(completion);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn each_request_completes_once_and_runs_repeat(
        requests in load(), rules in prop::sample::select(RULES), disk in prop::sample::select(DISKS),
        depth in 1usize..20,
    ) {
        let mut slowed = dynamic(rules, disk);
        let done = replay(&mut slowed, &requests, depth);
        prop_assert_eq!((done.len(), slowed.report().completions), (requests.len(), requests.len() as u64));
        let mut again = dynamic(rules, disk);
        prop_assert_eq!(&done, &replay(&mut again, &requests, depth));
        prop_assert_eq!(slowed.report(), again.report());
        let chain = slowed.report().changes.iter();
        prop_assert!(chain.clone().zip(chain.skip(1)).all(|(one, next)| one.to == next.from && one.at <= next.at));
    }

    #[test]
    fn completions_do_not_depend_on_how_often_the_drive_is_advanced(
        requests in load(), rules in prop::sample::select(RULES), disk in prop::sample::select(DISKS),
    ) {
        let (mut often, mut once) = (dynamic(rules, disk), dynamic(rules, disk));
        let (mut seen, mut done) = (Vec::new(), Vec::new());
        for (id, request) in requests.iter().enumerate() {
            while let Some(next) = often.next_event().filter(|&next| next <= request.arrival) {
                often.advance(next, &mut seen);
            }
            often.submit(request.arrival, RequestId(id as u32), request);
            once.submit(request.arrival, RequestId(id as u32), request);
        }
        while let Some(next) = often.next_event() {
            often.advance(next, &mut seen);
        }
        once.advance(Timestamp::MAX, &mut done);
        prop_assert_eq!(seen, done);
        prop_assert_eq!(often.report(), once.report());
    }
}
