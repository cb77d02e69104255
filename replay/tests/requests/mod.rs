//! Random requests that come in bursts, for property tests.

use proptest::prelude::*;
use traces::{Flags, Lba, Operation, Priority, Request, Sectors, StreamId, Timestamp, VmId};

/// A request and the time since the one before, mostly zero, so that requests come in bursts. Addresses are few, so
/// that adjacent requests meet and merge.
pub fn request() -> impl Strategy<Value = (u64, Request)> {
    let operation = prop_oneof![
        6 => Just(Operation::Read), 6 => Just(Operation::Write),
        1 => Just(Operation::Flush), 1 => Just(Operation::Discard)
    ];
    let place = prop_oneof![0u64..40, 0u64..4000];
    (operation, place, 1u64..40, 0u64..6_000_000, 0u8..32, 0u16..3, 0u32..4, 0u8..2).prop_map(
        |(operation, place, eights, gap, flags, vm, stream, level)| {
            let sectors = if operation == Operation::Flush { 0 } else { eights * 8 };
            let lba = Lba::new(if operation == Operation::Flush { 0 } else { place * 8 });
            let mut request = Request::new(Timestamp::ZERO, operation, lba, Sectors::new(sectors));
            request.flags = Flags::from_bits_truncate(flags);
            request.vm = VmId(vm);
            request.stream = StreamId(stream);
            request.priority = Priority::new(2, level).unwrap();
            (if gap > 3_000_000 { gap } else { 0 }, request)
        },
    )
}
