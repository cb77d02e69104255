//! Schedulers with tunables that take several values: all combinations of them.

use serde::Deserialize;
use toml::{Table, Value};
use traces::Nanos;
use traces::quantity::{parse_bytes, parse_nanos, parse_thousandths};
use traces::spec::{Spec, Unit, did_you_mean};

/// The most values of one range: more are a mistake.
const VALUES_MAX: usize = 1_000;
/// The most combinations of one scheduler's tunables.
const COMBINATIONS_MAX: usize = 100_000;

/// A scheduler of a plan: a name with tunables as on the command line, or a table with its `name` and tunables that take
/// several values.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a scheduler is a text, such as \"deadline\", or a table with its `name`, such as { name = \
                               \"mq-deadline\", fifo_batch = [1, 16] }; numbers have at most 63 bits"
)]
pub enum Varied {
    One(String),
    Several(Table),
}

impl Varied {
    /// The schedulers that it stands for: the last tunable in the order of their names changes first.
    ///
    /// # Errors
    /// An unknown scheduler or tunable, a range that is none.
    pub fn specs(&self) -> Result<Vec<Spec>, String> {
        let table = match self {
            Varied::One(text) => return Ok(vec![text.parse::<Spec>().map_err(|error| error.to_string())?]),
            Varied::Several(table) => table,
        };
        let Some(Value::String(name)) = table.get("name") else {
            return Err(
                "a scheduler with ranges needs its `name`, as in { name = \"mq-deadline\", fifo_batch = [1, 16] }"
                    .to_owned(),
            );
        };
        let entry = schedulers::Registry::builtin().find(name).map_err(|error| error.to_string())?;
        let mut specs = vec![Spec { name: name.clone(), given: Vec::new() }];
        for (tunable, values) in table.iter().filter(|(key, _)| *key != "name") {
            let Some(known) = entry.tunables.iter().find(|known| known.name == tunable) else {
                let hint = did_you_mean(tunable, entry.tunables.iter().map(|known| known.name));
                return Err(format!("`{name}` has no tunable `{tunable}`{hint}"));
            };
            let values = all(values, known.unit).map_err(|problem| format!("{name}:{tunable}: {problem}"))?;
            if specs.len() * values.len() > COMBINATIONS_MAX {
                return Err(format!(
                    "the values of `{name}` have more than {COMBINATIONS_MAX} combinations; take larger steps, or let \
                     `iocast tune` search them"
                ));
            }
            let with = |spec: &Spec, value: &String| {
                let mut spec = spec.clone();
                spec.given.push((tunable.clone(), value.clone()));
                spec
            };
            specs = specs.iter().flat_map(|spec| values.iter().map(move |value| with(spec, value))).collect();
        }
        Ok(specs)
    }
}

/// The values of a tunable: one, a list, or a range.
fn all(values: &Value, unit: Unit) -> Result<Vec<String>, String> {
    match values {
        Value::Array(values) if values.is_empty() => Err("the list is empty".to_owned()),
        Value::Array(values) => values.iter().map(text).collect(),
        Value::Table(range) => of_range(range, unit),
        value => Ok(vec![text(value)?]),
    }
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is_on) => Ok(if *is_on { "on" } else { "off" }.to_owned()),
        other => Err(format!("{other} is no value of a tunable")),
    }
}

const RANGE: &str =
    "a range is { from = 1, to = 16, factor = 2 } or { from = \"100ms\", to = \"500ms\", step = \"200ms\" }";

/// From `from` up to `to`, each larger by `step`, or `factor` times as large.
fn of_range(range: &Table, unit: Unit) -> Result<Vec<String>, String> {
    if let Some(unknown) = range.keys().find(|key| !["from", "to", "step", "factor"].contains(&key.as_str())) {
        return Err(format!("a range has no `{unknown}`; {RANGE}"));
    }
    let number = |key: &str| range.get(key).map(|value| base(unit, &text(value)?)).transpose();
    let (Some(from), Some(to)) = (number("from")?, number("to")?) else { return Err(RANGE.to_owned()) };
    let factor =
        range.get("factor").map(|factor| factor.as_integer().ok_or("`factor` is a whole number")).transpose()?;
    let next: Box<dyn Fn(u64) -> Option<u64>> = match (number("step")?, factor) {
        (Some(step), None) if step > 0 => Box::new(move |at| at.checked_add(step)),
        (None, Some(factor)) if factor > 1 && from > 0 => Box::new(move |at| at.checked_mul(factor.cast_unsigned())),
        (None, Some(_)) => {
            return Err(format!("a range by a factor begins above 0, and the factor is at least 2; {RANGE}"));
        }
        _ => return Err(format!("a range has either a `step` above 0 or a `factor`; {RANGE}")),
    };
    if from > to {
        return Err("the range ends before it begins".to_owned());
    }
    let values: Vec<u64> =
        std::iter::successors(Some(from), |at| next(*at).filter(|at| *at <= to)).take(VALUES_MAX + 1).collect();
    if values.len() > VALUES_MAX {
        return Err(format!("the range has more than {VALUES_MAX} values; take a larger step"));
    }
    Ok(values.into_iter().map(|value| written(unit, value)).collect())
}

/// A value in the base of its unit.
pub fn base(unit: Unit, text: &str) -> Result<u64, String> {
    match unit {
        Unit::Time => parse_nanos(text).map(Nanos::as_ns).map_err(|error| error.to_string()),
        Unit::Bytes => parse_bytes(text).map_err(|error| error.to_string()),
        Unit::Decimal => parse_thousandths(text).map_err(|error| error.to_string()),
        Unit::Count => text.parse().map_err(|_| format!("`{text}` is no whole number")),
        other => Err(format!("it takes {}, of which there is no range; list its values", other.describe())),
    }
}

/// A value as one would write it.
pub fn written(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Time => Nanos::from_ns(value).to_string(),
        Unit::Decimal => format!("{}.{:03}", value / 1000, value % 1000),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(text: &str) -> Result<Vec<String>, String> {
        let table: Table = format!("of = {text}").parse().map_err(|error| format!("{error}"))?;
        let varied: Varied = table["of"].clone().try_into().map_err(|error| format!("{error}"))?;
        Ok(varied.specs()?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn all_combinations_of_lists_and_ranges_are_there() {
        assert_eq!(specs("\"cats\"").unwrap(), ["cats"]);
        assert_eq!(specs("{ name = 'mq-deadline', fifo_batch = 8 }").unwrap(), ["mq-deadline:fifo_batch=8"]);
        assert_eq!(
            specs("{ name = 'deadline', fifo_batch = {from = 2, to = 9, factor = 2}, read_expire = ['1s', '2s'] }")
                .unwrap(),
            [
                "deadline:fifo_batch=2,read_expire=1s",
                "deadline:fifo_batch=2,read_expire=2s",
                "deadline:fifo_batch=4,read_expire=1s",
                "deadline:fifo_batch=4,read_expire=2s",
                "deadline:fifo_batch=8,read_expire=1s",
                "deadline:fifo_batch=8,read_expire=2s",
            ]
        );
        let times = specs("{ name = 'deadline', read_expire = {from = '100ms', to = '1s', step = '450ms'} }").unwrap();
        assert_eq!(times, ["100ms", "550ms", "1s"].map(|time| format!("deadline:read_expire={time}")));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for (range, says) in [
            ("{from = 1}", "a range is"),
            ("{from = 1, to = 2}", "either a `step`"),
            ("{from = 1, to = 2, step = 0}", "either a `step`"),
            ("{from = 0, to = 2, factor = 2}", "begins above 0"),
            ("{from = 1, to = 2, factor = 1}", "at least 2"),
            ("{from = 3, to = 2, step = 1}", "ends before"),
            ("{from = 1, to = 2000, step = 1}", "more than 1000"),
            ("{from = 1, upto = 2}", "no `upto`"),
            ("{from = 'a', to = 2, step = 1}", "no whole number"),
            ("[]", "is empty"),
            (
                "{from = 1, to = 1000, step = 1}, read_expire = {from = '1ms', to = '101ms', step = '1ms'}",
                "more than 100000 combinations",
            ),
        ] {
            let error = specs(&format!("{{ name = 'deadline', fifo_batch = {range} }}")).unwrap_err();
            assert!(error.contains(says), "{range}: {error}");
        }
        assert!(specs("{ name = 'deadline', fifo_bach = 1 }").unwrap_err().contains("did you mean fifo_batch"));
        assert!(specs("{ fifo_batch = 1 }").unwrap_err().contains("needs its `name`"));
        assert!(specs("5").unwrap_err().contains("a scheduler is a text"));
    }
}
