//! The screen of running replays, and the line of one.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use traces::printable::printable;

use super::Replays;
use super::seen::Seen;
use crate::screen::{Decades, Requests, bold, heat_line, plain_table, rate, rows, title};
use crate::units::{ABSENT, span, span_or_absent};

const KEYS: &str = "q closes, Ctrl-C stops";
const P99: u32 = 9_900;

/// Draws all replays. What does not fit is left out from below.
pub fn draw(frame: &mut Frame<'_>, replays: &Replays, seen: &[Seen], lasted: Duration) {
    let each = seen.len() + 1;
    let whole = usize::from(frame.area().height);
    let [head, figures, _, reads, _, writes, _, vms] = rows(frame.area(), [1, each, 1, each, 1, each, 1, whole]);
    let seconds = lasted.as_secs();
    title(frame, head, &format!("{}  {}:{:02}", replays.what, seconds / 60, seconds % 60), KEYS);
    figures_so_far(frame, figures, replays, seen);
    let shown = [("reads", reads, Color::Cyan), ("writes", writes, Color::Magenta)];
    for (operation, area, colour) in shown {
        let of = |seen: &Seen| if operation == "reads" { seen.reads.clone() } else { seen.writes.clone() };
        let requests: Vec<Requests> = seen.iter().map(of).collect();
        distributions(frame, area, operation, replays, &requests, colour);
    }
    means_of_vms(frame, vms, replays, seen);
}

fn percent(done: Option<f64>) -> String {
    done.map_or_else(|| ABSENT.to_owned(), |done| format!("{:.0} %", done * 100.0))
}

fn done(replays: &Replays, replay: usize, seen: &Seen) -> String {
    if seen.has_ended { "ended".to_owned() } else { percent(replays.done(replay)) }
}

fn figures_so_far(frame: &mut Frame<'_>, area: Rect, replays: &Replays, seen: &[Seen]) {
    let row = |(replay, seen): (usize, &Seen)| {
        vec![
            replays.replays[replay].name.clone(),
            done(replays, replay, seen),
            span(seen.now.as_ns() as f64),
            rate(seen.completed, seen.now.as_ns()),
            span_or_absent(seen.reads.mean_ns()),
            span_or_absent(seen.reads.percentile(P99)),
            span_or_absent(seen.writes.mean_ns()),
            span_or_absent(seen.writes.percentile(P99)),
            seen.outstanding().to_string(),
        ]
    };
    let header = ["so far", "done", "simulated", "per s", "reads mean", "p99", "writes mean", "p99", "outstanding"];
    let cells: Vec<Vec<String>> = seen.iter().enumerate().map(row).collect();
    plain_table(frame, area, &header, &cells);
}

/// The distribution of response times of each replay, a line each, on one axis.
fn distributions(
    frame: &mut Frame<'_>,
    area: Rect,
    operation: &str,
    replays: &Replays,
    requests: &[Requests],
    colour: Color,
) {
    if area.height == 0 || requests.iter().all(|of| of.count == 0) {
        return;
    }
    let axis = Decades::around(requests.iter().map(|of| &of.times));
    let heading = format!("{operation}, Q2C");
    let names = replays.replays.iter().map(|replay| printable(&replay.name).chars().count());
    let left = names.chain([heading.chars().count()]).max().unwrap_or(0).min(usize::from(area.width) / 3) + 1;
    let cells = usize::from(area.width).saturating_sub(left);
    let named = |name: &str| format!("{:<left$}", name.chars().take(left - 1).collect::<String>());
    let mut lines = vec![Line::styled(format!("{}{}", named(&heading), axis.axis(cells)), bold())];
    for (replay, of) in replays.replays.iter().zip(requests) {
        let shades = Span::styled(heat_line(&of.times, axis, cells), Style::new().fg(colour));
        lines.push(Line::from(vec![Span::raw(named(&printable(&replay.name))), shades]));
    }
    for (line, area) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, area);
    }
}

/// The mean response time of each VM under each scheduler.
fn means_of_vms(frame: &mut Frame<'_>, area: Rect, replays: &Replays, seen: &[Seen]) {
    if replays.vms.len() < 2 || area.height < 2 {
        return;
    }
    let names = replays.replays.iter().map(|replay| replay.name.as_str());
    let header: Vec<&str> = std::iter::once("mean Q2C").chain(names).collect();
    let row = |(vm, name): (usize, &String)| {
        let of = |seen: &Seen| span_or_absent(seen.vms.get(vm).and_then(Requests::mean_ns));
        std::iter::once(name.clone()).chain(seen.iter().map(of)).collect()
    };
    let cells: Vec<Vec<String>> = replays.vms.iter().enumerate().map(row).collect();
    plain_table(frame, area, &header, &cells);
}

/// A replay in a line.
pub fn line(replays: &Replays, replay: usize, seen: &Seen) -> String {
    let of = |requests: &Requests| {
        let [mean, p99] = [requests.mean_ns(), requests.percentile(P99)].map(span_or_absent);
        format!("mean {mean}, p99 {p99}")
    };
    format!(
        "{}: {}, {} simulated, {} requests per s, reads {}, writes {}, {} outstanding",
        replays.replays[replay].name,
        done(replays, replay, seen),
        span(seen.now.as_ns() as f64),
        rate(seen.completed, seen.now.as_ns()),
        of(&seen.reads),
        of(&seen.writes),
        seen.outstanding()
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use traces::Timestamp;

    use super::super::Replay;
    use super::*;
    use crate::screen::shown::shown;

    fn replays() -> (Replays, Vec<Seen>) {
        let replay = |name: &str, done: u64| Replay { name: name.to_owned(), done: Arc::new(done.into()) };
        let replays = Replays {
            what: "web, mail on cheetah-15k4".to_owned(),
            whole: Some(200),
            vms: vec!["web".to_owned(), "mail".to_owned()],
            replays: vec![replay("deadline", 90), replay("cats", 200)],
        };
        let seen = |slower: u64, has_ended: bool| {
            let mut seen = Seen {
                now: Timestamp::from_ns(20_000_000_000),
                arrived: 1_005,
                completed: 1_000,
                has_ended,
                ..Seen::default()
            };
            seen.vms = vec![Requests::default(); 2];
            for at in 1..=700 {
                seen.reads.add(4096, at * 100_000 * slower);
                seen.vms[0].add(4096, at * 100_000 * slower);
            }
            for at in 1..=300 {
                seen.writes.add(4096, at * 10_000_000 / slower);
                seen.vms[1].add(4096, at * 10_000_000 / slower);
            }
            seen
        };
        (replays, vec![seen(3, false), seen(1, true)])
    }

    #[test]
    fn all_parts_are_on_a_usual_terminal() {
        let (replays, seen) = replays();
        let draw = |frame: &mut Frame<'_>| super::draw(frame, &replays, &seen, Duration::from_secs(63));
        assert_eq!(shown(100, 18, draw), include_str!("screen.txt"));
        shown(1, 1, draw);
        let narrow = shown(40, 18, draw);
        assert!(narrow.contains("\ndeadline      45 %"), "{narrow}");
    }

    #[test]
    fn a_replay_is_one_line() {
        let (replays, seen) = replays();
        let running = "deadline: 45 %, 20s simulated, 50 requests per s, reads mean 105ms, p99 206ms, writes mean 502ms, p99 \
                       990ms, 5 outstanding";
        assert_eq!(line(&replays, 0, &seen[0]), running);
        assert!(line(&replays, 1, &seen[1]).starts_with("cats: ended, 20s simulated"));
        let begun = line(&replays, 1, &Seen::default());
        assert_eq!(
            begun,
            "cats: 100 %, 0ns simulated, 0 requests per s, reads mean –, p99 –, writes mean –, p99 –, 0 outstanding"
        );
    }
}
