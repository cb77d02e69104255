//! The devices of a trace that holds several: each is a VM, named as the trace names it.

use std::collections::HashMap;

use crate::error::Problem;
use crate::formats::check::Bad;
use crate::request::VmId;
use crate::trace::{AddressSpace, ReadOptions, TraceMeta};

/// Devices that one trace may hold: as many as there are [`VmId`]s.
const DEVICES_MAX: usize = 1 << 16;
/// The longest name of a device, so that names do not fill the memory.
const NAME_BYTES_MAX: usize = 255;
/// How many devices are named when the one that was asked for is not there.
const NAMED_MAX: usize = 5;

/// Numbers the devices of a trace in the order in which they occur, or picks one of them.
///
/// A device is known by a key: the bytes of a record that distinguish it; its name is made only
/// when the key is another than the last record's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    /// The key of the last record, and the VM that it is, if it is one that is wanted.
    last: Option<(Vec<u8>, Option<VmId>)>,
    ids: HashMap<Box<[u8]>, VmId>,
    /// The one device that is asked for, whether it has occurred, and some others that have.
    only: Option<String>,
    found: bool,
    others: Vec<String>,
    name: String,
}

impl Devices {
    /// Every device, or the one that `options` ask for.
    pub(crate) fn new(options: &ReadOptions) -> Devices {
        Devices { only: options.device.clone(), ..Devices::default() }
    }

    /// The VM of the device with this key, whose name `name` appends to a text; `None` if another
    /// device is asked for.
    ///
    /// # Errors
    /// One device too many, a name that is none.
    #[inline]
    pub(crate) fn vm(
        &mut self,
        key: &[u8],
        meta: &mut TraceMeta,
        name: impl FnOnce(&mut String),
    ) -> Result<Option<VmId>, Bad> {
        match &self.last {
            Some((last, vm)) if last == key => Ok(*vm),
            _ => self.other_vm(key, meta, name),
        }
    }

    /// The same for a device whose name is its key: a field of the line.
    ///
    /// # Errors
    /// As [`Devices::vm`].
    #[inline]
    pub(crate) fn named(&mut self, field: &[u8], meta: &mut TraceMeta) -> Result<Option<VmId>, Bad> {
        self.vm(field, meta, |name| name.push_str(&String::from_utf8_lossy(field)))
    }

    fn other_vm(
        &mut self,
        key: &[u8],
        meta: &mut TraceMeta,
        name: impl FnOnce(&mut String),
    ) -> Result<Option<VmId>, Bad> {
        let vm = match self.ids.get(key) {
            Some(&vm) => Some(vm),
            None => self.new_vm(key, meta, name)?,
        };
        let (last, last_vm) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        *last_vm = vm;
        Ok(vm)
    }

    /// A key that has no VM: that of a new device, or of one that is not asked for.
    fn new_vm(
        &mut self,
        key: &[u8],
        meta: &mut TraceMeta,
        name: impl FnOnce(&mut String),
    ) -> Result<Option<VmId>, Bad> {
        self.name.clear();
        name(&mut self.name);
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || self.name.chars().any(char::is_control) {
            let shown: String = self.name.chars().take(40).collect();
            return Err(Bad::malformed(format!("`{}` is no name of a device", shown.escape_debug())));
        }
        meta.address_space = AddressSpace::PerVm;
        if let Some(only) = &self.only {
            let is_it = *only == self.name;
            if is_it {
                self.found = true;
                meta.vms = vec![only.clone()];
                self.ids.insert(key.into(), VmId(0));
            } else if self.others.len() < NAMED_MAX && !self.others.contains(&self.name) {
                self.others.push(self.name.clone());
            }
            return Ok(is_it.then_some(VmId(0)));
        }
        let Some(vm) = u16::try_from(self.ids.len()).ok().map(VmId) else {
            return Err(Bad::malformed(format!(
                "device `{}` is one too many: a trace holds at most {DEVICES_MAX} (--device reads one of them)",
                self.name
            )));
        };
        if self.ids.is_empty() {
            meta.vms.clear();
        }
        meta.vms.push(self.name.clone());
        self.ids.insert(key.into(), vm);
        Ok(Some(vm))
    }

    /// The missing thing if the input ends here: the device that was asked for.
    pub(crate) fn at_end(&self) -> Result<(), Problem> {
        match &self.only {
            Some(only) if !self.found => {
                let others = match self.others.as_slice() {
                    [] => "it holds none".to_owned(),
                    some => format!("there are {}{}", some.join(", "), if some.len() < NAMED_MAX { "" } else { ", …" }),
                };
                Err(Problem::Missing(format!("no request is of device `{only}`: {others}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Layer;

    fn meta() -> TraceMeta {
        TraceMeta::new("test", Layer::Wire, "test")
    }

    fn only(name: &str) -> Devices {
        Devices::new(&ReadOptions { device: Some(name.to_owned()), ..ReadOptions::default() })
    }

    #[test]
    fn devices_are_numbered_as_they_occur() {
        let (mut devices, mut meta) = (Devices::default(), meta());
        for (name, vm) in [("b", 0), ("b", 0), ("a", 1), ("b", 0), ("c", 2)] {
            assert_eq!(devices.named(name.as_bytes(), &mut meta).unwrap(), Some(VmId(vm)), "{name}");
        }
        assert_eq!((meta.vms, meta.address_space), (vec!["b".into(), "a".into(), "c".into()], AddressSpace::PerVm));
        assert!(devices.at_end().is_ok());
    }

    #[test]
    fn one_device_is_vm_zero_and_the_others_are_none() {
        let (mut devices, mut meta) = (only("a"), meta());
        for (name, vm) in [("b", None), ("b", None), ("a", Some(VmId(0))), ("c", None), ("a", Some(VmId(0)))] {
            assert_eq!(devices.named(name.as_bytes(), &mut meta).unwrap(), vm, "{name}");
        }
        assert_eq!(meta.vms, ["a"]);
        assert!(devices.at_end().is_ok());
    }

    #[test]
    fn a_device_that_never_occurs_is_missing_and_some_others_are_named() {
        let (mut devices, mut meta) = (only("z"), meta());
        assert!(devices.at_end().unwrap_err().to_string().ends_with("it holds none"));
        for name in ["b", "a", "b"] {
            devices.named(name.as_bytes(), &mut meta).unwrap();
        }
        assert_eq!(devices.at_end().unwrap_err().to_string(), "no request is of device `z`: there are b, a");
        for name in ["c", "d", "e", "f"] {
            devices.named(name.as_bytes(), &mut meta).unwrap();
        }
        assert!(devices.at_end().unwrap_err().to_string().ends_with("there are b, a, c, d, e, …"));
        assert_eq!(meta.vms, ["vm0"]);
    }

    #[test]
    fn there_are_as_many_devices_as_numbers_of_vms() {
        let (mut devices, mut meta) = (Devices::default(), meta());
        for device in 0..DEVICES_MAX {
            let vm = devices.named(device.to_string().as_bytes(), &mut meta).unwrap();
            assert_eq!(vm.map(|vm| usize::from(vm.0)), Some(device));
        }
        let refused = devices.named(b"more", &mut meta).unwrap_err();
        assert!(refused.problem.to_string().contains("at most 65536 (--device"), "{}", refused.problem);
        assert_eq!(devices.named(b"65535", &mut meta).unwrap(), Some(VmId(u16::MAX)));
        // One that is asked for is found behind any number of others.
        let mut devices = only("more");
        for device in 0..=DEVICES_MAX {
            assert_eq!(devices.named(device.to_string().as_bytes(), &mut meta).unwrap(), None);
        }
        assert_eq!(devices.named(b"more", &mut meta).unwrap(), Some(VmId(0)));
    }

    #[test]
    fn a_name_is_short_and_without_control_characters() {
        let (mut devices, mut meta) = (Devices::default(), meta());
        for name in [&b""[..], b"a\tb", b"\0", &[b'x'; NAME_BYTES_MAX + 1]] {
            assert!(devices.named(name, &mut meta).is_err(), "{name:?}");
        }
        assert!(devices.named(&[b'x'; NAME_BYTES_MAX], &mut meta).is_ok());
    }
}
