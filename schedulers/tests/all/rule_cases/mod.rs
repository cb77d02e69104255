//! Calls of schedulers, made by hand, and how many requests each rule has then sent.

mod linux;
mod papers;

use crate::driver::Driver;

/// Calls of one scheduler.
pub(crate) struct Case {
    pub(crate) spec: &'static str,
    pub(crate) calls: fn(&mut Driver),
    /// The rules that have then sent requests, with how many each has.
    pub(crate) sent: &'static [(&'static str, u64)],
}

pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    linux::CASES.iter().chain(papers::CASES)
}
