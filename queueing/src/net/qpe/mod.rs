//! Import of the XML files (`.qpe`) of the Queueing Petri net Modeling Environment (QPME 2).
//!
//! Colors, queues, ordinary and queueing places, immediate and timed transitions with their modes and the connections
//! between colors of places and modes are read. What only describes an analysis or a picture is left out. Subnet
//! places, bounded capacities and other distributions and queues are refused by name.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};
use traces::DescriptionError;

use super::validate::{self};
use super::{Arc, Departure, Discipline, Mode, Net, Place, PlaceColor, PlaceKind, Queue, Timing, Transition};
use crate::distribution::Distribution;

/// The longest file, bytes.
const TEXT_MAX: usize = 1 << 24;

/// An error with the line, if one is to blame.
struct At {
    line: Option<usize>,
    problem: String,
}

fn refused<T>(node: Node<'_, '_>, problem: String) -> Result<T, At> {
    Err(At { line: Some(node.document().text_pos_at(node.range().start).row as usize), problem })
}

/// Reads the net of a `.qpe` file and checks it. `name` is the file's name, for errors and for the net.
///
/// # Errors
/// XML that is not well formed, a part that is not supported (by name), or a net that [`validate::check`] refuses.
pub fn parse(text: &str, name: &str) -> Result<Net, DescriptionError> {
    read(text, name).map_err(|At { line, problem }| DescriptionError {
        what: "QPME net",
        name: name.to_owned(),
        line,
        problem,
    })
}

fn read(text: &str, name: &str) -> Result<Net, At> {
    if text.len() > TEXT_MAX {
        return Err(At { line: None, problem: format!("it is longer than {TEXT_MAX} bytes: import a smaller net") });
    }
    let document = Document::parse(text)
        .map_err(|error| At { line: Some(error.pos().row as usize), problem: format!("it is not XML: {error}") })?;
    let root = document.root_element();
    if root.tag_name().name() != "net" {
        return refused(root, format!("it begins with {}, not with net: give a file of QPME", root.tag_name().name()));
    }
    let mut net = Net { name: name.to_owned(), ..Net::default() };
    let colors = of(root, "colors", "color");
    let color_ids = ids(&colors)?;
    for color in colors {
        net.colors.push(text_of(color, "name")?.to_owned());
    }
    let queues = of(root, "queues", "queue");
    let queue_ids = ids(&queues)?;
    for queue in queues {
        net.queues.push(queue_of(queue)?);
    }
    // Connections name the colors of places by ids of their own.
    let mut ends: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for place in of(root, "places", "place") {
        let index = net.places.len();
        for color in of(place, "color-refs", "color-ref") {
            ends.insert(text_of(color, "id")?, (index, index_of(color, "color-id", &color_ids)?));
        }
        net.places.push(place_of(place, &color_ids, &queue_ids)?);
    }
    for transition in of(root, "transitions", "transition") {
        net.transitions.push(transition_of(transition, &ends)?);
    }
    set_apart(net.queues.iter_mut().map(|queue| &mut queue.name));
    set_apart(net.places.iter_mut().map(|place| &mut place.name));
    set_apart(net.transitions.iter_mut().map(|transition| &mut transition.name));
    validate::check(&net).map_err(|error| At { line: None, problem: error.problem })?;
    Ok(net)
}

/// QPME tells parts apart by their ids, so that names may repeat. The second part of a name gets a 2 behind it.
fn set_apart<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for name in names {
        let times = seen.entry(name.clone()).or_insert(0);
        *times += 1;
        if *times > 1 {
            *name = format!("{name} ({times})");
        }
    }
}

/// The elements `name` in the element `list` of `parent`.
fn of<'a, 'input>(parent: Node<'a, 'input>, list: &str, name: &str) -> Vec<Node<'a, 'input>> {
    let lists = parent.children().filter(|child| child.has_tag_name(list));
    lists.flat_map(|list| list.children()).filter(|child| child.has_tag_name(name)).collect()
}

fn text_of<'a>(node: Node<'a, '_>, attribute: &str) -> Result<&'a str, At> {
    match node.attribute(attribute) {
        Some(text) => Ok(text),
        None => refused(node, format!("{} has no {attribute}: give it one", node.tag_name().name())),
    }
}

fn number<T: std::str::FromStr>(node: Node<'_, '_>, attribute: &str, default: Option<T>) -> Result<T, At> {
    match (node.attribute(attribute), default) {
        (None, Some(default)) => Ok(default),
        _ => {
            let text = text_of(node, attribute)?;
            match text.trim().parse() {
                Ok(number) => Ok(number),
                Err(_) => refused(node, format!("{attribute} is \"{text}\": give a number that fits")),
            }
        }
    }
}

fn ids<'a>(nodes: &[Node<'a, '_>]) -> Result<BTreeMap<&'a str, usize>, At> {
    nodes.iter().enumerate().map(|(index, node)| Ok((text_of(*node, "id")?, index))).collect()
}

fn index_of(node: Node<'_, '_>, attribute: &str, ids: &BTreeMap<&str, usize>) -> Result<usize, At> {
    let id = text_of(node, attribute)?;
    match ids.get(id) {
        Some(index) => Ok(*index),
        None => refused(node, format!("{attribute} \"{id}\" is no id of the file: repair the reference")),
    }
}

/// The kind of an element, its `xsi:type`.
fn kind_of<'a>(node: Node<'a, '_>) -> &'a str {
    node.attributes().find(|attribute| attribute.name() == "type").map_or("", |attribute| attribute.value())
}

fn queue_of(node: Node<'_, '_>) -> Result<Queue, At> {
    let name = text_of(node, "name")?.to_owned();
    let discipline = match text_of(node, "strategy")? {
        "FCFS" => Discipline::Fcfs,
        "PS" => Discipline::Ps,
        "IS" => Discipline::Is,
        "RANDOM" => Discipline::Random,
        "PRIO" => Discipline::Priority,
        other => {
            return refused(node, format!("queue {name} has strategy {other}: FCFS, PS, IS, RANDOM, PRIO are read"));
        }
    };
    let servers = if discipline == Discipline::Is { 1 } else { number(node, "number-of-servers", Some(1))? };
    Ok(Queue { name, discipline, servers })
}

fn place_of(
    node: Node<'_, '_>,
    color_ids: &BTreeMap<&str, usize>,
    queue_ids: &BTreeMap<&str, usize>,
) -> Result<Place, At> {
    let name = text_of(node, "name")?.to_owned();
    let kind = match kind_of(node) {
        "ordinary-place" => PlaceKind::Ordinary,
        "queueing-place" => PlaceKind::Queueing(index_of(node, "queue-ref", queue_ids)?),
        other => {
            return refused(node, format!("place {name} is a {other}: ordinary-place and queueing-place are read"));
        }
    };
    let departure = match node.attribute("departure-discipline").unwrap_or("NORMAL") {
        "NORMAL" => Departure::Normal,
        "FIFO" => Departure::Fifo,
        other => return refused(node, format!("place {name} has departure-discipline {other}: NORMAL, FIFO are read")),
    };
    let color = |node: Node<'_, '_>| {
        if number(node, "maximum-capacity", Some(0_u64))? != 0 {
            return refused(node, format!("a color of place {name} has a maximum-capacity: only 0, no bound, is read"));
        }
        let service = matches!(kind, PlaceKind::Queueing(_)).then(|| distribution_of(node)).transpose()?;
        Ok(PlaceColor {
            color: index_of(node, "color-id", color_ids)?,
            initial: number(node, "initial-population", Some(0))?,
            service,
            priority: number(node, "priority", Some(0))?,
        })
    };
    let colors = of(node, "color-refs", "color-ref").into_iter().map(color).collect::<Result<_, At>>()?;
    Ok(Place { name, kind, departure, colors })
}

/// The service of a color. QPME gives rates where this package gives means.
fn distribution_of(node: Node<'_, '_>) -> Result<Distribution, At> {
    let parameter = |name: &str| number::<f64>(node, name, None);
    Ok(match text_of(node, "distribution-function")? {
        "Exponential" => Distribution::Exponential { mean: 1.0 / parameter("lambda")? },
        // Colt's gamma: the mean is alpha / lambda.
        "Gamma" => {
            let shape = parameter("alpha")?;
            Distribution::Gamma { mean: shape / parameter("lambda")?, shape }
        }
        "Deterministic" => Distribution::Deterministic { value: parameter("p1")? },
        "Uniform" => Distribution::Uniform { low: parameter("min")?, high: parameter("max")? },
        "Normal" => Distribution::Normal { mean: parameter("mean")?, deviation: parameter("stdDev")? },
        other => {
            let problem = format!(
                "distribution-function {other} is not read: Exponential, Gamma, Deterministic, Uniform and Normal are"
            );
            return refused(node, problem);
        }
    })
}

fn transition_of(node: Node<'_, '_>, ends: &BTreeMap<&str, (usize, usize)>) -> Result<Transition, At> {
    let name = text_of(node, "name")?.to_owned();
    let timing = match kind_of(node) {
        "immediate-transition" => Timing::Immediate {
            priority: number(node, "priority", Some(0))?,
            weight: number(node, "weight", Some(1.0))?,
        },
        "timed-transition" => Timing::Timed,
        other => {
            return refused(node, format!("transition {name} is a {other}: immediate and timed transitions are read"));
        }
    };
    let nodes = of(node, "modes", "mode");
    let mode_ids = ids(&nodes)?;
    let mut modes = Vec::new();
    for mode in nodes {
        let timed = timing == Timing::Timed;
        let delay = timed.then(|| number(mode, "mean-firing-delay", None)).transpose()?;
        modes.push(Mode {
            name: text_of(mode, "name")?.to_owned(),
            weight: number(mode, "firing-weight", Some(1.0))?,
            delay: delay.map(|mean| Distribution::Exponential { mean }),
            inputs: Vec::new(),
            outputs: Vec::new(),
        });
    }
    for connection in of(node, "connections", "connection") {
        let [source, target] = [text_of(connection, "source-id")?, text_of(connection, "target-id")?];
        let count = number(connection, "count", Some(1))?;
        let arc = |end: &(usize, usize)| Arc { place: end.0, color: end.1, count };
        match (ends.get(source), mode_ids.get(target), mode_ids.get(source), ends.get(target)) {
            (Some(end), Some(&mode), _, _) => modes[mode].inputs.push(arc(end)),
            (_, _, Some(&mode), Some(end)) => modes[mode].outputs.push(arc(end)),
            _ => {
                let problem =
                    format!("a connection of transition {name} joins no color of a place and no mode: drop it");
                return refused(connection, problem);
            }
        }
    }
    Ok(Transition { name, timing, modes })
}

#[cfg(test)]
mod tests;
