//! The fixed point of `hol` (reads before writes) against a simulation of the same queue, event by event.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use iocast_predictors::hol::{Class, Solved, solve};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// An exponentially distributed time of this mean.
fn exponential(generator: &mut Xoshiro256PlusPlus, mean: f64) -> f64 {
    -mean * (1.0 - generator.random::<f64>()).ln()
}

/// Simulates one server that serves reads first, for `seconds`. Think and service times are exponential. Batches of a
/// geometric number of writes arrive at Poisson times. Returns rates and mean response times.
fn simulate(classes: &[Class], seconds: f64) -> Vec<Solved> {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(7);
    // Future arrivals: time, class, and number of writes (0: a read).
    let mut coming: Vec<(f64, usize, u32)> = Vec::new();
    let geometric = |generator: &mut Xoshiro256PlusPlus, mean: f64| {
        let mut batch = 1;
        while generator.random::<f64>() > 1.0 / mean {
            batch += 1;
        }
        batch
    };
    for (index, class) in classes.iter().enumerate() {
        for _ in 0..class.readers as usize {
            coming.push((exponential(&mut generator, class.think), index, 0));
        }
        if class.write_rate > 0.0 {
            let batch = geometric(&mut generator, class.batch[0]);
            coming.push((exponential(&mut generator, class.batch[0] / class.write_rate), index, batch));
        }
    }
    let (mut reads, mut writes) = (std::collections::VecDeque::new(), std::collections::VecDeque::new());
    let mut sums = vec![[0.0; 4]; classes.len()];
    let mut now = 0.0;
    while now < seconds {
        coming.sort_by(|one, other| other.0.total_cmp(&one.0));
        let due = |coming: &Vec<(f64, usize, u32)>| coming.last().copied();
        while let Some((at, index, batch)) =
            due(&coming).filter(|(at, ..)| *at <= now || (reads.is_empty() && writes.is_empty()))
        {
            now = at.max(now);
            coming.pop();
            if batch == 0 {
                reads.push_back((at, index));
            } else {
                writes.extend((0..batch).map(|_| (at, index)));
                let class = &classes[index];
                let next = at + exponential(&mut generator, class.batch[0] / class.write_rate);
                let batch = geometric(&mut generator, class.batch[0]);
                coming.push((next, index, batch));
                coming.sort_by(|one, other| other.0.total_cmp(&one.0));
            }
        }
        if let Some((came, index)) = reads.pop_front() {
            now += exponential(&mut generator, classes[index].read_service[0]);
            sums[index][0] += 1.0;
            sums[index][1] += now - came;
            coming.push((now + exponential(&mut generator, classes[index].think), index, 0));
        } else if let Some((came, index)) = writes.pop_front() {
            now += exponential(&mut generator, classes[index].write_service[0]);
            sums[index][2] += 1.0;
            sums[index][3] += now - came;
        }
    }
    let of = |[reads, read_time, writes, write_time]: [f64; 4]| Solved {
        read_rate: reads / now,
        read_response: read_time / reads,
        write_response: write_time / writes,
    };
    sums.into_iter().map(of).collect()
}

fn class(readers: f64, think: f64, read: f64, write_rate: f64, write: f64, batch: f64) -> Class {
    let exponential = |mean: f64| [mean, 2.0 * mean * mean];
    Class {
        readers,
        think,
        read_service: exponential(read),
        write_rate,
        write_service: exponential(write),
        // The moments of a geometric number.
        batch: [batch, (2.0 - 1.0 / batch) * batch * batch],
    }
}

/// Compares the fixed point with the simulation, with relative tolerances for figures of reads and of writes.
fn compare(classes: &[Class], of_reads: f64, of_writes: f64) {
    let simulated = simulate(classes, 20_000.0);
    let solved = solve(classes).unwrap();
    for (ours, theirs) in solved.iter().zip(&simulated) {
        for (ours, theirs, tolerance) in [
            (ours.read_rate, theirs.read_rate, of_reads),
            (ours.read_response, theirs.read_response, of_reads),
            (ours.write_response, theirs.write_response, of_writes),
        ] {
            assert!((ours / theirs - 1.0).abs() < tolerance, "{ours} {theirs}: {classes:?}");
        }
    }
}

#[test]
fn fixed_point_is_exact_for_many_readers_with_long_think_times() {
    compare(&[class(400.0, 4.0, 0.004, 20.0, 0.005, 1.0)], 0.03, 0.03);
    compare(&[class(200.0, 4.0, 0.004, 40.0, 0.005, 6.0)], 0.03, 0.05);
}

/// Few readers send nothing more once all of them wait. Writes gain by it, so the formula makes their responses too
/// long.
#[test]
fn fixed_point_is_near_for_few_readers_of_two_vms() {
    compare(&[class(4.0, 0.04, 0.006, 20.0, 0.004, 4.0), class(2.0, 0.05, 0.004, 10.0, 0.006, 2.0)], 0.08, 0.2);
    compare(&[class(1.0, 0.02, 0.005, 15.0, 0.005, 3.0), class(3.0, 0.06, 0.005, 5.0, 0.005, 8.0)], 0.08, 0.2);
}

#[test]
fn overload_is_refused_with_its_utilisation() {
    let much = [class(100.0, 0.01, 0.005, 10.0, 0.004, 2.0)];
    assert!(solve(&much).unwrap_err() > 0.95);
    assert!((solve(&[class(1.0, 1.0, 0.005, 300.0, 0.004, 1.0)]).unwrap_err() - 1.2).abs() < 1e-9);
}
