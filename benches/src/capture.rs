//! Seeded blktrace captures of any size in two per-CPU files or one stream, with five events per request (Q G I D C).
//! Each completion is on the other CPU than its request. Up to 64 requests of 16 processes are in flight.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::events::{Category, Event, action, notify};
use traces::formats::blktrace::{ByteOrder, encode};

/// Events per request.
pub const EVENTS_PER_REQUEST: u64 = 5;
const IN_FLIGHT: usize = 64;
/// Process ids.
const PROCESSES: std::ops::Range<u32> = 100..116;
const GAP_NS: u64 = 300;
/// A virtio disk, 254:16.
const DEVICE: u32 = 254 << 20 | 16;

struct Events<'a, W> {
    /// One for both CPUs, or one for each.
    outputs: &'a mut [W],
    sequences: [u32; 2],
    time: u64,
    record: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Bio {
    sector: u64,
    bytes: u32,
    pid: u32,
    cpu: usize,
    category: Category,
}

impl<W: Write> Events<'_, W> {
    /// A notify record with a process's name.
    fn name(&mut self, pid: u32) -> io::Result<()> {
        let action = u32::from(notify::PROCESS) | Category::NOTIFY.in_action();
        let event = Event { time: self.time, action, pid, device: DEVICE, ..Event::default() };
        self.record.clear();
        encode(&event, format!("fio-{pid}\0").as_bytes(), ByteOrder::Little, &mut self.record);
        self.outputs[0].write_all(&self.record)
    }

    fn event(&mut self, cpu: usize, code: u8, bio: Bio) -> io::Result<()> {
        self.sequences[cpu] = self.sequences[cpu].wrapping_add(1);
        self.time += GAP_NS;
        let event = Event {
            sequence: self.sequences[cpu],
            time: self.time,
            sector: bio.sector,
            bytes: bio.bytes,
            action: u32::from(code) | (bio.category | stage(code)).in_action(),
            pid: bio.pid,
            device: DEVICE,
            cpu: cpu as u32,
            error: 0,
            ..Event::default()
        };
        self.record.clear();
        encode(&event, &[], ByteOrder::Little, &mut self.record);
        self.outputs[cpu % self.outputs.len()].write_all(&self.record)
    }
}

/// What the kernel adds to the direction of an event.
fn stage(code: u8) -> Category {
    match code {
        action::QUEUE | action::GET_REQUEST => Category::QUEUE,
        action::INSERT => Category::QUEUE.union(Category::FS),
        action::ISSUE => Category::ISSUE.union(Category::FS),
        _ => Category::COMPLETE.union(Category::FS),
    }
}

/// Writes a capture of `requests` requests to `STEM.blktrace.0` and `.1` and names the files.
///
/// # Errors
/// The file system's.
pub fn write(stem: &Path, requests: u64, seed: u64) -> io::Result<[PathBuf; 2]> {
    let path = |cpu: usize| PathBuf::from(format!("{}.blktrace.{cpu}", stem.display()));
    write_to(&mut [File::create(path(0))?, File::create(path(1))?], requests, seed)?;
    Ok([path(0), path(1)])
}

/// Writes the same capture to two outputs, one per CPU, or all of it to one, as `blktrace -o -` does.
///
/// # Errors
/// Those of the outputs.
pub fn write_to(outputs: &mut [impl Write], requests: u64, seed: u64) -> io::Result<()> {
    let mut outputs: Vec<_> = outputs.iter_mut().map(|output| BufWriter::with_capacity(1 << 20, output)).collect();
    let record = Vec::with_capacity(64);
    let mut out = Events { outputs: &mut outputs, sequences: [0; 2], time: 1_000_000, record };
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut in_flight: VecDeque<Bio> = VecDeque::with_capacity(IN_FLIGHT);
    for pid in PROCESSES {
        out.name(pid)?;
    }
    for _ in 0..requests {
        let category = if generator.random_range(0..2) == 0 { Category::READ } else { Category::WRITE };
        let bio = Bio {
            sector: generator.random_range(0..1u64 << 28) * 8,
            bytes: 4096 * generator.random_range(1..=8u32),
            pid: generator.random_range(PROCESSES),
            cpu: generator.random_range(0..2usize),
            category,
        };
        for code in [action::QUEUE, action::GET_REQUEST, action::INSERT, action::ISSUE] {
            out.event(bio.cpu, code, bio)?;
        }
        in_flight.push_back(bio);
        if in_flight.len() == IN_FLIGHT {
            let chosen = generator.random_range(0..IN_FLIGHT);
            let bio = in_flight.swap_remove_back(chosen).expect("chosen among those in flight");
            out.event(1 - bio.cpu, action::COMPLETE, bio)?;
        }
    }
    for bio in in_flight {
        out.event(1 - bio.cpu, action::COMPLETE, bio)?;
    }
    outputs.iter_mut().try_for_each(Write::flush)
}
