//! The scenarios of `benches/scenarios/`. `cargo test --workspace --bench scenarios` or `cargo bench`: the figures are
//! the same in every profile.

use schedulers::Registry;

fn main() -> std::process::ExitCode {
    iocast_bench::main(&Registry::builtin(), concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
}
