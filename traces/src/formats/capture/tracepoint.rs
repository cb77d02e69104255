//! The block layer's tracepoints, as text or as fields, and the events they stand for. Source:
//! `include/trace/events/block.h` of Linux 3.4 to 6.18; blktrace hangs on the same tracepoints and
//! makes the same events of them (`kernel/trace/blktrace.c`, `blk_register_tracepoints`).
//!
//! *Letters.* An operation without a letter of its own prints `N`: commands that are passed through,
//! and, in kernels that do not print `WZ`, zeroing, which blktrace calls a write. Their length distinguishes them.
//!
//! *Left out.* `block_rq_error` repeats a completion, `block_io_start` and `block_io_done` an issue
//! and a completion; the buffer cache's are not about requests.

use super::devices::NO_DEVICE;
use super::rwbs::{self, Kind};
use super::{category_of, first_part_bytes};
use crate::events::{Category, Event, action};
use crate::request::Priority;

/// The kind of event that a tracepoint stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) enum Shape {
    /// Of a bio: device, `rwbs`, sector, sectors, process.
    Bio,
    /// Of a request: the same, and bytes, command and, in newer kernels (6.11), priority.
    Request,
    /// The same without bytes, and an error instead of the process.
    Completion,
    /// Of a bio: an error instead of the process.
    BioCompletion,
    /// The sectors of both parts instead of a length.
    Split,
    /// Device and sector that it came from.
    Remap,
    /// The process only.
    Plug,
    /// The process and a number of requests.
    Unplug,
}

/// A tracepoint whose events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) struct Tracepoint {
    /// The action, as blktrace numbers it.
    pub(in crate::formats) code: u8,
    pub(in crate::formats) shape: Shape,
}

/// The tracepoint of that name, `None` if its events are not read.
#[inline]
pub(in crate::formats) fn named(name: &[u8]) -> Option<Tracepoint> {
    let (code, shape) = match name {
        b"block_bio_queue" => (action::QUEUE, Shape::Bio),
        b"block_getrq" => (action::GET_REQUEST, Shape::Bio),
        b"block_rq_insert" => (action::INSERT, Shape::Request),
        b"block_rq_issue" => (action::ISSUE, Shape::Request),
        b"block_rq_complete" => (action::COMPLETE, Shape::Completion),
        b"block_plug" => (action::PLUG, Shape::Plug),
        b"block_unplug" | b"block_unplug_io" => (action::UNPLUG, Shape::Unplug),
        b"block_unplug_timer" => (action::UNPLUG_TIMER, Shape::Unplug),
        b"block_bio_backmerge" => (action::BACK_MERGE, Shape::Bio),
        b"block_bio_frontmerge" => (action::FRONT_MERGE, Shape::Bio),
        b"block_rq_merge" => (action::BACK_MERGE, Shape::Request),
        b"block_split" => (action::SPLIT, Shape::Split),
        b"block_bio_complete" => (action::COMPLETE, Shape::BioCompletion),
        b"block_rq_requeue" => (action::REQUEUE, Shape::Completion),
        b"block_bio_remap" | b"block_rq_remap" => (action::REMAP, Shape::Remap),
        b"block_bio_bounce" => (action::BOUNCE, Shape::Bio),
        b"block_sleeprq" => (action::SLEEP, Shape::Bio),
        b"block_rq_abort" => (action::ABORT, Shape::Completion),
        _ => return None,
    };
    Some(Tracepoint { code, shape })
}

/// The fields of a tracepoint's event beside time, CPU and process.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::formats) struct EventFields<'a> {
    /// As the kernel numbers it; 0 for a request of no disk.
    pub(in crate::formats) device: u32,
    pub(in crate::formats) rwbs: &'a [u8],
    pub(in crate::formats) sector: u64,
    pub(in crate::formats) sectors: u64,
    /// Of a request; 0 in old kernels unless it is passed through.
    pub(in crate::formats) bytes: u64,
    /// A passed-through command was printed; in old kernels only.
    pub(in crate::formats) has_command: bool,
    /// The first sector of the second part of a split.
    pub(in crate::formats) second: u64,
    /// The negative error number of a completion.
    pub(in crate::formats) error: i64,
    pub(in crate::formats) priority: Priority,
}

impl Tracepoint {
    /// The event, without time, CPU and process; `None` for a command to a zone, which is none of
    /// the requests that a trace holds.
    ///
    /// # Errors
    /// The expected text in place of the given one.
    #[inline]
    pub(in crate::formats) fn event(self, fields: &EventFields) -> Result<Option<Event>, &'static str> {
        let Tracepoint { code, shape } = self;
        if matches!(shape, Shape::Plug | Shape::Unplug) {
            let action = u32::from(code) | (category_of(code) | Category::FS | Category::READ).in_action();
            return Ok(Some(Event { action, device: NO_DEVICE, ..Event::default() }));
        }
        let (kind, mut category) = rwbs::parse(fields.rwbs).ok_or("letters of an operation")?;
        if kind == Kind::Zone {
            return Ok(None);
        }
        let is_passthrough =
            matches!(shape, Shape::Request | Shape::Completion) && passed_through(fields, kind, category);
        if kind == Kind::Other && fields.sectors > 0 && !is_passthrough {
            // Zeroing.
            category = (category - Category::READ) | Category::WRITE;
        }
        let bytes = match shape {
            Shape::Split => first_part_bytes(fields.sector, fields.second),
            _ if is_passthrough => u32::try_from(fields.bytes).unwrap_or(u32::MAX),
            _ => {
                let sectors = u32::try_from(fields.sectors).ok();
                sectors.and_then(|sectors| sectors.checked_mul(512)).ok_or("a length below 2^23 sectors")?
            }
        };
        let side = if is_passthrough { Category::PASSTHROUGH } else { Category::FS };
        Ok(Some(Event {
            sector: fields.sector,
            bytes,
            action: u32::from(code) | category.union(category_of(code)).union(side).in_action(),
            // A remap may name a partition or the device below it.
            device: if fields.device == 0 || code == action::REMAP { NO_DEVICE } else { fields.device },
            error: fields.error.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as u16,
            priority: fields.priority,
            ..Event::default()
        }))
    }
}

/// Whether a request is a command that was passed through. Its sector is missing, or all ones.
#[inline]
fn passed_through(fields: &EventFields, kind: Kind, category: Category) -> bool {
    let has_no_letter = kind == Kind::Other && !category.contains(Category::FLUSH);
    fields.has_command
        || (fields.bytes > 0 && fields.sectors == 0)
        || (has_no_letter && (fields.sectors == 0 || fields.sector == u64::MAX))
}

/// The priority of these numbers of class and level; none if there is no such class, or class 0.
#[inline]
pub(in crate::formats) fn priority(class: u64, level: u64) -> Priority {
    match (u8::try_from(class), u8::try_from(level)) {
        (Ok(class @ 1..), Ok(level)) => Priority::new(class, level).unwrap_or(Priority::NONE),
        _ => Priority::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &[u8] = b"block_rq_issue";

    fn event(name: &[u8], fields: EventFields) -> Event {
        named(name).unwrap().event(&fields).unwrap().unwrap()
    }

    #[test]
    fn what_has_no_letter_is_zeroing_or_passed_through() {
        let of = |sector, sectors, bytes| {
            let fields = EventFields { device: 1, rwbs: b"N", sector, sectors, bytes, ..EventFields::default() };
            let issued = event(ISSUE, fields).category();
            let completed = event(b"block_rq_complete", EventFields { bytes: 0, ..fields }).category();
            (issued & (Category::WRITE | Category::PASSTHROUGH), completed & (Category::WRITE | Category::PASSTHROUGH))
        };
        assert_eq!(of(8, 16, 8_192), (Category::WRITE, Category::WRITE));
        assert_eq!(of(0, 0, 36), (Category::PASSTHROUGH, Category::PASSTHROUGH));
        assert_eq!(of(u64::MAX, 8, 4_096), (Category::PASSTHROUGH, Category::PASSTHROUGH));
        // Old kernels print a letter, and the command.
        let old = EventFields { device: 1, rwbs: b"R", bytes: 36, has_command: true, ..EventFields::default() };
        assert!(event(ISSUE, old).is(Category::PASSTHROUGH));
        assert_eq!(event(ISSUE, old).bytes, 36);
        // Not all print the command.
        assert!(event(ISSUE, EventFields { has_command: false, ..old }).is(Category::PASSTHROUGH));
        // A flush without a letter of its own, of kernels before 4.8.
        let flush = event(ISSUE, EventFields { device: 1, rwbs: b"FN", ..EventFields::default() });
        assert_eq!(flush.category(), Category::FLUSH | Category::READ | Category::FS | Category::ISSUE);
    }

    #[test]
    fn plugging_remaps_and_requests_of_no_disk_do_not_tell_their_device() {
        let fields = EventFields { device: 7 << 20, rwbs: b"W", sectors: 8, ..EventFields::default() };
        assert_eq!(event(ISSUE, fields).device, 7 << 20);
        assert_eq!(event(ISSUE, EventFields { device: 0, ..fields }).device, NO_DEVICE);
        assert_eq!(event(b"block_bio_remap", fields).device, NO_DEVICE);
        assert_eq!(event(b"block_plug", fields).device, NO_DEVICE);
    }

    #[test]
    fn absurd_values_are_refused_or_bounded() {
        let point = named(ISSUE).unwrap();
        let fields = EventFields { device: 1, rwbs: b"W", sectors: 1 << 23, ..EventFields::default() };
        assert!(point.event(&fields).is_err());
        assert!(point.event(&EventFields { rwbs: b"?", ..fields }).is_err());
        assert_eq!(point.event(&EventFields { rwbs: b"ZRA", ..fields }), Ok(None));
        let failed = |error| event(b"block_rq_complete", EventFields { sectors: 8, error, ..fields }).errno();
        assert_eq!([failed(0), failed(-5), failed(i64::MIN), failed(i64::MAX)], [0, 5, 32_768, 32_767]);
        assert_eq!(priority(2, 4), Priority::new(2, 4).unwrap());
        assert_eq!([priority(0, 4), priority(7, 0), priority(1, 9), priority(u64::MAX, 0)], [Priority::NONE; 4]);
        assert_eq!(named(b"block_rq_error"), None);
    }
}
