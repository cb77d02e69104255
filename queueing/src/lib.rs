//! Queueing Petri nets and queueing networks, and their solvers.

pub mod distribution;
pub mod exact;
pub mod net;
pub mod simulation;
