//! Nets described in TOML: `docs/nets.md` has all that a description may hold, `nets/noorshams2014.toml` is an example.
//! A timed transition that takes nothing is an open source, a mode that puts nothing is a sink.

use serde::Deserialize;
use toml::Spanned;
use traces::spec::nearest;
use traces::{DescriptionError, described};

use super::subnet;
use super::validate::{self, Part};
use super::{Arc, Departure, Discipline, Mode, Net, Place, PlaceColor, PlaceKind, Queue, Timing, Transition};
use crate::distribution::Distribution;

/// The longest description, bytes.
const TEXT_MAX: usize = 1 << 24;

/// What descriptions are called in errors.
const WHAT: &str = "net";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetText {
    name: String,
    colors: Vec<String>,
    #[serde(default)]
    queues: Vec<Spanned<QueueText>>,
    places: Vec<Spanned<PlaceText>>,
    transitions: Vec<Spanned<TransitionText>>,
    #[serde(default)]
    subnets: Vec<Spanned<SubnetText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueText {
    name: String,
    #[serde(default)]
    discipline: DisciplineText,
    #[serde(default = "one")]
    servers: u32,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DisciplineText {
    #[default]
    Fcfs,
    Ps,
    Is,
    Random,
    Priority,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceText {
    pub(super) name: String,
    queue: Option<Spanned<String>>,
    #[serde(default)]
    immediate: bool,
    pub(super) subnet: Option<Spanned<String>>,
    #[serde(default)]
    departure: DepartureText,
    #[serde(default)]
    pub(super) colors: Vec<Spanned<PlaceColorText>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DepartureText {
    #[default]
    Normal,
    Fifo,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceColorText {
    color: Spanned<String>,
    #[serde(default)]
    initial: u32,
    service: Option<Distribution>,
    #[serde(default)]
    priority: i32,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransitionText {
    pub(super) name: String,
    #[serde(default)]
    timed: bool,
    #[serde(default)]
    priority: i32,
    #[serde(default = "one_weight")]
    weight: f64,
    #[serde(default)]
    pub(super) modes: Vec<Spanned<ModeText>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeText {
    name: String,
    #[serde(default = "one_weight")]
    weight: f64,
    delay: Option<Distribution>,
    #[serde(default)]
    pub(super) take: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) put: Vec<Spanned<String>>,
}

/// Places and transitions that stand for a place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubnetText {
    pub(super) name: String,
    pub(super) places: Vec<Spanned<PlaceText>>,
    #[serde(default)]
    pub(super) transitions: Vec<Spanned<TransitionText>>,
}

fn one() -> u32 {
    1
}

fn one_weight() -> f64 {
    1.0
}

/// A problem at a byte of the text.
pub(super) struct At {
    pub(super) offset: Option<usize>,
    pub(super) problem: String,
}

impl At {
    pub(super) fn new(offset: usize, problem: String) -> At {
        At { offset: Some(offset), problem }
    }
}

/// Where the parts of a net stand in the text.
#[derive(Default)]
struct Offsets {
    queues: Vec<usize>,
    places: Vec<(usize, Vec<usize>)>,
    transitions: Vec<(usize, Vec<usize>)>,
}

impl Offsets {
    fn of(&self, part: Part) -> Option<usize> {
        match part {
            Part::Net => None,
            Part::Queue(index) => self.queues.get(index).copied(),
            Part::Place(index) => Some(self.places.get(index)?.0),
            Part::PlaceColor(index, at) => self.places.get(index)?.1.get(at).copied(),
            Part::Transition(index) => Some(self.transitions.get(index)?.0),
            Part::Mode(index, at) => self.transitions.get(index)?.1.get(at).copied(),
        }
    }
}

/// Reads the net that `text` describes, and checks it. `name` is the text's file or name, for errors.
///
/// # Errors
/// What is wrong, the line and the remedy: TOML that is not well formed, a name that nothing has (with the nearest
/// names), or a net that [`validate::check`] refuses.
pub fn parse(text: &str, name: &str) -> Result<Net, DescriptionError> {
    read(text).map_err(|At { offset, problem }| DescriptionError {
        what: WHAT,
        name: name.to_owned(),
        line: offset.map(|offset| described::line_of(text, offset)),
        problem,
    })
}

fn read(text: &str) -> Result<Net, At> {
    if text.len() > TEXT_MAX {
        return Err(At {
            offset: None,
            problem: format!("it is longer than {TEXT_MAX} bytes: describe a smaller net"),
        });
    }
    let parsed: NetText = toml::from_str(text)
        .map_err(|error| At { offset: error.span().map(|span| span.start), problem: error.message().to_owned() })?;
    let NetText { name, colors, queues, places, transitions, subnets } = parsed;
    let (places, transitions) = subnet::flatten(places, transitions, &subnets)?;
    let mut offsets = Offsets::default();
    let mut net = Net { name, colors, ..Net::default() };
    for queue in queues {
        offsets.queues.push(queue.span().start);
        let QueueText { name, discipline, servers } = queue.into_inner();
        let discipline = match discipline {
            DisciplineText::Fcfs => Discipline::Fcfs,
            DisciplineText::Ps => Discipline::Ps,
            DisciplineText::Is => Discipline::Is,
            DisciplineText::Random => Discipline::Random,
            DisciplineText::Priority => Discipline::Priority,
        };
        net.queues.push(Queue { name, discipline, servers });
    }
    for place in places {
        offsets.places.push((place.span().start, place.get_ref().colors.iter().map(|at| at.span().start).collect()));
        let place = place_of(&net, place)?;
        net.places.push(place);
    }
    for transition in transitions {
        let modes = transition.get_ref().modes.iter().map(|at| at.span().start).collect();
        offsets.transitions.push((transition.span().start, modes));
        let transition = transition_of(&net, transition)?;
        net.transitions.push(transition);
    }
    validate::check(&net).map_err(|error| At { offset: offsets.of(error.part), problem: error.problem })?;
    Ok(net)
}

fn place_of(net: &Net, text: Spanned<PlaceText>) -> Result<Place, At> {
    let start = text.span().start;
    let PlaceText { name, queue, immediate, departure, colors, .. } = text.into_inner();
    let kind = match queue {
        None if immediate => {
            let problem = format!("place {name} is immediate and has no queue: give its queue, or drop immediate");
            return Err(At::new(start, problem));
        }
        None => PlaceKind::Ordinary,
        Some(queue) => {
            let queue = index_of("queue", &queue, net.queues.iter().map(|queue| queue.name.as_str()))?;
            if immediate { PlaceKind::Immediate(queue) } else { PlaceKind::Queueing(queue) }
        }
    };
    let departure = match departure {
        DepartureText::Normal => Departure::Normal,
        DepartureText::Fifo => Departure::Fifo,
    };
    let color = |text: Spanned<PlaceColorText>| {
        let PlaceColorText { color, initial, service, priority } = text.into_inner();
        let color = index_of("color", &color, net.colors.iter().map(String::as_str))?;
        Ok(PlaceColor { color, initial, service, priority })
    };
    let colors = colors.into_iter().map(color).collect::<Result<_, At>>()?;
    Ok(Place { name, kind, departure, colors })
}

fn transition_of(net: &Net, text: Spanned<TransitionText>) -> Result<Transition, At> {
    let TransitionText { name, timed, priority, weight, modes } = text.into_inner();
    let timing = if timed { Timing::Timed } else { Timing::Immediate { priority, weight } };
    let mode = |text: Spanned<ModeText>| {
        let ModeText { name, weight, delay, take, put } = text.into_inner();
        let arcs = |texts: Vec<Spanned<String>>| texts.iter().map(|text| arc_of(net, text)).collect::<Result<_, At>>();
        Ok(Mode { name, weight, delay, inputs: arcs(take)?, outputs: arcs(put)? })
    };
    Ok(Transition { name, timing, modes: modes.into_iter().map(mode).collect::<Result<_, At>>()? })
}

/// Reads `"place.color"` or `"2 place.color"`. The color follows the last point.
fn arc_of(net: &Net, text: &Spanned<String>) -> Result<Arc, At> {
    let offset = text.span().start;
    let written = text.get_ref().as_str();
    let refused =
        || At::new(offset, format!("\"{written}\" names no tokens: write \"place.color\" or \"2 place.color\""));
    let (count, name) = match written.split_once(' ') {
        Some((count, rest)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
            (count.parse().map_err(|_| refused())?, rest.trim_start())
        }
        _ => (1, written),
    };
    let (place, color) = name.rsplit_once('.').ok_or_else(refused)?;
    let place = named("place", place, offset, net.places.iter().map(|place| place.name.as_str()))?;
    let color = named("color", color, offset, net.colors.iter().map(String::as_str))?;
    Ok(Arc { place, color, count })
}

fn index_of<'a>(what: &str, name: &Spanned<String>, known: impl Iterator<Item = &'a str> + Clone) -> Result<usize, At> {
    named(what, name.get_ref(), name.span().start, known)
}

/// The index of a name among those known.
pub(super) fn named<'a>(
    what: &str,
    name: &str,
    offset: usize,
    mut known: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, At> {
    let all = known.clone();
    known.position(|other| other == name).ok_or_else(|| {
        let near = nearest(name, all);
        let remedy = match near.as_slice() {
            [] => format!("name a {what} that the net has"),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        At::new(offset, format!("there is no {what} {name}: {remedy}"))
    })
}

#[cfg(test)]
mod tests;
