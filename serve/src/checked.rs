//! A description with its parts: the drive built, the image opened, everything held against everything else.

use drive_models::DriveError;
use traces::results::Part;
use traces::spec::{Settings, SpecError};
use traces::{Lba, Sectors, WriteError};

use crate::description::{Description, Export};
use crate::front::Front;
use crate::image::{Image, ImageError, ImageSource};
use crate::log::format_of;
use crate::place::Place;

/// Why a description cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The scheduler.
    #[error(transparent)]
    Scheduler(#[from] SpecError),
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The log.
    #[error(transparent)]
    Log(#[from] WriteError),
    /// The image is longer than the drive, or lies over its end.
    #[error(
        "the image, {} bytes from byte {} of the drive on, does not fit {drive} of {} bytes; take a smaller image or \
         a drive with more (:capacity=SIZE where it has that tunable)", image.bytes(), place.bytes(), capacity.bytes()
    )]
    TooLarge {
        /// The drive.
        drive: String,
        /// Its capacity.
        capacity: Sectors,
        /// Where the image begins.
        place: Sectors,
        /// The image.
        image: Sectors,
    },
    /// An export that does not lie in the image.
    #[error("export {name}: it ends at byte {}, the image at byte {}", end.bytes(), image.bytes())]
    Beyond {
        /// The export.
        name: String,
        /// Where it ends.
        end: Sectors,
        /// Where the image ends.
        image: Sectors,
    },
    /// Two exports with one name or a common sector.
    #[error("exports {one} and {other} {what}")]
    Clash {
        /// One of them.
        one: String,
        /// The other.
        other: String,
        /// What they share.
        what: &'static str,
    },
}

/// A description whose parts exist and fit one another.
pub struct Checked {
    pub(crate) parts: Parts,
    pub(crate) front: Front,
}

/// What does not change while a drive is served.
pub(crate) struct Parts {
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
        self.front.capacity()
    }

    /// Whether it is to tell every second how it goes.
    pub fn is_live(&self) -> bool {
        self.parts.description.live
    }

    /// What clients can ask for.
    pub fn exports(&self) -> &[Export] {
        &self.parts.exports
    }
}

/// Builds the drive and opens the image.
///
/// # Errors
/// What does not exist, cannot be opened or does not fit.
pub fn check(description: Description) -> Result<Checked, ServeError> {
    let built = drive_models::build(&description.drive)?;
    let scheduler = schedulers::build(&description.scheduler)?;
    if let Some(log) = &description.log {
        format_of(log)?;
    }
    let capacity = built.drive.capacity();
    // What can be known before is, so that no file is made in vain.
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
    drive.settings.extend(parts.map(|part| (part.name.to_owned(), part.spec.to_string())));
    let front = Front::new(built.drive, scheduler.scheduler, description.depth);
    let rotational = built.model.name != drive_models::flash::MODEL.name;
    let scheduler = part(&description.scheduler.name, scheduler.entry.name, &scheduler.settings);
    Ok(Checked { parts: Parts { description, drive, rotational, scheduler, exports, image }, front })
}

/// The exports, if they lie in an image of this length and the image on the drive.
fn fits(description: &Description, drive: &str, image: Sectors, capacity: Sectors) -> Result<Vec<Export>, ServeError> {
    if !description.place.fits(image, capacity) {
        let place = match description.place {
            Place::At(lba) => Sectors::new(lba.sector()),
            Place::Spread => Sectors::ZERO,
        };
        return Err(ServeError::TooLarge { drive: drive.to_owned(), capacity, place, image });
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
            let what = if export.name == other.name {
                "have the same name"
            } else if common {
                "share a part of the image"
            } else {
                continue;
            };
            return Err(ServeError::Clash { one: other.name.clone(), other: export.name.clone(), what });
        }
    }
    Ok(given.to_vec())
}

fn part(name: &str, model: &str, settings: &Settings) -> Part {
    let settings = settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Part { name: name.to_owned(), model: model.to_owned(), settings }
}
