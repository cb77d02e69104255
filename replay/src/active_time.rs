//! The time in which all VMs of a replay are active.

use traces::{Timestamp, VmId};

/// Determines when the first of several VMs has no more arrivals while others go on. From then on the VMs no longer
/// share the drive in full, and what they get is not comparable with the time before.
///
/// As in the replays of `predictors`, the time ends when that VM has used up its trace. Requests that are outstanding then
/// are not measured, as if a capture ended there.
#[derive(Clone, Copy, Debug)]
pub struct ActiveTime {
    vms: usize,
    ended: usize,
    first_end: Option<Timestamp>,
    is_over: bool,
}

impl ActiveTime {
    /// The time in which all of this number of `vms` are active.
    pub fn of_all(vms: usize) -> ActiveTime {
        ActiveTime { vms, ended: 0, first_end: None, is_over: false }
    }

    /// The time until the last VM ends: the whole replay.
    pub fn of_any() -> ActiveTime {
        ActiveTime::of_all(0)
    }

    /// A VM has used up its trace.
    pub fn vm_ended(&mut self, now: Timestamp, _vm: VmId) {
        self.ended += 1;
        self.first_end.get_or_insert(now);
    }

    /// Whether the time is over. VMs that end at the same time end it for none of them.
    pub fn is_over(&mut self) -> bool {
        self.is_over |= self.ended > 0 && self.ended < self.vms;
        self.is_over
    }

    /// When the time ended; `None` if it lasted as long as the replay.
    pub fn end(&self) -> Option<Timestamp> {
        self.first_end.filter(|_| self.is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Timestamp {
        Timestamp::from_ns(ns)
    }

    #[test]
    fn active_time_ends_when_the_first_of_several_vms_ends() {
        let mut time = ActiveTime::of_all(3);
        assert!(!time.is_over());
        time.vm_ended(at(5), VmId(1));
        assert!(time.is_over());
        time.vm_ended(at(7), VmId(0));
        time.vm_ended(at(9), VmId(2));
        assert!(time.is_over());
        assert_eq!(time.end(), Some(at(5)));
    }

    #[test]
    fn vms_that_end_together_and_a_lone_vm_are_active_to_the_end() {
        for vms in [1, 2] {
            let mut time = ActiveTime::of_all(vms);
            for vm in 0..vms {
                time.vm_ended(at(5), VmId(vm as u16));
            }
            assert!(!time.is_over());
            assert_eq!(time.end(), None);
        }
        let mut any = ActiveTime::of_any();
        any.vm_ended(at(5), VmId(0));
        assert!(!any.is_over());
    }
}
