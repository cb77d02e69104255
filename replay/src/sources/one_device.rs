//! A reader that refuses a second device. A replay needs one device; with a trace of several, each with addresses of
//! its own, the user must choose one.

use std::path::{Path, PathBuf};

use traces::error::{Place, Problem};
use traces::trace::AddressSpace;
use traces::{Losses, ReadError, Record, TraceMeta, TraceReader, VmId};

/// The most devices that the error names.
const NAMED_MAX: usize = 5;

/// Passes a trace's records on, and fails at the first record of a second device.
pub struct OneDevice {
    path: PathBuf,
    reader: Box<dyn TraceReader>,
    device: Option<VmId>,
}

impl OneDevice {
    /// Passes on the records of the trace at `path`.
    pub fn new(path: &Path, reader: Box<dyn TraceReader>) -> OneDevice {
        OneDevice { path: path.to_owned(), reader, device: None }
    }

    #[cold]
    fn several(&self) -> ReadError {
        let names: Vec<&str> = self.reader.meta().vms.iter().take(NAMED_MAX).map(String::as_str).collect();
        let what = format!("it holds several devices, each with its own address space: {}, …", names.join(", "));
        ReadError::new(&self.path, Place::Whole, Problem::Malformed(what)).remedy(
            "choose one of them with --device NAME (iocast replay: --trace-device NAME); a scenario needs a file \
                     that `iocast convert --device NAME` makes",
        )
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
