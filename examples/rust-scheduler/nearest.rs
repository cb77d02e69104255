//! A scheduler in Rust as a shared library: the rule of examples/c-scheduler/nearest.c. Of the waiting requests the one
//! nearest to the head goes next, reads before writes. A read that has waited for longer than max_wait goes before all
//! others.
//!
//! ```sh
//! rustc --edition 2024 --crate-type cdylib -O -C panic=abort -o libnearest.so examples/rust-scheduler/nearest.rs
//! iocast compare traces/samples/mail.parquet --schedulers fifo,sstf,plugin:./libnearest.so:max_wait=200ms
//! ```
//!
//! The types are those of schedulers/include/iocast_scheduler.h, which says what each means.
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

#[repr(C)]
pub struct Request {
    arrival_ns: u64,
    lba: u64,
    sectors: u32,
    stream: u32,
    vm: u16,
    operation: u8,
    flags: u8,
    priority: u8,
    reserved: u8,
    cpu: u16,
}

#[repr(C)]
pub struct Capacity {
    reads: u32,
    others: u32,
}

#[repr(C)]
pub struct Cost {
    context: *const c_void,
    position: extern "C" fn(*const c_void) -> u64,
    // Further functions follow, which this scheduler does not call.
}

#[repr(C)]
pub struct Dispatch {
    kind: u32,
    id: u32,
    until_ns: u64,
    rule: u32,
    reserved: u32,
}

#[repr(C)]
struct Tunable {
    name: *const c_char,
    summary: *const c_char,
    normal: u64,
    min: u64,
    max: u64,
    unit: u32,
    reserved: u32,
}

#[repr(C)]
struct RuleInfo {
    name: *const c_char,
    summary: *const c_char,
}

#[repr(C)]
pub struct Scheduler {
    abi: u32,
    tunables_count: u32,
    tunables: *const Tunable,
    rules: *const RuleInfo,
    rules_count: u32,
    no_front_merges: u32,
    no_joins: u32,
    reserved: u32,
    summary: *const c_char,
    origin: *const c_char,
    create: extern "C" fn(*const u64) -> *mut Nearest,
    destroy: extern "C" fn(*mut Nearest),
    insert: extern "C" fn(&mut Nearest, u64, u32, &Request),
    dispatch: extern "C" fn(&mut Nearest, u64, Capacity, &Cost, &mut Dispatch),
    merged: extern "C" fn(&mut Nearest, u64, u32, &Request),
    remove: extern "C" fn(&mut Nearest, u32),
    /// issued, completed, requeue, may_merge, merged_requests, calls_for_dispatch: their defaults will do.
    others: [Option<extern "C" fn() -> c_int>; 6],
}

// SAFETY: the description is constant.
unsafe impl Sync for Scheduler {}

const ABI: u32 = 2;
const READ_OPERATION: u8 = 0;
const SEND: u32 = 1;
const TIME: u32 = 0;

/// The rules, in the order of [`RULES`].
const LATE: u32 = 0;
const READ: u32 = 1;
const OTHER: u32 = 2;

struct Waiting {
    arrived_ns: u64,
    lba: u64,
    id: u32,
    is_read: bool,
}

pub struct Nearest {
    max_wait_ns: u64,
    /// In order of arrival.
    waiting: Vec<Waiting>,
}

impl Nearest {
    /// The place of the request that goes next, and the rule that chose it.
    fn choose(&self, now_ns: u64, capacity: &Capacity, head: u64) -> Option<(usize, u32)> {
        let admitted = |one: &Waiting| if one.is_read { capacity.reads > 0 } else { capacity.others > 0 };
        let all = || self.waiting.iter().enumerate().filter(|(_, one)| admitted(one));
        let is_late = |one: &Waiting| one.is_read && now_ns - one.arrived_ns > self.max_wait_ns;
        let late = all().find(|(_, one)| is_late(one)).map(|(place, _)| (place, LATE));
        let nearest = |reads: bool| {
            let of_kind = all().filter(|(_, one)| one.is_read == reads);
            of_kind.min_by_key(|(_, one)| one.lba.abs_diff(head)).map(|(place, _)| place)
        };
        late.or_else(|| nearest(true).map(|place| (place, READ))).or_else(|| nearest(false).map(|place| (place, OTHER)))
    }

    fn place_of(&self, id: u32) -> usize {
        self.waiting.iter().position(|one| one.id == id).expect("the request waits")
    }
}

extern "C" fn create(values: *const u64) -> *mut Nearest {
    // SAFETY: there is a value for each tunable.
    let max_wait_ns = unsafe { *values };
    Box::into_raw(Box::new(Nearest { max_wait_ns, waiting: Vec::new() }))
}

extern "C" fn destroy(mine: *mut Nearest) {
    // SAFETY: it is of `create`, and used no more.
    drop(unsafe { Box::from_raw(mine) });
}

extern "C" fn insert(mine: &mut Nearest, now_ns: u64, id: u32, request: &Request) {
    let is_read = request.operation == READ_OPERATION;
    mine.waiting.push(Waiting { arrived_ns: now_ns, lba: request.lba, id, is_read });
}

extern "C" fn dispatch(mine: &mut Nearest, now_ns: u64, capacity: Capacity, cost: &Cost, answer: &mut Dispatch) {
    let head = (cost.position)(cost.context);
    // Without an answer it is idle.
    if let Some((place, rule)) = mine.choose(now_ns, &capacity, head) {
        *answer = Dispatch { kind: SEND, id: mine.waiting.remove(place).id, until_ns: 0, rule, reserved: 0 };
    }
}

extern "C" fn merged(mine: &mut Nearest, _now_ns: u64, into: u32, request: &Request) {
    let place = mine.place_of(into);
    mine.waiting[place].lba = request.lba;
}

extern "C" fn remove(mine: &mut Nearest, id: u32) {
    let place = mine.place_of(id);
    mine.waiting.remove(place);
}

// SAFETY of the tables: their texts are constant.
struct Tables([Tunable; 1], [RuleInfo; 3]);
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables(
    [Tunable {
        name: c"max_wait".as_ptr(),
        summary: c"a read that has waited for longer goes first".as_ptr(),
        normal: 500_000_000,
        min: 0,
        max: 3_600_000_000_000,
        unit: TIME,
        reserved: 0,
    }],
    [
        RuleInfo { name: c"late".as_ptr(), summary: c"reads that have waited for longer than max_wait".as_ptr() },
        RuleInfo { name: c"read".as_ptr(), summary: c"the nearest read".as_ptr() },
        RuleInfo { name: c"other".as_ptr(), summary: c"the nearest write or discard, while no read waits".as_ptr() },
    ],
);

static NEAREST: Scheduler = Scheduler {
    abi: ABI,
    tunables_count: 1,
    tunables: TABLES.0.as_ptr(),
    rules: TABLES.1.as_ptr(),
    rules_count: 3,
    no_front_merges: 0,
    no_joins: 0,
    reserved: 0,
    summary: c"nearest request first, reads before writes, late reads before all".as_ptr(),
    origin: null(),
    create,
    destroy,
    insert,
    dispatch,
    merged,
    remove,
    others: [None; 6],
};

/// The only function that the library exports.
#[unsafe(no_mangle)]
pub extern "C" fn iocast_scheduler() -> &'static Scheduler {
    &NEAREST
}
