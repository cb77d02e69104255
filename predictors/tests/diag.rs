#![allow(clippy::unwrap_used)]
use predictors::replayed::{Campaign, ROOMS, RoomPlan};
use predictors::{Recording, build, predictor};
use traces::results::isolation::IsolationProfile;

#[test]
fn diag() {
    let rooms: Vec<RoomPlan> = match std::env::var("ROOM").ok().as_deref() {
        Some("fixed") => vec![RoomPlan { drive: "fixed:service=5ms,capacity=64g", scheduler: "fifo", depth: 1, policy: "fcfs" }],
        Some(n) => vec![ROOMS[n.parse::<usize>().unwrap()]],
        None => ROOMS.to_vec(),
    };
    let offset: usize = std::env::var("ROOM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let seed = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let campaign = Campaign { seed, ..Campaign::default() };
    let twin = build(&"twin".parse().unwrap()).unwrap();
    for (index, &room) in rooms.iter().enumerate() {
        let index = index + offset;
        let alone = campaign.alone(room, index).unwrap();
        println!("== {room:?}");
        for (vm, ran) in alone.iter().enumerate() {
            let p = &ran.profile;
            println!("{vm}: {:?}\n   R {:.1}/s {:.2}ms W {:.1}/s {:.2}ms busy {:.2}", campaign.workloads(room, index, vm), p.reads.iops, p.reads.response_ns.unwrap_or(0.)/1e6, p.writes.iops, p.writes.response_ns.unwrap_or(0.)/1e6, p.busy_share.unwrap_or(0.));
        }
        let mut all: [Vec<f64>; 6] = Default::default();
        for members in campaign.groups().into_iter().filter(|m| m.len() == 2) {
            let truth = campaign.together(room, index, &members).unwrap().together;
            let profiles: Vec<IsolationProfile> = members.iter().map(|&vm| alone[vm].profile.clone()).collect();
            let recordings: Vec<Recording> = members.iter().map(|&vm| alone[vm].recording.clone()).collect();
            let f = predictor::predict(&*twin, &profiles, &recordings).unwrap();
            let mut line = format!("{members:?} {:?} ", f.policy.as_ref().map(|p| (&p.name, p.sure)));
            for (vm, truth) in f.vms.iter().zip(&truth) {
                let mut r = |k: usize, a: Option<f64>, b: Option<f64>| {
                    if let (Some(a), Some(b)) = (a, b) { if b > 0.0 { all[k].push((a / b - 1.0).abs()); return format!("{:+.0}%", 100.0 * (a / b - 1.0)); } }
                    "-".to_owned()
                };
                let t = predictors::VmForecast::measured(truth);
                line += &format!(" | R {} {} {} W {} {} {}", r(0, vm.reads.iops, t.reads.iops), r(1, vm.reads.response_ns, t.reads.response_ns), r(2, vm.reads.percentile("p99"), t.reads.percentile("p99")),
                    r(3, vm.writes.iops, t.writes.iops), r(4, vm.writes.response_ns, t.writes.response_ns), r(5, vm.writes.percentile("p99"), t.writes.percentile("p99")));
            }
            println!("{line}");
        }
        println!("mean R iops/resp/p99, W iops/resp/p99: {:?}", all.each_ref().map(|v| (100.0 * v.iter().sum::<f64>() / v.len().max(1) as f64).round()));
    }
}
