//! The anticipatory scheduler, `block/as-iosched.c` of Linux 2.6.30. Sync and async requests are sent in batches that
//! end by time. Each batch is a one-way elevator with short back seeks; the oldest request goes first once it has
//! expired. After a sync request, no other request is sent for up to `antic_expire` if its process is expected to send
//! a nearby request soon. The file calls sync "read" and async "write", and so do the tunables.
//!
//! Anticipation begins when the request has completed. It is not begun, or ends, if the process has other requests or
//! thinks too long on average. It also ends with a request of the process, with a request of another process near
//! enough to the head, or when the wait is over. The nearer that request is, the sooner it qualifies. The number of
//! requests in a write batch is tuned so that the batch takes about `write_batch_expire`.
//!
//! Times are in ns, not ticks, except where the file counts ticks. The growth of "near enough", the size of the first
//! write batch and the default of `antic_expire` are those of HZ = 1000.
//!
//! Requests carry no exit of their process. `presumed_exit` sets how long a process may be silent before it counts as
//! exited. By default no process exits, and the estimated probabilities of an exit have no effect.
//!
//! Left out are the search for merge candidates, which the stage does, and barriers.
//!
//! The kernel does not know capacity. A chosen request for which there is no capacity waits in the dispatch queue and
//! holds up all that are chosen later.

mod batches;
mod estimates;
mod rules;

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

use self::estimates::{DecayedTotal, End};
use self::rules::{ALIAS, NEW_BATCH, RULES};
use crate::cost::AccessCost;
use crate::decayed_mean::DecayedMean;
use crate::elevator;
use crate::entry::Entry;
use crate::id_list::IdList;
use crate::order::Order;
use crate::processes::Processes;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const DAY: u64 = 86_400_000_000_000;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "anticipatory",
    summary: "timed batches of reads and writes; after a read, waits for the process's next nearby read (Linux)",
    origin: "Linux 2.6.30 block/as-iosched.c",
    tunables: &[
        Tunable::new("read_expire", Unit::Time, "125ms", "age at which a read goes first, checked at this interval")
            .within(0, DAY),
        Tunable::new("write_expire", Unit::Time, "250ms", "age at which a write goes first, checked at this interval")
            .within(0, DAY),
        Tunable::new("read_batch_expire", Unit::Time, "500ms", "longest batch of reads while writes wait")
            .within(0, DAY),
        Tunable::new("write_batch_expire", Unit::Time, "125ms", "longest batch of writes while reads wait")
            .within(0, DAY),
        Tunable::new(
            "antic_expire",
            Unit::Time,
            "6ms",
            "longest wait for the process's next read after a completion; 0ns: none",
        )
        .within(0, DAY),
        Tunable::new("presumed_exit", Unit::Time, "0ns", "silence after which a process counts as exited; 0ns: never")
            .within(0, DAY),
    ],
    rules: RULES,
    build: &build,
};

const ASYNC: usize = 0;
const SYNC: usize = 1;

/// One tick of HZ = 1000.
const TICK: u64 = 1_000_000;
/// How far back a request may be chosen (`MAXBACK`), in sectors: 512 MiB.
const BACK_MAX: u64 = 1024 * 1024;
/// By how much a backward distance counts more (`BACK_PENALTY`).
const BACK_PENALTY: u64 = 2;
fn build(settings: &Settings) -> Box<dyn Scheduler> {
    let batch_expire = [settings.nanos("write_batch_expire"), settings.nanos("read_batch_expire")];
    Box::new(Anticipatory {
        fifo_expire: [settings.nanos("write_expire"), settings.nanos("read_expire")],
        batch_expire,
        antic_expire: settings.nanos("antic_expire"),
        presumed_exit: settings.nanos("presumed_exit"),
        now: Timestamp::ZERO,
        processes: Processes::default(),
        known: Vec::new(),
        held: Slots::default(),
        classes: Default::default(),
        dispatch_queue: IdList::default(),
        inserted: 0,
        in_flight: 0,
        batch: SYNC,
        begins_batch: true,
        batch_expires: Timestamp::ZERO.saturating_add(batch_expire[SYNC]),
        old_batch_ends: false,
        awaits_first_sync: false,
        write_batch: (batch_expire[ASYNC].as_ns() / TICK / 10).max(2),
        writes_left: 0,
        write_batch_idled: false,
        anticipation: Anticipation::Off,
        anticipated: None,
        was_in_vain: false,
        expected: None,
        expected_since: None,
        exit_probability: 0,
        exit_alone: 0,
        think_of_new: DecayedTotal::default(),
        seek_of_new: DecayedTotal::default(),
        sent: [0; RULES.len()],
    })
}

/// The requests of one class, sync or async.
#[derive(Debug, Default)]
struct Waiting {
    sorted: Order,
    fifo: IdList,
    /// The next in elevator order.
    next: Option<RequestId>,
    /// The end of the request that was sent last.
    last_sector: u64,
    fifo_checked: Timestamp,
}

/// The facts of a request, kept until it has completed.
#[derive(Clone, Copy, Debug)]
struct Held {
    class: usize,
    process: usize,
    sector: u64,
    end: u64,
    expires: Timestamp,
    operation: Operation,
    /// The rule that has decided on it, once one has.
    rule: usize,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            class: ASYNC,
            process: 0,
            sector: 0,
            end: 0,
            expires: Timestamp::ZERO,
            operation: Operation::Read,
            rule: NEW_BATCH,
        }
    }
}

/// The facts of a process.
#[derive(Debug, Default)]
struct Process {
    /// Requests that wait to be chosen, and that wait in the dispatch queue.
    waiting: u64,
    decided: u64,
    /// Whether a sync request of its has arrived, or when one has last completed.
    has_begun: bool,
    last_completion: Option<Timestamp>,
    last_heard_of: Timestamp,
    /// The end of its last sync request.
    last_end: u64,
    /// ns.
    think: DecayedMean,
    /// Sectors.
    seek: DecayedMean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anticipation {
    Off,
    /// It begins when the request sent last has completed.
    AwaitsCompletion,
    /// Until then.
    Until(Timestamp),
    /// A request was found or the time is over: one request goes without.
    Finished,
}

#[derive(Debug)]
struct Anticipatory {
    /// By class, as the others.
    fifo_expire: [Nanos; 2],
    batch_expire: [Nanos; 2],
    antic_expire: Nanos,
    presumed_exit: Nanos,
    now: Timestamp,
    processes: Processes,
    known: Vec<Process>,
    held: Slots<Held>,
    classes: [Waiting; 2],
    /// The requests that have been chosen and not yet sent.
    dispatch_queue: IdList,
    inserted: u64,
    /// Requests decided on and not completed.
    in_flight: u64,
    /// The class of the batch, whether none of it has gone yet, and when it ends.
    batch: usize,
    begins_batch: bool,
    batch_expires: Timestamp,
    /// The batch has changed, and the requests in flight of the old one are to complete first.
    old_batch_ends: bool,
    /// The time of a sync batch is counted from its first completion.
    awaits_first_sync: bool,
    /// How many requests a write batch has, and how many the present one has left.
    write_batch: u64,
    writes_left: u64,
    /// The write batch was not contended, so its time says nothing.
    write_batch_idled: bool,
    anticipation: Anticipation,
    /// Since the last decision: the request that has ended the anticipation, and whether its time has run out.
    anticipated: Option<RequestId>,
    was_in_vain: bool,
    /// The process whose sync request was decided on last, if no async was since.
    expected: Option<usize>,
    /// When a request of its completed since.
    expected_since: Option<Timestamp>,
    /// How probable it is that a process exits while it is waited for, and that none goes on in its
    /// place; of [`estimates::CERTAIN`].
    exit_probability: u64,
    exit_alone: u64,
    /// Think time (ns) and seek distance (sectors) after a process's first request.
    think_of_new: DecayedTotal,
    seek_of_new: DecayedTotal,
    sent: [u64; RULES.len()],
}

impl Anticipatory {
    /// Goes to the time of a call. Anticipation that has ended since the last has ended at its time.
    fn set_time(&mut self, now: Timestamp) {
        if let Anticipation::Until(until) = self.anticipation
            && until < now
        {
            self.now = until;
            self.anticipated_in_vain();
        }
        self.now = now;
    }

    fn is_anticipating(&self) -> bool {
        matches!(self.anticipation, Anticipation::AwaitsCompletion | Anticipation::Until(_))
    }

    /// Of two waiting requests of a class the one to serve first (`as_choose_req`).
    fn better(&self, class: usize, one: Option<RequestId>, other: Option<RequestId>) -> Option<RequestId> {
        let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
        let (head, first, second) = (self.classes[class].last_sector, self.held[a].sector, self.held[b].sector);
        if elevator::is_before(head, BACK_MAX, BACK_PENALTY, first, second) { one } else { other }
    }

    /// The request to serve after a waiting one (`as_find_next_rq`).
    fn next_after(&self, id: RequestId) -> Option<RequestId> {
        let Held { class, sector, .. } = self.held[id];
        let sorted = &self.classes[class].sorted;
        let next = sorted.after(id).or_else(|| sorted.first().filter(|first| first.id() != id));
        let before = sorted.descending_before(sector).next();
        self.better(class, next.map(|entry| entry.id()), before.map(|entry| entry.id()))
    }

    /// Sorts a request in; one that waits at the same sector gives way to the dispatch queue.
    fn sort_in(&mut self, id: RequestId) {
        let Held { class, sector, .. } = self.held[id];
        if let Some(alias) = self.classes[class].sorted.at_or_after(sector).filter(|entry| entry.key == sector) {
            self.decide(alias.id(), ALIAS);
            self.dispatch_queue.push_back(alias.id());
        }
        self.classes[class].sorted.insert(id, sector, self.inserted);
        self.inserted += 1;
    }

    fn take_out(&mut self, id: RequestId) {
        let Held { class, process, .. } = self.held[id];
        if self.classes[class].next == Some(id) {
            self.classes[class].next = self.next_after(id);
        }
        self.anticipated = self.anticipated.filter(|&anticipated| anticipated != id);
        self.classes[class].sorted.remove(id);
        self.classes[class].fifo.remove(id);
        self.known[process].waiting -= 1;
    }

    /// A waiting request is the one to go, by a rule (`as_move_to_dispatch`).
    fn decide(&mut self, id: RequestId, rule: usize) {
        let Held { class, process, end, .. } = self.held[id];
        self.held[id].rule = rule;
        self.anticipation = Anticipation::Off;
        (self.anticipated, self.was_in_vain) = (None, false);
        self.begins_batch &= rule == ALIAS;
        self.classes[class].last_sector = end;
        self.expected = (class == SYNC).then_some(process);
        self.expected_since = None;
        if class == ASYNC {
            self.writes_left = self.writes_left.saturating_sub(1);
        }
        self.classes[class].next = self.next_after(id);
        self.take_out(id);
        self.known[process].decided += 1;
        self.in_flight += 1;
    }

    /// A decided request goes to the device.
    fn activate(&mut self, id: RequestId) -> Dispatch {
        let Held { process, rule, .. } = self.held[id];
        self.known[process].decided -= 1;
        self.sent[rule] += 1;
        Dispatch::Send(id)
    }
}

impl Scheduler for Anticipatory {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.set_time(now);
        let (process, is_new) = self.processes.number(request);
        if is_new {
            self.known.push(Process::default());
        }
        let class = if request.is_sync() { SYNC } else { ASYNC };
        let (sector, end) = (request.lba.sector(), request.end().sector());
        let expires = now.saturating_add(self.fifo_expire[class]);
        let (operation, rule) = (request.operation, NEW_BATCH);
        self.held.set(id, Held { class, process, sector, end, expires, operation, rule });
        self.known[process].last_heard_of = now;
        self.learn(process, id);
        self.known[process].waiting += 1;
        self.sort_in(id);
        self.classes[class].fifo.push_back(id);
        self.classes[class].next = self.better(class, Some(id), self.classes[class].next);
        if let Some(expected) = self.expected.filter(|_| self.is_anticipating())
            && let Some(end) = self.ends_anticipation(expected, Some(id))
        {
            self.anticipation = Anticipation::Finished;
            self.anticipated = (end == End::AsGood).then_some(id);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.set_time(now);
        if self.anticipation == Anticipation::Until(now) {
            self.anticipated_in_vain();
        }
        if let Some(id) = self.dispatch_queue.first() {
            if !capacity.admits(self.held[id].operation) {
                return Dispatch::Idle;
            }
            self.dispatch_queue.remove(id);
            return self.activate(id);
        }
        if capacity == (Capacity { reads: 0, writes: 0 }) {
            return Dispatch::Idle;
        }
        match (self.choose(), self.anticipation) {
            (Some(id), _) if capacity.admits(self.held[id].operation) => self.activate(id),
            (Some(id), _) => {
                self.dispatch_queue.push_back(id);
                Dispatch::Idle
            }
            (None, Anticipation::Until(until)) if self.waiting() > 0 => Dispatch::WaitUntil(until),
            (None, _) => Dispatch::Idle,
        }
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.set_time(now);
        let Held { class, process, .. } = self.held[id];
        self.left_flight();
        if self.awaits_first_sync && self.batch == class {
            self.tune_write_batch();
            self.batch_expires = now.saturating_add(self.batch_expire[SYNC]);
            self.awaits_first_sync = false;
        }
        if self.expected == Some(process) {
            self.expected_since = Some(now);
            if self.anticipation == Anticipation::AwaitsCompletion {
                self.anticipate_from(now);
            }
        }
        let known = &mut self.known[process];
        known.last_heard_of = now;
        if class == SYNC {
            known.last_completion = Some(now);
        }
    }

    fn remove(&mut self, id: RequestId) {
        if !self.dispatch_queue.contains(id) {
            self.take_out(id);
            return;
        }
        self.dispatch_queue.remove(id);
        let process = self.held[id].process;
        self.known[process].decided -= 1;
        self.left_flight();
        if self.expected == Some(process) {
            // Its completion will not come.
            self.expected = None;
            self.anticipation = Anticipation::Off;
        }
    }

    /// The kernel puts a request that comes back at the head of the dispatch queue.
    fn requeue(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.set_time(now);
        self.known[self.held[id].process].decided += 1;
        self.dispatch_queue.push_front(id);
    }

    fn may_merge(&self, into: RequestId, _request: &Request) -> bool {
        !self.dispatch_queue.contains(into)
    }

    /// A front merge sorts the request anew. It is not asked whether it is next now, or was.
    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.set_time(now);
        let sector = request.lba.sector();
        self.held[into].end = request.end().sector();
        if self.held[into].sector != sector && !self.dispatch_queue.contains(into) {
            self.classes[self.held[into].class].sorted.remove(into);
            self.held[into].sector = sector;
            self.sort_in(into);
        }
    }

    /// If `from` expires before `into`, `into` takes its expiry time and its place in the fifo.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        let (kept, gone) = (self.held[into], self.held[from]);
        let fifo = &mut self.classes[kept.class].fifo;
        if gone.expires < kept.expires && fifo.contains(into) && fifo.contains(from) {
            fifo.remove(into);
            fifo.insert_before(from, into);
            self.held[into].expires = gone.expires;
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.sorted.len()).sum::<usize>() + self.dispatch_queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
