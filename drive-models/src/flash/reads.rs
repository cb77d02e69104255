//! Which pages a read needs, and which units a discard frees.

use traces::{Request, RequestId, Timestamp};

use crate::flash::Flash;
use crate::flash::ftl::UnitLocation;
use crate::flash::medium::{DieWork, PagePart};

impl Flash {
    pub(super) fn read(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let (unit_sectors, page_units) = (self.geometry.unit_sectors, self.geometry.page_units);
        let (first, end) = (request.lba.sector(), request.end().sector());
        let (mut buffered, mut pages) = (0, 0);
        let (mut page, mut wanted) = (0, PagePart::default());
        for unit in self.units(request) {
            let start = unit * unit_sectors;
            let sectors = end.min(start + unit_sectors) - first.max(start);
            let UnitLocation::Cells(place) = self.ftl.find((unit % self.geometry.units) as u32) else {
                buffered += sectors;
                continue;
            };
            if wanted.units == 0 || place.wrapping_sub(page) >= page_units {
                pages += self.read_page(now, id, page, wanted);
                (page, wanted) = (place - place % page_units, PagePart::default());
            }
            wanted.units += 1;
            wanted.sectors += sectors as u32;
        }
        pages += self.read_page(now, id, page, wanted);
        let over = if buffered > 0 { self.link(now, buffered, false) } else { now };
        let command = self.commands.get(id);
        (command.pages, command.hit, command.transferred) = (pages, pages == 0, over);
        if pages == 0 {
            self.read_done(over, id);
        }
    }

    /// Reads what is wanted of the page that begins at `place`. Returns how many pages that are.
    fn read_page(&mut self, now: Timestamp, id: RequestId, place: u32, wanted: PagePart) -> u32 {
        if wanted.units == 0 {
            return 0;
        }
        self.medium.submit(now, self.ftl.die(place), DieWork::HostRead { id }, wanted, &mut self.agenda);
        1
    }

    /// Frees the whole units of a discard, of those that share a simulated one the one whose turn it is.
    pub(super) fn trim(&mut self, request: &Request) {
        let (unit, units, scale) = (self.geometry.unit_sectors, self.geometry.units, self.geometry.scale());
        let range = request.lba.sector().div_ceil(unit)..request.end().sector() / unit;
        let represents = |simulated: u64| simulated % scale * units + simulated;
        let mut free = |simulated: u64| {
            if let UnitLocation::Buffer(slot) = self.ftl.find(simulated as u32)
                && let Some(place) = self.buffer.drop_unit(slot)
            {
                self.ftl.invalidate(place);
            }
            self.ftl.trim(simulated as u32);
        };
        if range.end.saturating_sub(range.start) < units {
            range.filter(|unit| represents(unit % units) == *unit).for_each(|unit| free(unit % units));
        } else {
            (0..units).filter(|simulated| range.contains(&represents(*simulated))).for_each(free);
        }
    }
}
