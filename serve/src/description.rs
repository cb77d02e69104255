//! The description of a served drive. The command line builds it; nbdkit passes it to the plugin as `key=value` pairs.

use std::path::PathBuf;

use traces::quantity::{QuantityError, parse_sectors};
use traces::spec::{Spec, SpecError};
use traces::{Lba, Sectors};

use crate::image::{ImageSource, Opening};
use crate::image_placement::ImagePlacement;

/// A slice of the image that clients open by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name by which clients open it; empty for the whole image.
    pub name: String,
    /// Where it begins in the image.
    pub begin: Lba,
    /// Its length.
    pub length: Sectors,
}

/// The unit that counts as one VM in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmBy {
    /// Each export, under its name.
    #[default]
    Export,
    /// Each connection, under its number.
    Connection,
}

/// The settings of a served drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The drive.
    pub drive: Spec,
    /// The scheduler in front of the drive.
    pub scheduler: Spec,
    /// The most requests at the drive at once.
    pub depth: u32,
    /// The image.
    pub image: ImageSource,
    /// Permissions for opening the image.
    pub opening: Opening,
    /// Where the image lies on the drive.
    pub placement: ImagePlacement,
    /// Slices of the image; if there are none, the whole image is one export.
    pub exports: Vec<Export>,
    /// The unit that counts as one VM in the log.
    pub vm_by: VmBy,
    /// The log's file.
    pub log: Option<PathBuf>,
    /// Whether the plugin prints a status line every second.
    pub live: bool,
    /// Whether serving ends when standard input ends.
    pub ends_with_input: bool,
}

/// A setting that is not valid.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The specification of a drive or scheduler is malformed.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Another value is not valid.
    #[error("{key} `{value}`: {problem}")]
    Value {
        /// The setting.
        key: &'static str,
        /// The value given.
        value: String,
        /// The reason, and the expected value.
        problem: String,
    },
    /// The key is not known.
    #[error("`{0}` is no setting of this plugin; see `iocast serve --help`")]
    Key(String),
    /// A required setting is missing.
    #[error("{0}= is missing")]
    Missing(&'static str),
}

fn refused(key: &'static str, value: &str, problem: impl Into<String>) -> SettingError {
    SettingError::Value { key, value: value.to_owned(), problem: problem.into() }
}

impl std::str::FromStr for Export {
    type Err = SettingError;

    /// `NAME@START:SIZE`.
    fn from_str(text: &str) -> Result<Export, SettingError> {
        let wrong = || refused("export", text, "expected NAME@START:SIZE such as web@64g:10g");
        // A name may contain an @; the range may not.
        let (name, range) = text.rsplit_once('@').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let (begin, length) = range.split_once(':').ok_or_else(wrong)?;
        let sectors =
            |size| parse_sectors(size).map_err(|error: QuantityError| refused("export", text, error.to_string()));
        let (begin, length) = (sectors(begin)?, sectors(length)?);
        if length == Sectors::ZERO {
            return Err(refused("export", text, "the export is empty"));
        }
        Ok(Export { name: name.to_owned(), begin: Lba::new(begin.count()), length })
    }
}

/// `memory:SIZE`, or a path.
impl std::str::FromStr for ImageSource {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<ImageSource, SettingError> {
        match text.strip_prefix("memory:") {
            Some(size) => {
                let length = parse_sectors(size).map_err(|error| refused("image", text, error.to_string()))?;
                Ok(ImageSource::Memory(length))
            }
            None => Ok(ImageSource::Path(PathBuf::from(text))),
        }
    }
}

impl Description {
    /// A drive over an image, with every other setting at its default.
    pub fn new(drive: Spec, image: ImageSource) -> Description {
        Description {
            drive,
            scheduler: Spec { name: "fifo".to_owned(), given: Vec::new() },
            depth: u32::MAX,
            image,
            opening: Opening::default(),
            placement: ImagePlacement::At(Lba::ZERO),
            exports: Vec::new(),
            vm_by: VmBy::default(),
            log: None,
            live: false,
            ends_with_input: false,
        }
    }

    /// The settings for nbdkit's command line, as [`Description::from_pairs`] reads them. Paths must be absolute if
    /// nbdkit runs in another folder. `create` is left out: the image exists by then.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        let image = match &self.image {
            ImageSource::Memory(length) => format!("memory:{}", length.bytes()),
            ImageSource::Path(path) => path.display().to_string(),
        };
        let placement = match self.placement {
            ImagePlacement::At(lba) => Sectors::new(lba.sector()).bytes().to_string(),
            ImagePlacement::Spread => SPREAD.to_owned(),
        };
        let mut pairs = vec![
            ("drive", self.drive.to_string()),
            ("scheduler", self.scheduler.to_string()),
            ("depth", self.depth.to_string()),
            ("image", image),
            ("place", placement),
        ];
        pairs.extend(self.exports.iter().map(|export| {
            let begin = Sectors::new(export.begin.sector()).bytes();
            ("export", format!("{}@{begin}:{}", export.name, export.length.bytes()))
        }));
        pairs.extend(self.log.iter().map(|path| ("log", path.display().to_string())));
        for (set, key) in [
            (self.vm_by == VmBy::Connection, "vm-by-connection"),
            (self.opening.allow_writes, "allow-writes"),
            (self.live, "live"),
            (self.ends_with_input, "ends-with-input"),
        ] {
            pairs.extend(set.then(|| (key, "on".to_owned())));
        }
        pairs
    }

    /// Parses the settings from nbdkit's command line.
    ///
    /// # Errors
    /// A setting is missing, unknown or not valid.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Description, SettingError> {
        let of = |key: &'static str| {
            let found = pairs.iter().find(|(given, _)| given == key);
            found.map(|(_, value)| value.as_str()).ok_or(SettingError::Missing(key))
        };
        let mut description = Description::new(of("drive")?.parse()?, of("image")?.parse()?);
        for (key, value) in pairs {
            match key.as_str() {
                "drive" | "image" => {}
                "scheduler" => description.scheduler = value.parse()?,
                "depth" => {
                    let depth = value.parse().ok().filter(|&depth| depth > 0);
                    description.depth = depth.ok_or_else(|| refused("depth", value, "expected a number above 0"))?;
                }
                "place" if value == SPREAD => description.placement = ImagePlacement::Spread,
                "place" => {
                    let begin = parse_sectors(value).map_err(|error| refused("place", value, error.to_string()))?;
                    description.placement = ImagePlacement::At(Lba::new(begin.count()));
                }
                "export" => description.exports.push(value.parse()?),
                "log" => description.log = Some(PathBuf::from(value)),
                "vm-by-connection" => description.vm_by = VmBy::Connection,
                "allow-writes" => description.opening.allow_writes = true,
                "live" => description.live = true,
                "ends-with-input" => description.ends_with_input = true,
                _ => return Err(SettingError::Key(key.clone())),
            }
        }
        Ok(description)
    }
}

/// The setting that stands for [`ImagePlacement::Spread`].
const SPREAD: &str = "spread";

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Description {
        Description {
            scheduler: "deadline:fifo_batch=8".parse().unwrap(),
            depth: 4,
            opening: Opening { create: None, allow_writes: true },
            placement: ImagePlacement::At(Lba::new(2048)),
            exports: vec!["mail@0:1g".parse().unwrap(), "a@b@1g:512".parse().unwrap()],
            vm_by: VmBy::Connection,
            log: Some("/tmp/a log.parquet".into()),
            live: true,
            ends_with_input: true,
            ..Description::new("cheetah-15k4:cache=off".parse().unwrap(), ImageSource::Path("/tmp/x=y".into()))
        }
    }

    #[test]
    fn description_survives_the_way_through_key_value_pairs() {
        let spread = Description {
            placement: ImagePlacement::Spread,
            ..Description::new("linear".parse().unwrap(), ImageSource::Memory(Sectors::new(8)))
        };
        for description in [full(), spread] {
            let pairs: Vec<(String, String)> =
                description.to_pairs().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            assert_eq!(Description::from_pairs(&pairs).unwrap(), description);
        }
    }

    #[test]
    fn export_parses_as_name_start_and_size() {
        let export: Export = "a@b@64g:1k".parse().unwrap();
        assert_eq!((export.name.as_str(), export.begin, export.length), ("a@b", Lba::new(128 << 20), Sectors::new(2)));
        for (text, expected) in [
            ("web", "NAME@START:SIZE"),
            ("@0:1g", "NAME@START:SIZE"),
            ("web@1g", "NAME@START:SIZE"),
            ("web@0:0", "empty"),
            ("web@100:1g", "whole number of 512-byte sectors"),
            ("web@0:much", "size in bytes"),
        ] {
            let error = text.parse::<Export>().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn invalid_settings_are_named_in_the_error() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> =
                pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            Description::from_pairs(&pairs).unwrap_err().to_string()
        };
        assert_eq!(of(&[("image", "memory:1g")]), "drive= is missing");
        let given = [("drive", "linear"), ("image", "memory:1g")];
        assert!(of(&[given[0], given[1], ("depth", "0")]).contains("depth `0`"));
        assert!(of(&[given[0], given[1], ("colour", "red")]).contains("`colour` is no setting"));
        assert!(of(&[given[0], given[1], ("place", "7")]).contains("place `7`"));
    }
}
