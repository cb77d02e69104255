use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use traces::spec::{Settings, Spec};

use super::*;
use crate::flash::MODEL;

#[test]
fn kinds_are_listed_by_their_numbers() {
    assert!(EventKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
}

proptest! {
    /// As from a heap, also when events are added out of order, and at the last of all times.
    #[test]
    fn events_come_in_the_order_of_a_heap(
        steps in prop::collection::vec((0..EventKind::COUNT, prop_oneof![0u64..12, Just(u64::MAX)], 0u64..4), 1..300),
    ) {
        let spec: Spec = "flash".parse().unwrap();
        let timing = Timing::new(&Settings::resolve(&spec, MODEL.tunables).unwrap());
        let mut agenda = Agenda::new(&timing, 0);
        let (mut heap, mut now) = (BinaryHeap::new(), 0);
        for (nth, (kind, ahead, forward)) in (0..).zip(steps) {
            let time = ahead.saturating_add(now);
            let sequence = agenda.at(Timestamp::from_ns(time), EventKind::ALL[kind], nth);
            prop_assert_eq!(sequence, u64::from(nth));
            heap.push(Reverse((time, nth, kind)));
            now += forward;
            while let Some(&Reverse((time, nth, kind))) = heap.peek().filter(|Reverse((time, ..))| *time <= now) {
                heap.pop();
                let (time, kind) = (Timestamp::from_ns(time), EventKind::ALL[kind]);
                let expected = FlashEvent { time, kind, subject: nth, sequence: nth.into() };
                prop_assert_eq!(agenda.take(Timestamp::from_ns(now)), Some(expected));
            }
            prop_assert_eq!(agenda.take(Timestamp::from_ns(now)), None);
            prop_assert_eq!(agenda.next_completion().is_some(), !heap.is_empty());
        }
        while let Some(Reverse((_, nth, _))) = heap.pop() {
            prop_assert_eq!(agenda.take(Timestamp::MAX).map(|event| event.subject), Some(nth));
        }
        prop_assert_eq!(agenda.take(Timestamp::MAX), None);
    }
}
