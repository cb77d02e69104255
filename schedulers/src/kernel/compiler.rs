//! Runs the C compiler, and reads off its messages what the shim lacks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::BuildError;

/// Lines of the compiler that an error shows.
const LINES_SHOWN: usize = 20;

/// The folder of the shim's headers in the places of messages.
const SHIM: &str = "/include/iocast/";

/// A name that the source uses and the shim lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The function, type, constant or member.
    pub name: String,
    /// Where it is first used, as `block/mq-deadline.c:354`.
    pub place: String,
}

pub(super) struct Compiler<'a> {
    pub(super) command: &'a str,
    /// Has the headers, and takes the objects.
    pub(super) folder: &'a Path,
    pub(super) hz: u32,
}

impl Compiler<'_> {
    /// Compiles one source, called `name` in messages.
    pub(super) fn compile(&self, text: &str, name: &str, options: &[String]) -> Result<PathBuf, BuildError> {
        let file = name.replace(['/', '\\'], "_");
        let (source, object) = (self.folder.join(&file), self.folder.join(format!("{file}.o")));
        let fail = |error: std::io::Error| BuildError::File { path: source.clone(), problem: error.to_string() };
        // The directive names the original in messages, and leaves the lines as they are.
        fs::write(&source, format!("#line 1 {}\n{text}", quoted(name))).map_err(fail)?;
        let mut command = self.command();
        command.args(["-std=gnu11", "-O2", "-g", "-c", "-fPIC", "-fvisibility=hidden", "-fmessage-length=0"]);
        // As the kernel's own Makefile has it; signed sums of times wrap there.
        command.args(["-fno-strict-aliasing", "-fno-strict-overflow"]);
        for error in ["implicit-function-declaration", "int-conversion", "incompatible-pointer-types"] {
            command.arg(format!("-Werror={error}"));
        }
        command.arg("-D__KERNEL__").arg(format!("-DHZ={}", self.hz)).args(options);
        command.arg("-I").arg(self.folder.join("include")).arg("-iquote").arg(self.folder.join("local"));
        let output = self.run(command.arg("-o").arg(&object).arg(&source))?;
        if output.status.success() { Ok(object) } else { Err(problem(name, &output)) }
    }

    /// Links the objects into a library. Every name must be there.
    pub(super) fn link(&self, objects: &[PathBuf]) -> Result<PathBuf, BuildError> {
        let library = self.folder.join("library.so");
        let mut command = self.command();
        command.args(["-shared", "-Wl,-z,defs", "-o"]).arg(&library).args(objects);
        let output = self.run(&mut command)?;
        if output.status.success() { Ok(library) } else { Err(problem("the library", &output)) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.command);
        command.env("LC_ALL", "C");
        command
    }

    fn run(&self, command: &mut Command) -> Result<Output, BuildError> {
        let compiler = self.command.to_owned();
        command.output().map_err(|error| BuildError::NoCompiler { compiler, error })
    }
}

/// A text as a string of C.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn problem(what: &str, output: &Output) -> BuildError {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    // Other errors follow from names that are missing, as a rule. If not, they show when these are there.
    for Lacking { name, place } in text.lines().filter_map(lacking) {
        // Names within a macro of the shim are its own.
        if !place.contains(SHIM) {
            names.entry(name).or_insert(place);
        }
    }
    if names.is_empty() {
        let output = text.lines().take(LINES_SHOWN).collect::<Vec<_>>().join("\n");
        return BuildError::DoesNotCompile { what: what.to_owned(), output };
    }
    BuildError::Lacking { names: names.into_iter().map(|(name, place)| Lacking { name, place }).collect() }
}

/// The name that a line of the compiler or linker says is missing.
fn lacking(line: &str) -> Option<Lacking> {
    const BEFORE: [&str; 5] = [
        "implicit declaration of function '",
        "unknown type name '",
        "has no member named '",
        "call to undeclared function '",
        "use of undeclared identifier '",
    ];
    const AFTER: [&str; 2] = ["' undeclared", "' has incomplete type"];
    let place = |text: &str| {
        let mut parts = text.splitn(3, ':');
        format!("{}:{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    };
    if let Some((before, name)) = line.split_once("undefined reference to `") {
        let (name, place) = (name.trim_end_matches('\''), before.trim_end().trim_end_matches(':'));
        let place = place.rsplit(' ').next().unwrap_or_default();
        return Some(Lacking { name: name.to_owned(), place: place.to_owned() });
    }
    let (at, message) = line.split_once(" error: ")?;
    let quoted = |begin: &str| message.split_once(begin).and_then(|(_, rest)| rest.split_once('\''));
    let name = BEFORE.iter().find_map(|begin| quoted(begin)).map(|(name, _)| name);
    let name = name.or_else(|| {
        let before = AFTER.iter().find_map(|end| message.split_once(end)).map(|(before, _)| before)?;
        before.rsplit('\'').next()
    })?;
    Some(Lacking { name: name.to_owned(), place: place(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_off_the_messages_of_two_compilers_and_a_linker() {
        for (line, name, place) in [
            (
                "block/a.c:354:7: error: implicit declaration of function 'blk_x' [-Werror=implicit-function-declaration]",
                "blk_x",
                "block/a.c:354",
            ),
            ("block/a.h:3:2: error: unknown type name 'x_t'", "x_t", "block/a.h:3"),
            ("block/a.c:9:2: error: 'struct request' has no member named 'y'; did you mean 'q'?", "y", "block/a.c:9"),
            (
                "block/a.c:1241:23: error: 'ELEVATOR_F' undeclared here (not in a function)",
                "ELEVATOR_F",
                "block/a.c:1241",
            ),
            ("block/a.h:915:41: error: field 'cnt' has incomplete type", "cnt", "block/a.h:915"),
            ("block/a.c:3:1: error: call to undeclared function 'z'; ISO C99 and later", "z", "block/a.c:3"),
            ("/usr/bin/ld: block/a.c:77: undefined reference to `blk_y'", "blk_y", "block/a.c:77"),
        ] {
            let (name, place) = (name.to_owned(), place.to_owned());
            assert_eq!(lacking(line), Some(Lacking { name, place }), "{line}");
        }
        assert_eq!(lacking("block/a.c:1:1: error: expected ';' before 'x'"), None);
    }
}
