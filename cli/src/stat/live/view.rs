//! The screen of a device: figures of the last second, rates and times of the last minutes, and who asks.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::Sparkline;
use traces::histograms::LogHistogram;

use super::recent::{OfVm, Recent, Second};
use crate::screen::{Requests, heat_map, plain_table, rate, rows, title};
use crate::units::{ABSENT, data, span_or_absent};

/// The seconds over which percentiles and the greediest are found: one has too few requests.
const TOGETHER: usize = 10;
const KEYS: &str = "q ends";
const READS: Color = Color::Cyan;
const WRITES: Color = Color::Magenta;

/// Draws the device. What does not fit is left out from below.
pub fn draw(frame: &mut Frame<'_>, recent: &Recent) {
    let lines = frame.area().height;
    let (chart, bars) = (if lines < 30 { 3 } else { usize::from(lines / 8) }, if lines < 30 { 2 } else { 3 });
    let has_others = recent.together(TOGETHER).0.others.count > 0;
    let table = if has_others { 4 } else { 3 };
    let heights = [1, table, 1, 1, 1, bars, 1, chart, 1, chart, usize::from(lines)];
    let [head, figures, queue, _, of_rates, rates, of_reads, reads, of_writes, writes, vms] =
        rows(frame.area(), heights);
    let seconds = recent.lasted.as_secs();
    let lost = if recent.lost == 0 { String::new() } else { format!(", {} events lost", recent.lost) };
    let of = format!("{}  {}:{:02}  CPU {:.1} %{lost}", recent.device, seconds / 60, seconds % 60, recent.cpu_percent);
    title(frame, head, &of, KEYS);
    if recent.seconds.is_empty() {
        frame.render_widget(Line::from("The first second has not ended yet."), figures);
        return;
    }
    of_last_second(frame, figures, queue, recent);
    let width = usize::from(rates.width);
    let totals: Vec<u64> = newest(recent, width).map(|second| second.all.requests()).collect();
    let most = totals.iter().copied().max().unwrap_or(0);
    frame.render_widget(Line::from(format!("Requests per second, at most {most}")), of_rates);
    sparkline(frame, rates, &totals);
    for (name, area, map, colour, of) in [
        ("reads", of_reads, reads, READS, (|second| &second.all.reads.times) as fn(&Second) -> &LogHistogram),
        ("writes", of_writes, writes, WRITES, |second| &second.all.writes.times),
    ] {
        let columns: Vec<&LogHistogram> = newest(recent, width).map(of).collect();
        frame.render_widget(Line::from(format!("D2C of {name}, a column per second")), area);
        if map.height > 0 {
            heat_map(frame, map, &columns, colour);
        }
    }
    greediest(frame, vms, recent);
}

/// The last seconds that fit, oldest first.
fn newest(recent: &Recent, width: usize) -> impl Iterator<Item = &Second> {
    recent.seconds.range(recent.seconds.len().saturating_sub(width)..)
}

fn of_last_second(frame: &mut Frame<'_>, table: Rect, queue: Rect, recent: &Recent) {
    let Some(last) = recent.seconds.back() else { return };
    let (all, _, _) = recent.together(TOGETHER);
    let row = |name: &str, now: &Requests, lately: &Requests| {
        vec![
            name.to_owned(),
            rate(now.count, last.length_ns),
            rate(now.bytes, last.length_ns.saturating_mul(1_000_000)),
            if now.bytes == 0 { ABSENT.to_owned() } else { data(now.bytes / now.count.max(1)) },
            span_or_absent(now.mean_ns()),
            span_or_absent(now.percentile(5_000)),
            span_or_absent(lately.percentile(9_900)),
            span_or_absent(lately.max_ns()),
        ]
    };
    let header = ["last second", "per s", "MB/s", "mean size", "D2C mean", "p50", "p99 of 10 s", "max of 10 s"];
    let mut operations = vec![row("reads", &last.all.reads, &all.reads), row("writes", &last.all.writes, &all.writes)];
    if all.others.count > 0 {
        operations.push(row("flushes, discards", &last.all.others, &all.others));
    }
    plain_table(frame, table, &header, &operations);
    let in_flight = format!("in flight      mean {:.1}, at most {}", last.in_flight_mean(), last.in_flight_max);
    frame.render_widget(Line::from(in_flight), queue);
}

/// Bars from the right edge, the newest there.
fn sparkline(frame: &mut Frame<'_>, area: Rect, totals: &[u64]) {
    let taken = (totals.len() as u16).min(area.width);
    let right = Rect { x: area.right() - taken, width: taken, ..area };
    frame.render_widget(Sparkline::default().data(totals).style(Style::new().fg(READS)), right);
}

fn greediest(frame: &mut Frame<'_>, area: Rect, recent: &Recent) {
    let (_, vms, length_ns) = recent.together(TOGETHER);
    let row = |vm: &OfVm| {
        let mut both = vm.reads.clone();
        both.merge(&vm.writes);
        vec![
            if vm.name.is_empty() { ABSENT.to_owned() } else { vm.name.clone() },
            rate(vm.reads.count, length_ns),
            rate(vm.writes.count, length_ns),
            rate(vm.bytes(), length_ns.saturating_mul(1_000_000)),
            span_or_absent(both.mean_ns()),
            span_or_absent(both.percentile(9_900)),
        ]
    };
    let found: Vec<Vec<String>> = vms.iter().take(usize::from(area.height)).map(row).collect();
    let header = ["VM or process, last 10 s", "reads/s", "writes/s", "MB/s", "D2C mean", "p99"];
    if area.height > 1 && !found.is_empty() {
        plain_table(frame, area, &header, &found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::recent::tests::{line, recent};
    use super::*;
    use crate::screen::shown::shown;

    #[test]
    fn all_parts_are_on_a_usual_terminal() {
        let mut lines: Vec<_> =
            (0..5).map(|at| line(at, "web", &vec![2_000_000; 100 * (at as usize + 1)], &[])).collect();
        lines.push(line(5, "web", &[1_500_000; 700], &[]));
        lines.push(line(5, "mail", &[20_000_000; 40], &[90_000_000; 60]));
        let recent = recent(lines);
        let text = shown(80, 24, |frame| draw(frame, &recent));
        assert_eq!(text, include_str!("screen.txt"));
        // Parts at the foot are left out, and columns at the right.
        let small = shown(40, 8, |frame| draw(frame, &recent));
        assert!(
            small.starts_with("sda  0:02  CPU 0.4 %              q ends\nlast second  per s MB/s mean size\n"),
            "{small}"
        );
        shown(1, 1, |frame| draw(frame, &recent));
    }

    #[test]
    fn before_the_first_second_the_screen_says_so() {
        let text = shown(40, 4, |frame| draw(frame, &recent(Vec::new())));
        assert_eq!(text.lines().nth(1), Some("The first second has not ended yet."));
    }
}
