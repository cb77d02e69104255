//! The engine's standard load: random 4 KB requests, closed loop, one stage, the linear Cheetah
//! without its cache.

use drive_models::linear::{self, Linear};
use drive_models::{DriveModel, SingleServer};
use replay::sources::random::RandomLoad;
use replay::{Engine, Limits, Metrics, Stage};
use replay::{ReplayError, sources::RandomClosed};
use schedulers::Scheduler;
use traces::Sectors;
use traces::spec::{Settings, Spec};

/// Outstanding requests.
pub const OUTSTANDING: u32 = 32;
/// 4 KB.
pub const PAGE: Sectors = Sectors::new(8);

/// The linear Cheetah 15K.4 without its cache.
///
/// # Panics
/// If the model's table does not accept its own defaults.
pub fn cheetah_without_cache() -> SingleServer<Linear> {
    let given = vec![("cache".to_owned(), "off".to_owned())];
    let spec = Spec { name: "linear".to_owned(), given };
    let settings = Settings::resolve(&spec, linear::MODEL.tunables).expect("a switch may be off");
    SingleServer::new(Linear::new(&settings))
}

/// Replays `requests` of the standard load under `scheduler`, fully measured.
///
/// # Errors
/// None, for a generated load.
pub fn run<S: Scheduler>(scheduler: S, requests: u64, reads_percent: u32) -> Result<Metrics, ReplayError> {
    run_on(cheetah_without_cache(), scheduler, 1, requests, reads_percent, PAGE)
}

/// The same load on another drive, which gets `depth` requests at a time, of whole pages up to `longest`.
///
/// # Errors
/// None, for a generated load.
pub fn run_on<D: DriveModel, S: Scheduler>(
    drive: D,
    scheduler: S,
    depth: u32,
    requests: u64,
    reads_percent: u32,
    longest: Sectors,
) -> Result<Metrics, ReplayError> {
    let load = RandomLoad {
        requests,
        outstanding: OUTSTANDING,
        sectors: PAGE,
        sectors_max: longest,
        capacity: drive.capacity(),
        reads_percent,
        seed: 1,
    };
    let stage = Stage::new(scheduler, Limits { depth, ..Limits::default() });
    Ok(Engine::new(RandomClosed::new(load), stage, drive, Metrics::new()).run()?.observer)
}
