//! Closed loop over recorded think times: each stream (process or cgroup of a VM) sends its next
//! request as long after the completion it had waited for as it did when it was recorded.
//!
//! Which completion that was is inferred: the latest of the stream's own that lies between the
//! stream's arrival before and this one. If there is none the two were sent as a batch, and their
//! recorded distance is kept. Left out: dependencies between streams, and the difference between
//! what a process waits for and what merely completed before.
//!
//! Streams drift apart as the drive lets them, so a stream's next record may lie far ahead in the
//! trace. [`BUFFERED_MAX`] records are read ahead; a stream that has drifted further than that waits
//! for the others, and its arrivals that came later for it are counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use traces::{Nanos, Request, RequestId, StreamId, Timestamp, VmId};

use super::{Next, ReplayError, Source, Workload};

/// How many records are read ahead; about 5 MB.
pub const BUFFERED_MAX: usize = 65_536;

/// So many requests without a single completion mark a trace that records none; at the edges of a
/// capture some are always missing.
const CONVINCING: u64 = 1000;

/// What an arrival waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Nothing: the stream's first request, this long after the start.
    Start(Nanos),
    /// The completion that has this ticket, this long after it.
    After(Ticket, Nanos),
    /// The stream's arrival before, this long after it.
    With(Nanos),
}

/// Index into [`Closed::completions`].
type Ticket = u32;

/// A request's completion in the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    /// Not yet; the stream whose next request waits for it, if that is known.
    Pending(Option<u32>),
    /// It was then, and some record may still ask.
    At(Timestamp),
    /// Nobody will ask.
    Unwanted,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    cause: Cause,
    ticket: Ticket,
}

#[derive(Debug, Default)]
struct Stream {
    queue: VecDeque<Waiting>,
    /// Recorded completion and ticket of its requests that were outstanding at the arrival read last.
    open: Vec<(Timestamp, Ticket)>,
    recorded_arrival: Option<Timestamp>,
    replayed_arrival: Timestamp,
    /// Whether the head of the queue is due at a known time or waits for a completion.
    scheduled: bool,
}

/// A workload replayed closed.
pub struct Closed {
    workload: Workload,
    streams: Vec<Stream>,
    index: BTreeMap<(VmId, StreamId), u32>,
    /// Streams whose next arrival is known: when, then in the order in which it became known.
    due: BinaryHeap<Reverse<(Timestamp, u64, u32)>>,
    sequence: u64,
    completions: Vec<Completion>,
    free: Vec<Ticket>,
    /// Ticket of each outstanding request, by id.
    tickets: Vec<Ticket>,
    /// Requests and completions read per VM, to refuse traces without completions.
    seen: Vec<(u64, u64)>,
    buffered: usize,
    buffered_max: usize,
    exhausted: bool,
    late: u64,
    now: Timestamp,
}

impl Closed {
    /// A workload that has not begun.
    pub fn new(workload: Workload) -> Closed {
        Closed {
            workload,
            streams: Vec::new(),
            index: BTreeMap::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            completions: Vec::new(),
            free: Vec::new(),
            tickets: Vec::new(),
            seen: Vec::new(),
            buffered: 0,
            buffered_max: BUFFERED_MAX,
            exhausted: false,
            late: 0,
            now: Timestamp::ZERO,
        }
    }

    /// The workload, to ask what was read of it.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Arrivals that came later than their think time, because their stream had drifted further from
    /// the others than is read ahead.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Requests read that have no completion time, of how many: nobody is taken to have waited for
    /// them.
    pub fn incomplete(&self) -> (u64, u64) {
        let (requests, completions) = self.seen.iter().fold((0, 0), |sum, vm| (sum.0 + vm.0, sum.1 + vm.1));
        (requests - completions, requests)
    }

    fn read_ahead(&mut self) -> Result<(), ReplayError> {
        if self.exhausted || self.buffered == self.buffered_max {
            return Ok(());
        }
        while !self.exhausted && self.buffered < self.buffered_max {
            let Some(record) = self.workload.take()? else {
                self.exhausted = true;
                break;
            };
            self.read(record.request, record.observed.completed);
        }
        for (vm, &(requests, completions)) in self.seen.iter().enumerate() {
            let enough = requests >= CONVINCING || (self.exhausted && requests > 0);
            if enough && completions == 0 {
                return Err(ReplayError::NoCompletions { trace: self.workload.path_of(VmId(vm as u16)), requests });
            }
        }
        Ok(())
    }

    /// Takes in the next record of the trace.
    fn read(&mut self, request: Request, completed: Option<Timestamp>) {
        let vm = usize::from(request.vm.0);
        if vm >= self.seen.len() {
            self.seen.resize(vm + 1, (0, 0));
        }
        self.seen[vm].0 += 1;
        self.seen[vm].1 += u64::from(completed.is_some());
        let number = self.streams.len() as u32;
        let number = *self.index.entry((request.vm, request.stream)).or_insert(number);
        if number as usize == self.streams.len() {
            self.streams.push(Stream::default());
        }
        let cause = self.infer_cause(number, request.arrival);
        let ticket =
            self.new_ticket(if completed.is_some() { Completion::Pending(None) } else { Completion::Unwanted });
        let stream = &mut self.streams[number as usize];
        stream.recorded_arrival = Some(request.arrival);
        if let Some(completed) = completed {
            stream.open.push((completed, ticket));
        }
        stream.queue.push_back(Waiting { request, cause, ticket });
        self.buffered += 1;
        if !self.streams[number as usize].scheduled {
            self.schedule(number);
        }
    }

    /// What the arrival recorded at `arrival` had waited for. Completions before it that it did not
    /// wait for are of no interest to later ones either.
    fn infer_cause(&mut self, number: u32, arrival: Timestamp) -> Cause {
        let mut open = std::mem::take(&mut self.streams[number as usize].open);
        let latest = open.iter().filter(|(completed, _)| *completed <= arrival).max().copied();
        open.retain(|&(completed, ticket)| {
            let outstanding = completed > arrival;
            if !outstanding && latest != Some((completed, ticket)) {
                self.forget(ticket);
            }
            outstanding
        });
        let stream = &mut self.streams[number as usize];
        stream.open = open;
        match (latest, stream.recorded_arrival) {
            (Some((completed, ticket)), _) => Cause::After(ticket, arrival.since(completed)),
            (None, Some(before)) => Cause::With(arrival.since(before)),
            (None, None) => Cause::Start(arrival.since(Timestamp::ZERO)),
        }
    }

    /// Works out when the stream's next request arrives, or leaves word with the completion that it
    /// waits for.
    fn schedule(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let Some(head) = stream.queue.front() else { return };
        stream.scheduled = true;
        let before = stream.replayed_arrival;
        let due = match head.cause {
            Cause::Start(span) => Timestamp::ZERO + span,
            Cause::With(span) => before + span,
            Cause::After(ticket, think) => {
                let Completion::At(completed) = self.completions[ticket as usize] else {
                    self.completions[ticket as usize] = Completion::Pending(Some(number));
                    return;
                };
                self.free.push(ticket);
                before.max(completed + think)
            }
        };
        self.sequence += 1;
        self.due.push(Reverse((due, self.sequence, number)));
    }

    fn new_ticket(&mut self, state: Completion) -> Ticket {
        if let Some(ticket) = self.free.pop() {
            self.completions[ticket as usize] = state;
            return ticket;
        }
        self.completions.push(state);
        (self.completions.len() - 1) as Ticket
    }

    fn forget(&mut self, ticket: Ticket) {
        match self.completions[ticket as usize] {
            Completion::At(_) => self.free.push(ticket),
            Completion::Pending(_) | Completion::Unwanted => {
                self.completions[ticket as usize] = Completion::Unwanted;
            }
        }
    }
}

impl Source for Closed {
    fn next(&mut self) -> Result<Next, ReplayError> {
        self.read_ahead()?;
        Ok(match self.due.peek() {
            Some(&Reverse((due, _, _))) => Next::At(due.max(self.now)),
            None if self.exhausted && self.buffered == 0 => Next::Exhausted,
            None => Next::Blocked,
        })
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.now = now;
        let Reverse((due, _, number)) = self.due.pop().expect("the engine takes what was announced");
        self.late += u64::from(due < now);
        let stream = &mut self.streams[number as usize];
        let mut head = stream.queue.pop_front().expect("a stream that is due has a request");
        stream.replayed_arrival = now;
        stream.scheduled = false;
        self.buffered -= 1;
        if id.index() >= self.tickets.len() {
            self.tickets.resize(id.index() + 1, 0);
        }
        self.tickets[id.index()] = head.ticket;
        self.schedule(number);
        head.request.arrival = now;
        Ok(head.request)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.now = now;
        let ticket = self.tickets[id.index()];
        match self.completions[ticket as usize] {
            Completion::Pending(waiting) => {
                self.completions[ticket as usize] = Completion::At(now);
                if let Some(stream) = waiting {
                    self.schedule(stream);
                }
            }
            Completion::Unwanted => self.free.push(ticket),
            Completion::At(_) => unreachable!("a request completes once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use traces::{Layer, Lba, Losses, Observed, Operation, ReadError, Record, Sectors, TraceMeta, TraceReader};

    use super::super::{AddressMap, TimeWindow, VmTrace};
    use super::*;

    /// Arrival, completion and stream of each record.
    struct Listed {
        meta: TraceMeta,
        losses: Losses,
        records: VecDeque<(u64, Option<u64>, u32)>,
    }

    impl TraceReader for Listed {
        fn meta(&self) -> &TraceMeta {
            &self.meta
        }
        fn next(&mut self) -> Result<Option<Record>, ReadError> {
            Ok(self.records.pop_front().map(|(arrival, completed, stream)| {
                let arrival = Timestamp::from_ns(arrival);
                let mut request = Request::new(arrival, Operation::Read, Lba::ZERO, Sectors::new(8));
                request.stream = StreamId(stream);
                let completed = completed.map(Timestamp::from_ns);
                Record { request, observed: Observed { completed, ..Observed::default() } }
            }))
        }
        fn losses(&self) -> &Losses {
            &self.losses
        }
        fn position_bytes(&self) -> u64 {
            0
        }
    }

    fn closed(records: &[(u64, Option<u64>, u32)]) -> Closed {
        let reader = Listed {
            meta: TraceMeta::new("listed", Layer::GuestQueue, "none"),
            losses: Losses::default(),
            records: records.iter().copied().collect(),
        };
        let trace = VmTrace {
            name: "vm".to_owned(),
            path: PathBuf::from("listed"),
            reader: Box::new(reader),
            map: AddressMap::Shift { place: Sectors::ZERO },
        };
        Closed::new(Workload::new(vec![trace], TimeWindow::default(), Sectors::new(1 << 20)))
    }

    /// Arrival times when every request takes `service` and all run in parallel.
    fn arrivals(source: &mut Closed, service: u64) -> Vec<(u64, u32)> {
        let mut running: Vec<(u64, u32)> = Vec::new();
        let mut arrivals = Vec::new();
        let mut id = 0;
        loop {
            running.sort();
            let completion = running.first().map(|r| r.0);
            let arrival = match source.next().unwrap() {
                Next::At(time) => Some(time.as_ns()),
                Next::Exhausted if running.is_empty() => return arrivals,
                Next::Blocked | Next::Exhausted => None,
            };
            if completion.is_some_and(|done| arrival.is_none_or(|next| done <= next)) {
                let (done, id) = running.remove(0);
                let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
                source.completed(Timestamp::from_ns(done), RequestId(id), &request);
            } else {
                let now = arrival.expect("something happens");
                let request = source.take(Timestamp::from_ns(now), RequestId(id)).unwrap();
                arrivals.push((now, request.stream.0));
                running.push((now + service, id));
                id += 1;
            }
        }
    }

    #[test]
    fn a_chain_keeps_its_think_times() {
        // Each took 10 when recorded, with think times of 5 and 7. The first arrival is the zero.
        let records = [(100, Some(110), 1), (115, Some(125), 1), (132, Some(142), 1)];
        assert_eq!(arrivals(&mut closed(&records), 50), [(0, 1), (55, 1), (112, 1)]);
        assert_eq!(arrivals(&mut closed(&records), 1), [(0, 1), (6, 1), (14, 1)]);
    }

    #[test]
    fn a_batch_stays_together() {
        // Two more while the first is outstanding, then one that waits for the last of them.
        let records = [(0, Some(100), 1), (3, Some(120), 1), (4, Some(110), 1), (130, Some(140), 1)];
        assert_eq!(arrivals(&mut closed(&records), 1000), [(0, 1), (3, 1), (4, 1), (1013, 1)]);
    }

    #[test]
    fn streams_go_their_own_ways() {
        let records = [(0, Some(10), 1), (2, Some(4), 2), (5, Some(7), 2), (20, Some(30), 1)];
        assert_eq!(arrivals(&mut closed(&records), 10), [(0, 1), (2, 2), (13, 2), (20, 1)]);
    }

    #[test]
    fn nobody_waits_for_what_never_completed() {
        let records = [(0, None, 1), (5, Some(6), 1), (8, Some(9), 1)];
        assert_eq!(arrivals(&mut closed(&records), 100), [(0, 1), (5, 1), (107, 1)]);
    }

    #[test]
    fn a_trace_without_completions_is_refused() {
        let error = closed(&[(0, None, 1), (5, None, 1)]).next().unwrap_err();
        assert!(error.to_string().starts_with("listed: none of its first 2 requests has a completion time"), "{error}");
    }

    #[test]
    fn a_small_buffer_delays_and_counts_but_loses_nothing() {
        let mut records: Vec<(u64, Option<u64>, u32)> = (0..50).map(|i| (i * 10, Some(i * 10 + 5), 1)).collect();
        records.push((500, Some(505), 2));
        let mut source = closed(&records);
        source.buffered_max = 4;
        let arrivals = arrivals(&mut source, 1000);
        assert_eq!(arrivals.len(), 51);
        assert!(arrivals.iter().any(|&(time, stream)| stream == 2 && time > 500));
        assert_eq!(source.late(), 1);
    }

    #[test]
    fn a_completion_at_the_very_arrival_was_waited_for() {
        // The second arrives with the first one's completion, the third with nobody's.
        let records = [(0, Some(10), 1), (10, Some(30), 1), (12, Some(20), 1)];
        assert_eq!(arrivals(&mut closed(&records), 100), [(0, 1), (100, 1), (102, 1)]);
    }

    #[test]
    fn a_stream_never_overtakes_itself() {
        // The third waited for the first, which now completes before the second even arrives.
        let records = [(0, Some(40), 1), (30, Some(200), 1), (45, Some(50), 1)];
        let mut source = closed(&records);
        assert_eq!(arrivals(&mut source, 1), [(0, 1), (30, 1), (30, 1)]);
        assert_eq!(source.late(), 0, "it came when it could");
    }

    #[test]
    fn of_arrivals_due_at_once_the_one_known_first_comes_first() {
        let records = [(0, Some(5), 9), (0, Some(5), 3), (0, Some(5), 5)];
        assert_eq!(arrivals(&mut closed(&records), 1), [(0, 9), (0, 3), (0, 5)]);
        // Both are due at 20: stream 2's since its arrival at 5, stream 1's since its completion at 10.
        let records = [(0, Some(5), 1), (5, Some(100), 2), (15, Some(16), 1), (20, Some(120), 2)];
        assert_eq!(arrivals(&mut closed(&records), 10), [(0, 1), (5, 2), (20, 2), (20, 1)]);
    }

    #[test]
    fn what_is_kept_of_completions_does_not_grow() {
        let records: Vec<(u64, Option<u64>, u32)> = (0..50_000u64)
            .map(|index| (index * 10, (index % 7 != 0).then_some(index * 10 + index % 40), (index % 5) as u32))
            .collect();
        let mut source = closed(&records);
        source.buffered_max = 100;
        assert_eq!(arrivals(&mut source, 25).len(), records.len());
        assert!(source.completions.len() < 1000, "{} tickets", source.completions.len());
    }
}
