//! Where the data lie: in memory, in a file or, if that was asked for, on a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, OFlags, fallocate, flock, memfd_create};
use rustix::io::Errno;
use traces::{SECTOR_BYTES, Sectors};

/// Zeros are written in pieces of this many bytes where no hole can be made.
const ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Which image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// Memory, taken as it is written; gone when the server ends.
    Memory(Sectors),
    /// A file, or a block device.
    Path(PathBuf),
}

/// What may be done to get at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Make a file of this length, which must not exist; it takes up room as it is written.
    pub create: Option<Sectors>,
    /// Write to a block device.
    pub allow_writes: bool,
}

/// Why an image cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("image {}: {problem}", path.display())]
pub struct ImageError {
    /// Which.
    pub path: PathBuf,
    /// What is wrong, and what would help.
    pub problem: ImageProblem,
}

/// What can be wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageProblem {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not exist.
    #[error("there is no such file; --create SIZE makes a sparse one")]
    Missing,
    /// It was to be made and exists.
    #[error("it exists; leave out --create to serve it as it is")]
    Exists,
    /// Neither a file nor a block device.
    #[error("it is neither a file nor a block device")]
    Kind,
    /// A block device, without permission to write.
    #[error("a block device is written to only with --allow-writes")]
    BlockDevice,
    /// A block device that the system uses.
    #[error("it is mounted or held by another device; take one that nobody uses")]
    InUse,
    /// Another server has it.
    #[error("another server uses it")]
    Locked,
    /// No whole number of sectors, or none at all.
    #[error("its {0} bytes are not a whole number of 512-byte sectors above zero")]
    Length(u64),
}

/// An image that nobody else serves.
#[derive(Debug)]
pub struct Image {
    file: File,
    length: Sectors,
}

impl Image {
    /// Opens it and holds it (`flock`; a block device `O_EXCL` as well, which the kernel refuses for one that is mounted
    /// or part of another).
    ///
    /// # Errors
    /// [`ImageProblem`].
    pub fn open(source: &ImageSource, opening: Opening) -> Result<Image, ImageError> {
        match source {
            ImageSource::Memory(length) => {
                in_memory(*length).map_err(|problem| ImageError { path: "memory".into(), problem })
            }
            ImageSource::Path(path) => {
                on_disk(path, opening).map_err(|problem| ImageError { path: path.clone(), problem })
            }
        }
    }

    /// Its length.
    pub fn length(&self) -> Sectors {
        self.length
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// The operating system's; so do the others.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Makes `bytes` bytes from `offset` on zero and gives back the room that they took, where that can be done.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
            Ok(()) => Ok(()),
            // A block device punches whole blocks only, and some file systems nothing.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV) => self.write_zeros(offset, bytes),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }

    /// Brings everything that was written to where it survives a crash of this machine.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn in_memory(length: Sectors) -> Result<Image, ImageProblem> {
    let length = checked(length.bytes())?;
    let file = File::from(memfd_create("iocast-image", MemfdFlags::CLOEXEC).map_err(io::Error::from)?);
    file.set_len(length.bytes())?;
    Ok(Image { file, length })
}

fn on_disk(path: &Path, opening: Opening) -> Result<Image, ImageProblem> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let is_block = match std::fs::metadata(path) {
        Ok(_) if opening.create.is_some() => return Err(ImageProblem::Exists),
        Ok(metadata) if metadata.file_type().is_block_device() => true,
        Ok(metadata) if metadata.is_file() => false,
        Ok(_) => return Err(ImageProblem::Kind),
        Err(error) if error.kind() == ErrorKind::NotFound && opening.create.is_some() => false,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(ImageProblem::Missing),
        Err(error) => return Err(error.into()),
    };
    if is_block {
        if !opening.allow_writes {
            return Err(ImageProblem::BlockDevice);
        }
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    if let Some(length) = opening.create {
        checked(length.bytes())?;
        options.create_new(true);
    }
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => ImageProblem::InUse,
        ErrorKind::AlreadyExists => ImageProblem::Exists,
        _ => ImageProblem::Io(error),
    })?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(ImageProblem::Locked),
        Err(error) => return Err(io::Error::from(error).into()),
    }
    if let Some(length) = opening.create {
        file.set_len(length.bytes())?;
    }
    let length = checked(file.seek(SeekFrom::End(0))?)?;
    Ok(Image { file, length })
}

fn checked(bytes: u64) -> Result<Sectors, ImageProblem> {
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) || i64::try_from(bytes).is_err() {
        return Err(ImageProblem::Length(bytes));
    }
    Ok(Sectors::holding(bytes))
}
