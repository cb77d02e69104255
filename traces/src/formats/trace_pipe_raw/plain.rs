//! Events whose fields have the sizes that every kernel with 64 bits gives them, on a little-endian machine: decoded by
//! plain loads, in half the time that fields of any size take.

use super::layout::{Field, Holds, Layout};
use crate::formats::capture::tracepoint::{self, EventFields};

/// Stands for the offset of a field that is not there. No event reaches so far, so that it reads as zero.
const ABSENT: usize = usize::MAX / 2;

/// The offsets of an event's fields; all but the last two are integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    /// Where the last of the fields ends.
    end: usize,
    pid: usize,
    device: usize,
    sector: usize,
    sectors: usize,
    bytes: usize,
    second: usize,
    error: usize,
    priority: usize,
    rwbs: usize,
    rwbs_end: usize,
    command: usize,
}

impl Plain {
    /// The fields of a layout, if all have these sizes.
    pub(super) fn of(layout: &Layout) -> Option<Plain> {
        let mut end = 0;
        let mut offset = |field: Option<Field>, size: usize, is_signed: Option<bool>| {
            let Some(field) = field else { return Some(ABSENT) };
            let fits = match field.holds {
                Holds::Integer { signed } => is_signed.is_none_or(|expected| expected == signed),
                Holds::At => true,
                Holds::Bytes | Holds::AtFromHere => false,
            };
            end = end.max(field.offset + field.size);
            (fits && field.size == size).then_some(field.offset)
        };
        let mut plain = Plain {
            end: 0,
            pid: offset(Some(layout.pid), 4, None)?,
            device: offset(layout.device, 4, Some(false))?,
            sector: offset(layout.sector, 8, Some(false))?,
            sectors: offset(layout.sectors, 4, Some(false))?,
            bytes: offset(layout.bytes, 4, Some(false))?,
            second: offset(layout.second, 8, Some(false))?,
            error: offset(layout.error, 4, Some(true))?,
            priority: offset(layout.priority, 2, Some(false))?,
            command: offset(layout.command.filter(|field| field.holds == Holds::At), 4, None)?,
            rwbs: 0,
            rwbs_end: 0,
        };
        if layout.command.is_some_and(|field| field.holds != Holds::At) {
            return None;
        }
        if let Some(rwbs) = layout.rwbs {
            (plain.rwbs, plain.rwbs_end) = (rwbs.offset, rwbs.offset + rwbs.size);
            end = end.max(plain.rwbs_end);
            if rwbs.holds != Holds::Bytes {
                return None;
            }
        }
        plain.end = end;
        Some(plain)
    }

    /// The process and the fields of an event; `None` if it is shorter than its format says.
    #[inline]
    pub(super) fn fields(self, data: &[u8]) -> Option<(u32, EventFields<'_>)> {
        if data.len() < self.end {
            return None;
        }
        let rwbs = data.get(self.rwbs..self.rwbs_end)?;
        let rwbs = &rwbs[..rwbs.iter().position(|byte| *byte == 0).unwrap_or(rwbs.len())];
        // Length in the upper half, offset in the lower one.
        let command = load32(data, self.command);
        let (start, length) = ((command & 0xffff) as usize, (command >> 16) as usize);
        let command = data.get(start..start + length)?;
        let priority = u64::from(load16(data, self.priority));
        let fields = EventFields {
            device: load32(data, self.device),
            rwbs,
            sector: load64(data, self.sector),
            sectors: u64::from(load32(data, self.sectors)),
            bytes: u64::from(load32(data, self.bytes)),
            has_command: command.first().is_some_and(|byte| *byte != 0),
            second: load64(data, self.second),
            error: i64::from(load32(data, self.error).cast_signed()),
            priority: tracepoint::priority(priority >> 13 & 7, priority & 7),
        };
        Some((load32(data, self.pid), fields))
    }
}

#[inline(always)]
fn load16(data: &[u8], at: usize) -> u16 {
    data.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

#[inline(always)]
fn load32(data: &[u8], at: usize) -> u32 {
    data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[inline(always)]
fn load64(data: &[u8], at: usize) -> u64 {
    data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::event;
    use super::super::page::of_any_size;
    use super::*;
    use crate::formats::blktrace::ByteOrder;

    /// `block_rq_complete` of Linux 6.18, with one field in another form.
    fn layout(from: &str, to: &str) -> Layout {
        let text = "name: block_rq_complete\nID: 7\nformat:\n\
            field:unsigned short common_type;offset:0;size:2;signed:0;\n\
            field:int common_pid;offset:4;size:4;signed:1;\n\
            field:dev_t dev;offset:8;size:4;signed:0;\n\
            field:sector_t sector;offset:16;size:8;signed:0;\n\
            field:unsigned int nr_sector;offset:24;size:4;signed:0;\n\
            field:int error;offset:28;size:4;signed:1;\n\
            field:unsigned short ioprio;offset:32;size:2;signed:0;\n\
            field:char rwbs[10];offset:34;size:10;signed:0;\n\
            field:__data_loc char[] cmd;offset:44;size:4;signed:0;\n";
        assert!(text.contains(from));
        event(&text.replace(from, to)).unwrap().2.unwrap()
    }

    #[test]
    fn layouts_with_other_sizes_are_left_to_the_other_way() {
        assert!(layout("", "").plain.is_some());
        for (from, to) in [
            ("sector;offset:16;size:8", "sector;offset:16;size:4"),
            ("error;offset:28;size:4;signed:1", "error;offset:28;size:4;signed:0"),
            ("__data_loc", "__rel_loc"),
            ("char rwbs[10];offset:34;size:10", "__data_loc char[] rwbs;offset:34;size:4"),
        ] {
            assert!(layout(from, to).plain.is_none(), "{from}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_decode_alike(
            bytes in proptest::collection::vec(any::<u8>(), 40..60),
            location in prop_oneof![Just(0u32), any::<u32>(), (0u32..64, 0u32..64).prop_map(|(at, of)| of << 16 | at)],
            letters in "[RWDFS]{0,10}",
        ) {
            let layout = layout("", "");
            let mut bytes = bytes;
            let (from, to) = (34.min(bytes.len()), (34 + letters.len()).min(bytes.len()));
            bytes[from..to].copy_from_slice(&letters.as_bytes()[..to - from]);
            if let Some(at) = bytes.get_mut(44..48) {
                at.copy_from_slice(&location.to_le_bytes());
            }
            let slow = of_any_size(&layout, &bytes, ByteOrder::Little);
            let fast = layout.plain.unwrap().fields(&bytes);
            prop_assert_eq!(format!("{:?}", fast), format!("{:?}", slow.ok()));
        }
    }
}
