use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;
use crate::request::{Operation, Request};
use crate::trace::Layer;
use crate::units::{Lba, Sectors, Timestamp};

/// A trace of so many records that loses one and names a process at each thousandth, adds a device at each ten
/// thousandth, and perhaps fails at the end.
struct Made {
    meta: TraceMeta,
    losses: Losses,
    at: u64,
    end: u64,
    fails: bool,
    /// The most that was decoded.
    decoded: Arc<AtomicUsize>,
}

impl Made {
    fn new(end: u64, fails: bool) -> Made {
        let meta = TraceMeta::new("made", Layer::GuestQueue, "monotonic");
        Made { meta, losses: Losses::default(), at: 0, end, fails, decoded: Arc::default() }
    }
}

impl TraceReader for Made {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        if self.at == self.end {
            let failure =
                || ReadError::malformed("made".as_ref(), Place::Row(self.at), "it is damaged").remedy("mend it");
            return if self.fails { Err(failure()) } else { Ok(None) };
        }
        self.at += 1;
        self.decoded.fetch_add(1, Ordering::Relaxed);
        if self.at.is_multiple_of(1000) {
            self.losses.skip("lost");
            self.meta.streams.insert(self.at as u32, self.at.to_string());
        }
        if self.at.is_multiple_of(10_000) {
            self.meta.vms.push(self.at.to_string());
        }
        let arrival = Timestamp::from_ns(self.at);
        let at = Lba::new(self.at * 8);
        Ok(Some(Record::arrived(Request::new(arrival, Operation::Read, at, Sectors::new(8)))))
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn position_bytes(&self) -> u64 {
        self.at
    }
}

/// All that a reader says: its records, its error, and what it knows at the end.
fn all(reader: &mut dyn TraceReader) -> (Vec<Record>, Option<String>, TraceMeta, Losses, u64) {
    let mut records = Vec::new();
    let failure = loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break None,
            Err(failure) => break Some(failure.to_string()),
        }
    };
    (records, failure, reader.meta().clone(), reader.losses().clone(), reader.position_bytes())
}

#[test]
fn as_many_threads_run_as_there_are_turns() {
    let turns = Turns::new(2);
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                turns.run(|| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok::<(), ()>(())
                })
            });
        }
    });
    assert_eq!(most.into_inner(), 2);
}

#[test]
fn each_reader_says_what_the_one_would_with_any_number_of_turns() {
    for (end, fails) in [(0, false), (1, true), (RECORDS as u64, false), (100_001, false), (100_000, true)] {
        let expected = all(&mut Made::new(end, fails));
        for threads in [1, 2, 7] {
            let turns = Arc::new(Turns::new(threads));
            let made = Made::new(end, fails);
            let decoded = Arc::clone(&made.decoded);
            let readers = share(Box::new(made), 5, &turns);
            thread::scope(|scope| {
                for mut reader in readers {
                    let (turns, expected) = (&turns, &expected);
                    scope.spawn(move || {
                        let found = turns.run(|| Ok::<_, ()>(all(&mut reader))).unwrap();
                        assert!(found == *expected, "{} records of {end}", found.0.len());
                    });
                }
            });
            assert_eq!(decoded.load(Ordering::Relaxed) as u64, end, "decoded once");
        }
    }
}

#[test]
fn a_panic_of_the_reader_is_an_error_of_all() {
    struct Faulty(Made);
    impl TraceReader for Faulty {
        fn meta(&self) -> &TraceMeta {
            self.0.meta()
        }
        fn next(&mut self) -> Result<Option<Record>, ReadError> {
            assert!(self.0.at < 5000, "a fault");
            self.0.next()
        }
        fn losses(&self) -> &Losses {
            self.0.losses()
        }
        fn position_bytes(&self) -> u64 {
            self.0.position_bytes()
        }
    }
    let turns = Arc::new(Turns::new(1));
    let readers = share(Box::new(Faulty(Made::new(10_000, false))), 3, &turns);
    // Without turns, which would stop the others.
    let read = |mut reader: SharedReader| thread::spawn(move || all(&mut reader).1.unwrap_or_default());
    let threads: Vec<_> = readers.into_iter().map(read).collect();
    let said: Vec<String> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
    assert!(said.len() == 2 && said.iter().all(|said| said.contains("has panicked")), "{said:?}");
}

#[test]
fn nobody_is_far_ahead_and_who_leaves_holds_nobody_back() {
    let turns = Arc::new(Turns::new(2));
    let made = Made::new(1_000_000, false);
    let decoded = Arc::clone(&made.decoded);
    let mut readers = share(Box::new(made), 3, &turns);
    let (slow, mut fast) = (readers.pop().unwrap(), readers.pop().unwrap());
    // It panics in the middle of its work.
    let mut faulty = readers.pop().unwrap();
    let gone = thread::spawn(move || {
        faulty.next().unwrap();
        panic!("a fault");
    });
    assert!(gone.join().is_err());
    thread::scope(|scope| {
        let turns = &turns;
        let ahead = scope.spawn(move || turns.run(|| Ok::<_, ()>(all(&mut fast).0.len())).unwrap());
        while decoded.load(Ordering::Relaxed) < CHUNKS_MAX * RECORDS {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(decoded.load(Ordering::Relaxed), CHUNKS_MAX * RECORDS);
        drop(slow);
        assert_eq!(ahead.join().unwrap(), 1_000_000);
    });
}

#[test]
fn processes_and_losses_are_not_copied_over_and_over_and_new_devices_are_known_at_once() {
    let (turns, devices) = (Arc::new(Turns::new(1)), |at: usize| at / 10_000);
    let mut reader = share(Box::new(Made::new(100_000, false)), 1, &turns).pop().unwrap();
    let mut copies = vec![Arc::clone(&reader.chunk.facts)];
    for at in 1..=100_000 {
        reader.next().unwrap().unwrap();
        assert!(reader.meta().vms.len() >= devices(at));
        if !Arc::ptr_eq(copies.last().unwrap(), &reader.chunk.facts) {
            copies.push(Arc::clone(&reader.chunk.facts));
        }
    }
    assert!(reader.next().unwrap().is_none());
    assert_eq!((copies.len(), reader.meta().streams.len()), (1 + devices(100_000), 100));
}

#[test]
fn who_fails_or_panics_ends_all_others() {
    for panics in [false, true] {
        let turns = Arc::new(Turns::new(2));
        let mut readers = share(Box::new(Made::new(u64::MAX, false)), 3, &turns);
        let failing = readers.pop().unwrap();
        thread::scope(|scope| {
            let read = |mut reader: SharedReader| {
                let turns = &turns;
                scope.spawn(move || turns.run(|| (0..u64::MAX).try_for_each(|_| reader.next().map(drop))))
            };
            let threads: Vec<_> = readers.into_iter().map(read).collect();
            let failing = scope.spawn(|| {
                turns.run(|| {
                    drop(failing);
                    assert!(!panics, "a fault");
                    Err::<(), ()>(())
                })
            });
            assert_eq!(failing.join().is_err(), panics);
            for thread in threads {
                let error = thread.join().unwrap().unwrap_err();
                assert!(matches!(error.problem, Problem::Stopped), "{error}");
            }
        });
    }
}

#[test]
fn who_asks_behind_the_end_takes_no_memory() {
    let mut reader = share(Box::new(Made::new(3000, false)), 1, &Arc::new(Turns::new(1))).pop().unwrap();
    for _ in 0..10_000 {
        reader.next().unwrap();
    }
    assert!(lock(&reader.shared.state).spare.len() <= 2);
}
