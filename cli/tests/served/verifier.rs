//! A client that knows what it wrote: it checks what it reads, and which writes and requests a dead server must have
//! kept.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use traces::{Operation, Record};

use super::client::{Client, FUA, READ, Random, WRITE};

pub const BLOCK_BYTES: usize = 4096;
const BLOCK_SECTORS: u64 = BLOCK_BYTES as u64 / 512;

/// What a block holds after the write with this number; zeros before the first.
fn contents(block: u64, number: u64) -> Vec<u8> {
    let word = |at: u64| if number == 0 { 0 } else { number << 32 ^ block << 12 ^ at };
    (0..BLOCK_BYTES as u64 / 8).flat_map(|at| word(at).to_le_bytes()).collect()
}

/// A request without a reply so far.
#[derive(Clone, Copy)]
struct Outstanding {
    operation: Operation,
    block: u64,
    /// Of a write.
    number: u64,
}

/// A client of an export of its own, which lies at the beginning of the image.
pub struct Verifier {
    client: Client,
    random: Random,
    /// The last write of each block that was acknowledged.
    acknowledged: Vec<u64>,
    outstanding: BTreeMap<u64, Outstanding>,
    /// Requests that got a reply without an error, by operation and block.
    completed: BTreeMap<(Operation, u64), u64>,
    writes: u64,
    /// Replies with an error.
    pub refused: u64,
}

impl Verifier {
    pub fn new(client: Client, seed: u64) -> Verifier {
        let blocks = client.size as usize / BLOCK_BYTES;
        Verifier {
            client,
            random: Random(seed),
            acknowledged: vec![0; blocks],
            outstanding: BTreeMap::new(),
            completed: BTreeMap::new(),
            writes: 0,
            refused: 0,
        }
    }

    /// Requests that got a reply without an error.
    pub fn served(&self) -> u64 {
        self.completed.values().sum()
    }

    /// Writes and reads random blocks with so many requests at once, until the server ends or `count` have a reply.
    /// Returns whether the server is still there.
    pub fn run(&mut self, depth: usize, count: u64) -> bool {
        let mut replies = 0;
        while replies < count || !self.outstanding.is_empty() {
            let may_send = replies + (self.outstanding.len() as u64) < count && self.outstanding.len() < depth;
            if !(if may_send { self.send() } else { self.receive() }) {
                return false;
            }
            replies += u64::from(!may_send);
        }
        true
    }

    /// Sends a request for a block that no outstanding request has.
    fn send(&mut self) -> bool {
        let block = self.random.next() % self.acknowledged.len() as u64;
        if self.outstanding.values().any(|other| other.block == block) {
            return true;
        }
        let is_read = self.random.next().is_multiple_of(3);
        let (operation, command) = if is_read { (Operation::Read, READ) } else { (Operation::Write, WRITE) };
        let flags = if !is_read && self.random.next().is_multiple_of(4) { FUA } else { 0 };
        self.writes += u64::from(!is_read);
        let number = self.writes;
        let data = if is_read { Vec::new() } else { contents(block, number) };
        let offset = block * BLOCK_BYTES as u64;
        let Ok(cookie) = self.client.try_send(command, flags, offset, BLOCK_BYTES as u32, &data) else {
            // The server may have received it before it ended.
            self.outstanding.insert(u64::MAX, Outstanding { operation, block, number });
            return false;
        };
        self.outstanding.insert(cookie, Outstanding { operation, block, number });
        true
    }

    /// Takes the next reply, and checks the data of a read.
    fn receive(&mut self) -> bool {
        let Ok((cookie, error, data)) = self.client.try_receive() else { return false };
        let Outstanding { operation, block, number } = self.outstanding.remove(&cookie).unwrap();
        if error != 0 {
            self.refused += 1;
            // A write that failed may have changed a part of the block. The next one settles what it holds.
            return true;
        }
        *self.completed.entry((operation, block)).or_default() += 1;
        if operation == Operation::Write {
            self.acknowledged[block as usize] = number;
        } else {
            let written = self.acknowledged[block as usize];
            assert!(data == contents(block, written), "block {block} does not read as write {written} left it");
        }
        true
    }

    /// A block of the image that does not hold the write that was acknowledged last, or a later one.
    pub fn lost_in_image(&self, image: &Path) -> Option<String> {
        let file = std::fs::File::open(image).unwrap();
        let mut found = vec![0; BLOCK_BYTES];
        for (block, &acknowledged) in (0..).zip(&self.acknowledged) {
            file.read_exact_at(&mut found, block * BLOCK_BYTES as u64).unwrap();
            let followed = self.outstanding.values().filter(|other| other.block == block && other.number > 0);
            let mut may_hold = followed.map(|write| write.number).chain([acknowledged]);
            if !may_hold.any(|number| found == contents(block, number)) {
                return Some(format!("block {block} of the image lost write {acknowledged}"));
            }
        }
        None
    }

    /// A request that was completed and is not in the log, or one that is there and was not sent.
    pub fn wrong_in_log<'a>(&self, records: impl Iterator<Item = &'a Record>) -> Option<String> {
        let mut logged: BTreeMap<(Operation, u64), u64> = BTreeMap::new();
        for record in records.filter(|record| record.observed.error == 0) {
            assert_eq!(record.request.sectors().count(), BLOCK_SECTORS);
            *logged.entry((record.request.operation, record.request.lba.sector() / BLOCK_SECTORS)).or_default() += 1;
        }
        for key in self.completed.keys().chain(logged.keys()) {
            let of = |counts: &BTreeMap<(Operation, u64), u64>| counts.get(key).copied().unwrap_or(0);
            let (completed, found) = (of(&self.completed), of(&logged));
            let is_its = |other: &&Outstanding| (other.operation, other.block) == *key;
            let sent = completed + self.outstanding.values().filter(is_its).count() as u64;
            if !(completed..=sent).contains(&found) {
                let (operation, block) = key;
                return Some(format!(
                    "{operation:?} of block {block}: {completed} of {sent} got a reply, {found} logged"
                ));
            }
        }
        None
    }
}
