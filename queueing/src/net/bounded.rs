//! Whether the tokens of a net must grow.
//!
//! A net is structurally bounded if some positive weights of its places never grow in sum, whatever fires (a covering
//! place sub-invariant). By the lemma of Farkas that fails exactly if there is a mix of firings x >= 0 under which no
//! place loses tokens and one gains some: C x >= 0 and C x != 0 for the incidence matrix C (Murata 1989, Petri nets:
//! properties, analysis and applications, theorem 29). The linear program maximises the sum of C x over such mixes with
//! sum of x at most 1. No firing is where the simplex method starts.
//!
//! An open net is not structurally bounded: a token that goes round, or a mode that takes nothing, makes requests, and
//! others take them away. Whether it keeps up is a matter of times. So growth counts only if no mix with all modes,
//! x > 0, keeps the tokens from growing: C x <= 0. Then some mode cannot go on firing without growth.

use super::{Arc, Net};

/// The most entries of the table. Larger nets are not checked here: a simulation bounds their tokens itself.
const ENTRIES_MAX: usize = 1 << 22;

/// Steps per row and column. Bland's rule ends by itself but for rounding.
const STEPS_PER_LINE: usize = 50;

/// The most modes that are blamed.
const BLAMED_MAX: usize = 8;

/// What counts as zero beside the incidences, which are whole numbers.
const TINY: f64 = 1e-9;

/// The modes, by transition and index, of a mix of firings that multiplies tokens; `None` if there is none. Modes that
/// take nothing are open sources and do not count.
pub(super) fn growth(net: &Net) -> Option<Vec<(usize, usize)>> {
    let incidence = Incidence::of(net);
    let mix = incidence.multiplying()?;
    let all: Vec<usize> = (0..incidence.modes.len()).collect();
    if incidence.is_sustainable(&all) {
        return None;
    }
    // The modes to blame, if each by itself is.
    let alone = all.iter().filter(|&&mode| !incidence.is_sustainable(&[mode])).map(|&mode| incidence.modes[mode]);
    let alone: Vec<(usize, usize)> = alone.take(BLAMED_MAX).collect();
    Some(if alone.is_empty() { mix } else { alone })
}

/// What each mode adds to each slot: a color in a place.
struct Incidence {
    /// Transition and index of each mode.
    modes: Vec<(usize, usize)>,
    /// By mode: slots and the tokens that they gain.
    gains: Vec<Vec<(usize, f64)>>,
    /// By mode: whether it takes nothing.
    sources: Vec<bool>,
    slots: usize,
}

impl Incidence {
    fn of(net: &Net) -> Incidence {
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
        let mut incidence = Incidence { modes: Vec::new(), gains: Vec::new(), sources: Vec::new(), slots };
        for (index, transition) in net.transitions.iter().enumerate() {
            for (at, mode) in transition.modes.iter().enumerate() {
                let gain = |sign: f64| move |arc: &Arc| (slot_of(arc), sign * f64::from(arc.count));
                let taken = mode.inputs.iter().map(gain(-1.0));
                incidence.modes.push((index, at));
                incidence.gains.push(taken.chain(mode.outputs.iter().map(gain(1.0))).collect());
                incidence.sources.push(mode.inputs.is_empty());
            }
        }
        incidence
    }

    /// The modes of a mix of firings that multiplies tokens, if there is one. Modes that take nothing do not count.
    fn multiplying(&self) -> Option<Vec<(usize, usize)>> {
        let closed: Vec<usize> = (0..self.modes.len()).filter(|&mode| !self.sources[mode]).collect();
        let mut table = Table::new(self.slots + 1, closed.len())?;
        for (column, &mode) in closed.iter().enumerate() {
            for &(slot, gain) in &self.gains[mode] {
                table.rows[slot][column] -= gain;
                table.goal[column] -= gain;
            }
        }
        table.limit(0..closed.len());
        let mix = table.maximise()?;
        Some(mix.into_iter().map(|column| self.modes[closed[column]]).collect())
    }

    /// Whether these modes may go on firing together without growth, whatever else fires. With x = y + s for each of them,
    /// y >= 0, this is whether C x <= 0 has a solution with s > 0.
    fn is_sustainable(&self, modes: &[usize]) -> bool {
        let all = self.modes.len();
        let Some(mut table) = Table::new(self.slots + 1, all + 1) else { return true };
        for (mode, gains) in self.gains.iter().enumerate() {
            for &(slot, gain) in gains {
                table.rows[slot][mode] += gain;
            }
        }
        for &(slot, gain) in modes.iter().flat_map(|&mode| &self.gains[mode]) {
            table.rows[slot][all] += gain;
        }
        table.goal[all] = -1.0;
        table.limit(all..all + 1);
        table.maximise().is_some()
    }
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
    /// A table whose mixes start with no firing; `None` if it would be too large.
    fn new(rows: usize, modes: usize) -> Option<Table> {
        let columns = modes + rows + 1;
        if rows.saturating_mul(columns) > ENTRIES_MAX {
            return None;
        }
        let mut table = vec![vec![0.0; columns]; rows];
        for (index, row) in table.iter_mut().enumerate() {
            row[modes + index] = 1.0;
        }
        Some(Table { rows: table, goal: vec![0.0; columns], basis: (modes..modes + rows).collect(), modes })
    }

    /// The last row: the sum of these columns is at most 1.
    fn limit(&mut self, columns: std::ops::Range<usize>) {
        if let Some(row) = self.rows.last_mut() {
            row[columns].fill(1.0);
            row.last_mut().into_iter().for_each(|bound| *bound = 1.0);
        }
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
