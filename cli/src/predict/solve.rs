//! `iocast predict --solve`: a queueing Petri net, as a Markov chain or by simulation.

use std::path::Path;

use anyhow::{Context, Result, bail};
use queueing::exact::ctmc::{self, CtmcError, SteadyState};
use queueing::net::{Net, description, draw, qpe};
use queueing::simulation::{self, ColorResult, Estimate, SimulationResult, simulate_counted};
use traces::origin::without_folders;
use traces::results::SCHEMA_VERSION;
use traces::results::solved_net::{Figure, NetSimulation, SolvedColor, SolvedNet, SolvedPlace, SolvedQueue};
use traces::whole_file::write_whole;

use crate::arguments::{Predict, Solver, Solving};
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::output::{self, Table, number, sentence, written};
use crate::output_format::OutputFormat;
use crate::progress::Progress;
use crate::units::ABSENT;

/// Independent replications of a simulation. The result does not depend on how many run at once.
const REPLICATIONS: u32 = 4;

/// The least events of each replication: a tenth of them is run before histograms begin.
const EVENTS_MIN: u64 = 200_000;

/// Percentiles of residence times.
const PERCENTILES: [f64; 3] = [0.5, 0.95, 0.99];

pub fn run(file: &Path, arguments: &Predict) -> Result<()> {
    let Predict { solving, force, output_format, .. } = arguments;
    let draw = solving.draw.as_deref().map(|path| picture(path, *force)).transpose()?;
    let net = read(file)?;
    let mut files = Vec::new();
    if let Some((path, draw)) = draw {
        write_whole(path, draw(&net).as_bytes())?;
        files.push(path.display().to_string());
    }
    let solved = SolvedNet {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        file: without_folders(&file.to_string_lossy()).to_owned(),
        ..solve(&net, solving).with_context(|| file.display().to_string())?
    };
    match output_format {
        OutputFormat::Json => output::print_json(&solved),
        format => output::print(&format!("{}{}", render(&solved, *format), written(&files, *format))),
    }
}

/// The net in a file: QPME's format if its name ends in .qpe, else TOML.
fn read(file: &Path) -> Result<Net> {
    let name = file.display().to_string();
    let text = traces::read_text(file).with_context(|| format!("{name}: cannot be read"))?;
    let is_qpe = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("qpe"));
    if !is_qpe {
        return Ok(description::parse(&text, &name)?);
    }
    // A file of QPME does not name its net.
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(Net { name: stem.unwrap_or_default(), ..qpe::parse(&text, &name)? })
}

/// How a net is drawn.
type Draw = fn(&Net) -> String;

/// The picture's file, checked before the net is solved, and what draws it.
fn picture(path: &Path, force: bool) -> Result<(&Path, Draw)> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let draw: Draw = match ending.as_deref() {
        Some("svg") => draw::svg,
        Some("dot") => draw::dot,
        _ => bail!(UsageError(format!("--draw {}: name a file that ends in .svg or .dot", path.display()))),
    };
    if !force {
        refuse_existing(&[path.to_owned()], "another name with --draw")?;
    }
    Ok((path, draw))
}

fn solve(net: &Net, solving: &Solving) -> Result<SolvedNet> {
    let note = match solving.solver {
        Solver::Ctmc => return Ok(of_chain(net, ctmc::solve(net, ctmc::STATES_MAX)?)),
        Solver::Simulation => None,
        Solver::Auto => match ctmc::solve(net, ctmc::STATES_MAX) {
            Ok(state) => return Ok(of_chain(net, state)),
            Err(error @ (CtmcError::Net(_) | CtmcError::Stuck | CtmcError::Loop { .. })) => return Err(error.into()),
            Err(error) => Some(format!("not solved as a Markov chain: {error}")),
        },
    };
    let settings = simulation::Settings {
        seed: solving.seed,
        replications: REPLICATIONS,
        precision: Some(solving.precision),
        events: [EVENTS_MIN.min(solving.events), solving.events],
        histograms: true,
        ..simulation::Settings::default()
    };
    let progress = Progress::events("simulating", solving.events.saturating_mul(u64::from(REPLICATIONS)));
    let result = simulate_counted(net, &settings, &progress.counter(0))?;
    drop(progress);
    let mut solved = of_simulation(net, &result, &settings);
    if !result.precise {
        solved.notes.push(format!(
            "the intervals are wider than {} % of their means after {} events; allow more with --events",
            100.0 * solving.precision,
            result.events
        ));
    }
    solved.notes.extend(note);
    Ok(solved)
}

/// The result without its figures.
fn empty(net: &Net, solver: &str) -> SolvedNet {
    SolvedNet {
        schema_version: SCHEMA_VERSION,
        program: String::new(),
        net: net.name.clone(),
        file: String::new(),
        solver: solver.to_owned(),
        states: None,
        simulation: None,
        places: Vec::new(),
        queues: Vec::new(),
        notes: Vec::new(),
    }
}

fn of_chain(net: &Net, state: SteadyState) -> SolvedNet {
    let exact = |mean: f64| Figure { mean, half_width: None };
    let place = |(place, figures): (&queueing::net::Place, Vec<ctmc::ColorFigures>)| {
        let color = |(color, figures): (&queueing::net::PlaceColor, ctmc::ColorFigures)| SolvedColor {
            name: net.colors[color.color].clone(),
            throughput: exact(figures.throughput),
            tokens: exact(figures.population),
            residence: exact(figures.residence),
            residence_p50_p95_p99: None,
        };
        SolvedPlace { name: place.name.clone(), colors: place.colors.iter().zip(figures).map(color).collect() }
    };
    let queue = |(queue, utilisation): (&queueing::net::Queue, f64)| SolvedQueue {
        name: queue.name.clone(),
        utilisation: exact(utilisation),
    };
    SolvedNet {
        states: Some(state.states as u64),
        places: net.places.iter().zip(state.places).map(place).collect(),
        queues: net.queues.iter().zip(state.utilisation).map(queue).collect(),
        ..empty(net, "ctmc")
    }
}

fn of_simulation(net: &Net, result: &SimulationResult, settings: &simulation::Settings) -> SolvedNet {
    let figure = |Estimate { mean, half_width }: Estimate| Figure { mean, half_width };
    let color = |color: &ColorResult| SolvedColor {
        name: color.name.clone(),
        throughput: figure(color.throughput),
        tokens: figure(color.population),
        residence: figure(color.residence),
        residence_p50_p95_p99: color.histogram.as_ref().and_then(|histogram| {
            let [p50, p95, p99] = PERCENTILES.map(|share| histogram.quantile(share));
            Some([p50?, p95?, p99?])
        }),
    };
    SolvedNet {
        simulation: Some(NetSimulation {
            seed: settings.seed,
            replications: settings.replications,
            precision: settings.precision.unwrap_or_default(),
            reached: result.precise,
            time: result.time,
            events: result.events,
            completions: result.completions,
        }),
        places: result
            .places
            .iter()
            .map(|place| SolvedPlace { name: place.name.clone(), colors: place.colors.iter().map(color).collect() })
            .collect(),
        queues: result
            .queues
            .iter()
            .map(|queue| SolvedQueue { name: queue.name.clone(), utilisation: figure(queue.utilisation) })
            .collect(),
        ..empty(net, "simulation")
    }
}

fn render(solved: &SolvedNet, format: OutputFormat) -> String {
    let how = match &solved.simulation {
        None => format!("solved exactly as a Markov chain of {} states", solved.states.unwrap_or_default()),
        Some(simulation) => format!(
            "simulated with seed {}: {} events in {} replications; ± is half of the 95 % interval",
            simulation.seed, simulation.events, simulation.replications
        ),
    };
    let mut text = vec![sentence(&format!("{}: {how}. Times are in the net's time unit.", solved.net), format)];
    text.push(places(solved).render(format));
    text.push(queues(solved).render(format));
    text.extend(solved.notes.iter().map(|note| sentence(&format!("Note: {note}."), format)));
    text.join("\n")
}

/// A figure with six digits, or with its half-width to two digits and as many decimals as that.
fn shown(Figure { mean, half_width }: Figure) -> String {
    let decimals = |value: f64, digits: i64| (digits - 1 - value.abs().log10().floor() as i64).clamp(0, 12) as usize;
    let tiny = |value: f64| value != 0.0 && !(1e-4..1e6).contains(&value.abs());
    match half_width.filter(|width| *width > 0.0) {
        _ if mean == 0.0 => "0".to_owned(),
        Some(width) if tiny(mean) => format!("{mean:.3e} ± {width:.1e}"),
        Some(width) => format!("{mean:.*} ± {width:.*}", decimals(width, 2), decimals(width, 2)),
        None if tiny(mean) => format!("{mean:.5e}"),
        None => format!("{mean:.*}", decimals(mean, 6)),
    }
}

fn places(solved: &SolvedNet) -> Table {
    let percentiles = solved.simulation.is_some();
    let row = |place: &SolvedPlace, color: &SolvedColor| {
        let mut row = vec![place.name.clone(), color.name.clone()];
        row.extend([color.throughput, color.tokens, color.residence].map(shown));
        if percentiles {
            let of = |nth: usize| color.residence_p50_p95_p99.map(|percentiles| percentiles[nth]);
            row.extend([0, 1, 2].map(|nth| of(nth).map_or_else(|| ABSENT.to_owned(), |time| number(Some(time)))));
        }
        row
    };
    let header = ["place", "color", "throughput", "tokens", "residence", "median", "p95", "p99"];
    let columns = if percentiles { header.len() } else { 5 };
    Table {
        title: "Places: tokens that leave per time unit, mean number of tokens, time of a visit".to_owned(),
        header: header[..columns].iter().map(|name| (*name).to_owned()).collect(),
        rows: solved.places.iter().flat_map(|place| place.colors.iter().map(move |color| row(place, color))).collect(),
        text_columns: 2,
    }
}

fn queues(solved: &SolvedNet) -> Table {
    Table {
        title: "Queues: mean share of busy servers; of an infinite server the mean number of tokens".to_owned(),
        header: vec!["queue".to_owned(), "utilisation".to_owned()],
        rows: solved.queues.iter().map(|queue| vec![queue.name.clone(), shown(queue.utilisation)]).collect(),
        text_columns: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_six_digits_or_as_many_decimals_as_their_half_width() {
        let of = |mean: f64, half_width: Option<f64>| shown(Figure { mean, half_width });
        assert_eq!(of(0.829_257_9, None), "0.829258");
        assert_eq!(of(123_456.7, None), "123457");
        assert_eq!(of(1.23e-7, None), "1.23000e-7");
        assert_eq!(of(0.826_447, Some(0.001_43)), "0.8264 ± 0.0014");
        assert_eq!(of(40_691.6, Some(763.0)), "40692 ± 763");
        assert_eq!(of(1.9337e-5, Some(1.2e-5)), "1.934e-5 ± 1.2e-5");
        assert_eq!(of(0.0, Some(0.0)), "0");
    }
}
