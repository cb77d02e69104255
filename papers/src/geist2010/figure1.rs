//! Figure 1 of Geist et al. 2010: service time by seek distance.
//!
//! The figure shows 100,000 reads of random pages on the drive with its cache off, sorted by distance, with the moving
//! mean and the line. The drive is the mechanical model; the paper's own line is the `cheetah-15k4` drive.

use drive_models::calibration::linear::Smoothed;
use drive_models::calibration::{RandomReads, SimulatedDevice};
use traces::results::reproduction::{Cell, Series};

use crate::ReproduceError;
use crate::estimate::cell;

/// Number of reads, and the seed of their addresses.
const READS: RandomReads = RandomReads { reads: 100_000, seed: 1 };

/// Number of points of each line in the figure.
const DRAWN: usize = 2_000;

/// The paper's line: X = 4.25 + 5.25 d/D ms; its band is about 4 ms wide.
const LINE: [f64; 2] = [4.25, 5.25];
const BAND_MS: f64 = 4.0;

/// The figure's cells and lines.
///
/// # Errors
/// An invalid part.
pub fn regenerate() -> Result<(Vec<Cell>, Vec<Series>), ReproduceError> {
    let drive = drive_models::build(&"cheetah-15k4-mechanical:segments=0".parse()?)?.drive;
    let capacity = drive.capacity();
    let reads = READS.measure(&mut SimulatedDevice::new(drive))?;
    let smoothed = Smoothed::new(reads.points.iter().map(|point| (point.distance, point.time)).collect());
    let line = smoothed.line();
    let ours = [line.at_zero_ns / 1e6, line.ns_per_sector * capacity.count() as f64 / 1e6];
    let mut off: Vec<f64> =
        smoothed.points.iter().zip(&smoothed.means_ns).map(|((_, time), mean)| time.as_ns() as f64 - mean).collect();
    off.sort_by(f64::total_cmp);
    // The band: from the 1st to the 99th percentile around the smoothed curve.
    let band = (off[off.len() * 99 / 100] - off[off.len() / 100]) / 1e6;
    let cells = vec![
        cell(["Figure 1", "time at distance 0", "real"], "ms", Some(LINE[0]), &[ours[0]], false),
        cell(["Figure 1", "time over the whole capacity", "real"], "ms", Some(LINE[1]), &[ours[1]], false),
        cell(["Figure 1", "width of the band", "real"], "ms", Some(BAND_MS), &[band], false),
    ];
    let every = smoothed.points.len().div_ceil(DRAWN);
    let series = |name: &str, points: Vec<[f64; 2]>| Series {
        figure: "1".to_owned(),
        scheduler: None,
        name: name.to_owned(),
        x: "distance in million sectors".to_owned(),
        y: "service time in ms".to_owned(),
        points,
    };
    let million = |sectors: u64| sectors as f64 / 1e6;
    let points = || smoothed.points.iter().zip(&smoothed.means_ns).step_by(every);
    let ends = |[a, b]: [f64; 2]| vec![[0.0, a], [million(capacity.count()), a + b]];
    Ok((
        cells,
        vec![
            series("reads", points().map(|((d, time), _)| [million(d.count()), time.as_ms_f64()]).collect()),
            series("smoothed", points().map(|((d, _), mean)| [million(d.count()), mean / 1e6]).collect()),
            series("line", ends(ours)),
            series("paper's line", ends(LINE)),
        ],
    ))
}
