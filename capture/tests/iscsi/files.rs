//! Files of packets: every supported form, and the messages for the others.

use std::io::Cursor;
use std::path::Path;

use iocast_capture::iscsi::PacketReader;

use crate::conversation::{ConversationPlan, analysed, file, generate, pcapng, plain};

fn conversation() -> crate::conversation::Conversation {
    let (header_digest, data_digest, login) = (false, false, true);
    generate(&ConversationPlan {
        seed: 7,
        connections: 1,
        commands: 50,
        header_digest,
        data_digest,
        login,
        segment_max: 1448,
        batch: 3,
        fault: None,
    })
}

fn message(bytes: Vec<u8>, lenient: bool) -> Result<u64, String> {
    let reader = PacketReader::from_reader(Path::new("odd.pcap"), Box::new(Cursor::new(bytes)), lenient);
    let mut reader = reader.map_err(|error| error.to_string())?;
    let mut packets = 0;
    while reader.packet().map_err(|error| error.to_string())?.is_some() {
        packets += 1;
    }
    Ok(packets)
}

#[test]
fn file_that_is_no_capture_is_refused_with_name_place_and_remedy() {
    let good = file(&conversation().packets, usize::MAX);
    let said = |bytes: &[u8]| message(bytes.to_vec(), false).unwrap_err();
    assert!(said(b"").contains("odd.pcap: the input is empty"), "{}", said(b""));
    let text = said(b"start ; sector\n");
    assert!(text.contains("odd.pcap at byte 0: this is no file of packets") && text.contains("pcapng"), "{text}");
    assert!(said(&good[..10]).contains("the file's header"));

    let mut link = good.clone();
    link[20] = 127;
    let text = said(&link);
    assert!(text.contains("link type 127") && text.contains("Ethernet (1)"), "{text}");

    let cut = &good[..good.len() - 5];
    let packets = message(good.clone(), false).unwrap();
    let text = said(cut);
    assert!(text.contains(&format!("packet {packets}")) && text.contains("--lenient"), "{text}");
    assert_eq!(message(cut.to_vec(), true), Ok(packets - 1));

    let mut long = good;
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = said(&long);
    assert!(text.contains("at byte 24: packet 1 would be 4294967295 bytes long"), "{text}");
}

#[test]
fn pcapng_of_either_byte_order_and_clock_gives_the_same_records() {
    let conversation = conversation();
    let (expected, _) = analysed(file(&conversation.packets, usize::MAX));
    for big in [false, true] {
        let (records, figures) = analysed(pcapng(&conversation.packets, big));
        assert_eq!(figures.packets.dropped, 3);
        assert_eq!(figures.packets.other_blocks, 1);
        assert_eq!(records.len(), expected.len());
        for (found, one) in plain(&records).iter().zip(plain(&expected)) {
            assert_eq!((found.0, found.1, found.2), (one.0, one.1, one.2));
            // 2⁻²⁰ s is just under a microsecond.
            assert!(found.3.abs_diff(one.3) <= 2_000, "{found:?} {one:?}");
        }
    }
}

#[test]
fn damaged_pcapng_error_names_the_block() {
    let good = pcapng(&conversation().packets, false);
    let said = |bytes: Vec<u8>| message(bytes, false).unwrap_err();
    let text = said(good[..good.len() - 3].to_vec());
    assert!(text.contains("the input ends in the middle of"), "{text}");
    let mut length = good.clone();
    length[4] = 29;
    assert!(said(length).contains("has the length 29"));
    let mut magic = good.clone();
    magic[8] = 0;
    assert!(said(magic).contains("byte-order magic"));
    // A packet of an interface that no block describes.
    let place = good.windows(4).position(|four| four == 6u32.to_le_bytes()).unwrap();
    let mut interface = good;
    interface[place + 8] = 9;
    let text = said(interface);
    assert!(text.contains("packet 1 is of interface 9"), "{text}");
}

#[test]
fn backward_clock_step_is_counted_and_arrivals_never_decrease() {
    let mut conversation = conversation();
    let middle = conversation.packets.len() / 2;
    for packet in &mut conversation.packets[middle..] {
        packet.time_ns -= 5_000_000_000;
    }
    let (records, figures) = analysed(file(&conversation.packets, usize::MAX));
    assert_eq!(records.len(), 50);
    assert!(figures.packets.backwards > 0);
    assert!(figures.packets.backwards_max_ns > 4_000_000_000);
    assert!(records.windows(2).all(|two| two[0].request.arrival <= two[1].request.arrival));
}
