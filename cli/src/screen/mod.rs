//! A screen of the terminal that shows what happens now, for `iocast stat --live` and `iocast compare --watch`.
//!
//! It is drawn on standard error, so that a result on standard output stays whole. A thread of its own draws it and
//! reads the keys.

mod heat;
mod parts;
mod requests;

use std::io::{IsTerminal as _, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use crate::quiet;

pub use heat::{Decades, heat_line, heat_map};
pub use parts::{bold, plain_table, rate, rows, title};
pub use requests::Requests;

/// The longest time between two drawings.
const REDRAW: Duration = Duration::from_millis(250);
/// The time between two looks at whether the screen is to close.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the terminal is taken over now.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether there is a terminal that can show a screen: standard error and standard input are one, it has a size, it is
/// not `dumb`, and `--quiet` is not given.
pub fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    let has_size = || terminal::size().is_ok_and(|(columns, lines)| columns > 0 && lines > 0);
    !quiet::is_set() && !is_dumb && stderr().is_terminal() && std::io::stdin().is_terminal() && has_size()
}

/// How the user left a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By the key q or Escape.
    Closed,
    /// By Ctrl-C.
    Interrupted,
}

/// A screen. It closes when it is dropped.
pub struct Screen {
    is_over: Arc<AtomicBool>,
    painter: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes over the terminal, and calls `draw` several times a second. When the user leaves, the terminal is as
    /// before, and `left` is called.
    ///
    /// # Errors
    /// The terminal refuses it.
    pub fn open(
        mut draw: impl FnMut(&mut Frame<'_>) + Send + 'static,
        left: impl FnOnce(Left) + Send + 'static,
    ) -> Result<Screen> {
        let mut terminal = take_over().inspect_err(|_| restore()).context("the terminal cannot show a screen")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let asked_to_end = Arc::clone(&is_over);
        let painter = thread::spawn(move || {
            let mut how = None;
            // At least once, so that a short job is seen, too.
            while terminal.draw(&mut draw).is_ok() {
                how = left_before_redraw(&asked_to_end);
                if how.is_some() || asked_to_end.load(Ordering::Relaxed) {
                    break;
                }
            }
            restore();
            if let Some(how) = how {
                left(how);
            }
        });
        Ok(Screen { is_over, painter: Some(painter) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(painter) = self.painter.take() {
            // It only draws; if it has panicked, its message is printed already.
            let _ = painter.join();
        }
    }
}

fn take_over() -> std::io::Result<Terminal<CrosstermBackend<Stderr>>> {
    // A message of a panic would vanish with the screen.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        print(panic);
    }));
    IS_OPEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(stderr(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stderr()))
}

/// Gives the terminal back as it was, if a screen has taken it over. For signals and panics, too.
pub fn restore() {
    if IS_OPEN.swap(false, Ordering::Relaxed) {
        // If the terminal has gone, there is nothing to restore.
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// How the user leaves, if it is before the next drawing is due or the screen is to close.
fn left_before_redraw(asked_to_end: &AtomicBool) -> Option<Left> {
    let begun = Instant::now();
    let mut how = None;
    while how.is_none() && begun.elapsed() < REDRAW && !asked_to_end.load(Ordering::Relaxed) {
        how = key_within(LOOK);
    }
    how
}

/// How the user leaves, if it is within this time. A change of the terminal's size ends the wait.
fn key_within(time: Duration) -> Option<Left> {
    if !event::poll(time).ok()? {
        return None;
    }
    match event::read().ok()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => meaning(key),
        _ => None,
    }
}

fn meaning(key: KeyEvent) -> Option<Left> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Left::Interrupted),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Left::Closed),
        _ => None,
    }
}

#[cfg(test)]
pub mod shown {
    //! What a screen shows, as text.

    use ratatui::backend::TestBackend;

    use super::*;

    /// The lines of a terminal of this size, without spaces at their ends.
    pub fn shown(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(draw).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| format!("{}\n", line(y).trim_end())).collect()
    }

    #[test]
    fn keys_that_leave() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Left::Closed));
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Left::Closed));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Left::Interrupted));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
    }
}
