//! Incomplete captures: losses are counted, and no command is invented.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{ConversationPlan, analysed, file, generate, plain};

fn plan(seed: u64, connections: usize, digests: [bool; 2], segment_max: usize) -> ConversationPlan {
    let [header_digest, data_digest] = digests;
    ConversationPlan {
        seed,
        connections,
        commands: 300,
        header_digest,
        data_digest,
        login: true,
        segment_max,
        batch: 6,
        fault: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn cut_capture_counts_its_losses_and_invents_no_command(
        seed in any::<u64>(), connections in 1usize..3, digests in any::<[bool; 2]>(),
        snaplen in prop_oneof![Just(128usize), Just(160), Just(256), Just(1514)],
    ) {
        // Segments of a real network's length, which several PDUs share.
        let conversation = generate(&plan(seed, connections, digests, 1448));
        let truth = conversation.plain();
        let (records, figures) = analysed(file(&conversation.packets, snaplen));
        for record in plain(&records) {
            let same = truth.iter().any(|one| (one.0, one.1, one.2, one.3) == (record.0, record.1, record.2, record.3)
                && (record.4.is_none() || record.4 == one.4));
            prop_assert!(same, "invented: {:?}", record);
        }
        let commands = &figures.commands;
        prop_assert_eq!(commands.commands + commands.lost, 300, "{:?}", figures);
        if snaplen == 1514 {
            prop_assert_eq!(commands.paired, 300);
        }
    }

    #[test]
    fn missing_packets_lose_few_commands_and_invent_none(seed in any::<u64>(), share in 0.001f64..0.05) {
        let mut conversation = generate(&plan(seed, 2, [false, false], 1448));
        let truth = conversation.plain();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let first = conversation.packets[0].clone();
        let before = conversation.packets.len();
        conversation.packets.retain(|packet| packet.bytes == first.bytes || !random.random_bool(share));
        let (records, figures) = analysed(file(&conversation.packets, usize::MAX));
        for record in plain(&records) {
            let same = truth.iter().any(|one| (one.0, one.1, one.2) == (record.0, record.1, record.2));
            prop_assert!(same, "invented: {:?}", record);
        }
        let missing = before - conversation.packets.len();
        // A missing packet also loses the few PDUs up to the next packet that begins with one.
        let found = records.len();
        prop_assert!(found + missing * 40 >= 300, "{} records, {missing} packets missing, {:?}", found, figures);
    }
}
