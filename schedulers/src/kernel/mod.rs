//! Schedulers of Linux from their own source: a blk-mq elevator of a kernel tree becomes a shared library that runs on
//! the simulated clock, as `--schedulers kernel:mq.so`.
//!
//! The sources are compiled as they are. Three headers of the tree (lists, red-black trees, `elevator.h`) and those of
//! the elevator itself are the tree's own. Headers in `shim/` stand in for the rest of the kernel, `calls.c` for blk-mq.
//! What is GPL stays in the tree and in the library that a user builds; nothing of it is here.
//!
//! The library is a plug-in (`schedulers/include/iocast_scheduler.h`): the same loader, checks and guard apply.

mod compiler;
mod headers;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

pub use compiler::Lacking;
use compiler::{Compiler, quoted};
use tree::Tree;

/// The parts that stand in for the kernel: file and text.
const SHIM_HEADERS: [(&str, &str); 6] = [
    ("kernel.h", include_str!("shim/kernel.h")),
    ("time.h", include_str!("shim/time.h")),
    ("block.h", include_str!("shim/block.h")),
    ("runtime.h", include_str!("shim/runtime.h")),
    ("machine.h", include_str!("shim/machine.h")),
    ("iocast_scheduler.h", include_str!("../../include/iocast_scheduler.h")),
];
const SHIM_SOURCES: [(&str, &str); 4] = [
    ("runtime.c", include_str!("shim/runtime.c")),
    ("machine.c", include_str!("shim/machine.c")),
    ("calls.c", include_str!("shim/calls.c")),
    ("plugin.c", include_str!("shim/plugin.c")),
];

/// What the shim makes of `module_init()`.
const REGISTERED_BY: &str = "iocast_module_init";

/// What to build.
#[derive(Clone, Debug)]
pub struct Source {
    /// The elevator's file, in the tree or a changed copy beside its companions.
    pub file: PathBuf,
    /// The kernel tree, unpacked and not configured.
    pub tree: PathBuf,
    /// Ticks in a second (`CONFIG_HZ`), of which the kernel's jiffies are made.
    pub hz: u32,
    /// The C compiler.
    pub compiler: String,
}

/// A library that was built.
#[derive(Clone, Debug)]
pub struct Library {
    /// The version of the kernel, as `6.12.117`.
    pub version: String,
    /// The sources, relative to the tree where they lie in it.
    pub sources: Vec<String>,
    /// The library's file.
    pub bytes: Vec<u8>,
}

/// Why nothing was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file that must be there is not.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The compiler cannot be run.
    #[error("the C compiler `{compiler}` cannot be run: {error}; install it or name another")]
    NoCompiler {
        /// Its name.
        compiler: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The source uses what the stand-ins do not have.
    #[error("{}", lacking(names))]
    Lacking {
        /// The names, each with the place of its first use.
        names: Vec<Lacking>,
    },
    /// Something else does not compile.
    #[error("{what} does not compile:\n{output}")]
    DoesNotCompile {
        /// The source.
        what: String,
        /// The first lines of the compiler.
        output: String,
    },
}

/// Names that an error lists.
const NAMES_SHOWN: usize = 30;

fn lacking(names: &[Lacking]) -> String {
    let mut text = String::from("the source uses names of the kernel that iocast does not stand in for:");
    for Lacking { name, place } in names.iter().take(NAMES_SHOWN) {
        text.push_str(&format!("\n  {name} ({place})"));
    }
    if names.len() > NAMES_SHOWN {
        text.push_str(&format!("\n  and {} more", names.len() - NAMES_SHOWN));
    }
    text.push_str("\nThe functions may be left out of a copy of the source, if they do not matter for decisions.");
    text
}

/// Compiles the elevator of `source` into a shared library.
///
/// # Errors
/// A file that is missing, a compiler that cannot be run, a source that does not compile.
pub fn build(source: &Source) -> Result<Library, BuildError> {
    let tree = Tree::open(&source.tree)?;
    let sources = tree.sources_of(&source.file)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| BuildError::File { path, problem: error.to_string() }
    };
    let folder = tempfile::Builder::new().prefix("iocast-kernel-").tempdir().map_err(fail(&std::env::temp_dir()))?;
    headers::write(folder.path(), &tree, &sources).map_err(fail(folder.path()))?;
    let compiler = Compiler { command: &source.compiler, folder: folder.path(), hz: source.hz };
    let stem = source.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (mut objects, mut lacking, mut asks_rotational) = (Vec::new(), Vec::new(), false);
    for path in sources.iter().chain([&tree.file("lib/rbtree.c")]) {
        let text = fs::read_to_string(path).map_err(fail(path))?;
        asks_rotational |= ["blk_queue_nonrot(", "blk_queue_rot("].iter().any(|asks| text.contains(asks));
        match compiler.compile(&text, &tree.name_of(path), &[]) {
            Ok(object) => objects.push(object),
            Err(BuildError::Lacking { names }) => lacking.extend(names),
            Err(error) => return Err(error),
        }
    }
    if !lacking.is_empty() {
        return Err(BuildError::Lacking { names: lacking });
    }
    let sources: Vec<String> = sources.iter().map(|path| tree.name_of(path)).collect();
    let version = tree.version;
    let described = [
        format!("-DIOCAST_ASKS_ROTATIONAL={}", u8::from(asks_rotational)),
        format!("-DIOCAST_SUMMARY={}", quoted(&format!("{stem} of Linux {version}, compiled from its source"))),
        format!("-DIOCAST_ORIGIN={}", quoted(&format!("Linux {version} {}", sources.join(", ")))),
    ];
    for (name, text) in SHIM_SOURCES {
        objects.push(compiler.compile(text, name, &described)?);
    }
    let built = compiler.link(&objects).map_err(|error| match error {
        BuildError::Lacking { names } if names.iter().any(|lacking| lacking.name == REGISTERED_BY) => {
            let problem = "it has no module_init(), so it registers no elevator".to_owned();
            BuildError::File { path: source.file.clone(), problem }
        }
        error => error,
    })?;
    let bytes = fs::read(&built).map_err(fail(&built))?;
    Ok(Library { version, sources, bytes })
}
