//! Results that must not be lost when a library crashes. They become a file only then.
#![allow(unsafe_code, reason = "a handler of a signal writes the file with system calls")]

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::guard::{decimal, print};

/// A line of the file. Lines are never freed, since a handler may be reading them.
struct Line {
    text: Vec<u8>,
    next: AtomicPtr<Line>,
}

static FIRST: AtomicPtr<Line> = AtomicPtr::new(ptr::null_mut());
/// The last line. Only one thread appends at a time.
static LAST: Mutex<Option<&'static Line>> = Mutex::new(None);
/// The file, which lies in the temporary folder.
static PATH: OnceLock<CString> = OnceLock::new();

/// Keeps the result of a finished run, a line of text. If a library crashes or does not return, all that was kept is
/// written to a new file in the temporary folder, and the message names it. [`leave_kept`] does the same.
pub fn keep(mut line: Vec<u8>) {
    PATH.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("iocast-finished-{}.jsonl", std::process::id()));
        CString::new(path.into_os_string().into_encoded_bytes()).unwrap_or_default()
    });
    line.push(b'\n');
    let line: &'static Line = Box::leak(Box::new(Line { text: line, next: AtomicPtr::default() }));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let before = last.replace(line);
    before.map_or(&FIRST, |before| &before.next).store(ptr::from_ref(line).cast_mut(), Ordering::Release);
}

/// Writes the file and says on standard error where it is. Nothing happens if nothing was kept. Allocates nothing, since
/// it may run in a handler.
pub fn leave_kept() {
    let Some(path) = PATH.get() else { return };
    match write(path) {
        Some(runs) => {
            let mut digits = [0; 20];
            let runs = decimal(runs, &mut digits);
            print(&[b"iocast: runs that had finished: ", runs, b", a line of JSON each: ", path.to_bytes(), b"\n"]);
        }
        None => {
            print(&[b"iocast: ", path.to_bytes(), b" cannot be written, so the runs that had finished are lost\n"]);
        }
    }
}

/// Writes the lines; how many they are, if all are written.
fn write(path: &CStr) -> Option<u64> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends in zero.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if file < 0 {
        return None;
    }
    let mut count = 0;
    let mut next = &FIRST;
    // SAFETY: lines are never freed.
    while let Some(line) = unsafe { next.load(Ordering::Acquire).as_ref() } {
        let mut rest = &line.text[..];
        while !rest.is_empty() {
            // SAFETY: the pointer is valid for the length.
            match unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) } {
                written @ 1.. => rest = &rest[written as usize..],
                _ => return None,
            }
        }
        count += 1;
        next = &line.next;
    }
    Some(count)
}
