//! Nets that several tests solve.
#![allow(dead_code, clippy::unwrap_used, reason = "every test uses a part of it; a failing test may panic anywhere")]

use iocast_queueing::net::Net;
use iocast_queueing::net::description::parse;

pub const PAPER: &str = include_str!("../../nets/noorshams2014.toml");

pub fn net(text: &str) -> Net {
    parse(text, "test").unwrap()
}

/// The paper's net with other populations, think and service times.
pub fn paper(threads: [u32; 2], think: &str, shape: u32) -> Net {
    let text = PAPER.replace("exponential = { mean = 20 }", think).replace("shape = 4", &format!("shape = {shape}"));
    let text = text.replace("initial = 30", &format!("initial = {}", threads[0]));
    net(&text.replace("initial = 10", &format!("initial = {}", threads[1])))
}

pub fn queue(name: &str, discipline: &str) -> String {
    format!("[[queues]]\nname = \"{name}\"\ndiscipline = \"{discipline}\"\n")
}

/// A place of two colors with exponential services.
pub fn station(name: &str, means: [f64; 2], more: [&str; 2]) -> String {
    let color = |at: usize| {
        format!("{{ color = \"{}\", service = {{ exponential = {{ mean = {} }} }}{} }}", at + 1, means[at], more[at])
    };
    format!("[[places]]\nname = \"{name}\"\nqueue = \"{name}\"\ncolors = [{}, {}]\n", color(0), color(1))
}

pub fn arrow(from: &str, to: &str) -> String {
    let mode = |at: u32| format!("{{ name = \"{at}\", take = [\"{from}.{at}\"], put = [\"{to}.{at}\"] }}");
    format!("[[transitions]]\nname = \"{from}-{to}\"\nmodes = [{}, {}]\n", mode(1), mode(2))
}

pub const HEAD: &str = "name = \"test\"\ncolors = [\"1\", \"2\"]\n";

/// Four and six clients of a station whose first class has priority.
pub fn head_of_line() -> Net {
    let text = [
        HEAD.to_owned(),
        queue("think", "is") + &queue("cpu", "priority"),
        station("think", [5.0, 8.0], [", initial = 4", ", initial = 6"]),
        station("cpu", [1.0, 0.5], [", priority = 2", ", priority = 1"]),
        arrow("think", "cpu") + &arrow("cpu", "think"),
    ];
    net(&text.concat())
}
