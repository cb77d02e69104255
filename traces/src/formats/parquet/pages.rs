//! The pages of a column, in bounded memory. A page is held as a whole while its rows are read, and a few compressed
//! bytes may state gigabytes. So what a page's header states is checked before any of it is read.

use std::io::Read;
use std::sync::Arc;

use ::parquet::basic::Type;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;

use super::chunks::Chunks;

/// The most MiB of a page, compressed or not. Pages of iocast's own files have less than 1 MiB.
const PAGE_MIB_MAX: u64 = 4;
const PAGE_BYTES_MAX: u64 = PAGE_MIB_MAX << 20;
/// The bytes in which a page's header states its kind and its two sizes: three fields of a byte and a varint each.
const SIZES_BYTES: u64 = 3 * (1 + VARINT_BYTES_MAX);
const VARINT_BYTES_MAX: u64 = 5;
/// A field of 32 bits whose number is one more than that of the field before, in Thrift's compact protocol.
const NEXT_FIELD_I32: u8 = 0x15;

/// The file as the reader of pages sees it.
pub(super) struct PageChunks(Chunks);

/// Reads the pages of one column of a row group.
pub(super) struct BoundedPages {
    pages: SerializedPageReader<PageChunks>,
    value_bytes: usize,
}

impl BoundedPages {
    /// Reads the pages that `column`, of a row group of `rows` rows, has in `chunks`.
    pub(super) fn new(chunks: &Chunks, column: &ColumnChunkMetaData, rows: usize) -> Result<Self, ParquetError> {
        let value_bytes = if column.column_type() == Type::INT64 { 8 } else { 4 };
        let pages = SerializedPageReader::new(Arc::new(PageChunks(chunks.clone())), column, rows, None)?;
        Ok(BoundedPages { pages, value_bytes })
    }

    /// The library allocates as many values as the header of a dictionary states.
    fn check_dictionary(&self, page: &Page) -> Result<(), ParquetError> {
        match page {
            Page::DictionaryPage { buf, num_values, .. } if *num_values as usize > buf.len() / self.value_bytes => {
                let what = format!("a dictionary of {num_values} values in {} bytes", buf.len());
                Err(ParquetError::General(what))
            }
            _ => Ok(()),
        }
    }
}

impl Iterator for BoundedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.as_ref().map_or(Ok(()), |page| self.check_dictionary(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

impl Length for PageChunks {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for PageChunks {
    type T = <Chunks as ChunkReader>::T;

    /// Reads a page's header: the library reads nothing else in this way while rows are read in order.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut head = Vec::new();
        self.0.get_read(start)?.take(SIZES_BYTES).read_to_end(&mut head)?;
        let sizes = stated_sizes(&head).ok_or_else(|| ParquetError::General("a page without its sizes".to_owned()))?;
        if let Some(size) = sizes.into_iter().find(|&size| size > PAGE_BYTES_MAX) {
            let what = format!("a page of {size} bytes, but at most {PAGE_MIB_MAX} MiB are read");
            return Err(ParquetError::General(what));
        }
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

/// The uncompressed and the compressed size that a page's header begins with, behind the page's kind. `None` if there
/// are other fields.
fn stated_sizes(mut head: &[u8]) -> Option<[u64; 2]> {
    let mut field = || {
        let (&kind, rest) = head.split_first()?;
        let end = rest.iter().take(VARINT_BYTES_MAX as usize).position(|byte| byte & 0x80 == 0)? + 1;
        head = &rest[end..];
        let bits = rest[..end].iter().rev().fold(0u64, |bits, byte| bits << 7 | u64::from(byte & 0x7f));
        // Negative numbers have odd bits; the library refuses them.
        (kind == NEXT_FIELD_I32).then_some(bits >> 1)
    };
    let [_, uncompressed, compressed] = [field()?, field()?, field()?];
    Some([uncompressed, compressed])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parquet::FORMAT;

    #[test]
    fn the_bound_is_stated() {
        assert!(FORMAT.traps.contains(&format!("Pages of more than {PAGE_MIB_MAX} MiB")));
    }

    #[test]
    fn the_sizes_are_those_of_the_header() {
        // Kind 0, 300 bytes that are 3 compressed ones; numbers are doubled.
        assert_eq!(stated_sizes(&[0x15, 0, 0x15, 0xd8, 0x04, 0x15, 6, 0x2c]), Some([300, 3]));
        assert_eq!(stated_sizes(&[0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 2]), Some([i32::MAX as u64, 1]));
        for other in [&[][..], &[0x15, 0, 0x15], &[0x15, 0, 0x25, 6, 0x15, 6], &[0x15, 0, 0x15, 0x80, 0x80]] {
            assert_eq!(stated_sizes(other), None, "{other:?}");
        }
    }
}
