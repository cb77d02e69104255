//! The access times that a choice among waiting commands rests on, on shipped drives with and without a buffer, against
//! the steps of an access one by one, from the layout and with nothing remembered.

use proptest::prelude::*;

use super::super::arm::Overheads;
use super::super::layout::SectorPosition;
use super::*;
use crate::mechanical;

/// Zones, bands, slips and spares; buffers that write back, that read ahead and that do both.
const DRIVES: &[&str] = &[
    "atlas-10k",
    "atlas-iii",
    "barracuda",
    "cheetah-15k4-mechanical",
    "cheetah-15k5",
    "cheetah-9lp",
    "dec-rz26",
    "hp-c2490a",
    "ibm-18es",
    "sata-7200",
];

/// When a command completes that goes to the medium at `now`.
fn slow(drive: &Mechanical, now: Timestamp, command: &Request) -> Timestamp {
    let arm = &drive.arm;
    let (lbn, sectors) = (command.lba.sector(), command.sectors().count());
    let extent = arm.mechanics.layout.extent(lbn, sectors);
    let heads = drive.read_cache.as_ref().and_then(|cache| cache.heads(arm, now));
    let (from, released) = heads.unwrap_or((drive.standing.heads, now));
    let free = if released > now { drive.standing.free.max(released) } else { drive.standing.free };
    let reads = command.operation == Operation::Read;
    let overheads = if reads { arm.read } else { arm.write };
    let understood =
        now + overheads.before + if drive.standing.after_read { overheads.after_read } else { Nanos::ZERO };
    let settled = understood.max(free) + moved(arm, from, extent.first, &overheads);
    if reads {
        let wait = arm.rotation.phase(settled).until(extent.first.angle);
        let passed = settled + arm.rotation.time(wait + extent.turned);
        return passed + arm.bus_behind(extent.turned, sectors) + overheads.after;
    }
    let come = understood + Nanos::from_ns(arm.bus(sectors).as_ns() / 1000 * arm.write_watermark).max(arm.bus(1));
    let ready = settled.max(come);
    let wait = arm.rotation.phase(ready).until(extent.first.angle);
    let passed = ready + arm.rotation.time(wait + extent.turned);
    passed.max(understood + arm.bus(sectors)) + overheads.after
}

/// How long the heads take between two places.
fn moved(arm: &Arm, from: SectorPosition, to: SectorPosition, overheads: &Overheads) -> Nanos {
    let cylinders = from.cylinder.abs_diff(to.cylinder);
    if cylinders == 0 && from.head == to.head {
        return Nanos::ZERO;
    }
    let switch = if from.head == to.head { Nanos::ZERO } else { arm.head_switch };
    arm.mechanics.seek.time(cylinders).max(switch) + overheads.settle
}

/// Whether the buffer serves it, so that its time does not depend on the medium.
fn is_buffered(drive: &Mechanical, now: Timestamp, command: &Request) -> bool {
    let (start, end) = (command.lba.sector(), command.end().sector());
    match command.operation {
        Operation::Read => matches!(drive.find(now, start, end), Buffered::Segment(..) | Buffered::Written),
        _ => {
            let holds = drive.write_cache.as_ref().is_some_and(|cache| cache.has_capacity(start, end));
            holds && !command.flags.contains(Flags::FUA)
        }
    }
}

/// How far apart addresses lie, the address, sectors, and which kind of command.
type Asked = (u64, u64, u64, u8);

fn command(capacity: u64, (nearness, address, sectors, kind): Asked) -> Request {
    // All over the drive, within a few cylinders, or within a track and its neighbours.
    let within = [capacity, 40_000, 1000][nearness as usize].min(capacity);
    let lba = (address % within).min(capacity - sectors);
    let mut request = if kind < 4 { read(lba, sectors) } else { write(lba, sectors) };
    if kind == 7 {
        request.flags |= Flags::FUA;
    }
    request
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn access_times_of_waiting_commands_are_those_of_their_steps(
        name in prop::sample::select(DRIVES.to_vec()),
        settle in prop::sample::select(vec!["0ms", "300us"]),
        delay in prop::sample::select(vec!["0ms", "1000s"]),
        watermark in prop::sample::select(vec!["0", "0.4"]),
        asked in prop::collection::vec((0u64..3, any::<u64>(), 1u64..200, 0u8..8), 40..120),
        depth in 1usize..40,
        pause_us in prop::sample::select(vec![0u64, 700, 30_000]),
    ) {
        let profile = Profile::shipped_among(&[mechanical::MODEL], name);
        let more = [("write_settle", settle), ("destage_delay", delay), ("write_watermark", watermark)];
        let mut drive = drive_of(&profile, &more);
        let capacity = drive.capacity().count();
        let mut coming = asked.into_iter().map(|asked| command(capacity, asked));
        let mut waiting: Vec<Request> = coming.by_ref().take(depth).collect();
        let (mut now, mut times) = (Timestamp::ZERO, Vec::new());
        while !waiting.is_empty() {
            times.clear();
            drive.access_all(now, &waiting, &mut times);
            prop_assert_eq!(times.len(), waiting.len());
            for (command, &time) in waiting.iter().zip(&times) {
                prop_assert_eq!(drive.access(now, command), time);
                if !is_buffered(&drive, now, command) {
                    prop_assert_eq!(now + time, slow(&drive, now, command), "{:?}", command);
                }
            }
            let soonest = (0..times.len()).min_by_key(|&index| times[index]).unwrap();
            let command = waiting.remove(soonest);
            now += drive.serve(now, &command).time + Nanos::from_us(pause_us);
            waiting.extend(coming.next());
        }
    }
}

#[test]
fn what_is_remembered_of_a_command_is_forgotten_with_the_spindle() {
    let mut drive = small_with(&[("read_watermark", "0"), ("bus_byte_ps", "1000000")]);
    let long = read(0, 40);
    let asked = drive.access(Timestamp::ZERO, &long);
    drive.turn_at(drive.rotation_of(1_000_000_000, Angle(0)));
    assert_ne!(drive.access(Timestamp::ZERO, &long), asked);
    assert_eq!(Timestamp::ZERO + drive.access(Timestamp::ZERO, &long), slow(&drive, Timestamp::ZERO, &long));
}
