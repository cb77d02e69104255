use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;
use crate::request::{Operation, Request};
use crate::trace::Layer;
use crate::units::{Lba, Sectors, Timestamp};

/// A trace of so many records that loses one at each thousandth, names a process at each thousandth, and perhaps
/// fails at the end.
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
                let _turn = turns.begin();
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
                running.fetch_sub(1, Ordering::SeqCst);
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
                        let _turn = turns.begin();
                        let found = all(&mut reader);
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
    let read = |mut reader: SharedReader| {
        let turns = Arc::clone(&turns);
        thread::spawn(move || {
            let _turn = turns.begin();
            all(&mut reader).1.unwrap_or_default()
        })
    };
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
        let ahead = scope.spawn(move || {
            let _turn = turns.begin();
            all(&mut fast).0.len()
        });
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
fn who_stops_ends_all_others() {
    let turns = Arc::new(Turns::new(2));
    let mut readers = share(Box::new(Made::new(u64::MAX, false)), 3, &turns);
    let failing = readers.pop().unwrap();
    thread::scope(|scope| {
        let read = |mut reader: SharedReader| {
            let turns = &turns;
            scope.spawn(move || {
                let _turn = turns.begin();
                loop {
                    match reader.next() {
                        Ok(record) => assert!(record.is_some()),
                        Err(error) => break error,
                    }
                }
            })
        };
        let threads: Vec<_> = readers.into_iter().map(read).collect();
        turns.stop();
        drop(failing);
        for thread in threads {
            let error = thread.join().unwrap();
            assert!(matches!(error.problem, Problem::Stopped), "{error}");
        }
    });
}
