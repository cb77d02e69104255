//! The shadow cache compared with the cache of the mechanical drive, also with geometries that differ from the drive's.

use traces::results::reproduction::Cell;

use super::choices::Choices;
use super::run::{GEOMETRY, Prepared, System, run, setup};
use crate::ReproduceError;
use crate::estimate::cell;

/// Geometries: segments, sectors in each segment, prefetch. The first is the drive's.
const GEOMETRIES: [(usize, u64, u64); 6] =
    [GEOMETRY, (32, 221, 64), (128, 221, 64), (64, 110, 64), (64, 221, 32), (64, 221, 128)];

/// Recall and precision of CATS on the real system with each geometry, for one seed.
///
/// # Errors
/// An invalid part.
pub fn cells(prepared: &Prepared, seed: u64) -> Result<Vec<Cell>, ReproduceError> {
    let mut cells = Vec::new();
    for geometry in GEOMETRIES {
        let choices = Choices { geometry, ..Choices::FROZEN };
        let measured = run(prepared, &setup(System::Real, "cats", &choices)?, true, seed)?;
        let (segments, sectors, prefetch) = geometry;
        let column = format!("{segments} segments of {sectors}, prefetch {prefetch}");
        for (row, ours) in ["recall", "precision"].into_iter().zip(measured.recall_and_precision) {
            cells.push(cell(["shadow cache by geometry", row, &column], "share", None, &[ours], false));
        }
        let service = &[measured.service[0]];
        cells.push(cell(["shadow cache by geometry", "mean service", &column], "ms", None, service, false));
    }
    Ok(cells)
}
