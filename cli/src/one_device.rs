//! A replay is of one device: a trace of several, each with addresses of its own, must be told
//! which of them is meant.

use std::path::{Path, PathBuf};

use traces::error::{Place, Problem};
use traces::trace::AddressSpace;
use traces::{Losses, ReadError, Record, TraceMeta, TraceReader, VmId};

/// How many devices are named.
const NAMED_MAX: usize = 5;

/// Gives a trace's records as they are, and fails at the first of a second device.
pub struct OneDevice {
    path: PathBuf,
    reader: Box<dyn TraceReader>,
    device: Option<VmId>,
}

impl OneDevice {
    pub fn new(path: &Path, reader: Box<dyn TraceReader>) -> OneDevice {
        OneDevice { path: path.to_owned(), reader, device: None }
    }

    #[cold]
    fn several(&self) -> ReadError {
        let names: Vec<&str> = self.reader.meta().vms.iter().take(NAMED_MAX).map(String::as_str).collect();
        let what = format!("it holds several devices, each with an address zero of its own: {}, …", names.join(", "));
        ReadError::new(&self.path, Place::Whole, Problem::Malformed(what)).remedy("--device NAME takes one of them")
    }
}

impl TraceReader for OneDevice {
    fn meta(&self) -> &TraceMeta {
        self.reader.meta()
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.next()?;
        if let Some(record) = &record {
            let device = *self.device.get_or_insert(record.request.vm);
            if device != record.request.vm && self.reader.meta().address_space == AddressSpace::PerVm {
                return Err(self.several());
            }
        }
        Ok(record)
    }

    fn losses(&self) -> &Losses {
        self.reader.losses()
    }

    fn position_bytes(&self) -> u64 {
        self.reader.position_bytes()
    }
}
