//! Loading a library, and its functions as safe methods. The only code here that trusts the library.
#![allow(unsafe_code, reason = "the functions of a library are called through pointers")]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;

use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Request, Sectors, Timestamp};

use super::abi::{ABI, CCapacity, CCost, CDispatch, CRequest, CScheduler, Requested, SYMBOL};
use super::checked::Checked;
use super::guard::{Calls, Function};
use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::scheduler::{Capacity, Scheduler};

/// Most tunables or rules of a scheduler; more are a damaged description.
const ROWS_MAX: u32 = 1000;

/// The functions of a library, each of those known to be there that must be.
#[derive(Clone, Copy)]
pub(super) struct Library {
    c: &'static CScheduler,
    file: &'static str,
}

// SAFETY: the description is constant data of a library that is never unloaded.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Loads the library at `path` and makes the row of its scheduler, named `prefix` and the file.
///
/// # Errors
/// What is wrong with the library, in words.
pub(super) fn load(prefix: &str, path: &Path) -> Result<&'static Entry, String> {
    // SAFETY: loading runs the library's initialisers. The user named it to be run.
    let opened = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: the header gives the symbol this type.
    let describe = unsafe { opened.get::<unsafe extern "C" fn() -> *const CScheduler>(SYMBOL.as_bytes()) };
    let describe = *describe.map_err(|_| format!("it has no function {SYMBOL}, which schedulers for iocast export"))?;
    // SAFETY: as above; the function takes nothing.
    let c = unsafe { describe().as_ref() }.ok_or_else(|| format!("{SYMBOL}() returns nothing"))?;
    if c.abi != ABI {
        let abi = c.abi;
        return Err(format!(
            "it is built for version {abi} of iocast_scheduler.h, and this program has {ABI}; rebuild it"
        ));
    }
    let missing = [
        ("create", c.create.is_none()),
        ("destroy", c.destroy.is_none()),
        ("insert", c.insert.is_none()),
        ("dispatch", c.dispatch.is_none()),
        ("merged", c.merged.is_none()),
        ("remove", c.remove.is_none()),
    ];
    if let Some((function, _)) = missing.iter().find(|(_, missing)| *missing) {
        return Err(format!("its scheduler has no function {function}"));
    }
    let tunables = rows(c.tunables, c.tunables_count, "tunables")?.iter().map(|of| {
        let tunable_name = text(of.name, "name of a tunable")?;
        tunable(tunable_name, text(of.summary, "summary of a tunable")?, of.unit, of.normal, (of.min, of.max))
    });
    let tunables: Vec<Tunable> = tunables.collect::<Result<_, String>>()?;
    let rules = rows(c.rules, c.rules_count, "rules")?
        .iter()
        .map(|rule| Ok(RuleInfo::new(text(rule.name, "name of a rule")?, text(rule.summary, "summary of a rule")?)));
    let rules: Vec<RuleInfo> = rules.collect::<Result<_, String>>()?;
    // Never unloaded: schedulers and rows refer to it.
    std::mem::forget(opened);
    let file = &*Box::leak(path.file_name().unwrap_or_default().display().to_string().into_boxed_str());
    let (library, tunables) = (Library { c, file }, &*Box::leak(tunables.into_boxed_slice()));
    let rule_count = rules.len();
    let build = move |settings: &Settings| -> Box<dyn Scheduler> {
        let values: Vec<u64> = tunables.iter().map(|tunable| value(settings, tunable)).collect();
        Box::new(Checked::new(library.create(&values), rule_count))
    };
    Ok(Box::leak(Box::new(Entry {
        name: Box::leak(format!("{prefix}{file}").into_boxed_str()),
        summary: text(c.summary, "summary")?,
        origin: if c.origin.is_null() { "" } else { text(c.origin, "origin")? },
        tunables,
        rules: Box::leak(rules.into_boxed_slice()),
        build: Box::leak(Box::new(build)),
    })))
}

/// A table of the description.
fn rows<T>(first: *const T, count: u32, what: &str) -> Result<&'static [T], String> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() || count > ROWS_MAX => Err(format!("its table of {count} {what} is damaged")),
        // SAFETY: the header says that the table has `count` rows and stays valid.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count as usize) }),
    }
}

/// A text of the description.
fn text(of: *const c_char, what: &str) -> Result<&'static str, String> {
    if of.is_null() {
        return Err(format!("its {what} is missing"));
    }
    // SAFETY: the header says that texts end in zero and stay valid.
    unsafe { CStr::from_ptr(of) }.to_str().map_err(|_| format!("its {what} is not UTF-8"))
}

/// A tunable as the rest of the program knows them.
fn tunable(
    name: &'static str,
    summary: &'static str,
    unit: u32,
    normal: u64,
    (min, max): (u64, u64),
) -> Result<Tunable, String> {
    let is_word =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if name.is_empty() || !is_word(name) {
        return Err(format!(
            "the name `{}` of a tunable is not of lower-case letters, digits and _",
            name.escape_debug()
        ));
    }
    let (unit, default) = match unit {
        0 => (Unit::Time, Nanos::from_ns(normal).to_string()),
        1 => (Unit::Count, normal.to_string()),
        2 => (Unit::Decimal, format!("{}.{:03}", normal / 1000, normal % 1000)),
        3 => (Unit::Bytes, normal.to_string()),
        4 => (Unit::Switch, if normal == 0 { "off" } else { "on" }.to_owned()),
        unknown => return Err(format!("its tunable {name} has the unknown unit {unknown}")),
    };
    if unit != Unit::Switch && !(min..=max).contains(&normal) {
        return Err(format!("the normal value {normal} of its tunable {name} is not in {min} to {max}"));
    }
    Ok(Tunable::new(name, unit, Box::leak(default.into_boxed_str()), summary).within(min, max))
}

/// The value of a tunable in its unit.
fn value(settings: &Settings, tunable: &Tunable) -> u64 {
    match tunable.unit {
        Unit::Time => settings.nanos(tunable.name).as_ns(),
        Unit::Decimal => settings.thousandths(tunable.name),
        Unit::Bytes => settings.bytes(tunable.name),
        Unit::Switch => settings.switch(tunable.name).into(),
        _ => settings.count(tunable.name),
    }
}

impl Library {
    /// A new scheduler; `None` if the library makes none.
    fn create(self, values: &[u64]) -> Option<Instance> {
        let calls = Calls::of(self.file);
        let create = self.c.create?;
        // SAFETY: there are as many values as tunables.
        let state = calls.during(Function::Create, None, None, || unsafe { create(values.as_ptr()) });
        Some(Instance { library: self, state: NonNull::new(state)?, calls })
    }
}

/// A scheduler of a library.
pub(super) struct Instance {
    library: Library,
    state: NonNull<c_void>,
    calls: Calls,
}

// SAFETY: the header says that calls come from one thread at a time, not always the same.
unsafe impl Send for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.c.destroy {
            // SAFETY: the state is from `create` and is used no more.
            self.calls.during(Function::Destroy, None, None, || unsafe { destroy(self.state()) });
        }
    }
}

// SAFETY of all calls: the state is from `create`, and the pointers are valid during the call.
impl Instance {
    fn state(&self) -> *mut c_void {
        self.state.as_ptr()
    }

    /// Calls a function with a request, if there is one.
    fn with_request(&self, function: Function, of: Option<Requested>, now: Timestamp, id: u32, request: &Request) {
        if let Some(called) = of {
            let request = CRequest::of(request);
            self.calls
                .during(function, Some(now), Some(id), || unsafe { called(self.state(), now.as_ns(), id, &request) });
        }
    }

    pub(super) fn insert(&mut self, now: Timestamp, id: u32, request: &Request) {
        self.with_request(Function::Insert, self.library.c.insert, now, id, request);
    }

    pub(super) fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> CDispatch {
        let mut answer = CDispatch::default();
        let context: *const c_void = (&raw const cost).cast();
        let costs = CCost { context, position, capacity: drive_capacity, between, access };
        if let Some(dispatch) = self.library.c.dispatch {
            let room = CCapacity { reads: capacity.reads, others: capacity.writes };
            self.calls.during(Function::Dispatch, Some(now), None, || unsafe {
                dispatch(self.state(), now.as_ns(), room, &raw const costs, &raw mut answer);
            });
        }
        answer
    }

    pub(super) fn merged(&mut self, now: Timestamp, into: u32, request: &Request) {
        self.with_request(Function::Merged, self.library.c.merged, now, into, request);
    }

    pub(super) fn remove(&mut self, id: u32) {
        if let Some(remove) = self.library.c.remove {
            self.calls.during(Function::Remove, None, Some(id), || unsafe { remove(self.state(), id) });
        }
    }

    pub(super) fn issued(&mut self, now: Timestamp, id: u32) {
        if let Some(issued) = self.library.c.issued {
            self.calls
                .during(Function::Issued, Some(now), Some(id), || unsafe { issued(self.state(), now.as_ns(), id) });
        }
    }

    pub(super) fn completed(&mut self, now: Timestamp, id: u32, request: &Request) {
        self.with_request(Function::Completed, self.library.c.completed, now, id, request);
    }

    pub(super) fn requeue(&mut self, now: Timestamp, id: u32, request: &Request) {
        match self.library.c.requeue {
            None => self.insert(now, id, request),
            requeue => self.with_request(Function::Requeue, requeue, now, id, request),
        }
    }

    pub(super) fn may_merge(&self, into: u32, request: &Request) -> bool {
        let Some(may_merge) = self.library.c.may_merge else { return true };
        let (at, asked) = (request.arrival, CRequest::of(request));
        self.calls.during(Function::MayMerge, Some(at), Some(into), || unsafe { may_merge(self.state(), into, &asked) })
            != 0
    }

    pub(super) fn front_merges(&self) -> bool {
        self.library.c.no_front_merges == 0
    }

    pub(super) fn joins(&self) -> bool {
        self.library.c.no_joins == 0
    }

    pub(super) fn calls_for_dispatch(&self) -> bool {
        let Some(asks) = self.library.c.calls_for_dispatch else { return true };
        self.calls.during(Function::CallsForDispatch, None, None, || unsafe { asks(self.state()) }) != 0
    }

    pub(super) fn merged_requests(&mut self, now: Timestamp, into: u32, from: u32, request: &Request) {
        let Some(joined) = self.library.c.merged_requests else {
            self.remove(from);
            return self.merged(now, into, request);
        };
        let request = CRequest::of(request);
        let call = || unsafe { joined(self.state(), now.as_ns(), into, from, &request) };
        self.calls.during(Function::MergedRequests, Some(now), Some(into), call);
    }
}

/// The costs behind a context.
///
/// # Safety
/// `context` is the one that [`Instance::dispatch`] passed, during that call.
unsafe fn costs<'a>(context: *const c_void) -> &'a dyn AccessCost {
    // SAFETY: the context points to the reference on the stack of `dispatch`.
    unsafe { *context.cast::<&dyn AccessCost>() }
}

unsafe extern "C" fn position(context: *const c_void) -> u64 {
    // SAFETY: as of `costs`; so in the functions below.
    unsafe { costs(context) }.position().sector()
}

unsafe extern "C" fn drive_capacity(context: *const c_void) -> u64 {
    unsafe { costs(context) }.capacity().count()
}

unsafe extern "C" fn between(context: *const c_void, from: u64, to: u64, sectors: u64) -> u64 {
    unsafe { costs(context) }.between(Lba::new(from), Lba::new(to), Sectors::new(sectors)).as_ns()
}

unsafe extern "C" fn access(context: *const c_void, now: u64, request: *const CRequest) -> u64 {
    // SAFETY: the library passes a request of its own.
    let asked = unsafe { request.read() };
    let Some(operation) = traces::Operation::from_number(asked.operation) else { return u64::MAX };
    let arrival = Timestamp::from_ns(asked.arrival_ns);
    let request = Request::new(arrival, operation, Lba::new(asked.lba), Sectors::new(asked.sectors.into()));
    unsafe { costs(context) }.access(Timestamp::from_ns(now), &request).as_ns()
}
