//! CATS, cache-aware table scheduling: the scheduler that Geist, Jones and Westall 2010 propose in
//! section 3. On every entry, in this order:
//!
//! 1. a waiting read that the shadow cache predicts to be a hit goes at once, the oldest first;
//! 2. while the oldest waiting read is older than `read_delay`, reads go in CSCAN order;
//! 3. other reads go in the sequence of the table ([`crate::table`]), with a busdriver delay;
//! 4. if no read waits, writes (and discards) go in CSCAN order.
//!
//! Reads for which there is no capacity count as not waiting, and so writes pass them. Age counts from
//! arrival at the scheduler. Every read and write that is sent enters the shadow cache, as the
//! paper says "a request". A span names the sectors that are held and not their contents, so a write
//! into it does not make it invalid. Discards move no data and do not enter. Leaves out nothing
//! that the paper describes.
//!
//! The paper does not define the step that the busdriver delay delays; `busdriver_reading` chooses:
//!
//! - `between-tables`: no table is built within the delay of the last. Meanwhile the sequence is
//!   driven on, and requests that arrive wait for the next table. It waits only when the sequence is
//!   driven out and reads wait. The default: of the three it alone does not idle the disk, at 7 ms,
//!   far below the throughput the paper reports.
//! - `before-table`: it waits once before each table is built, from when one is needed, and then
//!   drives the whole sequence. Requests that arrive wait for the next table.
//! - `after-completion`: it waits after completions as [`crate::busdriver`] says, holding back writes
//!   too, and builds a table whenever the queue has changed.
//!
//! Predicted hits are served during every wait, and no wait outlasts the moment when the oldest
//! read becomes older than `read_delay`. Reads served as hits or in CSCAN order leave the sequence,
//! and the rest of it stands until the next table.
//!
//! A read of the table counts as sent *after the delay* if the policy's answer before it was to wait for the busdriver
//! delay. With `between-tables` and `before-table` that can only be the first read of a table. With `after-completion`
//! it is the next read of the table after a wait, even if the wait was cut short by an arrival. The other reads of a
//! table did not wait for the delay when their turn came. A hit or a read in CSCAN order that is sent during the wait
//! does not count, nor does a write.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::busdriver::Busdriver;
use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::gsw::BUSDRIVER_DELAY;
use crate::id_list::IdList;
use crate::lba_queue::{Classes, LbaQueue};
use crate::plan::Plan;
use crate::predicted_hits::PredictedHits;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::shadow_cache::{ShadowCache, Span};
use crate::slots::Slots;
use crate::table::TABLE_MAX;

const BETWEEN_TABLES: &str = "between-tables";
const BEFORE_TABLE: &str = "before-table";
const AFTER_COMPLETION: &str = "after-completion";

const PREDICTED_HIT: usize = 0;
const READ_DELAY: usize = 1;
const AT_ONCE: usize = 2;
const AFTER_DELAY: usize = 3;
const WRITE: usize = 4;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("predicted hit", "the oldest waiting read that the drive's cache is predicted to hold"),
    RuleInfo::new("read delay", "a read in CSCAN order, because the oldest read is older than read_delay"),
    RuleInfo::new("table", "the next read of the table, sent without a wait"),
    RuleInfo::new("after the delay", "the next read of the table, after the policy waited for the busdriver delay"),
    RuleInfo::new("write", "a write or discard in CSCAN order: no read waits for which there is capacity"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "cats",
    summary: "optimal sequence for reads, aware of the drive's cache, with a soft deadline",
    origin: "Geist, Jones, Westall 2010, section 3",
    tunables: &[
        Tunable::new("segments", Unit::Count, "64", "segments of the drive's cache").within(1, 1 << 20),
        Tunable::new("segment_sectors", Unit::Count, "221", "sectors in a segment").within(1, u64::MAX),
        Tunable::new("prefetch_sectors", Unit::Count, "64", "sectors that the drive reads ahead"),
        BUSDRIVER_DELAY,
        Tunable::new(
            "busdriver_reading",
            Unit::Choice(&[BETWEEN_TABLES, BEFORE_TABLE, AFTER_COMPLETION]),
            BETWEEN_TABLES,
            "requests that the busdriver delay applies to",
        ),
        Tunable::new("read_delay", Unit::Time, "100ms", "age of a read beyond which reads go in CSCAN order"),
        TABLE_MAX,
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Cats::new(settings))
}

/// The step that the busdriver delay delays.
#[derive(Debug)]
enum Waits {
    BetweenTables { delay: Nanos, next_table: Timestamp },
    BeforeTable { delay: Nanos, departs: Option<Timestamp> },
    AfterCompletion(Busdriver),
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    since: Timestamp,
    span: Span,
    moves_data: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Cats {
    read_delay: Nanos,
    waits: Waits,
    queue: LbaQueue,
    waiting: Slots<Waiting>,
    reads_by_age: IdList,
    hits: PredictedHits,
    plan: Plan,
    /// Whether the reads that wait are others than when the plan was made, less those it sent.
    plan_is_stale: bool,
    /// Whether the last answer was to wait for the busdriver delay.
    waits_for_delay: bool,
    sent: [u64; RULES.len()],
}

impl Cats {
    /// A scheduler with settings resolved against [`ENTRY`]'s tunables.
    pub fn new(settings: &Settings) -> Cats {
        let segments = usize::try_from(settings.count("segments")).unwrap_or(usize::MAX);
        let sectors = |name| Sectors::new(settings.count(name));
        let delay = settings.nanos("busdriver_delay");
        Cats {
            read_delay: settings.nanos("read_delay"),
            waits: match settings.word("busdriver_reading") {
                BEFORE_TABLE => Waits::BeforeTable { delay, departs: None },
                AFTER_COMPLETION => Waits::AfterCompletion(Busdriver::new(delay)),
                _ => Waits::BetweenTables { delay, next_table: Timestamp::ZERO },
            },
            queue: LbaQueue::default(),
            waiting: Slots::default(),
            reads_by_age: IdList::default(),
            hits: PredictedHits::new(ShadowCache::new(
                segments,
                sectors("segment_sectors"),
                sectors("prefetch_sectors"),
            )),
            plan: Plan::new(settings.count("table_max")),
            plan_is_stale: false,
            waits_for_delay: false,
            sent: [0; RULES.len()],
        }
    }

    /// How many tables have been built so far.
    pub fn tables_built(&self) -> u64 {
        self.plan.built()
    }

    /// Sends a waiting request by a rule: it leaves the queues and enters the shadow cache.
    fn send(&mut self, id: RequestId, rule: usize) -> Dispatch {
        self.sent[rule] += 1;
        let Waiting { span, moves_data, .. } = self.waiting[id];
        self.forget(id);
        if moves_data {
            self.hits.sent(span, &self.queue);
        }
        Dispatch::Send(id)
    }

    fn forget(&mut self, id: RequestId) {
        self.queue.remove(id);
        if !self.queue.is_read(id) {
            return;
        }
        self.hits.gone(id);
        self.plan.strike(id);
        self.reads_by_age.remove(id);
        if self.reads_by_age.is_empty() {
            self.waits_for_delay = false;
            if let Waits::BeforeTable { departs, .. } = &mut self.waits {
                *departs = None;
            }
        }
    }

    /// The first moment at which the oldest waiting read is too old for the table.
    fn table_forgone_at(&self) -> Timestamp {
        let oldest = self.reads_by_age.first().map(|id| self.waiting[id].since.saturating_add(self.read_delay));
        oldest.map_or(Timestamp::MAX, |last| last.saturating_add(Nanos::from_ns(1)))
    }

    /// Whether the table is to be built now, or else until when to wait, if at all.
    fn table_is_due(&mut self, now: Timestamp) -> Result<bool, Timestamp> {
        let exhausted = self.plan.is_exhausted();
        match &mut self.waits {
            Waits::AfterCompletion(_) => Ok(exhausted || self.plan_is_stale),
            Waits::BetweenTables { delay, next_table } => {
                if !exhausted && !self.plan_is_stale {
                    return Ok(false);
                }
                if now < *next_table {
                    return if exhausted { Err(*next_table) } else { Ok(false) };
                }
                *next_table = now.saturating_add(*delay);
                Ok(true)
            }
            Waits::BeforeTable { delay, departs } => {
                if !exhausted {
                    return Ok(false);
                }
                let departure = *departs.get_or_insert_with(|| now.saturating_add(*delay));
                if now < departure {
                    return Err(departure);
                }
                *departs = None;
                Ok(true)
            }
        }
    }

    /// The next read of the sequence, by one of the two rules of the table; reads wait.
    fn dispatch_by_table(&mut self, now: Timestamp, cost: &dyn AccessCost, rule: usize) -> Dispatch {
        match self.table_is_due(now) {
            Err(until) => return self.wait(until.min(self.table_forgone_at())),
            Ok(true) => {
                self.plan.build(&self.queue, Classes::READS, cost);
                self.plan_is_stale = false;
            }
            Ok(false) => {}
        }
        match self.plan.next() {
            Some(id) => self.send(id, rule),
            None => Dispatch::Idle,
        }
    }

    fn dispatch_circular(&mut self, classes: Classes, cost: &dyn AccessCost, rule: usize) -> Dispatch {
        match self.queue.circular(cost.position(), classes) {
            Some(entry) => self.send(entry.id(), rule),
            None => Dispatch::Idle,
        }
    }

    /// The answer to wait for the busdriver delay.
    fn wait(&mut self, until: Timestamp) -> Dispatch {
        self.waits_for_delay = true;
        Dispatch::WaitUntil(until)
    }

    /// The request that goes ahead of the table: predicted hits, and reads in CSCAN order once one is too old.
    fn dispatch_ahead_of_table(&mut self, now: Timestamp, cost: &dyn AccessCost) -> Option<Dispatch> {
        let sent = if let Some(hit) = self.hits.oldest() {
            self.send(hit, PREDICTED_HIT)
        } else if now >= self.table_forgone_at() {
            self.dispatch_circular(Classes::READS, cost, READ_DELAY)
        } else {
            return None;
        };
        self.plan_is_stale = true;
        Some(sent)
    }
}

impl Scheduler for Cats {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let span = Span { start: request.lba, end: request.end() };
        self.waiting.set(id, Waiting { since: now, span, moves_data: request.operation.moves_data() });
        self.queue.insert(id, request);
        if request.operation == Operation::Read {
            self.reads_by_age.push_back(id);
            self.hits.arrived(id, span, self.queue.age(id));
            self.plan.enroll(id);
            self.plan_is_stale = true;
        }
        if let Waits::AfterCompletion(busdriver) = &mut self.waits {
            busdriver.arrived(request);
        }
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let classes = Classes::with(capacity);
        let read_waits = classes.reads && !self.reads_by_age.is_empty();
        let has_waited = std::mem::take(&mut self.waits_for_delay);
        if read_waits && let Some(sent) = self.dispatch_ahead_of_table(now, cost) {
            return sent;
        }
        if let Waits::AfterCompletion(busdriver) = &self.waits
            && let Some(until) = busdriver.waits_until(now)
            && !self.queue.is_empty(classes)
        {
            return self.wait(if read_waits { until.min(self.table_forgone_at()) } else { until });
        }
        if read_waits {
            return self.dispatch_by_table(now, cost, if has_waited { AFTER_DELAY } else { AT_ONCE });
        }
        self.dispatch_circular(Classes { reads: false, ..classes }, cost, WRITE)
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if let Waits::AfterCompletion(busdriver) = &mut self.waits {
            busdriver.completed(now, request);
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.forget(id);
        self.plan_is_stale = true;
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, request: &Request) {
        let span = Span { start: request.lba, end: request.end() };
        self.waiting[into].span = span;
        self.queue.grown(into, request);
        if self.queue.is_read(into) {
            self.hits.gone(into);
            self.hits.arrived(into, span, self.queue.age(into));
            self.plan_is_stale = true;
        }
    }

    /// The two are as old as the older of them.
    fn merged_requests(&mut self, now: Timestamp, into: RequestId, from: RequestId, request: &Request) {
        if self.queue.is_read(from) && self.waiting[from].since < self.waiting[into].since {
            self.waiting[into].since = self.waiting[from].since;
            self.reads_by_age.remove(into);
            self.reads_by_age.insert_before(from, into);
        }
        self.remove(from);
        self.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
