//! iocast's own format: Apache Parquet with one row per request, readable by any Parquet tool
//! (polars, pyarrow, DuckDB, Spark).
//!
//! | column | type | unit, meaning |
//! |---|---|---|
//! | `arrival_ns` | INT64, unsigned | ns since the zero of the trace's clock; never decreases |
//! | `lba_sectors` | INT64, unsigned | first sector of 512 bytes; zero for a flush |
//! | `sectors` | INT32, unsigned | length in sectors of 512 bytes |
//! | `operation` | INT32, unsigned 8 bit | 0 read, 1 write, 2 flush, 3 discard |
//! | `flags` | INT32, unsigned 8 bit | sum of 1 sync, 2 forced unit access, 4 pre-flush, 8 metadata, 16 read-ahead |
//! | `priority` | INT32, unsigned 8 bit | I/O priority as in Linux: class (0 none, 1 real time, 2 best effort, 3 idle) · 8 + level |
//! | `vm` | INT32, unsigned 16 bit | index into `vms` of the metadata |
//! | `stream` | INT32, unsigned | process or cgroup; names in `streams` of the metadata |
//! | `cpu` | INT32, unsigned 16 bit | processor it was queued on |
//! | `inserted_ns` | INT64, unsigned, optional | given to the scheduler (blktrace I), same clock |
//! | `issued_ns` | INT64, unsigned, optional | sent to the device (D) |
//! | `completed_ns` | INT64, unsigned, optional | completed (C) |
//! | `error` | INT32 | error number it completed with, 0 for success |
//!
//! File metadata, each a string:
//!
//! | key | value |
//! |---|---|
//! | `iocast.schema_version` | `1` |
//! | `iocast.trace` | JSON of [`crate::TraceMeta`]: format it was first read from, layer, clock (`zero_unix_ns`), `capacity_sectors`, names, provenance |
//! | `iocast.extent` | JSON: `records`, `first_arrival_ns`, `last_arrival_ns`, `lba_min_sectors`, `lba_end_sectors` |
//! | `iocast.checksum` | 64 bits in hexadecimal over every value of every row in order and the texts of `iocast.trace` and `iocast.extent`, so that damage which still decodes is found; not checked where a file has none |
//!
//! A page is read if it has at most 4 MiB, compressed and not, so that a small file takes little memory, too.
//!
//! The first 64 row groups hold 65,536 rows each, the next 64 twice as many and the rest four times, so that the footer
//! of a long trace stays small. Pages are compressed with zstd, times and addresses are stored as differences
//! (`DELTA_BINARY_PACKED`), the rest by dictionary. The same trace gives the same bytes. A file that another tool has
//! written anew has lost the metadata and is refused.
//!
//! A file that is written while a capture runs (`growing.rs`) has row groups of at most 65,536 rows, and a *checkpoint*
//! after each. This is a footer that describes only the row groups since the checkpoint before; its key
//! `iocast.checkpoint` is the end of that one. Other programs pass over checkpoints. If the whole footer at the end is
//! missing, the file is read, or completed, by way of its checkpoints (`recovery.rs`).

mod batch;
mod caught;
mod chunks;
mod growing;
mod pages;
mod reader;
mod recovery;
mod summary;
mod table;
mod writer;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::formats::{Created, Format};
use crate::trace::{Extent, ReadOptions, TraceReader, WriteOptions};
use crate::units::{Lba, Timestamp};

pub use caught::{caught, is_caught};
pub use growing::{GrowingWriter, ROWS_PER_GROUP};
pub use reader::ParquetReader;
pub use recovery::{Recovered, is_whole, recover};
pub use summary::{Sum, Summary, summarise};
pub(crate) use table::TableWriter;
pub use writer::ParquetWriter;
pub(crate) use writer::refused;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "parquet",
    summary: "iocast's own format: Apache Parquet, one row per request, with its observed times and the trace's origin",
    units: "ns, 512-byte sectors",
    traps: "Times in ns, addresses and lengths in 512-byte sectors. Layer and clock are those of the trace it was \
            written from. Pages of more than 4 MiB are refused, to bound memory, and temporary copies of more than 1 \
            GiB. A compressed file (`.parquet.gz`) and standard input take such a copy; name a plain file instead.",
    recognises,
    extensions: &["parquet"],
    open,
    create: Some(create),
    ..Format::READ_ONLY
};

const MAGIC: &[u8] = b"PAR1";
const SCHEMA_VERSION: &str = "1";
const KEY_SCHEMA_VERSION: &str = "iocast.schema_version";
const KEY_TRACE: &str = "iocast.trace";
const KEY_EXTENT: &str = "iocast.extent";
const KEY_CHECKSUM: &str = "iocast.checksum";
/// Only in a checkpoint: the offset at which the checkpoint before it ends, 0 in the first.
const KEY_CHECKPOINT: &str = "iocast.checkpoint";

const SCHEMA: &str = "
message trace {
  REQUIRED INT64 arrival_ns (INTEGER(64,false));
  REQUIRED INT64 lba_sectors (INTEGER(64,false));
  REQUIRED INT32 sectors (INTEGER(32,false));
  REQUIRED INT32 operation (INTEGER(8,false));
  REQUIRED INT32 flags (INTEGER(8,false));
  REQUIRED INT32 priority (INTEGER(8,false));
  REQUIRED INT32 vm (INTEGER(16,false));
  REQUIRED INT32 stream (INTEGER(32,false));
  REQUIRED INT32 cpu (INTEGER(16,false));
  OPTIONAL INT64 inserted_ns (INTEGER(64,false));
  OPTIONAL INT64 issued_ns (INTEGER(64,false));
  OPTIONAL INT64 completed_ns (INTEGER(64,false));
  REQUIRED INT32 error;
}";

/// The schema of version [`SCHEMA_VERSION`].
fn schema() -> ::parquet::schema::types::Type {
    ::parquet::schema::parser::parse_message_type(SCHEMA).expect("the schema is a constant and parses")
}

fn recognises(_path: &Path, head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, ReadError> {
    Ok(Box::new(ParquetReader::open(path, options)?))
}

fn create(path: &Path, _options: &WriteOptions) -> Created {
    Ok(Box::new(ParquetWriter::create(path)?))
}

/// [`Extent`] as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredExtent {
    records: u64,
    first_arrival_ns: u64,
    last_arrival_ns: u64,
    lba_min_sectors: u64,
    lba_end_sectors: u64,
}

impl From<Extent> for StoredExtent {
    fn from(extent: Extent) -> StoredExtent {
        StoredExtent {
            records: extent.records,
            first_arrival_ns: extent.first_arrival.as_ns(),
            last_arrival_ns: extent.last_arrival.as_ns(),
            lba_min_sectors: extent.lba_min.sector(),
            lba_end_sectors: extent.lba_end.sector(),
        }
    }
}

impl From<StoredExtent> for Extent {
    fn from(stored: StoredExtent) -> Extent {
        Extent {
            records: stored.records,
            first_arrival: Timestamp::from_ns(stored.first_arrival_ns),
            last_arrival: Timestamp::from_ns(stored.last_arrival_ns),
            lba_min: Lba::new(stored.lba_min_sectors),
            lba_end: Lba::new(stored.lba_end_sectors),
        }
    }
}
