//! Write-back: how the dirty pages and the journal of a guest are written to its disk, in the background and by syncs.

use traces::{Flags, Lba, Operation, Request, Sectors, Timestamp, VmId};

use super::due::Wake;
use super::process::Process;
use super::running_guest::pages_of;
use super::{Guests, KERNEL, Purpose};
use crate::guest::FileId;
use crate::guest::memory::Memory;

impl Guests {
    /// Emits the background writes that are due now.
    pub(super) fn write_back(&mut self, now: Timestamp, guest: u16) {
        let running = &mut self.guests[usize::from(guest)];
        while let Some(run) = running.memory.as_mut().and_then(Memory::next_write) {
            let request = running.request(now, Operation::Write, run, (VmId(guest), KERNEL));
            self.emitted.push_back((request, Purpose::WriteBack(run.file)));
        }
    }

    pub(super) fn sync(&mut self, now: Timestamp, index: u32, file: FileId) {
        let Process { guest, stream, .. } = self.processes[index as usize];
        let running = &mut self.guests[usize::from(guest)];
        while let Some(run) = running.memory.as_mut().and_then(|memory| memory.take_run(file)) {
            let mut request = running.request(now, Operation::Write, run, (VmId(guest), stream));
            request.flags = Flags::SYNC;
            self.emitted.push_back((request, Purpose::WriteBack(file)));
        }
        if running.memory.as_ref().is_none_or(|memory| memory.is_quiet(file)) {
            self.commit(now, index);
        } else {
            running.syncing.push((index, file));
        }
    }

    /// The data of a sync has been written: the journal is committed next, or a flush is sent if there is none.
    pub(super) fn commit(&mut self, now: Timestamp, index: u32) {
        let Process { guest, stream, .. } = self.processes[index as usize];
        let running = &mut self.guests[usize::from(guest)];
        if let Some(journal) = &mut running.journal {
            journal.wait(index);
            self.begin_commit(now, guest);
        } else {
            let mut request = Request::new(now, Operation::Flush, Lba::ZERO, Sectors::ZERO);
            (request.vm, request.stream, request.flags) = (VmId(guest), stream, Flags::SYNC);
            self.emitted.push_back((request, Purpose::Flush(index)));
        }
    }

    pub(super) fn begin_commit(&mut self, now: Timestamp, guest: u16) {
        let running = &mut self.guests[usize::from(guest)];
        let request = running.journal.as_mut().and_then(|journal| journal.begin(now, &mut running.files));
        self.emit_journal(guest, request);
    }

    pub(super) fn emit_journal(&mut self, guest: u16, request: Option<Request>) {
        if let Some(mut request) = request {
            request.lba = self.guests[usize::from(guest)].place_of(request.lba);
            (request.vm, request.stream) = (VmId(guest), KERNEL);
            self.emitted.push_back((request, Purpose::Journal));
        }
    }

    pub(super) fn sweep(&mut self, now: Timestamp, guest: u16) {
        let running = &mut self.guests[usize::from(guest)];
        let memory = running.memory.as_mut().expect("only guests with memory sweep");
        let interval = memory.settings().writeback_interval;
        memory.begin_sweep(now);
        if running.files.has_changes()
            && let Some(journal) = &mut running.journal
        {
            journal.want();
        }
        self.write_back(now, guest);
        self.begin_commit(now, guest);
        self.due.add(now.saturating_add(interval), Wake::Sweep(guest));
    }

    pub(super) fn written(&mut self, now: Timestamp, request: &Request, file: FileId) {
        let guest = request.vm.0;
        let running = &mut self.guests[usize::from(guest)];
        let run = pages_of(running.place, request, file);
        let memory = running.memory.as_mut().expect("only guests with memory write back");
        memory.written(run);
        self.woken.append(&mut running.starved);
        if memory.is_quiet(file) {
            let mut ready = Vec::new();
            running.syncing.retain(|&(process, waits_for)| {
                if waits_for == file {
                    ready.push(process);
                }
                waits_for != file
            });
            for process in ready {
                self.commit(now, process);
            }
        }
        self.write_back(now, guest);
    }

    pub(super) fn journal_completed(&mut self, now: Timestamp, guest: u16) {
        let running = &mut self.guests[usize::from(guest)];
        let journal = running.journal.as_mut().expect("only a guest with a journal writes to it");
        let next = journal.completed(now, &running.files, &mut self.woken);
        if next.is_some() {
            self.emit_journal(guest, next);
        } else {
            self.begin_commit(now, guest);
        }
    }
}
