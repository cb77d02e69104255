//! A reader that leaves out everything but reads, for a device that must not be changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use traces::{Losses, Operation, ReadError, Record, TraceMeta, TraceReader};

/// Passes on the reads of a trace, and counts its other requests.
pub struct ReadsOnly {
    pub reader: Box<dyn TraceReader>,
    pub left_out: Arc<AtomicU64>,
}

impl TraceReader for ReadsOnly {
    fn meta(&self) -> &TraceMeta {
        self.reader.meta()
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        while let Some(record) = self.reader.next()? {
            if record.request.operation == Operation::Read {
                return Ok(Some(record));
            }
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(None)
    }

    fn losses(&self) -> &Losses {
        self.reader.losses()
    }

    fn position_bytes(&self) -> u64 {
        self.reader.position_bytes()
    }
}
