//! Draws each table and figure of a reproduction.

use anyhow::{Context, Result};
use report::page::Picture;
use report::{BarsFigure, Drawing, LinesFigure, PictureError, Size};
use traces::results::reproduction::{Reproduction, Series};

use super::grid::{Grid, named, parts};

/// The beginnings of the endings of all pictures' names.
pub const FAMILIES: [&str; 2] = ["-table", "-figure"];

/// A picture, and the ending of its files' names before the dot.
pub struct Drawn {
    pub ending: String,
    pub picture: Picture,
}

/// Draws the tables, then the figures, each in the paper's order. A table or figure without points gets no picture.
pub fn draw(reproduction: &Reproduction, size: Size) -> Result<Vec<Drawn>> {
    let mut pictures = Vec::new();
    let authors = authors(&reproduction.paper);
    for Grid { name, cells, .. } in Grid::all(&reproduction.cells) {
        let title = format!("{authors}, {}", title_of_table(name, &reproduction.figures));
        let bars = BarsFigure { title: &title, caption: &reproduction.paper, cells: &cells, rows_apart: false };
        pictures.extend(picture(ending(FAMILIES[0], name), &title, &bars, size)?);
    }
    for (name, series) in parts(&reproduction.figures, |series: &Series| &series.figure) {
        let mut schedulers: Vec<&str> = series.iter().filter_map(|series| series.scheduler.as_deref()).collect();
        schedulers.dedup();
        let under = if schedulers.is_empty() { String::new() } else { format!(", under {}", schedulers.join(", ")) };
        let title = format!("{authors}, {}{under}", named("Figure", name));
        let all: Vec<&Series> = reproduction.figures.iter().collect();
        let lines = LinesFigure { title: &title, caption: &reproduction.paper, series: &series, alike: &all };
        pictures.extend(picture(ending(FAMILIES[1], name), &title, &lines, size)?);
    }
    Ok(pictures)
}

/// The name of a table. One that is called as a figure is has the numbers of that figure.
fn title_of_table(name: &str, figures: &[Series]) -> String {
    let title = named("Table", name);
    match figures.iter().any(|series| named("Figure", &series.figure) == title) {
        true => format!("numbers of {title}"),
        false => title,
    }
}

/// Authors and year of a paper, which its reference begins with.
fn authors(paper: &str) -> &str {
    let digits = |(at, _): &(usize, char)| {
        paper.get(*at..at + 4).is_some_and(|year| year.chars().all(|letter| letter.is_ascii_digit()))
    };
    paper.char_indices().find(digits).map_or(paper, |(at, _)| &paper[..at + 4])
}

/// `None` if there is nothing to draw.
fn picture(ending: String, title: &str, drawing: &impl Drawing, size: Size) -> Result<Option<Drawn>> {
    match Picture::drawn(title.to_owned(), drawing, size) {
        Err(PictureError::Empty) => Ok(None),
        picture => Ok(Some(Drawn { picture: picture.with_context(|| format!("the picture {ending}"))?, ending })),
    }
}

/// `-table2` of Table 2, `-table-shadow-cache` of one with a name.
fn ending(family: &str, name: &str) -> String {
    let dash = if name.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "-" };
    let words = name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    format!("{family}{dash}{}", words.collect::<Vec<_>>().join("-").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_paper_figure_and_scheduler() {
        assert_eq!(authors("Kim, Kang, Choi 2015: a scheduler"), "Kim, Kang, Choi 2015");
        assert_eq!(authors("a paper without a year"), "a paper without a year");
        assert_eq!(named("Table", "II, replayed"), "Table II, replayed");
        assert_eq!(named("Table", "Interference"), "Interference");
        let series = |figure: &str, scheduler: &str, high: f64| Series {
            figure: figure.to_owned(),
            scheduler: Some(scheduler.to_owned()),
            name: "VM 1".to_owned(),
            x: "time in s".to_owned(),
            y: "MB/s".to_owned(),
            points: vec![[0.0, 0.0], [1.0, high]],
        };
        let reproduction = Reproduction {
            paper: "Kim 2015: a scheduler".to_owned(),
            figures: vec![series("3", "cfq", 50.0), series("8", "BA", 100.0)],
            schema_version: 1,
            seeds: vec![1],
            choices: Vec::new(),
            cells: Vec::new(),
            errors: Vec::new(),
            bars: Vec::new(),
            ranks: Vec::new(),
            claims: Vec::new(),
            alternatives: Vec::new(),
            statements: Vec::new(),
        };
        let drawn = draw(&reproduction, Size { width: 640, height: 400 }).unwrap();
        assert!(
            drawn[0].picture.svg.contains("Kim 2015, Figure 3, under cfq")
                && drawn[1].picture.svg.contains("Figure 8, under BA")
        );
        assert_eq!(title_of_table("figure 3", &reproduction.figures), "numbers of Figure 3");
        assert_eq!(title_of_table("3", &reproduction.figures), "Table 3");
        // Both have the range of the larger.
        assert!(drawn.iter().all(|drawn| drawn.picture.svg.contains("\n100\n")), "{}", drawn[0].picture.svg);
    }

    #[test]
    fn names_of_files_hold_nothing_odd() {
        for (name, expected) in
            [("2", "-table2"), ("3a", "-table3a"), ("shadow cache", "-table-shadow-cache"), ("../x", "-table-x")]
        {
            assert_eq!(ending("-table", name), expected);
        }
    }
}
