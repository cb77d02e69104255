//! Cases of the schedulers of papers.

use iocast_schedulers::Dispatch;
use traces::Operation::{Read, Write};

use super::Case;
use crate::driver::{Driver, ms};

const MEGABYTE: u64 = 2048;

/// A read of a process completes and others wait; during the busdriver delay the process sends its next.
fn next_of_the_process_just_served(driver: &mut Driver) {
    driver.read_of_stream(100, 1);
    driver.read_of_stream(200, 2);
    driver.read_of_stream(300, 2);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(8)));
    driver.time(ms(3)).read_of_stream(110, 1);
    assert_eq!(driver.next(), 3);
}

pub(crate) const CASES: &[Case] = &[
    Case {
        // VM 0 goes on to a near request; then VM 1 has had fewer.
        spec: "esx",
        calls: |driver| {
            driver.reads(&[100, 200, 9000]);
            driver.of_vm(1, Read, 50_000, 8);
            assert_eq!(driver.all(), [0, 1, 3, 2]);
        },
        sent: &[("sequential", 1), ("fair share", 3)],
    },
    Case {
        spec: "esx",
        calls: |driver| {
            driver.reads(&[100, 200]).all();
        },
        sent: &[("sequential", 1), ("fair share", 1)],
    },
    Case {
        spec: "cats:prefetch_sectors=0",
        calls: |driver| {
            driver.reads(&[100, 200, 300]);
            assert_eq!(driver.next(), 0);
            // It waits for the next table, as the next one is not due before 7 ms.
            assert_eq!(driver.time(ms(1)).reads(&[110]).all(), [1, 2]);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
            assert_eq!(driver.time(ms(7)).all(), [3]);
            // A write, a hit, and a read that has waited for too long.
            assert_eq!(driver.writes(&[5000]).all(), [4]);
            assert_eq!(driver.reads(&[110]).all(), [5]);
            assert_eq!(driver.reads(&[9000]).time(ms(200)).all(), [6]);
        },
        sent: &[("predicted hit", 1), ("read delay", 1), ("table", 3), ("after the delay", 1), ("write", 1)],
    },
    Case {
        // The hit goes during the wait, and the wait is over when the table's turn comes.
        spec: "cats",
        calls: |driver| {
            driver.reads(&[100]).next();
            driver.time(ms(1)).reads(&[5000]);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
            driver.reads(&[108]).next();
            driver.time(ms(7)).next();
        },
        sent: &[("predicted hit", 1), ("table", 2)],
    },
    Case {
        // A wait for a read that is cancelled is of no other.
        spec: "cats",
        calls: |driver| {
            driver.reads(&[100]).next();
            driver.time(ms(1)).reads(&[5000]);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
            driver.remove(1).time(ms(9)).reads(&[6000]).next();
        },
        sent: &[("table", 2)],
    },
    Case {
        spec: "cats:busdriver_reading=before-table,prefetch_sectors=0",
        calls: |driver| {
            driver.reads(&[100, 200, 300]);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
            assert_eq!(driver.time(ms(7)).all(), [0, 1, 2]);
        },
        sent: &[("table", 2), ("after the delay", 1)],
    },
    Case {
        spec: "cats:busdriver_reading=after-completion,prefetch_sectors=0",
        calls: next_of_the_process_just_served,
        sent: &[("table", 1), ("after the delay", 1)],
    },
    Case {
        // Writes wait for the delay, too.
        spec: "cats:busdriver_reading=after-completion,prefetch_sectors=0",
        calls: |driver| {
            driver.read_of_stream(100, 1);
            assert_eq!(driver.next(), 0);
            driver.complete(0).writes(&[500]);
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(7)));
            driver.time(ms(7)).next();
        },
        sent: &[("table", 1), ("write", 1)],
    },
    Case { spec: "gsw", calls: next_of_the_process_just_served, sent: &[("table", 1), ("after the delay", 1)] },
    Case {
        spec: "vr",
        calls: |driver| assert_eq!(driver.at(100).reads(&[90, 200]).all(), [1, 0]),
        sent: &[("ahead", 1), ("turn", 1)],
    },
    Case {
        // Four megabytes are not above the threshold, the fifth makes the VM bursty.
        spec: "ba:below=fifo",
        calls: |driver| {
            for n in 0..6 {
                driver.of_vm(0, Read, n * MEGABYTE, MEGABYTE);
            }
            driver.of_vm(1, Write, 0, 8);
            driver.of_vm(1, Read, 0, 8);
            assert_eq!(driver.all(), [0, 1, 2, 3, 4, 5, 7]);
        },
        sent: &[("pass-through", 4), ("reserved read", 1), ("bursty turn", 2)],
    },
    Case {
        // A request counts for the rule that let it through, even if its VM has become bursty since.
        spec: "ba:below=fifo,depth=1",
        calls: |driver| {
            driver.of_vm(0, Read, 0, 4 * MEGABYTE);
            driver.of_vm(0, Read, 0, 8);
            assert_eq!(driver.next(), 0);
            driver.complete(0);
            assert_eq!(driver.next(), 1);
        },
        sent: &[("pass-through", 1), ("bursty turn", 1)],
    },
    Case {
        // One request a second is reserved; the second has a share by weight.
        spec: "mclock:reservations=1",
        calls: |driver| {
            driver.reads(&[100, 200]).all();
        },
        sent: &[("constraint-based", 1), ("weight-based", 1)],
    },
    Case {
        spec: "token-bucket:rate=4k,burst=4k",
        calls: |driver| {
            driver.reads(&[100, 200]).next();
            assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(1000)));
            driver.time(ms(1000)).next();
        },
        sent: &[("tokens", 1), ("throttled", 1)],
    },
    Case {
        spec: "read-priority:drain_at=2,drain_to=1",
        calls: |driver| assert_eq!(driver.writes(&[100, 200]).reads(&[300]).all(), [0, 2, 1]),
        sent: &[("drain", 1), ("read", 1), ("write", 1)],
    },
    Case {
        spec: "weighted:reads=1",
        calls: |driver| assert_eq!(driver.reads(&[100]).writes(&[200, 300]).all(), [0, 1, 2]),
        sent: &[("turn", 1), ("next turn", 1), ("out of turn", 1)],
    },
];
