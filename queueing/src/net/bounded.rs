//! Whether the structure of a net bounds its tokens.
//!
//! A net is structurally bounded if some positive weights of its places never grow in sum, whatever fires (a covering
//! place sub-invariant). By the lemma of Farkas that fails exactly if there is a mix of firings x >= 0 under which no
//! place loses tokens and one gains some: C x >= 0 and C x != 0 for the incidence matrix C (Murata 1989, Petri nets:
//! properties, analysis and applications, theorem 29). The linear program maximises the sum of C x over such mixes with
//! sum of x at most 1. No firing is where the simplex method starts.

use super::{Arc, Net};

/// The most entries of the table. Larger nets are not checked here: a simulation bounds their tokens itself.
const ENTRIES_MAX: usize = 1 << 22;

/// Steps per row and column. Bland's rule ends by itself but for rounding.
const STEPS_PER_LINE: usize = 50;

/// What counts as zero beside the incidences, which are whole numbers.
const TINY: f64 = 1e-9;

/// The modes, by transition and index, of a mix of firings that multiplies tokens; `None` if there is none. Modes that
/// take nothing are open sources and do not count.
pub(super) fn growth(net: &Net) -> Option<Vec<(usize, usize)>> {
    let mut starts = Vec::with_capacity(net.places.len());
    let mut slots = 0;
    for place in &net.places {
        starts.push(slots);
        slots += place.colors.len();
    }
    let slot_of = |arc: &Arc| {
        let at = net.places[arc.place].colors.iter().position(|color| color.color == arc.color);
        starts[arc.place] + at.unwrap_or(0)
    };
    let all = net.transitions.iter().enumerate();
    let modes: Vec<(usize, usize)> =
        all.flat_map(|(index, transition)| (0..transition.modes.len()).map(move |at| (index, at))).collect();
    let closed = |&&(index, at): &&(usize, usize)| !net.transitions[index].modes[at].inputs.is_empty();
    let modes: Vec<(usize, usize)> = modes.iter().filter(closed).copied().collect();
    let (rows, columns) = (slots + 1, modes.len() + slots + 2);
    if rows.saturating_mul(columns) > ENTRIES_MAX {
        return None;
    }
    let mut table = Table::new(rows, columns, modes.len());
    for (column, &(index, at)) in modes.iter().enumerate() {
        let mode = &net.transitions[index].modes[at];
        for (arcs, sign) in [(&mode.inputs, 1.0), (&mode.outputs, -1.0)] {
            for arc in arcs {
                let count = sign * f64::from(arc.count);
                table.rows[slot_of(arc)][column] += count;
                table.goal[column] += count;
            }
        }
        table.rows[slots][column] = 1.0;
    }
    table.rows[slots][columns - 1] = 1.0;
    let mix = table.maximise()?;
    Some(mix.into_iter().map(|column| modes[column]).collect())
}

/// The table of the simplex method: rows with slack columns, bounds in the last column.
struct Table {
    rows: Vec<Vec<f64>>,
    /// Costs of the columns; a negative one raises the sum.
    goal: Vec<f64>,
    /// The column that each row determines.
    basis: Vec<usize>,
    modes: usize,
}

impl Table {
    fn new(rows: usize, columns: usize, modes: usize) -> Table {
        let mut table = vec![vec![0.0; columns]; rows];
        for (index, row) in table.iter_mut().enumerate() {
            row[modes + index] = 1.0;
        }
        Table { rows: table, goal: vec![0.0; columns], basis: (modes..modes + rows).collect(), modes }
    }

    /// The columns of modes above zero at a maximum above zero.
    fn maximise(&mut self) -> Option<Vec<usize>> {
        let last = self.goal.len() - 1;
        for _ in 0..STEPS_PER_LINE * (self.rows.len() + last) {
            // Bland's rule: the first column that helps, and of the tightest rows the one with the first basis column.
            let Some(column) = self.goal[..last].iter().position(|cost| *cost < -TINY) else { break };
            let mut tightest: Option<(f64, usize)> = None;
            for (index, row) in self.rows.iter().enumerate().filter(|(_, row)| row[column] > TINY) {
                let bound = row[last] / row[column];
                let better = tightest.is_none_or(|(least, other)| {
                    bound < least - TINY || (bound <= least + TINY && self.basis[index] < self.basis[other])
                });
                if better {
                    tightest = Some((bound, index));
                }
            }
            let (_, row) = tightest?;
            self.pivot(row, column);
            if self.goal[last] > TINY {
                // Any mix with a gain will do.
                let held = self.basis.iter().zip(&self.rows).filter(|(_, row)| row[last] > TINY);
                let mut mix: Vec<usize> =
                    held.map(|(&column, _)| column).filter(|&column| column < self.modes).collect();
                mix.sort_unstable();
                return Some(mix).filter(|mix| !mix.is_empty());
            }
        }
        None
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let mut chosen = std::mem::take(&mut self.rows[row]);
        let factor = chosen[column];
        chosen.iter_mut().for_each(|entry| *entry /= factor);
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()).chain([&mut self.goal]) {
            let factor = other[column];
            if factor != 0.0 {
                other.iter_mut().zip(&chosen).for_each(|(entry, by)| *entry -= factor * by);
            }
        }
        self.rows[row] = chosen;
        self.basis[row] = column;
    }
}
