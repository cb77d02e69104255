//! A stack of first-in-first-out stages against a simple simulation that advances microsecond by microsecond.

use std::collections::VecDeque;

use iocast_replay::Limits;
use iocast_replay::stack::LayerConfig;
use proptest::prelude::*;
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp, VmId};

use crate::support::{layer, run_stack};

/// The service time of the drive.
const SERVICE_US: u64 = 7;

/// The settings of a layer, with delays in microseconds.
#[derive(Clone, Copy, Debug)]
struct Plan {
    per_vm: bool,
    depth: usize,
    queue: usize,
    down: u64,
    up: u64,
    /// How long the data of a request take on the line, in us; none if it is zero.
    data: u64,
}

/// A layer of the simple simulation. Requests are named by their number.
#[derive(Default)]
struct Simple {
    /// The stages: VM (or 0 for all), waiting requests and number of requests below, in order of the first request.
    stages: Vec<(u16, VecDeque<usize>, usize)>,
    /// The index after that of the stage that sent last.
    turn: usize,
    held: usize,
    down: VecDeque<(u64, usize)>,
    up: VecDeque<(u64, usize)>,
    /// Until when data take each direction.
    busy: [u64; 2],
}

/// Every second request is a write.
fn is_write(request: usize) -> bool {
    request % 2 == 1
}

/// The completion time of each request, in us.
fn simple(plans: &[Plan], load: &[(u64, u16)]) -> Vec<u64> {
    let mut layers: Vec<Simple> = plans.iter().map(|_| Simple::default()).collect();
    let (mut drive, mut done) = (VecDeque::<(u64, usize)>::new(), vec![None; load.len()]);
    let stage_of = |layer: usize, request: usize| if plans[layer].per_vm { load[request].1 } else { 0 };
    let arrive = |layers: &mut Vec<Simple>, layer: usize, request: usize| {
        let vm = stage_of(layer, request);
        let simple = &mut layers[layer];
        simple.held += 1;
        match simple.stages.iter_mut().find(|stage| stage.0 == vm) {
            Some(stage) => stage.1.push_back(request),
            None => simple.stages.push((vm, VecDeque::from([request]), 0)),
        }
    };
    for now in 0.. {
        // Completions, from the drive up.
        let mut finished: Vec<usize> = Vec::new();
        while drive.front().is_some_and(|&(end, _)| end == now) {
            finished.extend(drive.pop_front().map(|(_, request)| request));
        }
        for layer in (0..plans.len()).rev() {
            for request in finished.drain(..) {
                let data = if is_write(request) { 0 } else { plans[layer].data };
                let Simple { up, busy, .. } = &mut layers[layer];
                busy[1] = busy[1].max(now) + data;
                up.push_back((busy[1] + plans[layer].up, request));
            }
            while layers[layer].up.front().is_some_and(|&(due, _)| due == now) {
                let (_, request) = layers[layer].up.pop_front().unwrap();
                let vm = stage_of(layer, request);
                layers[layer].stages.iter_mut().find(|stage| stage.0 == vm).unwrap().2 -= 1;
                layers[layer].held -= 1;
                finished.push(request);
            }
        }
        finished.into_iter().for_each(|request| done[request] = Some(now));
        if done.iter().all(Option::is_some) {
            return done.into_iter().flatten().collect();
        }
        // Arrivals.
        (0..load.len()).filter(|&request| load[request].0 == now).for_each(|request| arrive(&mut layers, 0, request));
        // Dispatches, from the top down.
        for layer in 0..plans.len() {
            loop {
                while layers[layer].down.front().is_some_and(|&(due, _)| due <= now) {
                    let (_, request) = layers[layer].down.pop_front().unwrap();
                    if layer + 1 < plans.len() {
                        arrive(&mut layers, layer + 1, request);
                    } else {
                        let start = drive.back().map_or(now, |&(end, _)| end.max(now));
                        drive.push_back((start + SERVICE_US, request));
                    }
                }
                let travelling = layers[layer].down.len();
                let full = layers.get(layer + 1).is_some_and(|below| below.held + travelling >= plans[layer + 1].queue);
                let Simple { stages, turn, down, busy, .. } = &mut layers[layer];
                let in_turn = (*turn..stages.len()).chain(0..(*turn).min(stages.len()));
                let ready =
                    in_turn.into_iter().find(|&at| !stages[at].1.is_empty() && stages[at].2 < plans[layer].depth);
                let Some(at) = ready.filter(|_| !full) else { break };
                *turn = at + 1;
                stages[at].2 += 1;
                let request = stages[at].1.pop_front().unwrap();
                busy[0] = busy[0].max(now) + if is_write(request) { plans[layer].data } else { 0 };
                down.push_back((busy[0] + plans[layer].down, request));
            }
        }
    }
    unreachable!("time has no end")
}

fn plan() -> impl Strategy<Value = Plan> {
    // Powers of two, so that the bandwidth is a whole number.
    let data = prop_oneof![2 => Just(0u64), 1 => (0u32..4).prop_map(|power| 1 << power)];
    let delay = || prop_oneof![2 => Just(0u64), 1 => 0u64..20];
    (any::<bool>(), 1usize..5, prop_oneof![1usize..6, Just(1000)], delay(), delay(), data)
        .prop_map(|(per_vm, depth, queue, down, up, data)| Plan { per_vm, depth, queue, down, up, data })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn completion_times_equal_those_of_the_simple_simulation(
        plans in prop::collection::vec(plan(), 1..5),
        gaps in prop::collection::vec((prop_oneof![Just(0u64), 0u64..15], 0u16..4), 1..60),
    ) {
        let mut now = 0;
        let load: Vec<(u64, u16)> = gaps.iter().map(|&(gap, vm)| { now += gap; (now, vm) }).collect();
        let fifo = "fifo".parse().unwrap();
        let layers = plans.iter().map(|plan| layer(&fifo, LayerConfig {
            limits: Limits { depth: plan.depth as u32, merge: false, ..Limits::default() },
            per_vm: plan.per_vm,
            queue: plan.queue as u32,
            delay_down: Nanos::from_us(plan.down),
            delay_up: Nanos::from_us(plan.up),
            bandwidth: (4096u64 * 1_000_000).checked_div(plan.data).unwrap_or(0),
            ..LayerConfig::default()
        })).collect();
        // The address identifies the request.
        let requests: Vec<Request> = load.iter().enumerate().map(|(number, &(us, vm))| {
            let at = Timestamp::ZERO + Nanos::from_us(us);
            let mut request = Request::new(at, if is_write(number) { Operation::Write } else { Operation::Read }, Lba::new(number as u64 * 1000), Sectors::new(8));
            request.vm = VmId(vm);
            request
        }).collect();
        let log = run_stack(layers, "fixed:service=7us", &requests);
        let mut done = vec![0; load.len()];
        for (now, _, request) in log.events.iter().filter(|(_, letter, _)| *letter == 'F') {
            done[request.lba.sector() as usize / 1000] = now.as_ns() / 1000;
        }
        prop_assert_eq!(done, simple(&plans, &load));
    }
}
