//! Requests by threads that each wait for one request at a time (`pread`, `pwrite`). It stands in where io_uring is not
//! available.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use traces::{Nanos, Request, RequestId, Sectors};

use super::aligned::{AlignedBuffer, fill};
use super::device::{Failure, Finished, LiveDevice};
use super::target::{Action, Job, Target};

/// The number of threads, which is the most requests in flight.
pub const THREADS: usize = 32;

/// A device that threads wait for.
pub struct ThreadPool {
    target: Target,
    jobs: Sender<(RequestId, Job)>,
    results: Receiver<Finished>,
    /// Results that a wait has received.
    received: VecDeque<Finished>,
    in_flight: usize,
}

impl ThreadPool {
    /// Starts the threads. They end after this is dropped, each with its last request.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(target: Target) -> io::Result<ThreadPool> {
        let (jobs, queue) = channel();
        let (sender, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..THREADS {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            let (file, seed) = (Arc::clone(&target.file), target.seed);
            let work = move || serve(&file, seed, &queue, &sender);
            thread::Builder::new().name(format!("device-{number}")).spawn(work)?;
        }
        Ok(ThreadPool { target, jobs, results, received: VecDeque::new(), in_flight: 0 })
    }
}

impl LiveDevice for ThreadPool {
    fn capacity(&self) -> Sectors {
        self.target.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        self.in_flight < THREADS
    }

    fn submit(&mut self, id: RequestId, request: &Request) {
        self.in_flight += 1;
        // The threads live as long as the sender; a panic of all of them shows in `wait`.
        let _ = self.jobs.send((id, self.target.job(request)));
    }

    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) {
        let before = finished.len();
        finished.extend(self.received.drain(..).chain(self.results.try_iter()));
        self.in_flight -= finished.len() - before;
    }

    fn is_gone(&mut self) -> bool {
        self.target.is_gone()
    }

    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        match self.results.recv_timeout(Duration::from_nanos(timeout.as_ns())) {
            Ok(finished) => self.received.push_back(finished),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("all threads have panicked")),
        }
        Ok(())
    }
}

/// Serves requests until the device is dropped.
fn serve(file: &File, seed: u64, queue: &Mutex<Receiver<(RequestId, Job)>>, results: &Sender<Finished>) {
    let mut buffer = AlignedBuffer::new(0);
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((id, job)) = next else { return };
        let failure = match run(file, seed, job, &mut buffer) {
            Ok(bytes) => (bytes != job.bytes).then_some(Failure::Short),
            Err(errno) => Some(Failure::Errno(errno.raw_os_error())),
        };
        if results.send(Finished { id, failure }).is_err() {
            return;
        }
    }
}

/// Runs one request, and returns how many bytes it has covered.
fn run(file: &File, seed: u64, job: Job, buffer: &mut AlignedBuffer) -> Result<u64, Errno> {
    let Job { action, offset, bytes } = job;
    match action {
        Action::Flush => fdatasync(file).map(|()| bytes),
        Action::Discard => {
            fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes).map(|()| bytes)
        }
        Action::Read | Action::Write { .. } => {
            if buffer.len() < bytes as usize {
                *buffer = AlignedBuffer::new(bytes as usize);
            }
            let data = &mut buffer.bytes()[..bytes as usize];
            let moved = if let Action::Write { durable } = action {
                fill(seed, job.sector(), data);
                let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                pwritev2(file, &[IoSlice::new(data)], offset, flags)?
            } else {
                preadv2(file, &mut [IoSliceMut::new(data)], offset, ReadWriteFlags::empty())?
            };
            Ok(moved as u64)
        }
    }
}
