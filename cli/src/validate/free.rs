//! A scheduler's free run on a capture, as tables.

use traces::results::free_run::{FreeRun, Responses};
use traces::results::statistics::SpanFigures;
use traces::results::supports_percentile;

use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::{ABSENT, supported};

/// A free run as a document.
pub fn document(run: &FreeRun) -> Document {
    let throughput = &run.throughput;
    let figures = Table {
        title: format!("{} on {} requests, at most {} in flight", run.scheduler, run.requests, run.depth),
        header: ["", "kernel", "model", "model/kernel"].map(str::to_owned).to_vec(),
        rows: vec![
            vec![
                "MB/s".to_owned(),
                format!("{:.3}", throughput.kernel_bytes_per_s / 1e6),
                format!("{:.3}", throughput.ours_bytes_per_s / 1e6),
                ratio(throughput.ratio),
            ],
            vec![
                "span, s".to_owned(),
                format!("{:.3}", throughput.kernel_span_ns.as_s_f64()),
                format!("{:.3}", throughput.ours_span_ns.as_s_f64()),
                ratio(None),
            ],
        ],
        text_columns: 1,
    };
    let mut rows = vec![row("all".to_owned(), &run.all)];
    rows.extend(run.operations.iter().map(|of| row(format!("{}s", of.operation), &of.responses)));
    rows.extend(run.classes.iter().map(|of| row(format!("class {}", class(of.class)), &of.responses)));
    rows.extend(run.processes.iter().map(|of| row(format!("process {}", of.process.0), &of.responses)));
    let header = ["", "requests", "p50 ms, kernel", "model", "ratio", "p99 ms, kernel", "model", "ratio"];
    let responses = Table {
        title: "Response times, insertion to completion".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
        text_columns: 1,
    };
    let mut blocks: Vec<Block> = throughput
        .ratio
        .map(|of| Block::Sentence(format!("The model's throughput is {of:.3} times the kernel's.")))
        .into_iter()
        .chain([figures, responses].map(Block::Table))
        .collect();
    if run.unfinished > 0 {
        let unfinished = format!("{} requests had not completed when the capture ended.", run.unfinished);
        blocks.push(Block::Sentence(unfinished));
    }
    Document {
        title: format!("{} running freely on a capture", run.scheduler),
        blocks,
        charts: Vec::new(),
        program: traces::program_version(),
    }
}

fn row(whose: String, responses: &Responses) -> Vec<String> {
    let ms = |of: &SpanFigures, name: &str| {
        supported(&of.percentiles_ns, of.count, name).map_or(ABSENT.to_owned(), |ns| format!("{:.3}", ns / 1e6))
    };
    let Responses { kernel, ours, .. } = responses;
    let mut cells = vec![whose, kernel.count.to_string()];
    for (name, of_both) in [("p50", responses.p50_ratio), ("p99", responses.p99_ratio)] {
        let of_both = of_both.filter(|_| supports_percentile(kernel.count, name));
        cells.extend([ms(kernel, name), ms(ours, name), ratio(of_both)]);
    }
    cells
}

fn ratio(of: Option<f64>) -> String {
    of.map_or(ABSENT.to_owned(), |of| format!("{of:.3}"))
}

fn class(class: u8) -> &'static str {
    match class {
        1 => "real time",
        2 => "best effort",
        3 => "idle",
        _ => "none",
    }
}
