//! The types of `schedulers/include/iocast_scheduler.h`, which says what each means. A test compiles the header and
//! compares sizes and offsets.

use std::ffi::{c_char, c_int, c_void};

use traces::{Flags, Operation, Request};

/// The version of the interface.
pub const ABI: u32 = 2;
/// The function that a library exports.
pub const SYMBOL: &str = "iocast_scheduler";

/// `struct iocast_request`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CRequest {
    pub arrival_ns: u64,
    pub lba: u64,
    pub sectors: u32,
    pub stream: u32,
    pub vm: u16,
    pub operation: u8,
    pub flags: u8,
    pub priority: u8,
    pub reserved: u8,
    pub cpu: u16,
}

impl CRequest {
    pub fn of(request: &Request) -> CRequest {
        CRequest {
            arrival_ns: request.arrival.as_ns(),
            lba: request.lba.sector(),
            sectors: u32::try_from(request.sectors().count()).unwrap_or(u32::MAX),
            stream: request.stream.0,
            vm: request.vm.0,
            operation: request.operation as u8,
            flags: request.flags.bits(),
            priority: request.priority.as_byte(),
            reserved: 0,
            cpu: request.cpu,
        }
    }
}

// The numbers of the header.
const _: () = assert!(Operation::Read as u8 == 0 && Operation::Write as u8 == 1 && Operation::Discard as u8 == 3);
const _: () = assert!(Flags::SYNC.bits() == 1 && Flags::FUA.bits() == 2 && Flags::AHEAD.bits() == 16);

/// `struct iocast_capacity`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CCapacity {
    pub reads: u32,
    pub others: u32,
}

/// `struct iocast_cost`.
#[repr(C)]
pub struct CCost {
    pub context: *const c_void,
    pub position: unsafe extern "C" fn(*const c_void) -> u64,
    pub capacity: unsafe extern "C" fn(*const c_void) -> u64,
    pub between: unsafe extern "C" fn(*const c_void, u64, u64, u64) -> u64,
    pub access: unsafe extern "C" fn(*const c_void, u64, *const CRequest) -> u64,
}

/// `enum iocast_kind`.
pub const IDLE: u32 = 0;
pub const SEND: u32 = 1;
pub const WAIT_UNTIL: u32 = 2;

/// `struct iocast_dispatch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CDispatch {
    pub kind: u32,
    pub id: u32,
    pub until_ns: u64,
    pub rule: u32,
    pub reserved: u32,
}

/// `struct iocast_tunable`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CTunable {
    pub name: *const c_char,
    pub summary: *const c_char,
    pub normal: u64,
    pub min: u64,
    pub max: u64,
    pub unit: u32,
    pub reserved: u32,
}

/// `struct iocast_rule`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CRule {
    pub name: *const c_char,
    pub summary: *const c_char,
}

/// A function that takes a request: state, time, id, request.
pub type Requested = unsafe extern "C" fn(*mut c_void, u64, u32, *const CRequest);

/// `struct iocast_scheduler`. Every function is an option, so that one that is missing can be named.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CScheduler {
    pub abi: u32,
    pub tunables_count: u32,
    pub tunables: *const CTunable,
    pub rules: *const CRule,
    pub rules_count: u32,
    pub no_front_merges: u32,
    pub no_joins: u32,
    pub reserved: u32,
    pub summary: *const c_char,
    pub origin: *const c_char,
    pub create: Option<unsafe extern "C" fn(*const u64) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub insert: Option<Requested>,
    pub dispatch: Option<unsafe extern "C" fn(*mut c_void, u64, CCapacity, *const CCost, *mut CDispatch)>,
    pub merged: Option<Requested>,
    pub remove: Option<unsafe extern "C" fn(*mut c_void, u32)>,
    pub issued: Option<unsafe extern "C" fn(*mut c_void, u64, u32)>,
    pub completed: Option<Requested>,
    pub requeue: Option<Requested>,
    pub may_merge: Option<unsafe extern "C" fn(*const c_void, u32, *const CRequest) -> c_int>,
    pub merged_requests: Option<unsafe extern "C" fn(*mut c_void, u64, u32, u32, *const CRequest)>,
    pub calls_for_dispatch: Option<unsafe extern "C" fn(*const c_void) -> c_int>,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Sizes and last offsets as the C compiler has them.
    const PROGRAM: &str = r#"
        #include <stddef.h>
        #include <stdio.h>
        #include "iocast_scheduler.h"
        #define SHOW(type, field) printf("%zu %zu\n", sizeof(struct type), offsetof(struct type, field))
        int main(void) {
            SHOW(iocast_request, priority);
            SHOW(iocast_request, cpu);
            SHOW(iocast_capacity, others);
            SHOW(iocast_cost, access);
            SHOW(iocast_dispatch, rule);
            SHOW(iocast_tunable, unit);
            SHOW(iocast_rule, summary);
            SHOW(iocast_scheduler, summary);
            SHOW(iocast_scheduler, calls_for_dispatch);
            printf("%d %d %d %d\n", IOCAST_SCHEDULER_ABI, IOCAST_IDLE, IOCAST_SEND, IOCAST_WAIT_UNTIL);
            return 0;
        }"#;

    #[test]
    fn types_are_those_of_the_header() {
        let folder = std::env::temp_dir().join(format!("iocast-header-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("layout.c"), PROGRAM).unwrap();
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(folder.join("layout"));
        let built = compiler.arg("-I").arg(header).arg(folder.join("layout.c")).status();
        assert!(built.expect("there is no C compiler; Debian's package gcc has it").success());
        let printed = Command::new(folder.join("layout")).output().unwrap().stdout;
        std::fs::remove_dir_all(&folder).unwrap();
        let ours = [
            [size_of::<CRequest>(), offset_of!(CRequest, priority)],
            [size_of::<CRequest>(), offset_of!(CRequest, cpu)],
            [size_of::<CCapacity>(), offset_of!(CCapacity, others)],
            [size_of::<CCost>(), offset_of!(CCost, access)],
            [size_of::<CDispatch>(), offset_of!(CDispatch, rule)],
            [size_of::<CTunable>(), offset_of!(CTunable, unit)],
            [size_of::<CRule>(), offset_of!(CRule, summary)],
            [size_of::<CScheduler>(), offset_of!(CScheduler, summary)],
            [size_of::<CScheduler>(), offset_of!(CScheduler, calls_for_dispatch)],
        ];
        let sizes: String = ours.iter().map(|[size, offset]| format!("{size} {offset}\n")).collect();
        assert_eq!(String::from_utf8(printed).unwrap(), format!("{sizes}{ABI} {IDLE} {SEND} {WAIT_UNTIL}\n"));
    }
}
