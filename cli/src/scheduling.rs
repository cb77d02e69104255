//! The scheduling in front of a drive: one stage, or a stack of layers.

use std::fmt;

use drive_models::BuiltDrive;
use replay::Limits;
use replay::rotational::set_for;
use replay::stack::StackSpec;
use schedulers::Registry;
use traces::spec::Spec;

use crate::error::UsageError;

/// The scheduling in front of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// One stage for all VMs.
    Stage { scheduler: Spec, limits: Limits },
    /// The layers of a stack.
    Stack(StackSpec),
}

impl Scheduling {
    /// A stage with default limits: `scheduler` as it is set for `drive`, or fifo, with `depth` requests at the drive, or
    /// as many as the drive's queue holds. With `stack` the layers of that stack instead.
    ///
    /// # Errors
    /// A stack together with a scheduler or a depth, a depth of 0, a scheduler or stack that cannot be built.
    pub fn new(
        scheduler: Option<&str>,
        depth: Option<u32>,
        drive: &BuiltDrive,
        stack: Option<&str>,
    ) -> Result<Scheduling, UsageError> {
        let usage = |problem: &dyn fmt::Display| UsageError(problem.to_string());
        if let Some(stack) = stack {
            if scheduler.is_some() || depth.is_some() {
                return Err(usage(
                    &"each layer of a stack has its own scheduler and depth; name either a stack or a \
                                   scheduler and a depth",
                ));
            }
            return StackSpec::of(stack).map(Scheduling::Stack).map_err(|error| usage(&error));
        }
        if depth == Some(0) {
            return Err(usage(&"depth 0 lets no request through; it is at least 1"));
        }
        let scheduler: Spec = scheduler.unwrap_or("fifo").parse().map_err(|error| usage(&error))?;
        schedulers::build(&scheduler).map_err(|error| usage(&error))?;
        let limits = Limits { depth: depth.unwrap_or(drive.queue_depth()), ..Limits::default() };
        Ok(Scheduling::Stage { scheduler: set_for(scheduler, drive, &Registry::builtin()), limits })
    }
}

impl fmt::Display for Scheduling {
    /// As results name it: the scheduler and its depth, or the stack as it was named.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Stage { scheduler, limits } => write!(formatter, "{scheduler}, depth {}", limits.depth),
            Scheduling::Stack(stack) => formatter.write_str(&stack.name),
        }
    }
}
