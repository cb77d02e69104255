//! Queueing Petri nets and queueing networks, and their solvers.

pub mod distribution;
