//! The arguments of `iocast kernel-scheduler`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum KernelScheduler {
    /// Compile a blk-mq elevator of a kernel tree into a shared library that runs on the simulated clock
    ///
    /// The tree is unpacked and unchanged, or patched; it need not be configured. The library has the kernel's
    /// decisions and its tunables, as its attributes in sysfs have them (`--schedulers kernel:mq.so:fifo_batch=8`). If
    /// the source uses names that iocast does not stand in for, they are listed.
    Build(BuildKernelScheduler),
}

#[derive(Debug, Args)]
pub struct BuildKernelScheduler {
    /// The elevator's source, such as linux/block/mq-deadline.c. What block/Makefile links with it is compiled too
    pub file: PathBuf,
    /// The kernel tree [default: the one that the file lies in, as TREE/block/FILE]
    #[arg(long)]
    pub tree: Option<PathBuf>,
    /// The library to write
    #[arg(long, short)]
    pub output: PathBuf,
    /// Overwrite the library if it exists
    #[arg(long)]
    pub force: bool,
    /// Ticks in a second, in which the kernel counts jiffies (CONFIG_HZ)
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub hz: u32,
    /// The C compiler, if it is not `cc`
    #[arg(long)]
    pub cc: Option<String>,
}
