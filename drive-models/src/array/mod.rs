//! Arrays: a drive made of drives. Each member has its own queue and scheduler, and a controller before them may cache.
//! RAID levels are those of Patterson, Gibson and Katz 1988 ("A case for redundant arrays of inexpensive disks") and
//! Chen et al. 1994 ("RAID: high-performance, reliable secondary storage").
//!
//! - `settings` and `description`: the tunables of an array, and the section of a profile with its members and
//!   scheduler.
//! - [`geometry`]: the place of each sector on the members.
//! - `controller`: takes requests, asks the caches (`read_cache`, `write_cache`) and begins array operations.
//! - [`plan`]: the accesses to members that an operation takes, such as the reads before a RAID-5 write.
//! - `raid`: the times of these accesses. In a RAID-5 write the accesses that write wait for those that read.
//! - `member`: the queue and the drive in which an access waits and is served.
//! - `tracks` and `contents`: the directory that both caches use, and a read cache that is followed without simulating
//!   times.
//!
//! A read that the cache holds, or a write that it can take, completes after the controller's overhead. Dirty data of
//! the write cache goes to the members later. Every other request completes one overhead after the last operation that
//! it waits for.
//!
//! Left out are row locks, merging in members' queues, rebuilding onto a spare, more than one failed member, the
//! controller's bandwidth, and the time to compute parity.

mod contents;
mod controller;
mod description;
pub mod geometry;
mod member;
pub mod plan;
mod raid;
mod read_cache;
mod settings;
pub(crate) mod tracks;
mod write_cache;

use schedulers::Scheduler;
use traces::spec::Settings;
use traces::{Nanos, Sectors};

pub use contents::{Contents, Passed};
pub use controller::Array;
pub use description::ArrayParts;
pub use geometry::{Geometry, Level};
pub use settings::ArraySettings;

use crate::description::Contradiction;
use crate::drive::DriveModel;
use crate::model_row::ModelRow;
use member::ArrayMember;
use raid::Raid;

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "raid",
    summary: "RAID-0, 1, 5, 6 or 10 over drives with queues of their own (with caches in front); member=DRIVE and \
              scheduler=NAME name the parts, member.X=V and scheduler.X=V their tunables",
    tunables: settings::TUNABLES,
    one_at_a_time: false,
    queue_depth: |_| LUN_QUEUE_DEPTH,
    is_rotational: true,
    check: |settings| ArraySettings::new(settings).map(|_| ()),
    memory: settings::memory,
    sections: description::SECTIONS,
    describe: description::describe,
};

/// Requests that a host keeps at an array, whose controller accepts any number: open-iscsi's default per LUN
/// (`node.session.queue_depth`) and that of VMware's adapters.
const LUN_QUEUE_DEPTH: u32 = 32;

/// Most sectors of all members together: 4 EiB.
const CAPACITY_MAX: u64 = 1 << 53;

/// A member's drive and the scheduler of its queue.
pub type MemberParts = (Box<dyn DriveModel>, Box<dyn Scheduler>);

/// An array whose members serve one access at a time. Its controller takes `overhead` for every request, and has a read
/// cache with these `contents` if they are given.
pub fn with_contents(
    geometry: Geometry,
    overhead: Nanos,
    contents: Option<Contents>,
    parts: Vec<MemberParts>,
) -> Array {
    let members = parts.into_iter().map(|parts| ArrayMember::new(parts, 1)).collect();
    let settings = ArraySettings::plain(&geometry, overhead);
    Array::with_contents(&settings, Raid::new(geometry, None, members), contents)
}

/// An array with the settings of [`MODEL`] over as many members as they say.
///
/// # Errors
/// Settings that contradict each other; a stripe unit that is larger than a member; too large members.
fn build(settings: &Settings, parts: Vec<MemberParts>) -> Result<Box<dyn DriveModel>, Contradiction> {
    let settings = ArraySettings::new(settings)?;
    let smallest = parts.iter().map(|(drive, _)| drive.capacity()).min().unwrap_or(Sectors::ZERO);
    if smallest < settings.stripe_unit {
        let expected = format!("at most {}, the size of a member", smallest.bytes());
        return Err(Contradiction { tunable: "stripe_unit", expected });
    }
    if smallest.count().saturating_mul(settings.members) > CAPACITY_MAX {
        let expected = format!("so few that members of {} bytes are 4 EiB together", smallest.bytes());
        return Err(Contradiction { tunable: "members", expected });
    }
    let geometry = Geometry::new(settings.level, settings.members, settings.stripe_unit, smallest);
    let members = parts.into_iter().map(|parts| ArrayMember::new(parts, settings.depth)).collect();
    Ok(Box::new(Array::new(&settings, Raid::new(geometry, settings.failed, members))))
}
