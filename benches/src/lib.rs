//! What the benchmarks share: the engine's standard load, a process's own cost, and scenarios.

pub mod capture;
pub mod closed_loop;
pub mod cost;
pub mod decisions;
pub mod scenario;
