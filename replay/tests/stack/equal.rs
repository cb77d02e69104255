//! A room of one layer is a stage over a drive, to the byte; layers that pass everything on change
//! nothing.

use proptest::prelude::*;
use replay::stack::LayerConfig;
use traces::spec::Spec;

use crate::support::{alone, drives, in_room, layer, limits, open_door, request, requests, schedulers};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_layer_is_a_stage_to_the_byte(load in prop::collection::vec(request(), 1..50), limits in limits()) {
        let load = requests(&load);
        for spec in schedulers() {
            for drive in drives() {
                let expected = alone(&spec, drive, limits, &load);
                let stack = in_room(vec![layer(&spec, LayerConfig { limits, ..LayerConfig::default() })], drive, &load);
                prop_assert_eq!(&stack.events, &expected.events, "{} on {}", spec, drive);
                prop_assert_eq!(&stack.served, &expected.served, "{} on {}", spec, drive);
            }
        }
    }

    /// The same below open doors, and above them: they add nothing and take no time. Flushes are the first
    /// layer's business, so there are none.
    #[test]
    fn open_doors_change_no_completion(load in prop::collection::vec(request(), 1..50), limits in limits(), doors in 1usize..3) {
        let load = requests(&load);
        for spec in schedulers() {
            for drive in ["cheetah-15k4", "fixed", "linear:a=0,b=0,hit=0,capacity=2m"] {
                let expected = alone(&spec, drive, limits, &load);
                let fifo: Spec = "fifo".parse().unwrap();
                let door = || layer(&fifo, open_door());
                let inner = || layer(&spec, LayerConfig { limits, ..LayerConfig::default() });
                let above = (0..doors).map(|_| door()).chain([inner()]).collect();
                prop_assert_eq!(&in_room(above, drive, &load).completed, &expected.completed, "{} on {}", spec, drive);
            }
        }
    }
}
