//! The seek curve and the layout of a mechanical drive, as the sections `[seek]` and `[layout]` of a profile give them,
//! and the checks that make a [`Mechanics`] of them.

use serde::Deserialize;
use toml::Spanned;
use traces::Nanos;
use traces::spec::Settings;

use crate::description::{BuildError, DriveDescription, PartBuilder};
use crate::drive::DriveModel;
use crate::mechanical::Mechanical;
use crate::mechanical::layout::{HeadOrder, PlatterLayout, Skews, Spare, Zone};
use crate::mechanical::rotation::{Angle, TURN};
use crate::mechanical::seek::SeekCurve;
use crate::profile::Profile;
use crate::section::{ProfileError, Section, Sections};
use crate::single_server::SingleServer;

/// The sections of a mechanical drive.
pub(super) const SECTIONS: &[Section] = &[Section::of::<SeekText>("seek"), Section::of::<LayoutText>("layout")];
/// The profile whose seek curve and layout a drive has that is named by its model alone.
const DEFAULT_PROFILE: &str = "cheetah-15k5";

/// Most addressable sectors of a drive: 512 TB.
const CAPACITY_MAX: u64 = 1 << 40;
/// Most tracks, which keeps every angle since the first in range.
const TRACKS_MAX: u64 = 1 << 28;
/// Most cylinders.
const CYLINDERS_MAX: u64 = 1 << 28;
/// Most heads.
const HEADS_MAX: u32 = 256;

/// The arm and the medium of a drive.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// Where sectors lie.
    pub layout: PlatterLayout,
    /// How long the arm takes.
    pub seek: SeekCurve,
}

/// `[seek]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekText {
    /// Where the points come from.
    source: Spanned<String>,
    /// Cylinders and µs, from one cylinder on.
    points_us: Spanned<Vec<(u32, f64)>>,
}

/// `[layout]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutText {
    source: Spanned<String>,
    heads: Spanned<u32>,
    capacity_sectors: Spanned<u64>,
    zones: Spanned<Vec<Spanned<ZoneText>>>,
}

/// One of `zones`. Angles and skews are in turns; `slips` are pairs of an address relative to the zone's first and the
/// number of sectors passed over before it; `group_skew` stands in place of the skew between one group of
/// `spare_tracks` and the next.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneText {
    first_lbn: u64,
    first_cylinder: u32,
    cylinders: u32,
    sectors_per_track: u32,
    #[serde(default = "one")]
    band_cylinders: u32,
    #[serde(default)]
    head_order: HeadOrder,
    #[serde(default)]
    angle: f64,
    head_skew: f64,
    cylinder_skew: f64,
    band_skew: Option<f64>,
    #[serde(default = "one")]
    spare_tracks: u32,
    #[serde(default)]
    spare_sectors: u32,
    group_skew: Option<f64>,
    #[serde(default)]
    front_sectors: u64,
    #[serde(default)]
    slips: Vec<(u32, u32)>,
}

/// The seek curve and layout of a profile, or else of the default one.
pub(super) fn describe(sections: Option<Sections>) -> Result<Box<dyn DriveDescription>, ProfileError> {
    match sections {
        Some(mut sections) => Ok(Box::new(Mechanics::new(&sections.take("seek"), sections.take("layout"))?)),
        None => Ok(Profile::shipped_among(&[super::MODEL], DEFAULT_PROFILE).description),
    }
}

impl DriveDescription for Mechanics {
    fn build(&self, settings: &Settings, _: &dyn PartBuilder) -> Result<Box<dyn DriveModel>, BuildError> {
        Ok(Box::new(SingleServer::new(Mechanical::new(settings, self))))
    }
}

fn one() -> u32 {
    1
}

impl Mechanics {
    /// Checks the two parts of a description.
    ///
    /// # Errors
    /// The first number that is missing, out of range or contradicts another, with its place.
    fn new(seek: &SeekText, layout: LayoutText) -> Result<Mechanics, ProfileError> {
        for source in [&seek.source, &layout.source] {
            if source.get_ref().trim().is_empty() {
                return Err(ProfileError::at(
                    source.span().start,
                    "the source is empty: say where the numbers come from",
                ));
            }
        }
        Ok(Mechanics { seek: curve(seek)?, layout: layout_of(layout)? })
    }
}

fn curve(text: &SeekText) -> Result<SeekCurve, ProfileError> {
    let points = text.points_us.get_ref();
    let good = points.iter().all(|&(_, us)| us.is_finite() && us > 0.0 && us < 1e7);
    let points: Vec<_> = points.iter().map(|&(d, us)| (d, Nanos::from_ns((us * 1000.0).round() as u64))).collect();
    let wrong = "points_us must be [cylinders, us] from [1, ...] on, both growing, with times above 0 and below 10 s";
    good.then(|| SeekCurve::new(&points)).flatten().ok_or_else(|| ProfileError::at(text.points_us.span().start, wrong))
}

fn layout_of(text: LayoutText) -> Result<PlatterLayout, ProfileError> {
    let (heads, capacity) = (*text.heads.get_ref(), *text.capacity_sectors.get_ref());
    if !(1..=HEADS_MAX).contains(&heads) {
        return Err(ProfileError::at(text.heads.span().start, format!("heads = {heads} is not from 1 to {HEADS_MAX}")));
    }
    if !(1..=CAPACITY_MAX).contains(&capacity) {
        let problem = format!("capacity_sectors = {capacity} is not from 1 to {CAPACITY_MAX}");
        return Err(ProfileError::at(text.capacity_sectors.span().start, problem));
    }
    let offset = text.zones.span().start;
    let texts = text.zones.into_inner();
    let mut zones: Vec<Zone> = Vec::with_capacity(texts.len());
    let (mut cylinder_end, mut tracks) = (0u64, 0u64);
    for (index, text) in texts.iter().enumerate() {
        let end = texts.get(index + 1).map_or(capacity, |next| next.get_ref().first_lbn);
        let zone = text.get_ref();
        let at = |problem: String| ProfileError::at(text.span().start, format!("zone {index}: {problem}"));
        if index == 0 && zone.first_lbn != 0 {
            return Err(at(format!("the first zone begins at address 0, not {}", zone.first_lbn)));
        }
        if zone.first_lbn >= end {
            return Err(at(format!("it begins at address {} but ends at {end}", zone.first_lbn)));
        }
        if u64::from(zone.first_cylinder) < cylinder_end {
            return Err(at(format!("it begins at cylinder {}, inside the zone before", zone.first_cylinder)));
        }
        cylinder_end = u64::from(zone.first_cylinder) + u64::from(zone.cylinders);
        tracks += u64::from(zone.cylinders) * u64::from(heads);
        if tracks > TRACKS_MAX || cylinder_end > CYLINDERS_MAX {
            return Err(at(format!("more than {TRACKS_MAX} tracks or {CYLINDERS_MAX} cylinders up to its end")));
        }
        zones.push(zone_of(zone, heads, end).map_err(at)?);
    }
    if zones.is_empty() {
        return Err(ProfileError::at(offset, "a layout needs at least one zone"));
    }
    Ok(PlatterLayout::new(heads, capacity, zones))
}

fn zone_of(text: &ZoneText, heads: u32, end: u64) -> Result<Zone, String> {
    let tracks = u64::from(text.cylinders) * u64::from(heads);
    let spt = text.sectors_per_track;
    if !(1..=1 << 16).contains(&spt) {
        return Err(format!("sectors_per_track = {spt} is not from 1 to 65536"));
    }
    let (band, all) = (text.band_cylinders, text.cylinders);
    if band == 0 || !all.is_multiple_of(band) {
        return Err(format!("cylinders = {all} is not a multiple of band_cylinders = {band}"));
    }
    let group = u64::from(text.spare_tracks) * u64::from(spt);
    if u64::from(text.spare_sectors) >= group {
        return Err(format!("spare_sectors = {} leave nothing of {group}", text.spare_sectors));
    }
    if !text.slips.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
        return Err("slips must be [address, count] in growing order".to_owned());
    }
    let steps = match (band, text.band_skew) {
        (1, Some(_)) => return Err("band_skew without bands: give band_cylinders, or cylinder_skew alone".to_owned()),
        (1, None) => Skews {
            cylinder: 0,
            head: turns("head_skew", text.head_skew)?,
            band: turns("cylinder_skew", text.cylinder_skew)?,
        },
        (_, None) => return Err("band_skew is missing: bands need one".to_owned()),
        (_, Some(between)) => Skews {
            cylinder: turns("cylinder_skew", text.cylinder_skew)?,
            head: turns("head_skew", text.head_skew)?,
            band: turns("band_skew", between)?,
        },
    };
    let spare = Spare { tracks: text.spare_tracks, sectors: text.spare_sectors, late: late(text, heads, &steps)? };
    let zone = Zone {
        first_lbn: text.first_lbn,
        first_cylinder: text.first_cylinder,
        sectors_per_track: spt,
        band_cylinders: band,
        head_order: text.head_order,
        angle: Angle(turns("angle", text.angle)? as u32),
        steps,
        spare,
        front: text.front_sectors,
        slips: text.slips.clone(),
    };
    let (addresses, sectors) = (end - text.first_lbn, tracks * u64::from(spt));
    if zone.front > sectors || addresses > sectors || zone.physical(end - 1) >= sectors {
        return Err(format!(
            "addresses {} to {end} do not fit {tracks} tracks of {spt} sectors with its spares and slips",
            text.first_lbn
        ));
    }
    Ok(zone)
}

/// How much `group_skew` is beyond the skew between bands, in whose place it stands.
fn late(text: &ZoneText, heads: u32, steps: &Skews) -> Result<u64, String> {
    let Some(skew) = text.group_skew else { return Ok(0) };
    let band = u64::from(heads) * u64::from(text.band_cylinders);
    if !u64::from(text.spare_tracks).is_multiple_of(band) {
        return Err(format!("group_skew needs spare_tracks = {} to be a multiple of {band}", text.spare_tracks));
    }
    Ok((TURN + turns("group_skew", skew)? - steps.band) % TURN)
}

/// An angle below one turn in 2⁻³² turns.
fn turns(name: &str, turns: f64) -> Result<u64, String> {
    if !(0.0..1.0).contains(&turns) {
        return Err(format!("{name} = {turns} is not from 0 to below 1 turn"));
    }
    Ok(((turns * TURN as f64).round() as u64).min(TURN - 1))
}
