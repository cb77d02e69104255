//! fio (3.33): the synthetic load that a fio job file describes.
//!
//! The model covers everything that determines the requests at the disk. That is the bytes of each file that are
//! accessed, their order, the number of accesses at a time, and the pauses. An option that would change the requests
//! and is not modelled is an error; `unmodelled.rs` lists the options that cannot change them.
//!
//! Approximations: random numbers differ from fio's but have the same distributions. Files exist in full size before a
//! job begins. Asynchronous accesses are submitted one by one. The page cache keeps the data of earlier jobs
//! (`invalidate=0`). `fdatasync` is treated as `fsync`. A device as `filename` is a file like any other.

mod distribution;
mod jobs;
mod options;
mod places;
mod process;
mod unmodelled;
mod values;
mod visited;

use std::fmt::Write;

use traces::spec::{Settings, Tunable, Unit};

use super::{Build, Entry};

pub use jobs::{JobError, Jobs};

/// The longest pause and run time of a tunable.
const DAY_NS: u64 = 86_400_000_000_000;

pub(super) const ENTRY: Entry = Entry {
    name: "fio",
    summary: "the jobs of a fio job file (a path that ends in .fio), or one job from these options",
    origin: "fio 3.33; Kim 2015, section 4, runs it with 100 % to 0 % writes in every VM",
    tunables: &[
        Tunable::new(
            "rw",
            Unit::Choice(&[
                "read",
                "write",
                "trim",
                "randread",
                "randwrite",
                "randtrim",
                "rw",
                "randrw",
                "trimwrite",
                "randtrimwrite",
            ]),
            "read",
            "operation, in sequence or at random places",
        ),
        Tunable::new("bs", Unit::Bytes, "4k", "bytes of an access").within(512, 1 << 30),
        Tunable::new("size", Unit::Bytes, "1g", "bytes of the file").within(512, 1 << 43),
        Tunable::new("io_size", Unit::Bytes, "0", "total bytes to move; 0 for the size of the file"),
        Tunable::new("rwmixread", Unit::Count, "50", "percentage of reads in a mix").within(0, 100),
        Tunable::new("direct", Unit::Switch, "on", "whether accesses bypass the page cache"),
        Tunable::new("iodepth", Unit::Count, "1", "accesses at a time; above 1 with libaio").within(1, 65_536),
        Tunable::new("numjobs", Unit::Count, "1", "processes, each with a file of its own").within(1, 4096),
        Tunable::new("runtime", Unit::Time, "0", "duration, with the file repeated; 0 for one pass over the file")
            .within(0, DAY_NS),
        Tunable::new("thinktime", Unit::Time, "0", "pause after each access").within(0, DAY_NS),
        Tunable::new("rate_iops", Unit::Count, "0", "most accesses a second; 0 for no limit"),
        Tunable::new("fsync", Unit::Count, "0", "number of writes after which they are made durable; 0 for never"),
        Tunable::new("end_fsync", Unit::Switch, "off", "whether writes are made durable at the end"),
    ],
    events: &["fio ends"],
    ends: |_| true,
    build: Build::Jobs(text),
};

/// The job file that is equivalent to the settings.
fn text(settings: &Settings) -> String {
    let switch = |name: &str| u8::from(settings.switch(name));
    let mut text = String::from("[fio]\n");
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: &dyn std::fmt::Display| _ = writeln!(text, "{name}={value}");
    line("rw", &settings.word("rw"));
    for name in ["bs", "size"] {
        line(name, &settings.bytes(name));
    }
    for name in ["rwmixread", "iodepth", "numjobs", "rate_iops", "fsync"] {
        line(name, &settings.count(name));
    }
    line("ioengine", if settings.count("iodepth") > 1 { &"libaio" } else { &"psync" });
    line("direct", &switch("direct"));
    line("end_fsync", &switch("end_fsync"));
    let us = |name: &str| settings.nanos(name).as_ns().div_ceil(1000);
    line("thinktime", &us("thinktime"));
    if settings.bytes("io_size") > 0 {
        line("io_size", &settings.bytes("io_size"));
    }
    if us("runtime") > 0 {
        line("runtime", &format!("{}us", us("runtime")));
        line("time_based", &1);
    }
    text
}
