//! `iocast kernel-scheduler`: schedulers of Linux, compiled from their own source.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use schedulers::kernel::{Source, build};
use traces::whole_file::write_whole;

use crate::arguments::{BuildKernelScheduler, KernelScheduler};
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::needs::{self, uses};
use crate::output::print;

/// The C compiler, unless another is named.
const CC: &str = "cc";

/// Runs the subcommand.
///
/// # Errors
/// What cannot be read, compiled or written.
pub fn run(what: &KernelScheduler) -> Result<()> {
    match what {
        KernelScheduler::Build(arguments) => build_library(arguments),
    }
}

fn build_library(arguments: &BuildKernelScheduler) -> Result<()> {
    let BuildKernelScheduler { file, tree, output, force, hz, cc } = arguments;
    if !force {
        refuse_existing(std::slice::from_ref(output), "another name with --output")?;
    }
    let tree = tree.clone().or_else(|| tree_of(file)).ok_or_else(|| {
        UsageError(format!("{} does not lie in the folder block of a kernel tree: name it with --tree", file.display()))
    })?;
    if cc.is_none() {
        needs::check(&[uses::KERNEL_SCHEDULER_BUILD])?;
    }
    let compiler = cc.clone().unwrap_or_else(|| CC.to_owned());
    let library = build(&Source { file: file.clone(), tree, hz: *hz, compiler })?;
    write_whole(output, &library.bytes).with_context(|| output.display().to_string())?;
    let shown = output.display();
    // A path without a folder would be looked up among the libraries of the system.
    let named = if output.parent() == Some(Path::new("")) { format!("./{shown}") } else { shown.to_string() };
    print(&format!(
        "{shown}: {} of Linux {}, with {hz} ticks in a second\niocast compare TRACE --schedulers kernel:{named}\n",
        library.sources.join(", "),
        library.version,
    ))
}

/// The folder above `block/`, in which the file lies.
fn tree_of(file: &Path) -> Option<PathBuf> {
    let block = file.parent().filter(|folder| folder.ends_with("block"))?;
    let tree = block.parent()?;
    Some(if tree.as_os_str().is_empty() { PathBuf::from(".") } else { tree.to_owned() })
}
