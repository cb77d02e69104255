//! Places that stand for a subnet are replaced by the subnet's places and transitions.

use toml::Spanned;

use super::description::{At, PlaceText, SubnetText, TransitionText, named};

/// The places of a subnet through which its tokens come and go.
const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// The most places and transitions after replacement.
const PARTS_MAX: usize = 1 << 16;

type Flat = (Vec<Spanned<PlaceText>>, Vec<Spanned<TransitionText>>);

/// Replaces each place that has a subnet. Names of the subnet get the name of the place and a slash in front.
pub(super) fn flatten(
    places: Vec<Spanned<PlaceText>>,
    mut transitions: Vec<Spanned<TransitionText>>,
    subnets: &[Spanned<SubnetText>],
) -> Result<Flat, At> {
    let mut flat = Vec::new();
    let mut added = Vec::new();
    for place in places {
        let Some(wanted) = place.get_ref().subnet.clone() else {
            flat.push(place);
            continue;
        };
        let name = place.get_ref().name.clone();
        if !place.get_ref().colors.is_empty() {
            let problem = format!("place {name} has a subnet and colors: give the colors to the places of the subnet");
            return Err(At::new(place.span().start, problem));
        }
        let names = subnets.iter().map(|subnet| subnet.get_ref().name.as_str());
        let subnet = &subnets[named("subnet", wanted.get_ref(), wanted.span().start, names)?];
        check(subnet)?;
        let SubnetText { places, transitions: inner, .. } = subnet.get_ref();
        if flat.len() + added.len() + places.len() + inner.len() > PARTS_MAX {
            let problem = format!("the net with its subnets has more than {PARTS_MAX} parts: use fewer subnets");
            return Err(At::new(place.span().start, problem));
        }
        for inner_place in places {
            let mut copy = inner_place.clone();
            copy.as_mut().name = format!("{name}/{}", inner_place.get_ref().name);
            flat.push(copy);
        }
        for transition in inner {
            let mut copy = transition.clone();
            copy.as_mut().name = format!("{name}/{}", transition.get_ref().name);
            for_arcs(&mut copy, |place, _| Some(format!("{name}/{place}")));
            added.push(copy);
        }
        for transition in &mut transitions {
            for_arcs(transition, |place, takes| {
                (place == name).then(|| format!("{name}/{}", if takes { OUTPUT } else { INPUT }))
            });
        }
    }
    transitions.extend(added);
    Ok((flat, transitions))
}

fn check(subnet: &Spanned<SubnetText>) -> Result<(), At> {
    let SubnetText { name, places, .. } = subnet.get_ref();
    if let Some(place) = places.iter().find(|place| place.get_ref().subnet.is_some()) {
        let problem = format!("subnet {name} has a subnet in place {}: write its places out", place.get_ref().name);
        return Err(At::new(place.span().start, problem));
    }
    for needed in [INPUT, OUTPUT] {
        if places.iter().all(|place| place.get_ref().name != needed) {
            let problem = format!("subnet {name} has no place {needed}: give it one, through which its tokens pass");
            return Err(At::new(subnet.span().start, problem));
        }
    }
    Ok(())
}

/// Renames the places of all arcs of a transition. `rename` gets the place's name and whether tokens are taken.
fn for_arcs(transition: &mut Spanned<TransitionText>, rename: impl Fn(&str, bool) -> Option<String>) {
    for mode in &mut transition.as_mut().modes {
        let mode = mode.as_mut();
        for (arcs, takes) in [(&mut mode.take, true), (&mut mode.put, false)] {
            for arc in arcs {
                let arc = arc.as_mut();
                let start = arc.find(' ').map_or(0, |at| at + 1);
                let Some(end) = arc.rfind('.').filter(|end| *end >= start) else { continue };
                if let Some(place) = rename(&arc[start..end], takes) {
                    arc.replace_range(start..end, &place);
                }
            }
        }
    }
}
