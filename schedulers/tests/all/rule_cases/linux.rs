//! Cases of the schedulers of Linux.

use iocast_schedulers::Dispatch;
use traces::Operation::{Discard, Read, Write};
use traces::{Nanos, RequestId, Timestamp};

use super::Case;
use crate::cfq_processes::{BE, RT, ask, read, write};
use crate::driver::{Driver, ms};

fn in_a_slice(driver: &mut Driver) {
    read(driver, 1000, 1);
    read(driver, 1008, 1);
    assert_eq!(driver.all(), [0, 1]);
}

/// The device idles for stream 1 until 18 ms.
fn idles(driver: &mut Driver) {
    read(driver, 1000, 1);
    assert_eq!(driver.next(), 0);
    read(driver, 900_000_000, 2);
    driver.time(ms(10)).complete(0);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(18)));
}

fn idles_until_the_next_request(driver: &mut Driver) {
    idles(driver);
    driver.time(ms(17));
    let awaited = read(driver, 1008, 1);
    assert_eq!(driver.next(), awaited);
}

fn idles_in_vain(driver: &mut Driver) {
    idles(driver);
    driver.time(ms(18));
    assert_eq!(driver.next(), 1);
}

/// A near request of another process is as good as the one that the device idles for.
fn idles_until_a_near_request(driver: &mut Driver) {
    idles(driver);
    driver.time(ms(12));
    let near = read(driver, 1016, 3);
    assert_eq!(driver.next(), near);
}

fn expires(driver: &mut Driver) {
    read(driver, 1000, 1);
    driver.time(ms(200)).next();
}

fn hands_over(driver: &mut Driver) {
    read(driver, 1000, 1);
    read(driver, 1008, 2);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 1);
}

fn is_preempted(driver: &mut Driver) {
    for n in 0..4 {
        write(driver, 1000 + n * 8, 1);
    }
    assert_eq!(driver.serve(1000, 1), [0]);
    let sync = read(driver, 900_000_000, 1);
    assert_eq!(driver.next(), sync);
}

/// The first of two at one sector gives way; the other one begins a batch or a slice.
fn two_at_a_sector(driver: &mut Driver) {
    assert_eq!(driver.reads(&[100, 100]).all(), [0, 1]);
}

/// A heavy process and a light one, each with a queue of its own. The heavy one's request is served, and the device
/// idles for its next while a request of the light one waits.
fn idles_for_the_heavier(driver: &mut Driver) {
    for (stream, level) in [(2, 7), (1, 0)] {
        let id = ask(driver, Read, u64::from(stream) * 1_000_000, stream, BE, level);
        assert_eq!(driver.next(), id);
        driver.now += Nanos::from_ms(1);
        driver.complete(id);
        driver.now += Nanos::from_s(1);
        driver.dispatch();
    }
    let id = ask(driver, Read, 3_000_000, 1, BE, 0);
    assert_eq!(driver.next(), id);
    ask(driver, Read, 2_000_008, 2, BE, 7);
    driver.now += Nanos::from_ms(1);
    driver.complete(id);
    assert!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)));
}

pub(crate) const CASES: &[Case] = &[
    Case {
        spec: "deadline:fifo_batch=2,writes_starved=1",
        calls: |driver| assert_eq!(driver.reads(&[100, 200, 300, 400]).writes(&[50]).all(), [0, 1, 4, 2, 3]),
        sent: &[("batch", 2), ("starved", 1), ("new batch", 2)],
    },
    Case {
        spec: "deadline",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).all(), [0, 1]),
        sent: &[("batch", 1), ("new batch", 1)],
    },
    Case {
        // It is the first of its batch that counts as expired, whatever the others are.
        spec: "deadline",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).time(ms(501)).all(), [0, 1]),
        sent: &[("batch", 1), ("expired", 1)],
    },
    Case { spec: "deadline", calls: two_at_a_sector, sent: &[("alias", 1), ("new batch", 1)] },
    Case {
        // What comes back and is sent again counts again, for the rule that chose it.
        spec: "deadline",
        calls: |driver| {
            driver.reads(&[100, 200]).all();
            let request = driver.requests[1];
            driver.scheduler.requeue(driver.now, RequestId(1), &request);
            assert_eq!(driver.next(), 1);
        },
        sent: &[("batch", 2), ("new batch", 1)],
    },
    Case {
        spec: "mq-deadline:fifo_batch=2,writes_starved=1",
        calls: |driver| {
            driver.reads(&[100]).next();
            assert_eq!(driver.reads(&[200, 300, 400, 500]).writes(&[50]).all(), [1, 2, 3, 5, 4]);
        },
        sent: &[("batch", 2), ("starved", 1), ("new batch", 3)],
    },
    Case {
        spec: "mq-deadline",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).all(), [0, 1]),
        sent: &[("batch", 1), ("new batch", 1)],
    },
    Case {
        spec: "mq-deadline",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).time(ms(500)).all(), [0, 1]),
        sent: &[("batch", 1), ("expired", 1)],
    },
    Case {
        spec: "mq-deadline:prio_aging_expire=0ns",
        calls: |driver| {
            ask(driver, Read, 1000, 1, RT, 4);
            ask(driver, Read, 2000, 1, BE, 4);
            assert_eq!(driver.all(), [1, 0]);
        },
        sent: &[("prio aged", 1), ("batch", 1)],
    },
    Case {
        spec: "kyber",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).all(), [0, 1]),
        sent: &[("batch", 1), ("new batch", 1)],
    },
    Case {
        // There are 64 tokens for discards, and a batch of them has one request.
        spec: "kyber",
        calls: |driver| {
            let starts: Vec<u64> = (0..66).collect();
            assert_eq!(driver.arrive(Discard, &starts).all().len(), 64);
            driver.complete(0).complete(1);
            assert_eq!(driver.all(), [64, 65]);
        },
        sent: &[("woken", 1), ("new batch", 65)],
    },
    Case {
        spec: "anticipatory",
        calls: |driver| assert_eq!(driver.reads(&[100_000, 100_100]).all(), [0, 1]),
        sent: &[("batch", 1), ("new batch", 1)],
    },
    Case { spec: "anticipatory", calls: two_at_a_sector, sent: &[("alias", 1), ("new batch", 1)] },
    Case {
        spec: "anticipatory",
        calls: |driver| {
            driver.reads(&[100_000]).time(ms(126)).next();
        },
        sent: &[("expired", 1)],
    },
    Case {
        spec: "anticipatory",
        calls: |driver| {
            driver.read_of_stream(100_000, 1);
            assert_eq!(driver.next(), 0);
            driver.time(ms(10)).complete(0).read_of_stream(5_000_000, 3);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(16)));
            driver.time(ms(11)).read_of_stream(900_000, 1);
            assert_eq!(driver.next(), 2);
        },
        sent: &[("anticipated", 1), ("new batch", 1)],
    },
    Case {
        spec: "anticipatory",
        calls: |driver| {
            driver.read_of_stream(100_000, 1);
            assert_eq!(driver.next(), 0);
            driver.time(ms(10)).complete(0).read_of_stream(5_000_000, 3);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(16)));
            assert_eq!(driver.time(ms(16)).next(), 1);
        },
        sent: &[("in vain", 1), ("new batch", 1)],
    },
    Case {
        // Writes begin a batch, and it still is one when it has waited for the read in flight.
        spec: "anticipatory:antic_expire=0ns",
        calls: |driver| {
            driver.reads(&[100]).next();
            driver.writes(&[200]);
            assert_eq!(driver.dispatch(), Dispatch::Idle);
            assert_eq!(driver.complete(0).next(), 1);
        },
        sent: &[("new batch", 2)],
    },
    Case { spec: "cfq", calls: in_a_slice, sent: &[("slice", 1), ("new slice", 1)] },
    Case { spec: "cfq", calls: idles_until_the_next_request, sent: &[("idled", 1), ("new slice", 1)] },
    Case { spec: "cfq", calls: idles_in_vain, sent: &[("new slice", 2)] },
    Case { spec: "cfq", calls: idles_until_a_near_request, sent: &[("preemption", 1), ("new slice", 1)] },
    Case { spec: "cfq", calls: expires, sent: &[("expired", 1)] },
    Case { spec: "cfq", calls: hands_over, sent: &[("cooperator", 1), ("new slice", 1)] },
    Case { spec: "cfq", calls: is_preempted, sent: &[("preemption", 1), ("new slice", 1)] },
    Case { spec: "cfq", calls: two_at_a_sector, sent: &[("alias", 1), ("new slice", 1)] },
    Case { spec: "cfq-3.5", calls: in_a_slice, sent: &[("slice", 1), ("new slice", 1)] },
    Case { spec: "cfq-3.5", calls: idles_until_the_next_request, sent: &[("idled", 1), ("new slice", 1)] },
    Case { spec: "cfq-3.5", calls: idles_in_vain, sent: &[("new slice", 2)] },
    Case { spec: "cfq-3.5", calls: expires, sent: &[("expired", 1)] },
    Case { spec: "cfq-3.5", calls: hands_over, sent: &[("cooperator", 1), ("new slice", 1)] },
    Case { spec: "cfq-3.5", calls: is_preempted, sent: &[("preemption", 1), ("new slice", 1)] },
    Case { spec: "cfq-3.5", calls: two_at_a_sector, sent: &[("slice", 1), ("new slice", 1)] },
    Case {
        spec: "bfq:low_latency=off",
        calls: |driver| assert_eq!(driver.reads(&[100, 200]).all(), [0, 1]),
        sent: &[("in service", 1), ("new turn", 1)],
    },
    Case {
        spec: "bfq:low_latency=off",
        calls: |driver| {
            driver.reads(&[50_000]).time(ms(125)).reads(&[10_000, 20_000, 30_000]);
            assert_eq!(driver.all(), [1, 0, 3, 2]);
        },
        sent: &[("expired", 1), ("in service", 2), ("new turn", 1)],
    },
    Case {
        spec: "bfq:low_latency=off",
        calls: |driver| {
            idles_for_the_heavier(driver);
            let id = ask(driver, Read, 3_000_008, 1, BE, 0);
            assert_eq!(driver.next(), id);
        },
        sent: &[("idled", 1), ("new turn", 3)],
    },
    Case {
        // A write of the process that is waited for goes meanwhile.
        spec: "bfq:low_latency=off",
        calls: |driver| {
            idles_for_the_heavier(driver);
            let id = ask(driver, Write, 5000, 1, BE, 0);
            assert_eq!(driver.next(), id);
        },
        sent: &[("injected", 1), ("new turn", 3)],
    },
    Case {
        spec: "bfq:low_latency=off",
        calls: |driver| {
            idles_for_the_heavier(driver);
            driver.time(Timestamp::ZERO + Nanos::from_s(10)).next();
        },
        sent: &[("new turn", 4)],
    },
];
