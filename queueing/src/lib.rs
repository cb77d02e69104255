//! Queueing Petri nets and queueing networks, and their solvers.
