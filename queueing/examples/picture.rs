//! Prints the net of a TOML file as SVG, or with `--dot` for Graphviz: `picture NET.toml [--dot]`.

use std::process::ExitCode;

use iocast_queueing::net::{description, draw};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: picture NET.toml [--dot]");
        return ExitCode::FAILURE;
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    match description::parse(&text, &path) {
        Ok(net) if arguments.next().as_deref() == Some("--dot") => print!("{}", draw::dot(&net)),
        Ok(net) => print!("{}", draw::svg(&net)),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
