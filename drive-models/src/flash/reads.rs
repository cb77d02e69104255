//! Which pages a read needs, and which units a discard frees.

use traces::{Request, RequestId, Timestamp};

use crate::flash::Flash;
use crate::flash::ftl::UnitLocation;
use crate::flash::medium::DieWork;

impl Flash {
    pub(super) fn read(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let unit_sectors = self.geometry.unit_sectors;
        let (mut buffered, mut pages) = (0, 0);
        let mut wanted: Option<(u32, u32, u32)> = None;
        for unit in self.units(request) {
            let start = request.lba.sector().max(unit * unit_sectors);
            let sectors = request.end().sector().min((unit + 1) * unit_sectors) - start;
            let UnitLocation::Cells(place) = self.ftl.find((unit % self.geometry.units) as u32) else {
                buffered += sectors;
                continue;
            };
            match &mut wanted {
                Some((page, units, together)) if *page == place / self.geometry.page_units => {
                    *units += 1;
                    *together += sectors as u32;
                }
                _ => {
                    pages += u32::from(wanted.is_some());
                    self.read_page(now, id, wanted);
                    wanted = Some((place / self.geometry.page_units, 1, sectors as u32));
                }
            }
        }
        pages += u32::from(wanted.is_some());
        self.read_page(now, id, wanted);
        let over = if buffered > 0 { self.link(now, buffered, false) } else { now };
        let command = self.commands.get(id);
        (command.pages, command.hit, command.transferred) = (pages, pages == 0, over);
        if pages == 0 {
            self.done(over, id);
        }
    }

    fn read_page(&mut self, now: Timestamp, id: RequestId, wanted: Option<(u32, u32, u32)>) {
        let Some((page, units, sectors)) = wanted else { return };
        let die = self.ftl.die(page * self.geometry.page_units);
        self.medium.submit(now, die, DieWork::HostRead { id, sectors }, units, &mut self.agenda);
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
