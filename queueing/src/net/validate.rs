//! What makes a net unsound, and where.
//!
//! A net is refused as unbounded if tokens gather where nothing takes them, or if they multiply whatever the times. In
//! an open net, where requests come and leave, whether queues stay finite depends on times. A simulation of one that
//! grows ends with an error that names the place.

use std::collections::BTreeSet;

use super::bounded;
use super::{Arc, Departure, Mode, Net, Place, PlaceKind, Timing};

/// The most colors in places, all places together.
pub const SLOTS_MAX: usize = 1 << 16;

/// The most modes of all transitions, and the most arcs of all modes.
pub const ARCS_MAX: usize = 1 << 20;

/// The most tokens at the start, and on an arc.
pub const INITIAL_MAX: u64 = 1_000_000;

/// The most servers of a queue.
pub const SERVERS_MAX: u32 = 1_000_000;

/// A part of a net, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The net as a whole.
    Net,
    /// A queue.
    Queue(usize),
    /// A place.
    Place(usize),
    /// A color of a place: the place, and the index in its list.
    PlaceColor(usize, usize),
    /// A transition.
    Transition(usize),
    /// A mode of a transition: the transition, and the index in its list.
    Mode(usize, usize),
}

/// Why a net is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct NetError {
    /// The part to blame.
    pub part: Part,
    /// What is wrong with which part, and what would be right.
    pub problem: String,
}

/// The most modes that an error lists.
const NAMED_MAX: usize = 8;

type Checked = Result<(), NetError>;

fn refused(part: Part, problem: String) -> Checked {
    Err(NetError { part, problem })
}

/// Checks a net.
///
/// # Errors
/// The first part that is unsound: names, parameters, missing incidence, transitions that can never fire, tokens that
/// gather where no transition takes them.
pub fn check(net: &Net) -> Checked {
    check_size(net)?;
    check_names(net)?;
    for (index, queue) in net.queues.iter().enumerate() {
        if !(1..=SERVERS_MAX).contains(&queue.servers) {
            return refused(
                Part::Queue(index),
                format!("queue {} has {} servers: give 1 to {SERVERS_MAX}", queue.name, queue.servers),
            );
        }
    }
    for index in 0..net.places.len() {
        check_place(net, index)?;
    }
    for index in 0..net.transitions.len() {
        check_transition(net, index)?;
    }
    check_flow(net)
}

fn check_size(net: &Net) -> Checked {
    let slots: usize = net.places.iter().map(|place| place.colors.len()).sum();
    let modes = net.transitions.iter().flat_map(|transition| &transition.modes);
    let arcs: usize = modes.map(|mode| 1 + mode.inputs.len() + mode.outputs.len()).sum();
    if slots >= SLOTS_MAX || arcs > ARCS_MAX {
        let problem = format!(
            "the net has {slots} colors in places and {arcs} modes and arcs: at most {} and {ARCS_MAX} are simulated",
            SLOTS_MAX - 1
        );
        return refused(Part::Net, problem);
    }
    if net.places.is_empty() || net.transitions.is_empty() {
        return refused(Part::Net, "the net has no place or no transition: give one of each at least".to_owned());
    }
    let colors = net.places.iter().flat_map(|place| &place.colors);
    let initial: u64 = colors.map(|color| u64::from(color.initial)).sum();
    if initial > INITIAL_MAX {
        return refused(Part::Net, format!("the net starts with {initial} tokens: give at most {INITIAL_MAX}"));
    }
    Ok(())
}

fn check_names(net: &Net) -> Checked {
    let distinct = |what: &str, names: Vec<&str>, part: fn(usize) -> Part| -> Checked {
        let mut seen = BTreeSet::new();
        for (index, name) in names.into_iter().enumerate() {
            if name.is_empty() || !seen.insert(name) {
                let problem = format!("{what} number {} is called \"{name}\": give it a name of its own", index + 1);
                return refused(part(index), problem);
            }
        }
        Ok(())
    };
    distinct("color", net.colors.iter().map(String::as_str).collect(), |_| Part::Net)?;
    distinct("queue", net.queues.iter().map(|queue| queue.name.as_str()).collect(), Part::Queue)?;
    distinct("place", net.places.iter().map(|place| place.name.as_str()).collect(), Part::Place)?;
    distinct(
        "transition",
        net.transitions.iter().map(|transition| transition.name.as_str()).collect(),
        Part::Transition,
    )
}

fn check_place(net: &Net, index: usize) -> Checked {
    let Place { name, kind, colors, .. } = &net.places[index];
    if let PlaceKind::Queueing(queue) | PlaceKind::Immediate(queue) = kind
        && *queue >= net.queues.len()
    {
        return refused(Part::Place(index), format!("place {name} has queue number {queue}, which the net lacks"));
    }
    if colors.is_empty() {
        return refused(Part::Place(index), format!("place {name} has no color: list those that may lie in it"));
    }
    let mut seen = BTreeSet::new();
    for (at, color) in colors.iter().enumerate() {
        let part = Part::PlaceColor(index, at);
        let Some(color_name) = net.colors.get(color.color) else {
            return refused(part, format!("place {name} has color number {}, which the net lacks", color.color));
        };
        if !seen.insert(color.color) {
            return refused(part, format!("place {name} lists color {color_name} twice: list it once"));
        }
        match (kind, &color.service) {
            (PlaceKind::Queueing(_), None) => {
                let problem =
                    format!("color {color_name} of queueing place {name} has no service: give its distribution");
                return refused(part, problem);
            }
            (PlaceKind::Queueing(_), Some(service)) => {
                if let Err(problem) = service.check() {
                    return refused(part, format!("service of color {color_name} in place {name}: {problem}"));
                }
            }
            (_, Some(_)) => {
                let problem = format!(
                    "color {color_name} of place {name} has a service, but the place takes no time: give the place a \
                     queue, or drop the service"
                );
                return refused(part, problem);
            }
            (_, None) => {}
        }
    }
    Ok(())
}

fn check_transition(net: &Net, index: usize) -> Checked {
    let transition = &net.transitions[index];
    let name = &transition.name;
    let positive = |weight: f64| weight.is_finite() && weight > 0.0;
    if let Timing::Immediate { weight, .. } = transition.timing
        && !positive(weight)
    {
        let problem = format!("transition {name} has weight {weight}: give a finite number above 0");
        return refused(Part::Transition(index), problem);
    }
    if transition.modes.is_empty() {
        let problem = format!("transition {name} has no mode: give one, with the tokens that it takes and puts");
        return refused(Part::Transition(index), problem);
    }
    for (at, mode) in transition.modes.iter().enumerate() {
        let part = Part::Mode(index, at);
        let mode_name = format!("mode {} of transition {name}", mode.name);
        if !positive(mode.weight) {
            return refused(part, format!("{mode_name} has weight {}: give a finite number above 0", mode.weight));
        }
        match (transition.timing, &mode.delay) {
            (Timing::Timed, None) => return refused(part, format!("{mode_name} has no delay: give its distribution")),
            (Timing::Timed, Some(delay)) => {
                if let Err(problem) = delay.check() {
                    return refused(part, format!("delay of {mode_name}: {problem}"));
                }
            }
            (Timing::Immediate { .. }, Some(_)) => {
                return refused(part, format!("{mode_name} has a delay, but the transition is immediate: drop one"));
            }
            (Timing::Immediate { .. }, None) => {}
        }
        check_incidence(net, mode, part, &mode_name, transition.timing == Timing::Timed)?;
    }
    Ok(())
}

fn check_incidence(net: &Net, mode: &Mode, part: Part, name: &str, timed: bool) -> Checked {
    if mode.inputs.is_empty() && (!timed || mode.outputs.is_empty()) {
        let problem = format!("{name} takes no token: give the tokens that it takes, as \"place.color\"");
        return refused(part, problem);
    }
    for arc in mode.inputs.iter().chain(&mode.outputs) {
        let place = net.places.get(arc.place);
        let Some(place) = place.filter(|place| place.colors.iter().any(|color| color.color == arc.color)) else {
            let place = place.map_or("?", |place| &place.name);
            let color = net.colors.get(arc.color).map_or("?", String::as_str);
            return refused(
                part,
                format!("{name} moves color {color} of place {place}, which the place does not list"),
            );
        };
        if arc.count == 0 || u64::from(arc.count) > INITIAL_MAX {
            let problem = format!("{name} moves {} tokens of place {}: give 1 to {INITIAL_MAX}", arc.count, place.name);
            return refused(part, problem);
        }
    }
    let fifo = |arc: &&Arc| net.places[arc.place].departure == Departure::Fifo;
    let mut from_line = BTreeSet::new();
    for arc in mode.inputs.iter().filter(fifo) {
        if arc.count > 1 || !from_line.insert(arc.place) {
            let problem = format!(
                "{name} can never fire: it takes two tokens at once from place {}, whose tokens leave one by one",
                net.places[arc.place].name
            );
            return refused(part, problem);
        }
    }
    Ok(())
}

/// Refuses modes that can never fire, and colors that gather. A color counts as present if it is there at the start or
/// if a mode puts it that can fire; how many tokens there are is not looked at.
fn check_flow(net: &Net) -> Checked {
    let starts =
        |place: &Place, color: usize| place.colors.iter().any(|other| other.color == color && other.initial > 0);
    let mut present: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (index, place) in net.places.iter().enumerate() {
        present
            .extend(place.colors.iter().filter(|color| starts(place, color.color)).map(|color| (index, color.color)));
    }
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for (index, transition) in net.transitions.iter().enumerate() {
        waiting.extend((0..transition.modes.len()).map(|at| (index, at)));
    }
    let mut taken: BTreeSet<(usize, usize)> = BTreeSet::new();
    loop {
        let before = waiting.len();
        waiting.retain(|&(index, at)| {
            let mode = &net.transitions[index].modes[at];
            let dead = mode.inputs.iter().any(|arc| !present.contains(&(arc.place, arc.color)));
            if !dead {
                present.extend(mode.outputs.iter().map(|arc| (arc.place, arc.color)));
                taken.extend(mode.inputs.iter().map(|arc| (arc.place, arc.color)));
            }
            dead
        });
        if waiting.len() == before {
            break;
        }
    }
    if let Some(&(index, at)) = waiting.first() {
        let transition = &net.transitions[index];
        let mode = &transition.modes[at];
        let lacking = mode.inputs.iter().find(|arc| !present.contains(&(arc.place, arc.color)));
        let lacking = lacking.map_or(String::new(), |arc| {
            format!("no token of color {} ever comes to place {}", net.colors[arc.color], net.places[arc.place].name)
        });
        let problem = format!(
            "mode {} of transition {} can never fire: {lacking}; put one there, or drop the mode",
            mode.name, transition.name
        );
        return refused(Part::Mode(index, at), problem);
    }
    check_gathering(net, &taken)?;
    match bounded::growth(net) {
        None => Ok(()),
        Some(modes) => {
            let (index, at) = modes[0];
            let name = |&(index, at): &(usize, usize)| {
                let transition = &net.transitions[index];
                format!("{} (mode {})", transition.name, transition.modes[at].name)
            };
            let names: Vec<String> = modes.iter().take(NAMED_MAX).map(name).collect();
            let problem = format!(
                "the net is unbounded: tokens multiply when these fire in some proportion: {}; let them put as many \
                 tokens as they take",
                names.join(", ")
            );
            refused(Part::Mode(index, at), problem)
        }
    }
}

/// Refuses a color of a place into which tokens are put and from which no mode takes them.
fn check_gathering(net: &Net, taken: &BTreeSet<(usize, usize)>) -> Checked {
    for (index, transition) in net.transitions.iter().enumerate() {
        for (at, mode) in transition.modes.iter().enumerate() {
            if let Some(arc) = mode.outputs.iter().find(|arc| !taken.contains(&(arc.place, arc.color))) {
                let problem = format!(
                    "mode {} of transition {} puts color {} into place {}, and no transition takes it from there: the \
                     place is unbounded; add a transition that takes the tokens, or do not put them",
                    mode.name, transition.name, net.colors[arc.color], net.places[arc.place].name
                );
                return refused(Part::Mode(index, at), problem);
            }
        }
    }
    Ok(())
}
