use drive_models::DriveModel;
use replay::guest::Program;
use replay::sources::{Guest, Guests, Until};
use replay::stage::{Limits, Stage};
use replay::surge::*;
use replay::{Engine, Observer, observer::Served};
use std::sync::Arc;
use traces::*;

#[derive(Default)]
struct Cells {
    skip: u64,
    most: u64,
    n: u64,
    served: u64,
    s: f64,
    s2: f64,
    r: f64,
    r2: f64,
    resp: u64,
    hits: u64,
    sectors: u64,
    first: Option<Timestamp>,
    last: Timestamp,
    drivehits: u64,
    dt: f64,
}
impl Observer for Cells {
    fn served(&mut self, v: &Served) {
        self.n += 1;
        if self.n <= self.skip || self.n > self.skip + self.most {
            return;
        }
        self.served += 1;
        self.first.get_or_insert(v.finished);
        let x = v.finished.since(v.dispatched).as_ns() as f64 / 1e6;
        self.s += x;
        self.s2 += x * x;
        self.dt += v.finished.since(v.started).as_ns() as f64 / 1e6;
        if x < 0.25001 {
            self.hits += 1;
        }
        if v.hit {
            self.drivehits += 1;
        }
        self.sectors += v.request.sectors().count();
        self.last = v.finished;
    }
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if self.n <= self.skip || self.n > self.skip + self.most {
            return;
        }
        let x = now.since(request.arrival).as_ns() as f64 / 1e6;
        self.r += x;
        self.r2 += x * x;
        self.resp += 1;
    }
}

fn main() {
    let args: std::collections::BTreeMap<String, String> = std::env::args()
        .skip(1)
        .map(|a| {
            let (k, v) = a.split_once('=').unwrap();
            (k.to_owned(), v.to_owned())
        })
        .collect();
    let get = |k: &str, d: &str| args.get(k).cloned().unwrap_or(d.to_owned());
    let capacity = drive_models::build(&get("drive", "cheetah-15k4").parse().unwrap()).unwrap().drive.capacity();
    let t = std::time::Instant::now();
    let seed: u64 = get("seed", "1").parse().unwrap();
    let image = Image::build(&ImageSettings {
        files: get("files", "1000000").parse().unwrap(),
        directories: get("dirs", "1000").parse().unwrap(),
        popularity: if get("pop", "name") == "name" { Popularity::ByName } else { Popularity::Shuffled },
        capacity,
        seed,
        metadata: get("meta", "1") == "1",
    })
    .unwrap();
    if get("v", "0") == "1" {
        eprintln!(
            "image {:?} used {:.3}",
            t.elapsed(),
            1.0 - image.files.free_blocks() as f64 * 8.0 / capacity.count() as f64
        );
    }
    let metadata = image.metadata.clone().map(Arc::new);
    let ranked: Arc<[_]> = image.ranked.into();
    for (which, sched) in
        [("cats", get("cats", "cats")), ("deadline", get("deadline", "deadline")), ("cfq", get("cfq", "cfq"))]
    {
        if let Some(only) = args.get("only")
            && !only.split(',').any(|o| o == which)
        {
            continue;
        }
        let scheduler = schedulers::build(&sched.parse().unwrap()).unwrap().scheduler;
        let drive = drive_models::build(&get("drive", "cheetah-15k4").parse().unwrap()).unwrap().drive;
        let limits = Limits { depth: 1, look_ahead: get("ahead", "1") == "1", merge: true, ..Limits::default() };
        let settings =
            ReaderSettings { direct: get("direct", "1") == "1", sleep_scale: get("sleep", "125").parse().unwrap() };
        let programs = (0..50)
            .map(|i| {
                Box::new(Reader::new(ranked.clone(), metadata.clone(), settings, seed ^ 77, i)) as Box<dyn Program>
            })
            .collect();
        let memory = (!settings.direct || metadata.is_some()).then(|| replay::guest::memory::MemorySettings {
            pages: (get("cache", "65").parse::<f64>().unwrap() * 256.0) as u32,
            read_ahead_pages: get("ra", "32").parse().unwrap(),
            ..Default::default()
        });
        let guest =
            Guest { name: "g".into(), place: Lba::ZERO, files: image.files.clone(), journal: None, memory, programs };
        let skip: u64 = get("skip", "0").parse().unwrap();
        let most: u64 = get("n", "50000").parse().unwrap();
        let source = Guests::new(vec![guest], Until { requests: Some(skip + most + 200), time: None });
        let t = std::time::Instant::now();
        let ended =
            Engine::new(source, Stage::new(scheduler, limits), drive, Cells { skip, most, ..Default::default() })
                .run()
                .unwrap();
        let c = ended.observer;
        let (n, m) = (c.served as f64, c.resp as f64);
        println!(
            "{which:9} svc {:5.2} var {:6.2} resp {:7.2} var {:9.1} thr {:5.2}  <250us {:4.1}% hits {:4.1}% sect/req {:.1} device {:.2}  cpu {:?}",
            c.s / n,
            c.s2 / n - (c.s / n).powi(2),
            c.r / m,
            c.r2 / m - (c.r / m).powi(2),
            c.sectors as f64 / (c.last.since(c.first.unwrap()).as_ns() as f64 / 1e6),
            c.hits as f64 / n * 100.0,
            c.drivehits as f64 / n * 100.0,
            c.sectors as f64 / n,
            c.dt / n,
            t.elapsed()
        );
    }
}
