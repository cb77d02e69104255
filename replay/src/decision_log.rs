//! Writes each dispatch of the scheduler as a line of tab-separated values. docs/METHODOLOGY.md describes the columns.

use std::io::{self, Write};

use traces::{Request, RequestId, Timestamp};

use crate::observer::Observer;

/// Logs when each request left the scheduler and how many requests were waiting then.
pub struct DecisionLog<W> {
    out: W,
    waiting: u64,
    error: Option<io::Error>,
}

impl<W: Write> DecisionLog<W> {
    /// A log with its header line written.
    pub fn new(out: W) -> DecisionLog<W> {
        let mut log = DecisionLog { out, waiting: 0, error: None };
        log.line(format_args!("time_ns\tarrival_ns\toperation\tlba_sectors\tsectors\tvm\tstream\twaiting\n"));
        log
    }

    /// Flushes the log, and gives back what it was written to.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = self.out.write_fmt(line).err();
        }
    }
}

impl<W: Write> Observer for DecisionLog<W> {
    fn inserted(&mut self, _now: Timestamp, _id: RequestId, _request: &Request) {
        self.waiting += 1;
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _from: RequestId, _request: &Request, was_waiting: bool) {
        self.waiting -= u64::from(was_waiting);
    }

    fn dispatched(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        let waiting = self.waiting;
        self.line(format_args!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            now.as_ns(),
            request.arrival.as_ns(),
            request.operation,
            request.lba,
            request.sectors(),
            request.vm.0,
            request.stream.0,
            waiting
        ));
        self.waiting -= 1;
    }
}
