//! The observers of one replay of a comparison.

use std::io::BufWriter;
use std::path::PathBuf;

use replay::overload::Overload;
use replay::stack::Shares;
use replay::{DecisionLog, HistoryRecorder, Metrics, Observer, RequestRows};
use traces::whole_file::WholeFile;
use traces::{Request, RequestId, Timestamp, VmId};

use super::load::Advance;
use super::watch::Watched;

/// A decision log that goes to a file.
pub type Log = DecisionLog<BufWriter<WholeFile>>;

/// The observers of one replay, in the order in which they are called.
pub struct Observers {
    pub metrics: Metrics,
    pub overload: Overload,
    pub log: Option<Log>,
    /// Where the log is, if there is one.
    pub log_path: PathBuf,
    /// The bytes that each VM was served per interval.
    pub shares: Option<Shares>,
    /// What happens over time.
    pub history: Option<HistoryRecorder>,
    /// The rows of the table of requests.
    pub rows: Option<RequestRows>,
    /// What a screen sees.
    pub watched: Option<Watched>,
    /// Moves the progress bar where the source does not.
    pub advance: Option<Advance>,
}

/// Calls every observer with the same arguments.
macro_rules! each {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        $self.metrics.$method($($argument),*);
        $self.overload.$method($($argument),*);
        $self.log.$method($($argument),*);
        $self.shares.$method($($argument),*);
        $self.history.$method($($argument),*);
        $self.rows.$method($($argument),*);
        $self.watched.$method($($argument),*);
        $self.advance.$method($($argument),*);
    };
}

impl Observer for Observers {
    fn arrived(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        each!(self.arrived(now, id, request));
    }
    fn inserted(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        each!(self.inserted(now, id, request));
    }
    fn merged(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request, was_waiting: bool) {
        each!(self.merged(now, into, from, request, was_waiting));
    }
    fn dispatched(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        each!(self.dispatched(now, id, request));
    }
    fn issued(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        each!(self.issued(now, id, request));
    }
    fn served(&mut self, served: &replay::observer::Served) {
        each!(self.served(served));
    }
    fn served_arrival(&mut self, id: RequestId, served: &replay::observer::Served) {
        // Nothing else needs it, and it comes once for every arrival.
        self.rows.served_arrival(id, served);
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        each!(self.completed(now, id, request));
    }
    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        each!(self.vm_ended(now, vm));
    }
}
