//! What some schedulers ask Linux about a drive: whether it turns (`queue/rotational`).

use drive_models::BuiltDrive;
use traces::spec::{Spec, Tunable};

/// The tunable that is set.
const ROTATIONAL: &str = "rotational";

/// `scheduler` as Linux sets it in front of `drive`: bfq, ours or the kernel's, asks whether the drive turns.
pub fn set_for(mut scheduler: Spec, drive: &BuiltDrive) -> Spec {
    if asks_rotation(&scheduler) && drive.model.is_rotational && !sets_rotational(&scheduler) {
        scheduler.given.push((ROTATIONAL.to_owned(), "on".to_owned()));
    }
    scheduler
}

/// Schedulers that are compared on `drive`, as they are set for it. Where one of them states whether the drive turns,
/// that is what is compared, and all stay as given.
pub fn set_all_for(schedulers: Vec<Spec>, drive: &BuiltDrive) -> Vec<Spec> {
    match schedulers.iter().any(|spec| asks_rotation(spec) && sets_rotational(spec)) {
        true => schedulers,
        false => schedulers.into_iter().map(|spec| set_for(spec, drive)).collect(),
    }
}

/// Whether the scheduler asks whether the drive turns, and takes it for an SSD unless it is told.
pub fn asks_rotation(scheduler: &Spec) -> bool {
    let entry = schedulers::registry::find(&scheduler.name);
    let asks = |tunable: &Tunable| tunable.name == ROTATIONAL && tunable.default == "off";
    entry.is_ok_and(|entry| entry.tunables.iter().any(asks))
}

/// Whether the spec says whether the drive turns.
fn sets_rotational(scheduler: &Spec) -> bool {
    scheduler.given.iter().any(|(name, _)| name == ROTATIONAL)
}
