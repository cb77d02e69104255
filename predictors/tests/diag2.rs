#![allow(clippy::unwrap_used, missing_docs)]
use predictors::{Recorder, Recording, build, predictor};
use predictors::profile::Measure;
use traces::{formats, Sectors, Nanos, trace::ReadOptions};
fn load(name: &str, path: &str, place: u64) -> (traces::results::isolation::IsolationProfile, Recording) {
    let p = std::path::Path::new(path);
    let o = ReadOptions::default();
    let f = formats::recognise(p, &o).unwrap();
    let mut r = (f.open)(p, &o).unwrap();
    let mut next = r.next().unwrap();
    let first = next.unwrap().request.arrival;
    let mut m = Measure::new(r.meta());
    let mut rec = Recorder::new(Sectors::new(place), Some(Sectors::new(68 << 21)));
    let mut n = 0;
    while let Some(record) = next {
        let at = record.request.arrival.saturating_since(first);
        if at >= Nanos::from_s(70) { break; }
        if at >= Nanos::from_s(15) { m.record(&record); rec.record(&record); n += 1; }
        next = r.next().unwrap();
    }
    let meta = r.meta().clone();
    let prov = traces::results::TraceProvenance { vm: name.into(), path: String::new(), sha256: String::new(), format: String::new(), layer: meta.layer, clock: meta.clock.clone(), addresses: String::new(), requests: n, losses: Default::default(), made: Default::default() };
    (m.finish(name, "", prov, &meta).0, rec.finish())
}
#[test]
fn diag2() {
    let lab = std::env::var("LAB").unwrap_or("lab-virtio".into());
    let base = format!("{}/../traces/samples/{lab}/runs", env!("CARGO_MANIFEST_DIR"));
    let vms = ["mail", "web", "file", "oltp"];
    let pairs: Vec<(usize, usize)> = match std::env::var("PAIR") { Ok(p) => { let x: Vec<usize> = p.split(',').map(|x| x.parse().unwrap()).collect(); vec![(x[0], x[1])] }, _ => vec![(2,3),(0,2),(0,3),(0,1),(1,2),(1,3)] };
    let reps: u32 = std::env::var("REPS").ok().and_then(|x| x.parse().ok()).unwrap_or(1);
    let mut all: [Vec<f64>; 6] = Default::default();
    for (a, b) in pairs {
        let mut sums: Vec<[(f64, f64); 6]> = vec![[(0., 0.); 6]; 2];
        let mut note = String::new();
        for rep in 1..=reps {
            let (pa, ra): (Vec<_>, Vec<_>) = [a, b].iter().map(|&v| load(vms[v], &format!("{base}/alone-{}/{rep}/{}.parquet", vms[v], vms[v]), v as u64 * (17 << 21))).unzip();
            let truth: Vec<_> = [a, b].iter().map(|&v| load(vms[v], &format!("{base}/together-{}-{}/{rep}/{}.parquet", vms[a.min(b)], vms[a.max(b)], vms[v]), 0).0).collect();
            let f = predictor::predict(&*build(&"twin".parse().unwrap()).unwrap(), &pa, &ra).unwrap();
            note = f.notes[0].clone();
            for (i, vm) in f.vms.iter().enumerate() {
                let t = predictors::VmForecast::measured(&truth[i]);
                let v = [(vm.reads.iops, t.reads.iops), (vm.reads.response_ns, t.reads.response_ns), (vm.reads.percentile("p99"), t.reads.percentile("p99")), (vm.writes.iops, t.writes.iops), (vm.writes.response_ns, t.writes.response_ns), (vm.writes.percentile("p99"), t.writes.percentile("p99"))];
                for k in 0..6 { sums[i][k].0 += v[k].0.unwrap_or(0.); sums[i][k].1 += v[k].1.unwrap_or(0.); }
            }
        }
        let mut line = format!("{}+{} ", vms[a], vms[b]);
        for s in &sums { line += " |"; for k in 0..6 { let e = s[k].0 / s[k].1 - 1.; all[k].push(e.abs()); line += &format!(" {:+.0}", 100. * e); } }
        println!("{line}   {}", &note[note.len().saturating_sub(60)..]);
    }
    println!("mean R iops/resp/p99 W iops/resp/p99: {:?}", all.each_ref().map(|v| (1000.0 * v.iter().sum::<f64>() / v.len() as f64).round() / 10.));
}
