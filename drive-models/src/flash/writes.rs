//! The path of written data: into the buffer, into rows and into the cells, with garbage collection in between.

use traces::{Flags, RequestId, Timestamp};

use crate::flash::buffer::NONE;
use crate::flash::commands::FlashCommand;
use crate::flash::ftl::{PageRead, UnitLocation};
use crate::flash::medium::{DieWork, PagePart};
use crate::flash::{Flash, ROWS_PER_DIE, RowProgram};

impl Flash {
    /// Completes `id` when everything written so far is durable.
    pub(super) fn make_durable(&mut self, now: Timestamp, id: RequestId) {
        let epoch = if self.protected { None } else { self.buffer.end_epoch() };
        match epoch {
            Some(epoch) => {
                self.flushes.push_back((id, epoch));
                self.write_rows(now);
            }
            None => self.done(now, id),
        }
    }

    /// Takes writes into the buffer while it has capacity, and sends rows to dies that accept them.
    pub(super) fn write_back(&mut self, now: Timestamp) {
        while let Some(&id) = self.admission.front() {
            if !self.admit(id) {
                break;
            }
            self.admission.pop_front();
            let fua = self.commands.get(id).request.flags.contains(Flags::FUA);
            if fua { self.make_durable(now, id) } else { self.done(now, id) }
        }
        self.write_rows(now);
    }

    /// Whether all of a write is in the buffer.
    fn admit(&mut self, id: RequestId) -> bool {
        let FlashCommand { request, mut taken, .. } = *self.commands.get(id);
        let units = self.units(&request);
        for unit in units.start + taken..units.end {
            let simulated = (unit % self.geometry.units) as u32;
            let before = match self.ftl.find(simulated) {
                UnitLocation::Buffer(slot) => Some(slot),
                UnitLocation::Nowhere | UnitLocation::Cells(_) => None,
            };
            if before.is_none_or(|slot| !self.buffer.is_waiting(slot)) {
                let Some(slot) = self.buffer.put(simulated) else {
                    self.commands.get(id).taken = taken;
                    return false;
                };
                if let Some(place) = before.and_then(|before| self.buffer.drop_unit(before)) {
                    self.ftl.invalidate(place);
                }
                self.ftl.buffer(simulated, slot);
            }
            taken += 1;
        }
        true
    }

    fn write_rows(&mut self, now: Timestamp) {
        while self.buffer.waiting() >= self.geometry.row_units || self.buffer.urgent() {
            let die = self.ftl.next_die();
            if self.die_rows[die as usize] == ROWS_PER_DIE {
                break;
            }
            self.die_rows[die as usize] += 1;
            if self.ftl.must_collect() {
                self.collect(now, die);
            } else {
                let chain = self.ftl.write_row(&mut self.buffer);
                let row = self.new_row(RowProgram { die, chain, reads: 0 });
                self.medium.submit(now, die, DieWork::Program { row }, PagePart::default(), &mut self.agenda);
            }
            self.erase(now);
        }
    }

    fn collect(&mut self, now: Timestamp, die: u32) {
        self.reads.clear();
        self.ftl.collect(&mut self.buffer, &mut self.reads);
        let row = self.new_row(RowProgram { die, chain: NONE, reads: self.reads.len() as u32 });
        for &PageRead { die, units } in &self.reads {
            let wanted = PagePart { units, sectors: 0 };
            self.medium.submit(now, die, DieWork::GarbageRead { row }, wanted, &mut self.agenda);
        }
    }

    fn erase(&mut self, now: Timestamp) {
        let pages = self.ftl.take_erased() * self.geometry.die_rows;
        if pages == 0 {
            return;
        }
        for die in 0..self.geometry.dies {
            let unerased = &mut self.unerased[die as usize];
            *unerased += pages;
            while *unerased >= self.geometry.block_pages {
                *unerased -= self.geometry.block_pages;
                self.medium.submit(now, die, DieWork::Erase, PagePart::default(), &mut self.agenda);
            }
        }
    }

    fn new_row(&mut self, row: RowProgram) -> u32 {
        if let Some(index) = self.spare_rows.pop() {
            self.rows[index as usize] = row;
            return index;
        }
        self.rows.push(row);
        self.rows.len() as u32 - 1
    }

    pub(super) fn finished(&mut self, now: Timestamp, work: DieWork, wanted: PagePart) {
        match work {
            DieWork::HostRead { id } => {
                let over = self.link(now, u64::from(wanted.sectors), false);
                let command = self.commands.get(id);
                command.transferred = command.transferred.max(over);
                command.pages -= 1;
                if command.pages == 0 {
                    let transferred = command.transferred;
                    self.read_done(transferred, id);
                }
            }
            DieWork::GarbageRead { row } => {
                let RowProgram { die, reads, .. } = &mut self.rows[row as usize];
                *reads -= 1;
                if *reads == 0 {
                    self.medium.submit(now, *die, DieWork::Program { row }, PagePart::default(), &mut self.agenda);
                }
            }
            DieWork::Program { row } => self.programmed(now, row),
            DieWork::Erase => {}
        }
    }

    pub(super) fn programmed(&mut self, now: Timestamp, row: u32) {
        let RowProgram { die, mut chain, .. } = self.rows[row as usize];
        while chain != NONE {
            let (unit, place, next) = self.buffer.programmed(chain);
            if let Some(unit) = unit {
                self.ftl.settle(unit, place);
            }
            chain = next;
        }
        self.die_rows[die as usize] -= 1;
        self.spare_rows.push(row);
        while let Some(&(id, epoch)) = self.flushes.front()
            && self.buffer.is_clean(epoch)
        {
            self.flushes.pop_front();
            self.done(now, id);
        }
        self.write_back(now);
    }
}
