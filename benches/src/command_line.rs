//! The arguments of a benchmark of scenarios, in the words of criterion.

use std::path::PathBuf;

use traces::spec::nearest;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Run the scenarios whose names contain one of these; all without any.
    pub filters: Vec<String>,
    /// Keep the figures as the baseline of this name.
    pub save_baseline: Option<String>,
    /// Compare with the baseline of this name.
    pub baseline: Option<String>,
    /// Write the figures for a tracker here.
    pub json: Option<PathBuf>,
    /// Print the names of the scenarios, and run none.
    pub list: bool,
    /// Print the help, and run none.
    pub help: bool,
}

/// Why the arguments were not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandLineError(String);

/// The options, each with what it takes and does.
const OPTIONS: [(&str, &str, &str); 5] = [
    ("--save-baseline", "NAME", "keep all figures under this name"),
    ("--baseline", "NAME", "show what has changed since the figures of this name were kept"),
    ("--json", "FILE", "write the figures as JSON for github-action-benchmark (customSmallerIsBetter)"),
    ("--list", "", "print the names of the scenarios"),
    ("--help", "", "print this"),
];

/// What cargo passes to every benchmark.
const OF_CARGO: [&str; 2] = ["--bench", "--test"];

/// The help.
pub fn help() -> String {
    let mut text =
        "Runs the scenarios whose names contain one of the FILTERs, or all, and ends with code 1 if one is not as \
                    expected.\n\nUsage: cargo bench -- [OPTIONS] [FILTER…]\n\n"
            .to_owned();
    for (option, takes, does) in OPTIONS {
        text.push_str(&format!("  {:22}{does}\n", format!("{option} {takes}")));
    }
    text
}

impl Options {
    /// Reads the arguments, without the program's name.
    ///
    /// # Errors
    /// An unknown option, with similar ones and all that there are; an option without its value, or given twice.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Options, CommandLineError> {
        let mut options = Options::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if !argument.starts_with('-') {
                options.filters.push(argument);
                continue;
            }
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let takes = OPTIONS.iter().find(|(option, ..)| *option == name).map(|(_, takes, _)| *takes);
            match takes {
                None if OF_CARGO.contains(&argument.as_str()) => {}
                None => return Err(unknown(name)),
                Some("") if attached.is_some() => {
                    return Err(CommandLineError(format!("{name} takes no value")));
                }
                Some("") => options.switch(name),
                Some(takes) => {
                    let value = attached.or_else(|| arguments.next().filter(|value| !value.starts_with('-')));
                    let missing = || CommandLineError(format!("{name} needs a value: {name} {takes}"));
                    options.set(name, value.filter(|value| !value.is_empty()).ok_or_else(missing)?)?;
                }
            }
        }
        Ok(options)
    }

    fn switch(&mut self, name: &str) {
        match name {
            "--list" => self.list = true,
            _ => self.help = true,
        }
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), CommandLineError> {
        let is_again = match name {
            "--save-baseline" => self.save_baseline.replace(value).is_some(),
            "--baseline" => self.baseline.replace(value).is_some(),
            _ => self.json.replace(value.into()).is_some(),
        };
        if is_again { Err(CommandLineError(format!("{name} is given twice"))) } else { Ok(()) }
    }

    /// Whether a scenario of this name is to run.
    pub fn chooses(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Checks that each filter chooses one of the scenarios `known`.
    ///
    /// # Errors
    /// A filter that chooses none, with similar names.
    pub fn check_filters(&self, known: &[String]) -> Result<(), CommandLineError> {
        let is_idle = |filter: &&String| !known.iter().any(|name| name.contains(filter.as_str()));
        let Some(idle) = self.filters.iter().find(is_idle) else { return Ok(()) };
        let near = match nearest(idle, known.iter().map(String::as_str)) {
            near if near.is_empty() => known.to_vec(),
            near => near,
        };
        Err(CommandLineError(format!("no scenario has `{idle}` in its name; did you mean {}?", near.join(", "))))
    }
}

fn unknown(name: &str) -> CommandLineError {
    let known = || OPTIONS.iter().map(|(option, ..)| *option);
    let near = match nearest(name, known()) {
        near if near.is_empty() => ".".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    let all: Vec<&str> = known().collect();
    CommandLineError(format!("there is no option `{name}`{near} The options are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn criterions_options_and_filters_are_read_and_cargos_are_passed_over() {
        let options =
            parse("--bench web --save-baseline new --baseline=old --json out.json --test mail --list").unwrap();
        let expected = Options {
            filters: vec!["web".to_owned(), "mail".to_owned()],
            save_baseline: Some("new".to_owned()),
            baseline: Some("old".to_owned()),
            json: Some("out.json".into()),
            list: true,
            help: false,
        };
        assert_eq!(options, expected);
        assert!(help().contains("--save-baseline NAME"));
    }

    #[test]
    fn an_unknown_option_is_an_error_that_lists_the_known_ones() {
        let error = parse("--save-basline x").unwrap_err();
        assert!(error.contains("no option `--save-basline`; did you mean --save-baseline"), "{error}");
        assert!(OPTIONS.iter().all(|(option, ..)| error.contains(option)), "{error}");
        assert!(parse("--sample-size 10").unwrap_err().contains("The options are"));
        assert!(parse("--exact").is_err());
    }

    #[test]
    fn an_option_has_its_value_once() {
        assert!(parse("--baseline").unwrap_err().contains("--baseline needs a value: --baseline NAME"));
        assert!(parse("--json --list").unwrap_err().contains("--json needs a value"));
        assert!(parse("--baseline a --baseline b").unwrap_err().contains("given twice"));
        assert!(parse("--list=x").unwrap_err().contains("takes no value"));
    }

    #[test]
    fn filters_are_parts_of_names_and_an_idle_one_has_near_misses() {
        let known = ["mail-alone", "mail-and-web", "deep-queue"].map(str::to_owned);
        let chosen = |line: &str| {
            let options = parse(line).unwrap();
            options.check_filters(&known).map(|()| known.iter().filter(|name| options.chooses(name)).count())
        };
        assert_eq!(chosen(""), Ok(3));
        assert_eq!(chosen("mail"), Ok(2));
        assert_eq!(chosen("alone queue"), Ok(2));
        let error = chosen("mail-alon3").unwrap_err().to_string();
        assert!(error.contains("`mail-alon3`") && error.contains("did you mean mail-alone, "), "{error}");
        assert!(chosen("mail qqqqqqqqqqqqqqqqqqqqqqqqqq").is_err());
    }
}
