//! Scrubbed captures: the same commands, and no user data.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use iocast_capture::iscsi::{Analysis, AnalysisOptions, PacketReader, PacketWriter, Renamer, ScrubOptions, Scrubber};

use crate::conversation::{ConversationPlan, analysed, file, generate, plain};

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn scrubbed(capture: Vec<u8>, options: ScrubOptions) -> Vec<u8> {
    let mut reader = PacketReader::from_reader(Path::new("x"), Box::new(Cursor::new(capture)), false).unwrap();
    let out = SharedBuffer::default();
    let mut scrubber = Scrubber::new(PacketWriter::new("x.pcap", Box::new(out.clone())).unwrap(), options);
    let mut analysis = Analysis::new(AnalysisOptions::default());
    while let Some(packet) = reader.packet().unwrap() {
        scrubber.packet(&packet, &mut analysis).unwrap();
        while analysis.record().is_some() {}
    }
    analysis.finish(&mut scrubber);
    scrubber.finish().unwrap();
    out.0.lock().unwrap().clone()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn scrubbed_capture_keeps_commands_and_loses_data_and_secrets() {
    for (seed, digests) in [(1, [false, false]), (2, [true, true]), (3, [true, false])] {
        let [header_digest, data_digest] = digests;
        let plan = ConversationPlan {
            seed,
            connections: 2,
            commands: 200,
            header_digest,
            data_digest,
            login: true,
            segment_max: 1448,
            batch: 4,
            fault: None,
        };
        let conversation = generate(&plan);
        let whole = file(&conversation.packets, usize::MAX);
        let (before, _) = analysed(whole.clone());
        let clean = scrubbed(whole.clone(), ScrubOptions::default());
        assert_eq!(clean.len(), whole.len());
        assert!(holds(&whole, "CHAP_R") && !holds(&clean, "CHAP_R") && !holds(&clean, "iqn."));
        let (after, figures) = analysed(clean.clone());
        assert_eq!(plain(&after), plain(&before), "seed {seed}: {figures:?}");
        // Only headers are left, so fewer than half as many bytes are nonzero.
        let full = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte != 0).count();
        assert!(full(&clean) * 2 < full(&whole), "{} of {}", full(&clean), full(&whole));
    }
}

#[test]
fn kept_logins_lose_their_authentication_and_names_are_replaced() {
    let plan = ConversationPlan {
        seed: 5,
        connections: 1,
        commands: 40,
        header_digest: false,
        data_digest: false,
        login: true,
        segment_max: 1448,
        batch: 2,
        fault: None,
    };
    let whole = file(&generate(&plan).packets, usize::MAX);
    let kept = scrubbed(whole.clone(), ScrubOptions { keep_login: true, rename: None });
    assert!(holds(&kept, "InitiatorName=iqn.2026-11.example:vm"));
    assert!(holds(&kept, "CHAP_R=xxxx") && !holds(&kept, "secret"));
    let rename = Some(Renamer::new(b"sixteen bytes ok").unwrap());
    let renamed = scrubbed(whole.clone(), ScrubOptions { keep_login: true, rename });
    assert!(holds(&renamed, "InitiatorName=iqn.") && !holds(&renamed, "example"));
    let requests = |file: Vec<u8>| plain(&analysed(file).0);
    assert_eq!(requests(renamed), requests(whole));
}
