//! Complete captures: every command is recorded exactly, however TCP carried it.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::conversation::{Conversation, ConversationPlan, RawPacket, analysed, file, generate, plain};

fn plans() -> impl Strategy<Value = ConversationPlan> {
    (any::<u64>(), 1usize..4, any::<[bool; 2]>(), prop_oneof![20usize..200, 200usize..3000, Just(1448usize)], 1usize..8)
        .prop_map(|(seed, connections, [header_digest, data_digest], segment_max, batch)| ConversationPlan {
            seed,
            connections,
            commands: 120,
            header_digest,
            data_digest,
            login: true,
            segment_max,
            batch,
            fault: None,
        })
}

/// The packets in order, one in ten of them twice.
fn with_repetitions(conversation: &Conversation, seed: u64) -> Vec<RawPacket> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut packets = Vec::new();
    for packet in &conversation.packets {
        packets.push(packet.clone());
        if random.random_bool(0.1) {
            packets.push(packet.clone());
        }
    }
    packets
}

fn sorted(mut plain: Vec<crate::conversation::Plain>) -> Vec<crate::conversation::Plain> {
    plain.sort_unstable_by_key(|one| (one.3, one.0, one.1, one.2 as u8, one.4));
    plain
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn complete_capture_records_every_command_exactly(plan in plans()) {
        let conversation = generate(&plan);
        let (records, figures) = analysed(file(&conversation.packets, usize::MAX));
        prop_assert_eq!(sorted(plain(&records)), sorted(conversation.plain()));
        prop_assert_eq!(figures.commands.paired, 120);
        let commands = &figures.commands;
        prop_assert_eq!((commands.lost, commands.orphan_responses, commands.unanswered), (0, 0, 0));
        prop_assert_eq!((figures.pdus.lost_by_content, figures.pdus.wrong_digests), (0, 0));
        // Arrivals never decrease.
        prop_assert!(records.windows(2).all(|two| two[0].request.arrival <= two[1].request.arrival));
        // The login gave the initiator's name.
        prop_assert_eq!(&figures.units[0].initiator, "iqn.2026-11.example:vm");
    }

    #[test]
    fn repeated_segments_change_no_record(plan in plans(), seed in any::<u64>()) {
        let conversation = generate(&plan);
        let (records, figures) = analysed(file(&with_repetitions(&conversation, seed), usize::MAX));
        let (expected, _) = analysed(file(&conversation.packets, usize::MAX));
        prop_assert_eq!(plain(&records), plain(&expected));
        prop_assert!(figures.tcp.repeated > 0 || conversation.packets.len() < 50);
    }

    #[test]
    fn segments_out_of_order_lose_no_command(plan in plans(), seed in any::<u64>()) {
        let mut conversation = generate(&plan);
        let (expected, _) = analysed(file(&conversation.packets, usize::MAX));
        // Payloads change places while times stay, so that arrivals move by a few packets at most.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let packets = &mut conversation.packets;
        for at in 2 * plan.connections + 1..packets.len() {
            if random.random_bool(0.2) && at + 3 < packets.len() {
                let other = at + random.random_range(1..3usize);
                let (one, two) = (packets[at].bytes.clone(), packets[other].bytes.clone());
                // Pairing depends on the order between the directions, so only segments of one direction change places.
                let same = one[26..38] == two[26..38]
                    && packets[at..other].iter().all(|packet| packet.bytes[26..38] == one[26..38]);
                if same {
                    (packets[at].bytes, packets[other].bytes) = (two, one);
                }
            }
        }
        let (records, figures) = analysed(file(packets, usize::MAX));
        prop_assert_eq!(figures.commands.paired, 120);
        let what = |records: &[traces::Record]| {
            let mut all: Vec<_> = plain(records).into_iter().map(|one| (one.0, one.1, one.2 as u8)).collect();
            all.sort_unstable();
            all
        };
        prop_assert_eq!(what(&records), what(&expected));
    }

    #[test]
    fn digests_are_inferred_without_the_login(plan in plans()) {
        let plan = ConversationPlan { login: false, segment_max: 1448, ..plan };
        let conversation = generate(&plan);
        let (records, figures) = analysed(file(&conversation.packets, usize::MAX));
        let truth = conversation.plain();
        let zero_based = plain(&records);
        for one in &zero_based {
            let same = truth.iter().any(|real| (real.0, real.1, real.2, real.3) == (one.0, one.1, one.2, one.3)
                && (one.4.is_none() || one.4 == real.4));
            prop_assert!(same, "invented: {:?}, {:?}", one, figures.pdus);
        }
        prop_assert_eq!(figures.pdus.wrong_digests, 0);
        prop_assert!(records.len() >= 60, "{} of 120, {:?}", records.len(), figures.pdus);
    }
}
