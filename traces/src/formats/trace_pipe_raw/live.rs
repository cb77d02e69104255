//! Pages that are read while the kernel still writes: decoded as those of files are, and merged by time
//! as far as it is known that nothing earlier will come.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::layout::Layouts;
use super::page::PageFile;
use super::pages::Handed;
use super::{clock, layout};
use crate::error::ReadError;
use crate::events::Placed;
use crate::formats::capture::live::Released;
use crate::formats::capture::{Batch, EventFile as _, Findings};
use crate::trace::Losses;

/// The pages of all CPUs of a buffer that is being read.
///
/// Losses are counted and never an error: a capture goes on.
pub struct LivePages {
    layouts: Layouts,
    clock: String,
    kernel: Option<String>,
    cpus: BTreeMap<u32, Cpu>,
    findings: Findings,
    order: Released,
}

struct Cpu {
    file: PageFile<Handed>,
    batch: Batch,
    /// Decoded, in order of time, and not yet released.
    waiting: VecDeque<Placed>,
}

impl LivePages {
    /// Of a buffer whose descriptions were saved in the folder `STEM.formats`.
    ///
    /// # Errors
    /// As reading the capture would: a description that is missing or not in the form that a kernel writes.
    pub fn new(formats: &Path) -> Result<LivePages, ReadError> {
        Ok(LivePages {
            layouts: Layouts::read(formats)?,
            clock: clock(formats)?,
            kernel: layout::read_optional(&formats.join("kernel"))?.map(|kernel| kernel.trim().to_owned()),
            cpus: BTreeMap::new(),
            findings: Findings::new(true),
            order: Released::default(),
        })
    }

    /// Notes no names of processes from now on: a capture that never ends would see more and more of them.
    #[must_use]
    pub fn without_names(mut self) -> LivePages {
        let layouts = Arc::make_mut(&mut self.layouts.events);
        layouts.iter_mut().flatten().for_each(|layout| layout.process = None);
        self
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.layouts.page.bytes()
    }

    /// The clock's name, as metadata has it.
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// Decodes whole pages that were read from `path`, of a CPU that has since dropped further events.
    ///
    /// # Errors
    /// A CPU's number that no machine has.
    pub fn hand(&mut self, cpu: u32, path: &Path, pages: &[u8], dropped: u64) -> Result<(), ReadError> {
        let of_cpu = match self.cpus.entry(cpu) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let file = PageFile::new(Handed::new(path), cpu, &self.layouts, 0, self.kernel.as_deref())?;
                entry.insert(Cpu { file, batch: Batch::to_be_emptied(), waiting: VecDeque::new() })
            }
        };
        of_cpu.file.add_dropped(dropped);
        of_cpu.file.input_mut().hand(pages);
        loop {
            let more = of_cpu.file.read(&mut of_cpu.batch, &mut self.findings)?;
            of_cpu.batch.take(&mut of_cpu.waiting);
            if !more {
                return Ok(());
            }
        }
    }

    /// Appends the events up to the time `until` to `into`, in the order in which a capture of several
    /// files is read: time, then CPU.
    pub fn release(&mut self, until: u64, into: &mut Vec<Placed>) {
        self.order.release(self.cpus.values_mut().map(|cpu| &mut cpu.waiting), until, into, &mut self.findings);
    }

    /// The events that the kernel's buffer has lost so far, or that could not be read.
    pub fn losses(&self) -> &Losses {
        &self.findings.losses
    }

    /// Adds the facts about the capture to metadata: counts, the layout's origin.
    pub fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        if let Some(first) = self.cpus.values().next() {
            first.file.describe(add);
        }
        add("cpus", self.cpus.keys().map(u32::to_string).collect::<Vec<_>>().join(","));
        for (key, count) in &self.findings.counts {
            add(key, count.to_string());
        }
    }

    /// Names of processes, by their number.
    pub fn names(&self) -> &BTreeMap<u32, String> {
        &self.findings.names
    }
}
