//! User data that imitate headers, where PDU boundaries are lost: none of them becomes a command, and none completes
//! one.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::wire::{PduFigures, WireCapture};

use crate::conversation::{Conversation, ConversationPlan, RawPacket, analysed, file, generate, plain};
use crate::decoys::{DECOY_FAULTS, DecoyFault};

const SEEDS: u64 = 6;
const COMMANDS: usize = 160;

fn conversation(seed: u64, fault: DecoyFault) -> Conversation {
    generate(&ConversationPlan {
        seed,
        connections: 1 + (seed % 2) as usize,
        commands: COMMANDS,
        header_digest: fault == DecoyFault::Digest || seed.is_multiple_of(3),
        data_digest: seed % 3 == 1,
        login: true,
        segment_max: 1448,
        batch: 6,
        fault: Some(fault),
    })
}

/// All packets but a random `share`; the logins stay.
fn thinned(packets: &[RawPacket], seed: u64, share: f64) -> Vec<RawPacket> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    packets
        .iter()
        .enumerate()
        .filter(|(at, _)| *at < 8 || !random.random_bool(share))
        .map(|(_, one)| one.clone())
        .collect()
}

/// Analyses an incomplete capture. Every record must belong to a command that was sent.
fn check(conversation: &Conversation, capture: Vec<u8>, whole: bool, case: &str) -> WireCapture {
    let truth = conversation.plain();
    let (records, figures) = analysed(capture);
    for record in plain(&records) {
        let same = truth.iter().any(|one| {
            (one.0, one.1, one.2) == (record.0, record.1, record.2)
                && (!whole || one.3 == record.3 && (record.4.is_none() || record.4 == one.4))
        });
        assert!(same, "{case}: invented {record:?}, {figures:?}");
    }
    let commands = &figures.commands;
    assert_eq!(commands.commands, records.len() as u64, "{case}: {figures:?}");
    assert!(commands.commands + commands.lost <= COMMANDS as u64, "{case}: {figures:?}");
    assert!(!whole || commands.commands + commands.lost == COMMANDS as u64, "{case}: {figures:?}");
    figures
}

/// Lost and found PDU boundaries over all seeds, and the number of commands found.
fn over_seeds(fault: DecoyFault, snaplen: usize, share: f64) -> (PduFigures, u64) {
    let (mut pdus, mut found) = (PduFigures::default(), 0);
    for seed in 0..SEEDS {
        let conversation = conversation(seed, fault);
        let packets = thinned(&conversation.packets, seed, share);
        let case = format!("{fault:?}, seed {seed}, cut to {snaplen}, {share} missing");
        let figures = check(&conversation, file(&packets, snaplen), share == 0.0, &case);
        pdus.add(&figures.pdus);
        found += figures.commands.commands;
    }
    (pdus, found)
}

#[test]
fn decoys_in_cut_packets_become_no_command() {
    for fault in DECOY_FAULTS {
        for snaplen in [128, 160, 256, 400] {
            let (pdus, found) = over_seeds(fault, snaplen, 0.0);
            assert!(pdus.lost_by_cut > 100 && pdus.skipped_packets > 1000, "{fault:?}, {snaplen}: {pdus:?}");
            assert!(found > SEEDS * COMMANDS as u64 / 3, "{fault:?}, {snaplen}: {found} found, {pdus:?}");
        }
    }
}

#[test]
fn decoys_after_missing_packets_become_no_command() {
    for fault in DECOY_FAULTS {
        for (snaplen, share) in [(usize::MAX, 0.02), (usize::MAX, 0.1), (256, 0.05)] {
            let (pdus, found) = over_seeds(fault, snaplen, share);
            assert!(pdus.lost_by_gap > 20 && pdus.skipped_packets > 100, "{fault:?}, {snaplen}, {share}: {pdus:?}");
            assert!(found > SEEDS * COMMANDS as u64 / 4, "{fault:?}, {snaplen}, {share}: {found} found, {pdus:?}");
        }
    }
}

#[test]
fn headers_must_agree_while_no_sequence_number_is_known() {
    // Consecutive headers with consistently wrong numbers cannot be distinguished from PDUs there, nor can wrong
    // digests.
    for fault in DECOY_FAULTS.into_iter().filter(|fault| !fault.needs_numbers()).chain([DecoyFault::Unrelated]) {
        let mut found = 0;
        for seed in 0..SEEDS {
            let conversation = conversation(seed, fault);
            let all = conversation.packets.len() as u64;
            for from in [all / 4 + seed, all / 3 + seed, all / 2 + seed] {
                let case = format!("{fault:?}, seed {seed}, from packet {from}");
                let late = &conversation.packets[from as usize..];
                found += check(&conversation, file(late, usize::MAX), false, &case).commands.commands;
            }
        }
        assert!(found > SEEDS * COMMANDS as u64, "{fault:?}: {found} found");
    }
}
