//! A capture as a source of events.

use std::path::Path;

use super::{EventFile, Findings, Merge, REORDER_WINDOW_NS, devices};
use crate::error::{Place, ReadError};
use crate::events::{EventSource, Placed};
use crate::trace::{Losses, ReadOptions, TraceMeta};

/// The events of one device of a capture.
pub(in crate::formats) struct Capture<F> {
    format: &'static str,
    merge: Merge<F>,
    findings: Findings,
}

impl<F: EventFile> Capture<F> {
    /// The capture `named`, of the format of that name, in the files that `open` gives.
    ///
    /// # Errors
    /// As [`Merge::new`].
    pub(in crate::formats) fn new<Files: IntoIterator<Item = Result<F, ReadError>>>(
        format: &'static str,
        named: &Path,
        options: &ReadOptions,
        files: Files,
    ) -> Result<Capture<F>, ReadError> {
        let mut findings = Findings::new(options.lenient);
        let merge = Merge::new(files, named, options.device.as_deref(), &mut findings)?;
        Ok(Capture { format, merge, findings })
    }

    /// The wall-clock time of timestamp zero, if a timestamp record has it.
    fn zero_unix_ns(&self) -> Option<i64> {
        let zero = self.merge.zero();
        let (time, unix_ns) = self.findings.wall?;
        // In blkparse's own dumps (`-d`) events count from zero but timestamp records do not.
        if time > zero.saturating_add(REORDER_WINDOW_NS) {
            return None;
        }
        let since = i64::try_from(i128::from(zero) - i128::from(time)).ok()?;
        unix_ns.checked_add(since)
    }
}

impl<F: EventFile> EventSource for Capture<F> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.merge.next(&mut self.findings)
    }

    #[inline]
    fn run(&mut self) -> (&[Placed], &mut Losses) {
        (self.merge.run(), &mut self.findings.losses)
    }

    fn zero(&self) -> u64 {
        self.merge.zero()
    }

    fn place(&self, number: usize) -> (&Path, Place) {
        self.merge.place(number)
    }

    fn lenient(&self) -> bool {
        self.findings.lenient
    }

    fn losses(&self) -> &Losses {
        &self.findings.losses
    }

    fn losses_mut(&mut self) -> &mut Losses {
        &mut self.findings.losses
    }

    fn describe(&mut self, meta: &mut TraceMeta, ended: bool) {
        let format = self.format;
        let mut add = |key: &str, value: String| {
            meta.provenance.insert(format!("{format}.{key}"), value);
        };
        if let Some(device) = self.merge.device() {
            add("device", devices::name(device));
        }
        if F::PER_CPU {
            add("files", self.merge.files().len().to_string());
        }
        add(F::ZERO, self.merge.zero().to_string());
        if let Some(first) = self.merge.files().next() {
            first.describe(&mut add);
        }
        if ended {
            let (cpus, numbered) = self.merge.cpus();
            add("cpus", cpus.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(","));
            if F::NUMBERED && !numbered {
                // Events of tracefs are stamped by the clock of its ring buffer.
                add("numbers", "none, so that lost events do not show".to_owned());
                "trace clock".clone_into(&mut meta.clock.name);
            }
            if self.findings.messages > 0 {
                add("messages", self.findings.messages.to_string());
            }
            for (key, count) in &self.findings.counts {
                add(key, count.to_string());
            }
            meta.streams = std::mem::take(&mut self.findings.names);
        }
        meta.clock.zero_unix_ns = self.zero_unix_ns();
    }

    fn position_bytes(&self) -> u64 {
        self.merge.files().map(EventFile::consumed_bytes).sum()
    }
}
