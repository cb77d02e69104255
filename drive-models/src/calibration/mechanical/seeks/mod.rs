//! Overhead, head switch and the seek curve: the least times to the same track, to the next head, and over a ladder of
//! distances, each measured at three positions.

use traces::SECTOR_BYTES;

use super::probe::Prober;
use super::tracks::TrackGeometry;
use crate::calibration::DeviceError;

/// Sectors of the longest read that measures the speed of the bus.
const LONG_READ: u64 = 64;
/// Places that a distance is measured from.
const PLACES: u32 = 3;

/// The times to get to a sector.
#[derive(Clone, Debug)]
pub(super) struct FittedSeeks {
    /// The time that is neither positioning, wait nor transfer, in ns.
    pub overhead_ns: f64,
    /// Transfer over the bus behind the last sector, in ps a byte.
    pub bus_byte_ps: f64,
    /// To another head of the cylinder, in ns.
    pub head_switch_ns: f64,
    /// Cylinders and ns.
    pub points: Vec<(u32, f64)>,
}

/// Measures all of it.
///
/// # Errors
/// A device that fails.
pub(super) fn measure(prober: &mut Prober, geometry: &TrackGeometry) -> Result<FittedSeeks, DeviceError> {
    let granule = prober.granule as f64;
    let transfer = |sectors_per_track: u32, period_ns: f64| granule / f64::from(sectors_per_track) * period_ns;
    let period = prober.period_ns;
    let last = geometry.cylinders().saturating_sub(2);
    let bus_byte_ps = bus(prober, geometry)?;
    let of_granule = bus_byte_ps / 1000.0 * granule * SECTOR_BYTES as f64;
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for place in 0..PLACES {
        let (track, sectors) = geometry.cylinder(last / PLACES * place);
        let begin = prober.aligned(track);
        let across = prober.aligned(track + u64::from(sectors) / 2);
        same.push(prober.reach(begin, across)? - transfer(sectors, period));
        let next = prober.aligned(track + u64::from(sectors));
        other.push(prober.reach(begin, next)? - transfer(sectors, period));
    }
    let overhead_ns = middle(&mut same) - of_granule;
    let head_switch_ns = if geometry.heads > 1 { middle(&mut other) - of_granule - overhead_ns } else { 0.0 };
    let mut points = Vec::new();
    for distance in ladder(last) {
        let mut times = Vec::new();
        for place in 0..PLACES {
            let begin = (last - distance) / (PLACES - 1) * place;
            let (from, to) = (geometry.cylinder(begin), geometry.cylinder(begin + distance));
            let reach = prober.reach(prober.aligned(from.0), prober.aligned(to.0))?;
            times.push(reach - transfer(to.1, period) - of_granule - overhead_ns);
        }
        points.push((distance, middle(&mut times)));
    }
    Ok(FittedSeeks { overhead_ns, bus_byte_ps, head_switch_ns, points: monotone(&points) })
}

/// How long a byte takes on the bus behind the last sector; zero where the bus keeps up with the platter. A completion
/// gives only the part of a turn, so the length of reads is doubled step by step. The whole turns of each step are
/// those expected from the steps before.
fn bus(prober: &mut Prober, geometry: &TrackGeometry) -> Result<f64, DeviceError> {
    let (_, track) = geometry.cylinder(0);
    let longest = LONG_READ.min(u64::from(track));
    let mut of_sector_ns = 0.0;
    let mut sectors = 2 * prober.granule;
    while sectors <= longest {
        let more = (sectors - prober.granule) as f64;
        let seen = prober.trailing(0, sectors)?;
        let turns = ((of_sector_ns * more - seen) / prober.period_ns).round();
        of_sector_ns = (seen + turns * prober.period_ns) / more;
        sectors *= 2;
    }
    Ok((of_sector_ns * 1000.0 / SECTOR_BYTES as f64).max(0.0))
}

/// Distances from one cylinder to `last`, each about a third longer than the one before.
fn ladder(last: u32) -> impl Iterator<Item = u32> {
    let mut next = Some(1u32.min(last)).filter(|&distance| distance > 0);
    std::iter::from_fn(move || {
        let distance = next?;
        next = (distance < last).then(|| (distance + (distance / 3).max(1)).min(last));
        Some(distance)
    })
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The nearest curve that never falls (pool adjacent violators), and above zero.
fn monotone(points: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &(_, time) in points {
        pools.push((time, 1));
        while let [.., (before, many), (after, more)] = pools[..] {
            if before <= after {
                break;
            }
            pools.truncate(pools.len() - 2);
            let mean = (before * many as f64 + after * more as f64) / (many + more) as f64;
            pools.push((mean, many + more));
        }
    }
    let levels = pools.iter().flat_map(|&(mean, many)| std::iter::repeat_n(mean.max(1.0), many));
    points.iter().map(|(distance, _)| *distance).zip(levels).collect()
}

#[cfg(test)]
mod tests;
