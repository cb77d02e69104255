//! Pictures from results, as SVG and PNG, and reports as HTML. The only package that links plotters and askama.
//!
//! Text is measured and drawn in a typeface that is part of the program, so that pictures are the same
//! bytes everywhere and need no font of the system (`fonts/README.md`).

pub mod bars;
pub mod calibration;
mod canvas;
mod heading;
pub mod heat;
mod labels;
pub mod lines;
pub mod page;
mod panel;
mod ticks;

pub use bars::BarsFigure;
pub use calibration::CalibrationFigure;
pub use canvas::{Canvas, Drawing, PictureError, Size};
pub use heat::HeatFigure;
pub use lines::LinesFigure;
pub use page::Page;
