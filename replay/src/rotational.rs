//! What some schedulers ask Linux about a drive: whether it turns (`queue/rotational`).

use drive_models::BuiltDrive;
use schedulers::Registry;
use traces::spec::{Spec, Tunable};

/// The tunable that is set.
const ROTATIONAL: &str = "rotational";

/// `scheduler` of `known` as Linux sets it in front of `drive`: bfq, ours or the kernel's, asks whether the drive turns.
pub fn set_for(mut scheduler: Spec, drive: &BuiltDrive, known: &Registry) -> Spec {
    if asks_rotation(&scheduler, known) && drive.model.is_rotational && !sets_rotational(&scheduler) {
        scheduler.given.push((ROTATIONAL.to_owned(), "on".to_owned()));
    }
    scheduler
}

/// Schedulers that are compared on `drive`, as they are set for it. Where one of them states whether the drive turns,
/// that is what is compared, and all stay as given.
pub fn set_all_for(schedulers: Vec<Spec>, drive: &BuiltDrive, known: &Registry) -> Vec<Spec> {
    match schedulers.iter().any(|spec| is_stated(spec, known)) {
        true => schedulers,
        false => schedulers.into_iter().map(|spec| set_for(spec, drive, known)).collect(),
    }
}

/// Whether the scheduler asks whether the drive turns, and its spec says so.
pub fn is_stated(scheduler: &Spec, known: &Registry) -> bool {
    sets_rotational(scheduler) && asks_rotation(scheduler, known)
}

/// Whether the scheduler asks whether the drive turns, and takes it for an SSD unless it is told.
pub fn asks_rotation(scheduler: &Spec, known: &Registry) -> bool {
    let asks = |tunable: &Tunable| tunable.name == ROTATIONAL && tunable.default == "off";
    known.find(&scheduler.name).is_ok_and(|entry| entry.tunables.iter().any(asks))
}

fn sets_rotational(scheduler: &Spec) -> bool {
    scheduler.given.iter().any(|(name, _)| name == ROTATIONAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_that_ask_are_told_unless_their_spec_says_it() {
        let set = |scheduler: &str, drive: &str| {
            let drive = drive_models::build(&drive.parse().unwrap()).unwrap();
            set_for(scheduler.parse().unwrap(), &drive, &Registry::builtin()).given
        };
        let on = [(ROTATIONAL.to_owned(), "on".to_owned())];
        assert_eq!(set("bfq", "cheetah-15k4"), on);
        assert_eq!(set("bfq:rotational=off", "cheetah-15k4"), [(ROTATIONAL.to_owned(), "off".to_owned())]);
        assert_eq!(set("bfq", "nvme-ssd"), []);
        assert_eq!(set("mq-deadline", "cheetah-15k4"), []);
        let all = |specs: &[&str]| -> Vec<usize> {
            let specs = specs.iter().map(|spec| spec.parse().unwrap()).collect();
            let drive = drive_models::build(&"cheetah-15k4".parse().unwrap()).unwrap();
            set_all_for(specs, &drive, &Registry::builtin()).iter().map(|spec| spec.given.len()).collect()
        };
        assert_eq!(all(&["bfq", "noop"]), [1, 0]);
        assert_eq!(all(&["bfq", "bfq:rotational=off"]), [0, 1], "as given where one states it");
    }
}
