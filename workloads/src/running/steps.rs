//! Executes the steps of a process: sleeps, accesses, syncs and events.

use traces::{Flags, Nanos, Operation, Request, Sectors, Timestamp, VmId};

use super::due::Wake;
use super::process::{Process, Waits};
use super::running_guest::pages_of;
use super::{Group, Guests, NO_PROCESS, Occurrences, Purpose};
use crate::guest::page_cache::PageFlags;
use crate::guest::transfer::{Progress, Transfer};
use crate::guest::{Access, FileId, Step};

impl Guests {
    /// Begins a step. Returns whether it is already complete.
    pub(super) fn begin(&mut self, now: Timestamp, index: u32, step: Step) -> bool {
        let process = &mut self.processes[index as usize];
        let running = &mut self.guests[usize::from(process.guest)];
        match step {
            Step::Sleep(span) => {
                self.due.add(now.saturating_add(span), Wake::Process(index));
                false
            }
            Step::Compute(span) => {
                let ends = running.processor_free.max(now).saturating_add(span);
                running.processor_free = ends;
                self.due.add(ends, Wake::Process(index));
                false
            }
            Step::Access(access) | Step::Start(access) if running.memory.is_some() && is_cached(&access) => {
                let transfer = Transfer::new(access, &running.files);
                self.transfer(now, index, transfer)
            }
            Step::Access(access) => !self.access(now, index, access, true),
            Step::Start(access) => {
                self.access(now, index, access, false);
                true
            }
            Step::AwaitAtMost(most) if process.started <= most => true,
            Step::AwaitAtMost(most) => {
                process.waits = Waits::Started(most);
                false
            }
            Step::Sync(file) => {
                self.sync(now, index, file);
                false
            }
            Step::Post(event) => {
                let event = event.0 as usize;
                if event >= running.events.len() {
                    running.events.resize(event + 1, None);
                }
                let occurrences = running.events[event].get_or_insert(Occurrences { count: 0, first: now, last: now });
                occurrences.count += 1;
                occurrences.last = now;
                let count = occurrences.count;
                let runnable = &mut self.runnable;
                running.waiting_for_events.retain(|&(process, awaited, least)| {
                    let waits = awaited as usize != event || count < least;
                    if !waits {
                        runnable.push_back(process);
                    }
                    waits
                });
                true
            }
            Step::Await(event, least) => {
                let occurrences = running.events.get(event.0 as usize).copied().flatten();
                let has_occurred = occurrences.is_some_and(|occurrences| occurrences.count >= least);
                if !has_occurred {
                    running.waiting_for_events.push((index, event.0, least));
                }
                has_occurred
            }
            Step::Exit => {
                self.running -= 1;
                running.running -= 1;
                if running.running == 0 {
                    self.ended.push_back(VmId(process.guest));
                }
                false
            }
        }
    }

    /// Emits the requests of a direct access, one for each extent of the file. Returns whether there are any.
    pub(super) fn access(&mut self, now: Timestamp, index: u32, access: Access, is_awaited: bool) -> bool {
        let group = self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(Group { process: 0, parts: 0, is_awaited: false });
            self.groups.len() as u32 - 1
        });
        let Process { guest, stream, .. } = self.processes[index as usize];
        let running = &self.guests[usize::from(guest)];
        let end = access.offset.count().saturating_add(access.sectors.count());
        let mut offset = access.offset;
        let mut parts = 0;
        while offset.count() < end
            && let Some(extent) = running.files.extent_at(access.file, offset)
        {
            let sectors = extent.sectors.min(Sectors::new(end - offset.count())).min(Request::SECTORS_MAX);
            let mut request = Request::new(now, access.operation, running.place_of(extent.lba), sectors);
            request.flags = access.flags | Flags::SYNC;
            (request.vm, request.stream) = (VmId(guest), stream);
            self.emitted.push_back((request, Purpose::Access(group)));
            parts += 1;
            offset += sectors;
        }
        if parts == 0 {
            self.free_groups.push(group);
            return false;
        }
        self.groups[group as usize] = Group { process: index, parts, is_awaited };
        self.processes[index as usize].started += u32::from(!is_awaited);
        true
    }

    /// Continues an access through the page cache. Returns whether the process can take its next step.
    pub(super) fn transfer(&mut self, now: Timestamp, index: u32, mut transfer: Transfer) -> bool {
        let process = &mut self.processes[index as usize];
        let running = &mut self.guests[usize::from(process.guest)];
        let memory = running.memory.as_mut().expect("only guests with memory have transfers");
        let ahead = process.read_ahead_of(transfer.file());
        let progress = transfer.proceed(now, memory, &running.files, ahead, &mut self.reads);
        match progress {
            Progress::Done(pages) => {
                let copied = Nanos::from_ns(memory.settings().page_copy.as_ns() * pages);
                self.emit_reads(now, index);
                if copied > Nanos::ZERO {
                    self.due.add_soon(now.saturating_add(copied), Wake::Process(index));
                    return false;
                }
                return true;
            }
            Progress::AwaitsPage(slot) => {
                let slot = slot.index();
                if slot >= running.page_waiters.len() {
                    running.page_waiters.resize(slot + 1, NO_PROCESS);
                }
                process.next_waiter = std::mem::replace(&mut running.page_waiters[slot], index);
            }
            Progress::AwaitsMemory | Progress::AwaitsWriting => running.starved.push(index),
        }
        process.waits = Waits::Transfer(transfer);
        let guest = process.guest;
        self.emit_reads(now, index);
        self.write_back(now, guest);
        false
    }

    pub(super) fn emit_reads(&mut self, now: Timestamp, index: u32) {
        if self.reads.is_empty() {
            return;
        }
        let Process { guest, stream, .. } = self.processes[index as usize];
        for run in self.reads.drain(..) {
            let request = self.guests[usize::from(guest)].request(now, Operation::Read, run, (VmId(guest), stream));
            self.emitted.push_back((request, Purpose::Load));
        }
    }

    pub(super) fn loaded(&mut self, request: &Request) {
        let running = &mut self.guests[usize::from(request.vm.0)];
        let memory = running.memory.as_mut().expect("only guests with memory load pages");
        let run = pages_of(running.place, request, FileId(0));
        for number in run.start..run.start + run.pages {
            let Some(slot) = memory.cache.find(number) else { continue };
            memory.cache.set(slot, PageFlags::LOADING, false);
            if let Some(waiter) = running.page_waiters.get_mut(slot.index()) {
                let mut next = std::mem::replace(waiter, NO_PROCESS);
                // The process that began to wait last comes first in the list.
                let first = self.woken.len();
                while next != NO_PROCESS {
                    self.woken.push(next);
                    next = std::mem::replace(&mut self.processes[next as usize].next_waiter, NO_PROCESS);
                }
                self.woken[first..].reverse();
            }
        }
        self.woken.append(&mut running.starved);
    }

    pub(super) fn access_completed(&mut self, group: u32) {
        let Group { process, parts, is_awaited } = &mut self.groups[group as usize];
        *parts -= 1;
        if *parts > 0 {
            return;
        }
        let (index, is_awaited) = (*process, *is_awaited);
        self.free_groups.push(group);
        if is_awaited {
            self.woken.push(index);
            return;
        }
        let process = &mut self.processes[index as usize];
        process.started -= 1;
        if let Waits::Started(most) = process.waits
            && process.started <= most
        {
            process.waits = Waits::Nothing;
            self.woken.push(index);
        }
    }
}

fn is_cached(access: &Access) -> bool {
    !access.direct && access.operation.moves_data()
}
