//! The sources of the pages of a CPU: a file, or a reader while the kernel still writes.

use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

use super::layout::Page;
use super::page::byte_order;
use crate::formats::blktrace::ByteOrder;
use crate::input::Input;

/// Gives the pages of a CPU, one after another.
pub(super) trait Pages: Send {
    /// Its name in messages.
    fn path(&self) -> &Path;

    /// Bytes of (compressed) input consumed so far.
    fn consumed_bytes(&self) -> u64;

    /// The byte order of pages that are laid out so.
    fn byte_order(&self, page: &Page) -> ByteOrder;

    /// Fills a page as far as the input goes; gives the bytes.
    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize>;
}

impl Pages for Input {
    fn path(&self) -> &Path {
        self.path()
    }

    fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes()
    }

    fn byte_order(&self, page: &Page) -> ByteOrder {
        byte_order(self.head(), page)
    }

    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < page.len() {
            let buffer = match self.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break;
            }
            let taken = buffer.len().min(page.len() - filled);
            page[filled..filled + taken].copy_from_slice(&buffer[..taken]);
            self.consume(taken);
            filled += taken;
        }
        Ok(filled)
    }
}

/// Pages that were read from this machine's kernel and not yet decoded.
pub(super) struct Handed {
    path: PathBuf,
    bytes: Vec<u8>,
    at: usize,
    consumed: u64,
}

impl Handed {
    /// None yet, of the buffer at `path`.
    pub(super) fn new(path: &Path) -> Handed {
        Handed { path: path.to_owned(), bytes: Vec::new(), at: 0, consumed: 0 }
    }

    /// Takes over whole pages; those before have been decoded.
    pub(super) fn hand(&mut self, pages: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(pages);
        self.at = 0;
    }
}

impl Pages for Handed {
    fn path(&self) -> &Path {
        &self.path
    }

    fn consumed_bytes(&self) -> u64 {
        self.consumed
    }

    fn byte_order(&self, _page: &Page) -> ByteOrder {
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little }
    }

    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let taken = left.len().min(page.len());
        page[..taken].copy_from_slice(&left[..taken]);
        self.at += taken;
        self.consumed += taken as u64;
        Ok(taken)
    }
}
