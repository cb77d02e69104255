//! The description of a served drive, which the command line builds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use drive_models::throttle::ThrottleScale;
use traces::origin::without_folders;
use traces::quantity::{QuantityError, parse_sectors};
use traces::spec::Spec;
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
    /// The most requests at the drive at once; as many as its queue holds if there is no number.
    pub depth: Option<u32>,
    /// How many times slower than its model the drive is.
    pub k: ThrottleScale,
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
}

/// A setting that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{key} `{value}`: {problem}")]
pub struct SettingError {
    key: &'static str,
    value: String,
    problem: String,
}

fn refused(key: &'static str, value: &str, problem: impl Into<String>) -> SettingError {
    SettingError { key, value: value.to_owned(), problem: problem.into() }
}

/// `NAME@START:SIZE`, in bytes.
impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.name, Sectors::new(self.begin.sector()).bytes(), self.length.bytes())
    }
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
            depth: None,
            k: ThrottleScale::ONE,
            image,
            opening: Opening::default(),
            placement: ImagePlacement::At(Lba::ZERO),
            exports: Vec::new(),
            vm_by: VmBy::default(),
            log: None,
        }
    }

    /// Every setting that has an effect on the times, by name; files without the folders of this host.
    pub fn options(&self) -> BTreeMap<String, String> {
        let image = match &self.image {
            ImageSource::Memory(length) => format!("memory:{}", length.bytes()),
            ImageSource::Path(path) => without_folders(&path.to_string_lossy()).to_owned(),
        };
        let place = match self.placement {
            ImagePlacement::At(lba) => Sectors::new(lba.sector()).bytes().to_string(),
            ImagePlacement::Spread => "spread".to_owned(),
        };
        let mut options = vec![("image", image), ("place", place)];
        options.extend(self.depth.map(|depth| ("depth", depth.to_string())));
        if !self.exports.is_empty() {
            let texts: Vec<String> = self.exports.iter().map(Export::to_string).collect();
            options.push(("export", texts.join(" ")));
        }
        if self.k != ThrottleScale::ONE {
            options.push(("k", self.k.to_string()));
        }
        if self.vm_by == VmBy::Connection {
            options.push(("vm-by-connection", "on".to_owned()));
        }
        options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_that_have_an_effect_on_the_times() {
        let described = Description {
            depth: Some(4),
            k: ThrottleScale::from_millionths(2_500_000),
            placement: ImagePlacement::At(Lba::new(2048)),
            exports: vec!["mail@0:1g".parse().unwrap(), "a@b@1g:512".parse().unwrap()],
            vm_by: VmBy::Connection,
            log: Some("/tmp/log.parquet".into()),
            ..Description::new("linear".parse().unwrap(), ImageSource::Path("/home/alice/x=y".into()))
        };
        let text = |description: &Description| -> Vec<String> {
            description.options().iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        let all = ["depth=4", "export=mail@0:1073741824 a@b@1073741824:512", "image=x=y", "k=2.5", "place=1048576"];
        assert_eq!(text(&described), [&all[..], &["vm-by-connection=on"]].concat());
        let spread = Description {
            placement: ImagePlacement::Spread,
            ..Description::new("linear".parse().unwrap(), ImageSource::Memory(Sectors::new(8)))
        };
        assert_eq!(text(&spread), ["image=memory:4096", "place=spread"]);
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
}
