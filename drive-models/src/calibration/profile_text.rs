//! The text of the profile that a fit has found.

use std::fmt::Write;

use traces::spec::Tunable;

/// A profile being written. What it says of its validation is filled in when it was judged.
#[derive(Clone, Debug)]
pub struct ProfileText {
    model: &'static str,
    summary: String,
    given: Vec<String>,
    settings: String,
    sections: String,
}

impl ProfileText {
    /// A profile of `model`, a name of [`crate::MODELS`], so far without settings.
    pub fn new(model: &'static str, summary: &str) -> ProfileText {
        let (settings, sections) = (String::new(), String::new());
        ProfileText { model, summary: summary.to_owned(), given: Vec::new(), settings, sections }
    }

    /// With one setting more, and where its value comes from.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str, source: &str) -> ProfileText {
        self.given.push(name.to_owned());
        let (value, source) = (quoted(value), quoted(source));
        let _ = writeln!(self.settings, "{name} = {{ value = {value}, source = {source} }}");
        self
    }

    /// With the defaults of those of `tunables` that have no setting yet.
    #[must_use]
    pub fn defaults(self, tunables: &[Tunable], source: &str) -> ProfileText {
        let left: Vec<_> =
            tunables.iter().filter(|tunable| self.given.iter().all(|name| name != tunable.name)).collect();
        left.into_iter().fold(self, |text, tunable| text.setting(tunable.name, tunable.default, source))
    }

    /// With one more section of the model's own behind the settings.
    #[must_use]
    pub fn section(mut self, name: &str, source: &str, body: &str) -> ProfileText {
        let _ = write!(self.sections, "\n[{name}]\nsource = {}\n{body}", quoted(source));
        self
    }

    /// The file, checked against nothing yet if `validation` says so.
    pub fn render(&self, validation: &str) -> String {
        let ProfileText { model, summary, settings, sections, .. } = self;
        let (summary, validation) = (quoted(summary), quoted(validation));
        format!(
            "model = \"{model}\"\nsummary = {summary}\nvalidation = {validation}\n\n[settings]\n{settings}{sections}"
        )
    }
}

/// A TOML basic string on one line; control characters, which no name needs, become `?`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push('?'),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
