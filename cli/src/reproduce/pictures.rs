//! Draws each table and figure of a reproduction.

use anyhow::{Context, Result};
use report::{BarsFigure, LinesFigure, PictureError, Size};
use traces::results::reproduction::{Reproduction, Series};

use super::grid::{Grid, named, parts};

/// The beginnings of the endings of all pictures' names.
pub const FAMILIES: [&str; 2] = ["-table", "-figure"];

/// A picture, and the ending of its files' names before the dot.
pub struct Picture {
    pub ending: String,
    pub svg: String,
    pub png: Vec<u8>,
}

/// Draws the tables, then the figures, each in the paper's order. A table or figure without points gets no picture.
pub fn draw(reproduction: &Reproduction, size: Size) -> Result<Vec<Picture>> {
    let mut pictures = Vec::new();
    for Grid { name, cells, .. } in Grid::all(&reproduction.cells) {
        let title = named("Table", name);
        let bars = BarsFigure { title: &title, caption: &reproduction.paper, cells: &cells };
        pictures.extend(picture(ending(FAMILIES[0], name), bars.svg(size), bars.png(size))?);
    }
    for (name, series) in parts(&reproduction.figures, |series: &Series| &series.figure) {
        let title = named("Figure", name);
        let lines = LinesFigure { title: &title, caption: &reproduction.paper, series: &series };
        pictures.extend(picture(ending(FAMILIES[1], name), lines.svg(size), lines.png(size))?);
    }
    Ok(pictures)
}

fn picture(
    ending: String,
    svg: Result<String, PictureError>,
    png: Result<Vec<u8>, PictureError>,
) -> Result<Option<Picture>> {
    if matches!(svg, Err(PictureError::Empty)) {
        return Ok(None);
    }
    let place = || format!("the picture {ending}");
    let (svg, png) = (svg.with_context(place)?, png.with_context(place)?);
    Ok(Some(Picture { svg, png, ending }))
}

/// `-table2` of Table 2, `-table-shadow-cache` of one with a name.
fn ending(family: &str, name: &str) -> String {
    let dash = if name.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "-" };
    let plain = |letter: char| if letter.is_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    format!("{family}{dash}{}", name.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_hold_nothing_odd() {
        for (name, expected) in
            [("2", "-table2"), ("3a", "-table3a"), ("shadow cache", "-table-shadow-cache"), ("../x", "-table----x")]
        {
            assert_eq!(ending("-table", name), expected);
        }
    }
}
