//! Checks a description: builds the drive and the scheduler, opens the image, and checks that drive, image and exports
//! fit one another.

use drive_models::DriveError;
use traces::origin::without_folders;
use traces::results::Part;
use traces::spec::{Settings, SpecError};
use traces::{Lba, Sectors, WriteError};

use crate::description::{Description, Export};
use crate::image::{Image, ImageError, ImageSource};
use crate::image_placement::ImagePlacement;
use crate::log::format_of;
use crate::simulated_drive::SimulatedDrive;

/// Why a description cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The drive specification is wrong.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The scheduler specification is wrong.
    #[error(transparent)]
    Scheduler(#[from] SpecError),
    /// The image cannot be opened.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] WriteError),
    /// The image extends beyond the end of the drive.
    #[error(
        "the image, {} bytes from byte {} of the drive on, does not fit {drive} of {} bytes; choose a smaller image or \
         a larger drive (:capacity=SIZE where the drive has that tunable)", image.bytes(), begin.bytes(), capacity.bytes()
    )]
    TooLarge {
        /// The drive.
        drive: String,
        /// The drive capacity.
        capacity: Sectors,
        /// Where the image begins on the drive.
        begin: Sectors,
        /// The image.
        image: Sectors,
    },
    /// An export extends beyond the end of the image.
    #[error("export {name} ends at byte {}, but the image ends at byte {}", end.bytes(), image.bytes())]
    Beyond {
        /// The export's name.
        name: String,
        /// Where the export ends.
        end: Sectors,
        /// Where the image ends.
        image: Sectors,
    },
    /// Two exports have the same name or overlap.
    #[error("exports {one} and {other} {problem}")]
    Clash {
        /// The first export.
        one: String,
        /// The second export.
        other: String,
        /// The conflict.
        problem: &'static str,
    },
}

/// A description whose drive, scheduler, image and exports exist and fit one another.
pub struct Checked {
    pub(crate) parts: ServedParts,
    pub(crate) drive: SimulatedDrive,
}

/// The settings and parts that stay the same while the drive is served.
pub(crate) struct ServedParts {
    pub(crate) description: Description,
    pub(crate) drive: Part,
    pub(crate) rotational: bool,
    pub(crate) scheduler: Part,
    pub(crate) exports: Vec<Export>,
    pub(crate) image: Image,
}

impl Checked {
    /// The drive's capacity.
    pub fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    /// The exports that clients can open.
    pub fn exports(&self) -> &[Export] {
        &self.parts.exports
    }
}

/// Builds the drive and the scheduler, and opens the image.
///
/// # Errors
/// A part that does not exist, cannot be opened or does not fit the others.
pub fn check(mut description: Description) -> Result<Checked, ServeError> {
    let built = drive_models::build(&description.drive)?;
    let scheduler = schedulers::build(&description.scheduler)?;
    if let Some(log) = &description.log {
        format_of(log)?;
    }
    let depth = *description.depth.get_or_insert(built.queue_depth());
    let capacity = built.drive.capacity();
    // Check a known length before opening, so that no file is created for a description that is refused.
    let known = match description.image {
        ImageSource::Memory(length) => Some(length),
        ImageSource::Path(_) => description.opening.create,
    };
    if let Some(length) = known {
        fits(&description, &built.name, length, capacity)?;
    }
    let image = Image::open(&description.image, description.opening)?;
    let exports = fits(&description, &built.name, image.length(), capacity)?;
    let mut drive = part(&built.name, built.model.name, &built.settings);
    let parts = built.description.parts().iter();
    drive.settings.extend(parts.map(|part| (part.name.to_owned(), part.spec.without_folders().to_string())));
    let simulated = SimulatedDrive::new(built.drive, scheduler.scheduler, depth);
    let rotational = built.model.is_rotational;
    let scheduler = part(&description.scheduler.name, scheduler.entry.name, &scheduler.settings);
    Ok(Checked { parts: ServedParts { description, drive, rotational, scheduler, exports, image }, drive: simulated })
}

/// Checks that an image of this length fits on the drive and that the exports fit in the image. Returns the exports.
fn fits(description: &Description, drive: &str, image: Sectors, capacity: Sectors) -> Result<Vec<Export>, ServeError> {
    if !description.placement.fits(image, capacity) {
        let begin = match description.placement {
            ImagePlacement::At(lba) => Sectors::new(lba.sector()),
            ImagePlacement::Spread => Sectors::ZERO,
        };
        return Err(ServeError::TooLarge { drive: drive.to_owned(), capacity, begin, image });
    }
    checked_exports(&description.exports, image)
}

fn checked_exports(given: &[Export], image: Sectors) -> Result<Vec<Export>, ServeError> {
    if given.is_empty() {
        return Ok(vec![Export { name: String::new(), begin: Lba::ZERO, length: image }]);
    }
    for (index, export) in given.iter().enumerate() {
        let end = export.begin.saturating_add(export.length);
        if end.sector() > image.count() {
            return Err(ServeError::Beyond { name: export.name.clone(), end: Sectors::new(end.sector()), image });
        }
        for other in &given[..index] {
            let common = export.begin < other.begin.saturating_add(other.length) && other.begin < end;
            let problem = if export.name == other.name {
                "have the same name"
            } else if common {
                "share a part of the image"
            } else {
                continue;
            };
            return Err(ServeError::Clash { one: other.name.clone(), other: export.name.clone(), problem });
        }
    }
    Ok(given.to_vec())
}

fn part(name: &str, model: &str, settings: &Settings) -> Part {
    let settings = settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Part { name: without_folders(name).to_owned(), model: model.to_owned(), settings }
}

#[cfg(test)]
mod tests {
    use traces::{Nanos, Operation, Request, Timestamp};

    use super::*;

    fn checked(drive: &str, scheduler: &str) -> Checked {
        let image = ImageSource::Memory(Sectors::new(1 << 16));
        let scheduler = scheduler.parse().unwrap();
        check(Description { scheduler, ..Description::new(drive.parse().unwrap(), image) }).unwrap()
    }

    #[test]
    fn drive_gets_as_many_requests_as_its_queue_holds() {
        for (drive, depth) in [("cheetah-15k4", 1), ("cheetah-15k4-mechanical:queue_depth=4", 4), ("sata-ssd", 32)] {
            let options = checked(drive, "fifo").parts.description.options();
            assert_eq!(options["depth"], depth.to_string(), "{drive}");
        }
    }

    #[test]
    fn scheduler_decides_on_a_drive_without_a_queue() {
        use Operation::{Read, Write};
        for (scheduler, order) in [("fifo", [Write, Write, Read]), ("read-priority", [Write, Read, Write])] {
            let mut drive = checked("cheetah-15k4", scheduler).drive;
            for (number, operation) in [Write, Write, Read].into_iter().enumerate() {
                let place = Lba::new(5_000 * number as u64);
                drive.arrive(Timestamp::ZERO, Request::new(Timestamp::ZERO, operation, place, Sectors::new(8)));
            }
            let mut finished = Vec::new();
            drive.run(Timestamp::ZERO + Nanos::from_ns(1_000_000_000), &mut finished);
            let operations: Vec<Operation> = finished.iter().map(|one| one.request.operation).collect();
            assert_eq!(operations, order, "{scheduler}");
        }
    }
}
