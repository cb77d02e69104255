//! Pictures of nets: for Graphviz, and as SVG in layers from left to right.
//!
//! Places are circles, those with a queue have a bar at the top, transitions are upright bars: black if immediate, white
//! if timed. The SVG leaves out colors and modes; the names of places say how many tokens start there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use super::{Net, Place, PlaceKind, Timing};

/// A picture of a net in Graphviz's language. Labels of arrows have counts above one and the colors.
pub fn dot(net: &Net) -> String {
    let mut text = format!("digraph \"{}\" {{\n  rankdir=LR;\n", escaped_dot(&net.name));
    for (index, place) in net.places.iter().enumerate() {
        let shape = if matches!(place.kind, PlaceKind::Ordinary) { "circle" } else { "doublecircle" };
        let label = label_of(net, place).join("\\n");
        let _ =
            writeln!(text, "  p{index} [shape={shape}, label=\"{}\"];", escaped_dot(&label).replace("\\\\n", "\\n"));
    }
    for (index, transition) in net.transitions.iter().enumerate() {
        let style = if transition.timing == Timing::Timed { "" } else { ", style=filled, fillcolor=black" };
        let name = escaped_dot(&transition.name);
        let _ = writeln!(text, "  t{index} [shape=box, width=0.1, height=0.6, label=\"\", xlabel=\"{name}\"{style}];");
    }
    for ((place, transition, into), colors) in edges(net) {
        let label = escaped_dot(&colors.into_iter().collect::<Vec<String>>().join(", "));
        let (from, to) = if into {
            (format!("t{transition}"), format!("p{place}"))
        } else {
            (format!("p{place}"), format!("t{transition}"))
        };
        let _ = writeln!(text, "  {from} -> {to} [label=\"{label}\"];");
    }
    text.push_str("}\n");
    text
}

fn escaped_dot(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}

fn escaped_xml(text: &str) -> String {
    let whole = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    whole.chars().filter(|character| !character.is_control()).collect()
}

/// The name of a place and, below, its tokens at the start.
fn label_of(net: &Net, place: &Place) -> Vec<String> {
    let some = place.colors.iter().filter(|color| color.initial > 0);
    let tokens: Vec<String> = some.map(|color| format!("{} {}", color.initial, net.colors[color.color])).collect();
    if tokens.is_empty() { vec![place.name.clone()] } else { vec![place.name.clone(), tokens.join(", ")] }
}

/// Place, transition and whether the arrow leads to the place.
type Edge = (usize, usize, bool);

/// The arrows with what they move.
fn edges(net: &Net) -> BTreeMap<Edge, BTreeSet<String>> {
    let mut edges: BTreeMap<Edge, BTreeSet<String>> = BTreeMap::new();
    for (index, transition) in net.transitions.iter().enumerate() {
        for mode in &transition.modes {
            for (arcs, into) in [(&mode.inputs, false), (&mode.outputs, true)] {
                for arc in arcs {
                    let color = &net.colors[arc.color];
                    let moved = if arc.count > 1 { format!("{} {color}", arc.count) } else { color.clone() };
                    edges.entry((arc.place, index, into)).or_default().insert(moved);
                }
            }
        }
    }
    edges
}

const COLUMN: f64 = 130.0;
const ROW: f64 = 110.0;
const MARGIN: f64 = 70.0;
const RADIUS: f64 = 22.0;
/// Between two arrows back.
const LANE: f64 = 12.0;
/// Half the width and height of a transition.
const BAR: [f64; 2] = [5.0, 24.0];

/// A picture of a net as SVG. Each place and transition stands one layer behind those that lead to it; arrows back run
/// above all rows, each in a lane of its own.
pub fn svg(net: &Net) -> String {
    let edges = edges(net);
    let mut spots = layout(net, &edges);
    let ends_of =
        |spots: &[[f64; 2]], &(place, transition, _): &Edge| [spots[place], spots[net.places.len() + transition]];
    let back = |edge: &&Edge| {
        let [place, transition] = ends_of(&spots, edge);
        if edge.2 { place[0] <= transition[0] } else { transition[0] <= place[0] }
    };
    let lanes: Vec<Edge> = edges.keys().filter(back).copied().collect();
    for spot in &mut spots {
        spot[1] += LANE * lanes.len() as f64;
    }
    let most = spots.iter().fold([0.0_f64; 2], |most, spot| [most[0].max(spot[0]), most[1].max(spot[1])]);
    let (width, height) = (most[0] + MARGIN, most[1] + MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n<defs><marker id=\"tip\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escaped_xml(&net.name)
    );
    for edge in edges.keys() {
        arrow(&mut text, ends_of(&spots, edge), edge.2, lanes.iter().position(|lane| lane == edge));
    }
    for (index, place) in net.places.iter().enumerate() {
        let [x, y] = spots[index];
        let _ = writeln!(text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\" fill=\"white\" stroke=\"black\"/>");
        if !matches!(place.kind, PlaceKind::Ordinary) {
            let half = 20.0;
            let (left, right, level) = (x - half, x + half, y - 9.0);
            let _ = writeln!(text, "<path d=\"M{left} {level}H{right}\" stroke=\"black\"/>");
        }
        for (line, words) in label_of(net, place).iter().enumerate() {
            let below = y + RADIUS + 14.0 + 14.0 * line as f64;
            caption(&mut text, x, below, words);
        }
    }
    for (index, transition) in net.transitions.iter().enumerate() {
        let [x, y] = spots[net.places.len() + index];
        let fill = if transition.timing == Timing::Timed { "white" } else { "black" };
        let (left, top, wide, high) = (x - BAR[0], y - BAR[1], 2.0 * BAR[0], 2.0 * BAR[1]);
        let _ = writeln!(
            text,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{high}\" fill=\"{fill}\" stroke=\"black\"/>"
        );
        caption(&mut text, x, y + BAR[1] + 14.0, &transition.name);
    }
    text.push_str("</svg>\n");
    text
}

/// Words with a white edge below them, so that arrows do not hide them.
fn caption(text: &mut String, x: f64, y: f64, words: &str) {
    let words = escaped_xml(words);
    for paint in ["stroke=\"white\" stroke-width=\"4\"", "fill=\"black\""] {
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" {paint}>{words}</text>");
    }
}

/// An arrow between a place and a transition. An arrow back runs in `lane`, above all places.
fn arrow(text: &mut String, [place, transition]: [[f64; 2]; 2], into: bool, lane: Option<usize>) {
    let (from, to) = if into { (transition, place) } else { (place, transition) };
    let reach = |at_place: bool| if at_place { RADIUS } else { BAR[0] };
    let (left, right) = (from[0] + reach(!into), to[0] - reach(into));
    let path = match lane {
        None => {
            let middle = f64::midpoint(left, right);
            format!("M{left} {}C{middle} {} {middle} {} {right} {}", from[1], from[1], to[1], to[1])
        }
        Some(lane) => {
            // Up between two columns, back, and down between two columns; beside the arrows of other lanes.
            let apart = 34.0 + 5.0 * (lane % 6) as f64;
            let (up, down, level) = (from[0] + apart, to[0] - apart, MARGIN / 2.0 + LANE * lane as f64);
            format!("M{left} {}H{up}V{level}H{down}V{}H{right}", from[1], to[1])
        }
    };
    let _ = writeln!(
        text,
        "<path d=\"{path}\" fill=\"none\" stroke=\"black\" stroke-linejoin=\"round\" marker-end=\"url(#tip)\"/>"
    );
}

/// Where places and then transitions stand: by their distance from the places that have tokens at the start.
fn layout(net: &Net, edges: &BTreeMap<Edge, BTreeSet<String>>) -> Vec<[f64; 2]> {
    let nodes = net.places.len() + net.transitions.len();
    let mut next = vec![Vec::new(); nodes];
    for &(place, transition, into) in edges.keys() {
        let transition = net.places.len() + transition;
        let (from, to) = if into { (transition, place) } else { (place, transition) };
        next[from].push(to);
    }
    let mut layers: Vec<Option<usize>> = vec![None; nodes];
    // Sources first, then the place with most tokens, then whatever is left.
    let takes_nothing = |index: usize| net.transitions[index].modes.iter().any(|mode| mode.inputs.is_empty());
    let sources =
        (0..net.transitions.len()).filter(|&index| takes_nothing(index)).map(|index| net.places.len() + index);
    let mut starts: Vec<usize> = sources.collect();
    let mut by_tokens: Vec<usize> = (0..net.places.len()).collect();
    let tokens = |index: &usize| net.places[*index].colors.iter().map(|color| u64::from(color.initial)).sum::<u64>();
    by_tokens.sort_by_key(|index| std::cmp::Reverse(tokens(index)));
    let begins = starts.is_empty();
    starts.extend(by_tokens);
    starts.extend(net.places.len()..nodes);
    let mut queue = VecDeque::new();
    for (order, start) in starts.into_iter().enumerate() {
        if layers[start].is_none() {
            let first = order == 0 || (!begins && start >= net.places.len());
            // A place that only waits for tokens to come back stands beside what takes from it.
            let layer = if first {
                0
            } else {
                next[start].iter().filter_map(|&to| layers[to]).min().map_or(0, |to| to.saturating_sub(1))
            };
            layers[start] = Some(layer);
            queue.push_back(start);
        }
        while let Some(node) = queue.pop_front() {
            let layer = layers[node].unwrap_or(0);
            for &to in &next[node] {
                if layers[to].is_none() {
                    layers[to] = Some(layer + 1);
                    queue.push_back(to);
                }
            }
        }
    }
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    let spot = |layer: Option<usize>| {
        let layer = layer.unwrap_or(0);
        let row = rows.entry(layer).or_default();
        *row += 1;
        [MARGIN + layer as f64 * COLUMN, MARGIN + (*row - 1) as f64 * ROW]
    };
    layers.into_iter().map(spot).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

    use super::super::description::parse;
    use super::*;

    #[test]
    fn pictures_have_each_part_and_escape_names() {
        let text = include_str!("../../nets/noorshams2014.toml").replace("waiting", "wait<\\\"&");
        let net = parse(&text, "x").unwrap();
        let picture = svg(&net);
        roxmltree::Document::parse(&picture).unwrap();
        assert_eq!((picture.matches("<circle").count(), picture.matches("marker-end").count()), (4, 8));
        assert!(picture.contains("wait&lt;&quot;&amp;") && picture.contains("30 read, 10 write"));
        let text = dot(&net);
        assert!(text.contains("label=\"wait<\\\"&\"") && text.contains("p0 -> t0 [label=\"read, write\"]"), "{text}");
    }
}
