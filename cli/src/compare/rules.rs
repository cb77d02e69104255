//! The rules of each scheduler of a comparison, and how many requests each has sent.

use traces::results::{Comparison, LayerFigures, RuleFigures, Run};

use super::details::header_name;
use crate::output::{Table, number, sentence};
use crate::output_format::OutputFormat;
use crate::units::ABSENT;

/// The rules as text or Markdown.
pub fn render(comparison: &Comparison, format: OutputFormat) -> String {
    let table = table(comparison);
    if table.rows.is_empty() {
        return sentence("None of the schedulers has more than one rule.", format);
    }
    table.render(format)
}

/// One line per scheduler and rule, and per layer if there are stacks. Schedulers with a single rule have none.
fn table(comparison: &Comparison) -> Table {
    let has_layers = comparison.runs.iter().any(|run| run.stack.is_some());
    let row = |run: &Run, layer: &str, rule: &RuleFigures| {
        let layer = has_layers.then(|| layer.to_owned());
        // What never happened should not look like a small number.
        let requests = if rule.requests == 0 { "never".to_owned() } else { rule.requests.to_string() };
        let share = rule.share.filter(|_| rule.requests > 0).map(|share| share * 100.0);
        let cells = [rule.name.clone(), requests, number(share)];
        std::iter::once(header_name(run)).chain(layer).chain(cells).collect::<Vec<String>>()
    };
    let of_layer = |run: &Run, layer: &LayerFigures| -> Vec<Vec<String>> {
        layer.rules.iter().map(|rule| row(run, &format!("{}: {}", layer.layer, layer.scheduler), rule)).collect()
    };
    let of_run = |run: &Run| match &run.stack {
        Some(stack) => stack.layers.iter().flat_map(|layer| of_layer(run, layer)).collect(),
        None => run.rules.iter().map(|rule| row(run, ABSENT, rule)).collect::<Vec<_>>(),
    };
    let layer = has_layers.then_some("layer");
    let header = std::iter::once("").chain(layer).chain(["rule", "requests", "share, %"]).map(str::to_owned).collect();
    Table {
        title: "Requests that each rule of a scheduler sent (iocast list schedulers NAME explains the rules)"
            .to_owned(),
        header,
        rows: comparison.runs.iter().flat_map(of_run).collect(),
        text_columns: if has_layers { 3 } else { 2 },
    }
}
