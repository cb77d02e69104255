//! The drive as a whole: exact times, write amplification, and rules that hold for every load.

mod amplification;
mod conformance;
mod timing;
