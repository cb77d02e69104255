//! Reads a program's output as it arrives and keeps it in memory until it is consumed. Packets that still wait in a
//! capturing program's buffer are lost when the program ends, and it does not count them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The most bytes that are kept. Beyond them the program waits; it then drops and counts the packets that its own
/// buffer cannot hold.
const BACKLOG_BYTES_MAX: usize = 1 << 30;
/// The interval at which the reading thread checks whether the backlog is below its limit.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes per read: the capacity of a pipe.
const CHUNK_BYTES: usize = 1 << 16;

/// A reader whose thread reads ahead of its consumer.
pub struct Backlog {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
    kept_bytes: Arc<AtomicUsize>,
}

impl Backlog {
    /// Starts reading `input`.
    pub fn new(mut input: impl Read + Send + 'static) -> Backlog {
        let (sender, chunks) = channel();
        let kept_bytes = Arc::new(AtomicUsize::new(0));
        let kept = Arc::clone(&kept_bytes);
        std::thread::spawn(move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                let read = input.read(&mut buffer).map(|bytes| buffer[..bytes].to_vec());
                let is_last = match &read {
                    Ok(chunk) => chunk.is_empty(),
                    Err(error) => error.kind() != io::ErrorKind::Interrupted,
                };
                kept.fetch_add(read.as_ref().map_or(0, Vec::len), Ordering::Relaxed);
                // The consumer is gone; closing the pipe ends the program.
                if sender.send(read).is_err() || is_last {
                    return;
                }
                while kept.load(Ordering::Relaxed) > BACKLOG_BYTES_MAX && Arc::strong_count(&kept) > 1 {
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        });
        Backlog { chunks, chunk: io::Cursor::default(), kept_bytes }
    }
}

impl Read for Backlog {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.position() == self.chunk.get_ref().len() as u64 {
            // A closed channel is the end of input.
            let chunk = self.chunks.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.kept_bytes.fetch_sub(chunk.len(), Ordering::Relaxed);
            self.chunk = io::Cursor::new(chunk);
        }
        self.chunk.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_completely_and_in_order_without_a_consumer() {
        let (reader, mut writer) = io::pipe().unwrap();
        let all: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 7) as u8).collect();
        let mut backlog = Backlog::new(reader);
        // Far more than a pipe holds, and no consumer.
        io::Write::write_all(&mut writer, &all).unwrap();
        drop(writer);
        let mut read = Vec::new();
        backlog.read_to_end(&mut read).unwrap();
        assert!(read == all);
        assert_eq!((backlog.kept_bytes.load(Ordering::Relaxed), backlog.read(&mut [0; 9]).unwrap()), (0, 0));
    }
}
