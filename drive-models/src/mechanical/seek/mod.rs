//! The seek curve by pieces: measured or fitted points of distance and time with straight lines between them. It needs
//! no formula for settling (the first cylinders), acceleration (dense points, about a square root) or the coasting of
//! long seeks (few points, a line).

use traces::Nanos;

/// A straight piece.
#[derive(Clone, Copy, Debug)]
struct CurvePiece {
    /// The distance in cylinders at which it begins.
    from: u32,
    start_ns: u64,
    /// 2⁻²⁰ ns a cylinder.
    slope: u64,
}

/// Seek time by distance.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    pieces: Vec<CurvePiece>,
    /// The piece of each 2^`shift`th distance, and the distance from which on another one goes.
    steps: Vec<(CurvePiece, u32)>,
    shift: u32,
}

/// Most steps: few enough for the nearest cache, and so many that nearly all have a single piece.
const STEPS_MAX: u32 = 1024;

impl SeekCurve {
    /// The curve through `points`: distance in cylinders and time. Beyond the last point its last piece goes on. `None`
    /// unless there is a point, the first is at one cylinder, distances grow, and no longer seek takes less.
    pub fn new(points: &[(u32, Nanos)]) -> Option<SeekCurve> {
        let grows = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        if points.first()?.0 != 1 || !grows || points.iter().any(|(_, time)| time.as_ns() > 1 << 40) {
            return None;
        }
        let slope = |pair: &[(u32, Nanos)]| {
            let rise = pair[1].1.as_ns() - pair[0].1.as_ns();
            ((u128::from(rise) << 20) / u128::from(pair[1].0 - pair[0].0)) as u64
        };
        let mut slopes: Vec<u64> = points.windows(2).map(slope).collect();
        slopes.push(slopes.last().copied().unwrap_or(0));
        let piece = |(&(from, time), slope): (&(u32, Nanos), u64)| CurvePiece { from, start_ns: time.as_ns(), slope };
        let pieces: Vec<CurvePiece> = points.iter().zip(slopes).map(piece).collect();
        let last = points.last()?.0;
        let shift = (0..u32::BITS).find(|shift| last >> shift < STEPS_MAX)?;
        let at = |step: u32| {
            let next = pieces.partition_point(|piece| piece.from <= step << shift).max(1);
            (pieces[next - 1], pieces.get(next).map_or(u32::MAX, |piece| piece.from))
        };
        let steps = (0..=last >> shift).map(at).collect();
        Some(SeekCurve { pieces, steps, shift })
    }

    /// How long the arm takes over `cylinders`; nothing for none.
    #[inline]
    pub fn time(&self, cylinders: u32) -> Nanos {
        if cylinders == 0 {
            return Nanos::ZERO;
        }
        let step = ((cylinders >> self.shift) as usize).min(self.steps.len() - 1);
        let (mut piece, until) = self.steps[step];
        if cylinders >= until {
            piece = self.pieces[self.pieces.partition_point(|piece| piece.from <= cylinders) - 1];
        }
        let rise = (u128::from(cylinders - piece.from) * u128::from(piece.slope)) >> 20;
        Nanos::from_ns(piece.start_ns.saturating_add(rise as u64))
    }
}

#[cfg(test)]
mod tests;
