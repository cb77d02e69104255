//! What makes a drive beside the values of its tunables, and what those may not be together.

use toml::Spanned;
use traces::spec::{Settings, SpecError};

use crate::array::{Parts, PartsText};
use crate::empirical::{Cells, CellsText};
use crate::mechanical::{LayoutText, Mechanics, Refused, SeekText};
use crate::registry::{Build, Model};

/// What a profile says of a drive beside its settings; each model is built with one kind.
#[derive(Clone, Debug)]
pub enum Description {
    /// Nothing: the settings say it all.
    SettingsAlone,
    /// `[seek]` and `[layout]`: the arm and the platter.
    Mechanics(Mechanics),
    /// `[empirical]`: measured service times.
    Cells(Cells),
    /// `[array]`: what an array is made of.
    Parts(Parts),
}

impl Description {
    /// What an array is made of, if it is one.
    pub fn parts(&self) -> Option<&Parts> {
        match self {
            Description::Parts(parts) => Some(parts),
            Description::SettingsAlone | Description::Mechanics(_) | Description::Cells(_) => None,
        }
    }

    /// Reads the sections that `model` needs; there may be no others.
    pub(crate) fn read(model: &Model, sections: Sections) -> Result<Description, Refusal> {
        sections.match_those_of(model)?;
        let refuse = |Refused { offset, problem }| (Some(offset), problem);
        let Sections { seek, layout, empirical, array } = sections;
        match (seek, layout, empirical, array) {
            (Some(seek), Some(layout), ..) => {
                Mechanics::new(seek.get_ref(), layout.into_inner()).map(Description::Mechanics).map_err(refuse)
            }
            (.., Some(cells), _) => Cells::from_text(cells.get_ref()).map(Description::Cells).map_err(refuse),
            (.., Some(array)) => Parts::from_text(array.get_ref()).map(Description::Parts).map_err(refuse),
            _ => Ok(Description::SettingsAlone),
        }
    }
}

/// What is wrong, and at which byte of the profile where one is to blame.
pub(crate) type Refusal = (Option<usize>, String);

/// The sections of a profile that describe.
pub(crate) struct Sections {
    pub(crate) seek: Option<Spanned<SeekText>>,
    pub(crate) layout: Option<Spanned<LayoutText>>,
    pub(crate) empirical: Option<Spanned<CellsText>>,
    pub(crate) array: Option<Spanned<PartsText>>,
}

impl Sections {
    fn match_those_of(&self, model: &Model) -> Result<(), Refusal> {
        let needed: &[&str] = match model.build {
            Build::FromSettings(_) | Build::Checked { .. } => &[],
            Build::WithMechanics(_) => &["seek", "layout"],
            Build::WithCells(_) => &["empirical"],
            Build::WithMembers { .. } => &["array"],
        };
        let article = if model.name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let drive = format!("{article} {} drive", model.name);
        for (section, offset) in [
            ("seek", offset(self.seek.as_ref())),
            ("layout", offset(self.layout.as_ref())),
            ("empirical", offset(self.empirical.as_ref())),
            ("array", offset(self.array.as_ref())),
        ] {
            match (needed.contains(&section), offset) {
                (false, Some(_)) => return Err((offset, format!("{drive} has no [{section}]"))),
                (true, None) => return Err((None, format!("[{section}] is missing: {drive} needs it"))),
                _ => {}
            }
        }
        Ok(())
    }
}

fn offset<T>(section: Option<&Spanned<T>>) -> Option<usize> {
    section.map(|section| section.span().start)
}

/// A setting that is fine by itself but contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The tunable to change.
    pub tunable: &'static str,
    /// What would be accepted, beside what.
    pub expected: String,
}

impl Contradiction {
    /// The error that it is among the `settings` of `part`.
    pub fn among(self, settings: &Settings, part: &str) -> SpecError {
        let Contradiction { tunable, expected } = self;
        let value = settings.word(tunable).to_owned();
        SpecError::Value { part: part.to_owned(), name: tunable.to_owned(), value, expected }
    }
}
