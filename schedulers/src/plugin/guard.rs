//! What a library is called for just now, so that a crash or an endless loop in it can be named.
//!
//! A crash ends the process, and so does a call that does not return: the library's memory is ours, and what it has
//! broken cannot be told.
#![allow(unsafe_code, reason = "handlers of signals are set and called by the kernel")]

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};
use std::time::Duration;

use traces::Timestamp;

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

/// The calls to one scheduler.
pub(super) struct Calls {
    /// The file of the library.
    file: String,
    /// Calls and returns so far: odd during a call.
    number: AtomicU64,
    function: AtomicU64,
    now_ns: AtomicU64,
    /// The request of the last call that was for one, or [`NO_REQUEST`].
    id: AtomicU64,
}

const NO_REQUEST: u64 = u64::MAX;

thread_local! {
    /// The calls of the scheduler that this thread is in; null outside.
    static INSIDE: Cell<*const Calls> = const { Cell::new(std::ptr::null()) };
}

/// All schedulers of libraries.
static ALL: Mutex<Vec<Weak<Calls>>> = Mutex::new(Vec::new());
static STARTED: Once = Once::new();
/// What the process did at each of [`SIGNALS`] before, such as Rust's own message of a stack that is full.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// What is written to a file if a library crashes.
struct AtCrash {
    path: CString,
    bytes: Vec<u8>,
    /// The line that the message then ends with.
    says: String,
}

static AT_CRASH: OnceLock<AtCrash> = OnceLock::new();

/// If a library crashes or does not return, `bytes` are written to the new file `path`, and the message ends with the
/// line `says`. The first call counts. A path with a zero byte is none.
pub fn write_at_crash(path: &Path, bytes: Vec<u8>, says: &str) {
    if let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) {
        let _ = AT_CRASH.set(AtCrash { path, bytes, says: format!("{says}\n") });
    }
}

impl AtCrash {
    /// Writes the file; the line that says so, if all is written. Allocates nothing, since it may run in a handler.
    fn write(&self) -> &[u8] {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: the path ends in zero.
        let file = unsafe { libc::open(self.path.as_ptr(), flags, 0o600) };
        let mut rest = &self.bytes[..];
        while file >= 0 && !rest.is_empty() {
            // SAFETY: the pointer is valid for the length.
            match unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) } {
                written @ 1.. => rest = &rest[written as usize..],
                _ => break,
            }
        }
        if file >= 0 && rest.is_empty() { self.says.as_bytes() } else { b"" }
    }
}

impl Calls {
    pub(super) fn of(file: &str) -> Arc<Calls> {
        STARTED.call_once(start);
        let zero = || AtomicU64::new(0);
        let calls = Arc::new(Calls {
            file: file.to_owned(),
            number: zero(),
            function: zero(),
            now_ns: zero(),
            id: AtomicU64::new(NO_REQUEST),
        });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|calls| calls.strong_count() > 0);
        all.push(Arc::downgrade(&calls));
        calls
    }

    /// Runs a call.
    pub(super) fn during<T>(&self, function: Function, now: Timestamp, id: Option<u32>, call: impl FnOnce() -> T) -> T {
        self.function.store(function as u64, Ordering::Relaxed);
        self.now_ns.store(now.as_ns(), Ordering::Relaxed);
        if let Some(id) = id {
            self.id.store(id.into(), Ordering::Relaxed);
        }
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number + 1, Ordering::Release);
        INSIDE.set(self);
        let answer = call();
        INSIDE.set(std::ptr::null());
        self.number.store(number + 2, Ordering::Release);
        answer
    }

    /// Says what went wrong and ends the process. Allocates nothing, since it may run in a handler.
    fn die(&self, [what, how]: [&str; 2]) -> ! {
        let function = FUNCTIONS.get(self.function.load(Ordering::Relaxed) as usize).unwrap_or(&"");
        let (mut now, mut digits) = ([0; 20], [0; 20]);
        let id = match self.id.load(Ordering::Relaxed) {
            NO_REQUEST => b"none",
            id => decimal(id, &mut digits),
        };
        let text: [&[u8]; 12] = [
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
            AT_CRASH.get().map_or(b"", AtCrash::write),
        ];
        for part in text {
            // SAFETY: the pointer is valid for the length. What cannot be written is lost.
            let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: ends the process without running anything of the library.
        unsafe { libc::_exit(1) }
    }
}

/// A number in digits.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
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
    let inside = INSIDE.get();
    // SAFETY: the pointer is set during a call alone, for which its owner waits.
    if let Some(calls) = unsafe { inside.as_ref() } {
        let name = SIGNALS.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name);
        calls.die([" crashed in ", name]);
    }
    // A fault of our own ends as if there were no handler: the instruction runs again, and abort() raises its signal again.
    let place = SIGNALS.iter().position(|(number, _)| *number == signal);
    let Some(before) = place.zip(BEFORE.get()).map(|(place, before)| &before[place]) else { return };
    // SAFETY: the action is what the process had before.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Ends the process if one call is found again and again.
fn watch() {
    let mut found: Vec<(*const Calls, u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(LOOK);
        let all: Vec<Arc<Calls>> =
            ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        let looked = |calls: &Arc<Calls>| {
            let (place, number) = (Arc::as_ptr(calls), calls.number.load(Ordering::Acquire));
            let before = found.iter().find(|&&(of, same, _)| of == place && same == number && number % 2 == 1);
            let times = before.map_or(1, |&(.., times)| times + 1);
            if times > LOOKS_MAX {
                calls.die([" does not return from ", " for 10 s"]);
            }
            (place, number, times)
        };
        found = all.iter().map(looked).collect();
    }
}
