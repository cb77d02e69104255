//! Speed of the solvers that do not simulate.

use std::hint::black_box;
use std::time::Instant;

use iocast_queueing::exact::closed_form::TwoClasses;
use iocast_queueing::exact::network::{ClosedNetwork, Discipline, NetworkError, Solved, Station};
use iocast_queueing::exact::{approximate, convolution, mva};

/// Three classes of thirty customers that think, a processor, and two disks of `servers` servers.
fn network(servers: u32) -> ClosedNetwork {
    let station =
        |discipline, service: [f64; 3]| Station { discipline, visits: vec![1.0, 2.0, 0.5], service: service.to_vec() };
    ClosedNetwork {
        customers: vec![30; 3],
        think: vec![50.0, 20.0, 100.0],
        stations: vec![
            station(Discipline::ProcessorSharing { servers: 1 }, [0.5, 0.2, 1.0]),
            station(Discipline::FirstComeFirstServed { servers }, [1.0; 3]),
            station(Discipline::FirstComeFirstServed { servers }, [1.5; 3]),
        ],
    }
}

fn measure(name: &str, servers: u32, solve: fn(&ClosedNetwork) -> Result<Solved, NetworkError>) {
    let network = network(servers);
    let begun = Instant::now();
    match solve(black_box(&network)) {
        Ok(solved) => {
            let seconds = begun.elapsed().as_secs_f64();
            println!("{name}, disks of {servers} servers: {seconds:.6} s, throughput {:.6?}", solved.throughput);
        }
        Err(refused) => println!("{name}, disks of {servers} servers: {refused}"),
    }
}

fn main() {
    for servers in [1, 4, 16] {
        measure("mean value analysis", servers, mva::solve);
        measure("convolution", servers, convolution::solve);
        measure("Schweitzer", servers, approximate::schweitzer);
        measure("Linearizer", servers, approximate::linearizer);
    }
    let calls = 10_000_000_u32;
    let begun = Instant::now();
    let mut sum = 0.0;
    for call in 0..calls {
        let clients = black_box([f64::from(1 + call % 50), 10.0]);
        let closed_form = TwoClasses { clients, service: [1.0, 0.5], weights: [2.0, 1.0] };
        sum += closed_form.throughput()[0];
    }
    black_box(sum);
    println!("closed form: {:.1} ns per call", begun.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
}
