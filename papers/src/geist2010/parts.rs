//! What each part of CATS contributes, at loads of our own beside the paper's.
//!
//! In both workloads of the paper the oldest waiting read is nearly always older than READDELAY. CATS then serves reads
//! in C-SCAN order, so that neither its table nor its busdriver delay has a part in Tables 2 and 3. Fewer processes,
//! longer sleeps or a longer READDELAY let them run. The drive is that of the real system, with `O_DIRECT`.

use traces::results::RuleFigures;
use traces::results::reproduction::Cell;
use traces::spec::Spec;
use traces::statistics::mean_and_half_width;

use super::choices::Choices;
use super::run::{GEOMETRY, Measured, PROCESSES, Prepared, Quantity, Setting, System, run_on};
use crate::ReproduceError;
use crate::estimate::cell;
use crate::rules;

/// Captured requests of a run.
const REQUESTS: u64 = 10_000;

/// A load: processes, length of sleeps in multiples of the paper's, READDELAY.
struct Load {
    name: &'static str,
    processes: u64,
    sleeps: u32,
    read_delay: &'static str,
}

const LOADS: [Load; 6] = [
    load("the paper's: 50 processes", PROCESSES, 1, "100ms"),
    load("50 processes, sleeps 8 times as long", PROCESSES, 8, "100ms"),
    load("12 processes", 12, 1, "100ms"),
    load("4 processes", 4, 1, "100ms"),
    load("50 processes, READDELAY 1 s", PROCESSES, 1, "1s"),
    load("50 processes, no READDELAY", PROCESSES, 1, "1000s"),
];

const fn load(name: &'static str, processes: u64, sleeps: u32, read_delay: &'static str) -> Load {
    Load { name, processes, sleeps, read_delay }
}

/// The parts, each with those before it.
const PARTS: [&str; 4] = ["C-SCAN", "+ shadow cache", "+ table", "+ delay (CATS)"];

/// The scheduler that has the parts up to one.
fn scheduler(part: usize, read_delay: &str) -> Result<Spec, traces::spec::SpecError> {
    let spec = match part {
        0 => "cscan".to_owned(),
        1 => "cats:read_delay=0s".to_owned(),
        2 => format!("cats:read_delay={read_delay},busdriver_delay=0s"),
        _ => format!("cats:read_delay={read_delay}"),
    };
    spec.parse()
}

/// The runs of a seed: by load and part.
pub type Parts = Vec<[Measured; PARTS.len()]>;

/// Runs every load under every part.
///
/// # Errors
/// An invalid part.
pub fn run(prepared: &Prepared, seed: u64) -> Result<Parts, ReproduceError> {
    let mut of_loads: Parts = Vec::new();
    for (number, load) in LOADS.iter().enumerate() {
        let setting = Setting {
            prepared,
            direct: true,
            processes: load.processes,
            sleep_scale: 1000 * load.sleeps,
            geometry: GEOMETRY,
            look_ahead: true,
            seed,
            requests: REQUESTS,
        };
        let mut runs: [Measured; PARTS.len()] = Default::default();
        for (part, measured) in runs.iter_mut().enumerate() {
            let is_same = |earlier: &Load| (earlier.processes, earlier.sleeps) == (load.processes, load.sleeps);
            // The first two parts have no READDELAY that could differ.
            if let Some(earlier) = LOADS[..number].iter().position(is_same).filter(|_| part < 2) {
                *measured = of_loads[earlier][part].clone();
                continue;
            }
            let drive = drive_models::build(&Choices::FROZEN.drive(System::Real).parse()?)?.drive;
            *measured = run_on(&setting, &scheduler(part, load.read_delay)?, drive)?;
        }
        of_loads.push(runs);
    }
    Ok(of_loads)
}

/// The cells: mean response and throughput by load and part.
pub fn cells(seeds: &[Parts]) -> Vec<Cell> {
    let mut cells = Vec::new();
    let quantities: [(&str, &str, Quantity); 2] = [
        ("parts of CATS, mean response", "ms", |run| run.response[0]),
        ("parts of CATS, throughput", "sectors/ms", |run| run.throughput),
    ];
    for (table, unit, quantity) in quantities {
        for (load, of_load) in LOADS.iter().enumerate() {
            for (part, name) in PARTS.into_iter().enumerate() {
                let values: Vec<f64> = seeds.iter().map(|runs| quantity(&runs[load][part])).collect();
                cells.push(cell([table, of_load.name, name], unit, None, &values, false));
            }
        }
    }
    for (load, of_load) in LOADS.iter().enumerate() {
        let runs: Vec<&[RuleFigures]> = seeds.iter().map(|runs| &*runs[load][PARTS.len() - 1].rules).collect();
        cells.extend(rules::cells("rules of CATS by load", of_load.name, &runs));
    }
    cells
}

/// What each part changes in the mean response, seed by seed, in words.
pub fn statement(seeds: &[Parts]) -> String {
    let change = |load: usize, part: usize| {
        let of_seed = |runs: &Parts| (runs[load][part].response[0] / runs[load][part - 1].response[0] - 1.0) * 100.0;
        let (mean, half) = mean_and_half_width(&seeds.iter().map(of_seed).collect::<Vec<_>>());
        let half = half.map(|half| format!(" ± {half:.1}")).unwrap_or_default();
        format!("{mean:+.1}{half} %")
    };
    let of_load = |(number, load): (usize, &Load)| {
        let [hits, table, delay] = [1, 2, 3].map(|part| change(number, part));
        format!("{}: shadow cache {hits}, table {table}, delay {delay}", load.name)
    };
    let loads: Vec<String> = LOADS.iter().enumerate().map(of_load).collect();
    format!(
        "What each part of CATS changes in the mean response against the parts before it, at loads of ours on the real \
         drive, in {REQUESTS} requests, a fifth of those of the tables: {}.",
        loads.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_compared_with_the_parts_before_it_seed_by_seed() {
        let seed = |scale: f64| -> Parts {
            let of = |ms: f64| Measured { response: [ms * scale, 0.0], ..Measured::default() };
            LOADS.iter().map(|_| [of(100.0), of(50.0), of(45.0), of(54.0)]).collect()
        };
        let said = statement(&[seed(1.0), seed(3.0)]);
        assert!(
            said.contains("4 processes: shadow cache -50.0 ± 0.0 %, table -10.0 ± 0.0 %, delay +20.0 ± 0.0 %"),
            "{said}"
        );
        let cells = cells(&[seed(1.0), seed(3.0)]);
        assert_eq!(cells.len(), 2 * LOADS.len() * PARTS.len());
        assert!((cells[0].ours - 200.0).abs() < 1e-9 && cells[0].ci95.is_some());
    }
}
