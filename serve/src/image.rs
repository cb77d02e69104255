//! The image, which holds the data: in memory, in a file or, with permission, on a block device.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, OFlags, fallocate, flock, memfd_create};
use rustix::io::Errno;
use traces::{SECTOR_BYTES, Sectors};

/// Source of written zeros, 64 KiB at a time, where no hole can be punched.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Where the image is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// In memory. Pages are allocated when they are written; the data are gone when the server ends.
    Memory(Sectors),
    /// In a file or on a block device.
    Path(PathBuf),
}

/// Permissions for opening the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Create a sparse file of this length. No file may be there but an empty one, which a killed server may leave.
    pub create: Option<Sectors>,
    /// Write to a block device.
    pub allow_writes: bool,
}

/// Why an image cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("image {}: {problem}", path.display())]
pub struct ImageError {
    /// The image.
    pub path: PathBuf,
    /// The reason.
    pub problem: ImageProblem,
}

/// A reason not to serve an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageProblem {
    /// The operating system reports an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not exist.
    #[error("there is no such file; --create SIZE makes a sparse one")]
    Missing,
    /// The file that `--create` names exists.
    #[error("it exists already; leave out --create to serve it")]
    Exists,
    /// The path is neither a file nor a block device.
    #[error("it is neither a file nor a block device")]
    Kind,
    /// The path is a block device, and writing to it was not permitted.
    #[error("a block device is written to only with --allow-writes")]
    BlockDevice,
    /// The block device is mounted or part of another device.
    #[error("it is mounted or part of another device; choose an unused one")]
    InUse,
    /// Another server holds the lock on the image.
    #[error("another server uses it")]
    Locked,
    /// The length is zero or no whole number of sectors.
    #[error("its {0} bytes are not a whole number of 512-byte sectors above zero")]
    Length(u64),
}

/// An image that no other server can open.
#[derive(Debug)]
pub struct Image {
    file: File,
    length: Sectors,
}

impl Image {
    /// Opens the image and locks it with `flock`. A block device is also opened with `O_EXCL`, which the kernel refuses
    /// if the device is mounted or part of another.
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

    /// The image's length.
    pub fn length(&self) -> Sectors {
        self.length
    }

    /// Reads the image from `offset` on into `bytes`.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Writes `bytes` to the image from `offset` on.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Zeroes `bytes` bytes from `offset` on. Punches a hole, which frees their space, where the file system can.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
            Ok(()) => Ok(()),
            // Block devices punch holes of whole blocks only; some file systems punch none.
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

    /// Makes all written data durable against a crash of the host.
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
        Ok(metadata) if opening.create.is_some() && !is_empty_file(&metadata) => return Err(ImageProblem::Exists),
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
        options.create(true);
    }
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => ImageProblem::InUse,
        _ => ImageProblem::Io(error),
    })?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(ImageProblem::Locked),
        Err(error) => return Err(io::Error::from(error).into()),
    }
    if let Some(length) = opening.create {
        // Another server may have made it in the meantime.
        if !is_empty_file(&file.metadata()?) {
            return Err(ImageProblem::Exists);
        }
        if let Err(error) = file.set_len(length.bytes()) {
            let _ = std::fs::remove_file(path);
            return Err(error.into());
        }
    }
    let length = checked(file.seek(SeekFrom::End(0))?)?;
    Ok(Image { file, length })
}

fn is_empty_file(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() == 0
}

fn checked(bytes: u64) -> Result<Sectors, ImageProblem> {
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) || i64::try_from(bytes).is_err() {
        return Err(ImageProblem::Length(bytes));
    }
    Ok(Sectors::holding(bytes))
}
