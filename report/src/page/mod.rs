//! A report: one HTML file that stands alone. It asks no network for anything, can be read without scripts, and follows
//! the reader's dark or light screen. Names from traces cannot leave their place in it.

pub mod chart;
mod close_up;
pub mod comparison;
mod courses;
pub mod heat;
mod picture;
mod ranges;
mod spans;

use askama::Template;
use traces::printable::printable;

use crate::canvas::{Drawing, PictureError, Size};

pub use chart::{Axis, Chart, Line, Marks};
pub use courses::of_capture;
pub use heat::Heat;
pub use ranges::{Ranged, Ranges, RangesRow};
pub use spans::Spans;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("the report cannot be made: {0}")]
pub struct PageError(#[from] askama::Error);

/// A report. All texts are plain; what a browser would obey in them is escaped.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// The answer, in a sentence or some. The first is the largest.
    pub answer: Vec<String>,
    /// What a reader must know before using a figure.
    pub warnings: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
    /// The program that made it.
    pub program: String,
}

/// A part of a report with its heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading; none if it goes on with the section before it.
    pub heading: String,
    /// What it says, by paragraph.
    pub text: Vec<String>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Pictures that were drawn elsewhere.
    pub pictures: Vec<Picture>,
    /// Whether a reader must open it first.
    pub is_closed: bool,
}

/// A picture, such as [`crate::Drawing::svg`] gives it.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The picture. It stands in the page as it is.
    pub svg: String,
    /// The same as a PNG file, for those who want files.
    pub png: Vec<u8>,
}

impl Picture {
    /// Draws a picture.
    ///
    /// # Errors
    /// Nothing to draw, or an error of the drawing library.
    pub fn drawn(title: String, drawing: &impl Drawing, size: Size) -> Result<Picture, PictureError> {
        Ok(Picture { svg: drawing.svg(size)?, png: drawing.png(size)?, title })
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The headings.
    pub columns: Vec<String>,
    /// The rows; the first cell of each is its heading.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// A bar behind it, as a share of the cell.
    pub share: Option<f64>,
    /// Whether it is a number, which stands at the right.
    pub is_number: bool,
}

impl Table {
    /// Whether a column holds numbers, which stand at the right.
    fn is_number(&self, column: &usize) -> bool {
        self.rows.iter().any(|row| row.get(*column).is_some_and(|cell| cell.is_number))
    }
}

impl Cell {
    /// A name or a sentence.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A number as it is shown.
    pub fn number(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), is_number: true, ..Cell::default() }
    }

    /// With a bar behind it.
    pub fn with_share(self, share: Option<f64>) -> Cell {
        Cell { share: share.filter(|share| share.is_finite()), ..self }
    }

    /// The bar's length in percent.
    fn percent(&self) -> Option<String> {
        self.share.map(|share| format!("{:.1}", share.clamp(0.0, 1.0) * 100.0))
    }
}

#[derive(Template)]
#[template(path = "page.html")]
struct Rendered<'a> {
    page: &'a Page,
    style: &'a str,
    script: &'a str,
}

/// What templates call.
mod filters {
    use super::printable;

    /// Text without characters that a reader does not see.
    #[askama::filter_fn]
    pub fn shown(text: &str, _: &dyn askama::Values) -> askama::Result<String> {
        Ok(printable(text).into_owned())
    }
}

impl Page {
    /// The report as HTML.
    ///
    /// # Errors
    /// None that is known; the template library may give one.
    pub fn html(&self) -> Result<String, PageError> {
        let style = include_str!("../../templates/page.css");
        let script = include_str!("../../templates/page.js");
        Ok(Rendered { page: self, style, script }.render()?)
    }

    /// All charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }

    /// All pictures that were drawn elsewhere, in the order of the page.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        self.sections.iter().flat_map(|section| &section.pictures)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
