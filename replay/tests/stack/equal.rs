//! A stack of one layer gives exactly the events of a stage over a drive. Layers that pass every request on change
//! nothing.

use iocast_replay::stack::LayerConfig;
use proptest::prelude::*;
use traces::spec::Spec;

use crate::loads::{arriving, limits};
use crate::requests::request;
use crate::support::{alone, drives, layer, pass_through, run_stack, schedulers};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stack_of_one_layer_equals_a_stage(load in prop::collection::vec(request(), 1..50), limits in limits()) {
        let load = arriving(&load);
        for spec in schedulers() {
            for drive in drives() {
                let expected = alone(&spec, drive, limits, &load);
                let layers = vec![layer(&spec, LayerConfig { limits, ..LayerConfig::default() })];
                let stack = run_stack(layers, drive, &load);
                prop_assert_eq!(&stack.events, &expected.events, "{} on {}", spec, drive);
                prop_assert_eq!(&stack.served, &expected.served, "{} on {}", spec, drive);
            }
        }
    }

    /// The same with pass-through layers above the stage: they add no time. There are no flushes in the comparison,
    /// since the first layer makes the flush sequences.
    #[test]
    fn pass_through_layers_change_no_completion(
        load in prop::collection::vec(request(), 1..50), limits in limits(), layers_above in 1usize..3,
    ) {
        let load = arriving(&load);
        for spec in schedulers() {
            for drive in ["cheetah-15k4", "fixed", "linear:a=0,b=0,hit=0,capacity=2m"] {
                let expected = alone(&spec, drive, limits, &load);
                let fifo: Spec = "fifo".parse().unwrap();
                let pass = || layer(&fifo, pass_through());
                let inner = || layer(&spec, LayerConfig { limits, ..LayerConfig::default() });
                let above = (0..layers_above).map(|_| pass()).chain([inner()]).collect();
                let stack = run_stack(above, drive, &load);
                prop_assert_eq!(&stack.completed, &expected.completed, "{} on {}", spec, drive);
            }
        }
    }
}
