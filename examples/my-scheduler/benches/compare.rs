use iocast_schedulers::Registry;

fn main() -> std::process::ExitCode {
    let known = Registry::builtin().with(&my_scheduler::ENTRY);
    iocast_bench::main(&known, concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
}
