//! What a library is called for just now, so that a crash or an endless loop in it can be named.
//!
//! A crash ends the process, and so does a call that does not return: the library's memory is ours, and what it has
//! broken cannot be told.
#![allow(unsafe_code, reason = "handlers of signals are set and called by the kernel")]

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use traces::Timestamp;

use super::kept::leave_kept;

/// How often a call is looked at, and how often it may be found to be the same one.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_MAX: u32 = 10;
/// The signals of a crash, as the message has them.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, " by SIGSEGV"),
    (libc::SIGBUS, " by SIGBUS"),
    (libc::SIGFPE, " by SIGFPE"),
    (libc::SIGILL, " by SIGILL"),
    (libc::SIGABRT, " by SIGABRT"),
];

/// The functions of a library.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Insert,
    Dispatch,
    Merged,
    Remove,
    Issued,
    Completed,
    Requeue,
    MayMerge,
    MergedRequests,
    Create,
    Destroy,
    CallsForDispatch,
}

const FUNCTIONS: [&str; 12] = [
    "insert",
    "dispatch",
    "merged",
    "remove",
    "issued",
    "completed",
    "requeue",
    "may_merge",
    "merged_requests",
    "create",
    "destroy",
    "calls_for_dispatch",
];

/// The calls to one scheduler. Records are used again and never freed, since a handler may be reading them.
struct Record {
    /// The file of the library.
    file: &'static str,
    is_used: AtomicBool,
    /// [`OUTSIDE`], or the number of the call above the function's.
    call: AtomicU64,
    /// The calls so far, from [`FIRST_CALL`] on and in steps of it.
    last: AtomicU64,
    now_ns: AtomicU64,
    /// The request of the last call that was for one, or [`NO_REQUEST`].
    id: AtomicU64,
}

const OUTSIDE: u64 = 0;
const FIRST_CALL: u64 = 1 << 8;
const NO_REQUEST: u64 = u64::MAX;

thread_local! {
    /// The record of the scheduler that this thread called last.
    static CALLED: Cell<Option<&'static Record>> = const { Cell::new(None) };
}

/// All records.
static ALL: Mutex<Vec<&'static Record>> = Mutex::new(Vec::new());
static STARTED: Once = Once::new();
/// What the process did at each of [`SIGNALS`] before, such as Rust's own message of a stack that is full.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// The calls to one scheduler.
pub(super) struct Calls(&'static Record);

impl Drop for Calls {
    fn drop(&mut self) {
        // The next user of the record may be another thread, whose call this thread must not be held for.
        CALLED.set(None);
        self.0.is_used.store(false, Ordering::Release);
    }
}

impl Calls {
    pub(super) fn of(file: &'static str) -> Calls {
        STARTED.call_once(start);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let free = all.iter().find(|record| record.file == file && !record.is_used.swap(true, Ordering::Acquire));
        if let Some(&record) = free {
            record.now_ns.store(0, Ordering::Relaxed);
            record.id.store(NO_REQUEST, Ordering::Relaxed);
            return Calls(record);
        }
        let record = Box::leak(Box::new(Record {
            file,
            is_used: AtomicBool::new(true),
            call: AtomicU64::new(OUTSIDE),
            last: AtomicU64::new(0),
            now_ns: AtomicU64::new(0),
            id: AtomicU64::new(NO_REQUEST),
        }));
        all.push(record);
        Calls(record)
    }

    /// Runs a call. Without a time or a request, those of the call before stay.
    pub(super) fn during<T>(
        &self,
        function: Function,
        now: Option<Timestamp>,
        id: Option<u32>,
        call: impl FnOnce() -> T,
    ) -> T {
        let record = self.0;
        if let Some(now) = now {
            record.now_ns.store(now.as_ns(), Ordering::Relaxed);
        }
        if let Some(id) = id {
            record.id.store(id.into(), Ordering::Relaxed);
        }
        let number = record.last.load(Ordering::Relaxed) + FIRST_CALL;
        record.last.store(number, Ordering::Relaxed);
        CALLED.set(Some(record));
        record.call.store(number | function as u64, Ordering::Release);
        let answer = call();
        record.call.store(OUTSIDE, Ordering::Release);
        answer
    }
}

impl Record {
    /// Says what went wrong and ends the process. Allocates nothing, since it may run in a handler.
    fn die(&self, call: u64, [what, how]: [&str; 2]) -> ! {
        let function = FUNCTIONS.get((call % FIRST_CALL) as usize).unwrap_or(&"");
        let (mut now, mut digits) = ([0; 20], [0; 20]);
        let id = match self.id.load(Ordering::Relaxed) {
            NO_REQUEST => b"none",
            id => decimal(id, &mut digits),
        };
        print(&[
            b"iocast: the scheduler in ",
            self.file.as_bytes(),
            what.as_bytes(),
            function.as_bytes(),
            b"()",
            how.as_bytes(),
            b", called at ",
            decimal(self.now_ns.load(Ordering::Relaxed), &mut now),
            b" ns; the last request that it was called for is ",
            id,
            b"\n",
        ]);
        leave_kept();
        // SAFETY: ends the process without running anything of the library.
        unsafe { libc::_exit(1) }
    }
}

/// Prints to standard error without allocating. What cannot be written is lost.
pub(super) fn print(parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: the pointer is valid for the length.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

/// A number in digits.
pub(super) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[begin..];
        }
    }
}

/// Watches for crashes and for calls that do not return.
fn start() {
    let handler: extern "C" fn(c_int) = crashed;
    // SAFETY: actions are initialised as the system wants them.
    let mut before: [libc::sigaction; SIGNALS.len()] = unsafe { std::mem::zeroed() };
    for ((signal, _), before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: the pointers are valid.
        unsafe { libc::sigaction(*signal, std::ptr::null(), before) };
    }
    let _ = BEFORE.set(before);
    for (signal, _) in SIGNALS {
        // SAFETY: as above; the handler calls nothing that allocates or locks.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    // Without a thread, a call that does not return is not noticed.
    let _ = std::thread::Builder::new().name("plug-ins".to_owned()).spawn(watch);
}

extern "C" fn crashed(signal: c_int) {
    let call = CALLED.get().map(|record| (record, record.call.load(Ordering::Relaxed)));
    if let Some((record, call)) = call.filter(|(_, call)| *call != OUTSIDE) {
        let name = SIGNALS.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name);
        record.die(call, [" crashed in ", name]);
    }
    // A fault of our own ends as if there were no handler: the instruction runs again, and abort() raises its signal again.
    let place = SIGNALS.iter().position(|(number, _)| *number == signal);
    let Some(before) = place.zip(BEFORE.get()).map(|(place, before)| &before[place]) else { return };
    // SAFETY: the action is what the process had before.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Ends the process if one call is found again and again.
fn watch() {
    let mut found: Vec<(u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(LOOK);
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
        found.resize(all.len(), (OUTSIDE, 0));
        for (record, (before, times)) in all.iter().zip(&mut found) {
            let call = record.call.load(Ordering::Acquire);
            *times = if call == *before && call != OUTSIDE { *times + 1 } else { 1 };
            *before = call;
            if *times > LOOKS_MAX {
                record.die(call, [" does not return from ", " for 10 s"]);
            }
        }
    }
}
