//! Reads and writes in turn, each kind in the order of its arrival. While both wait, a number of reads is sent and then
//! a number of writes: weighted round robin (Katevenis, Sidiropoulos, Courcoubetis 1991). Neither kind starves.
//!
//! Requests that are served while no other kind waits count for the turn, too, so that a turn never grows longer.

use traces::spec::{Settings, Tunable, Unit};
use traces::{Operation, Request, RequestId, Timestamp};

use crate::cost::AccessCost;
use crate::entry::{Entry, RuleInfo};
use crate::id_list::IdList;
use crate::scheduler::{Capacity, Dispatch, Scheduler};
use crate::slots::Slots;

const TURN: usize = 0;
const NEXT_TURN: usize = 1;
const OUT_OF_TURN: usize = 2;
const RULES: &[RuleInfo] = &[
    RuleInfo::new("turn", "one of the kind whose turn it is"),
    RuleInfo::new("next turn", "the first of a turn, since the turn of the other kind is over"),
    RuleInfo::new("out of turn", "one of the kind whose turn it is not: the other has none to send"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "weighted",
    summary: "alternates between a number of reads and a number of writes while both wait, each in order of arrival",
    origin: "weighted round robin: Katevenis, Sidiropoulos, Courcoubetis 1991, IEEE JSAC 9(8)",
    tunables: &[
        Tunable::new("reads", Unit::Count, "4", "number of reads in a turn").within(1, 65_536),
        Tunable::new("writes", Unit::Count, "1", "number of writes in a turn").within(1, 65_536),
    ],
    rules: RULES,
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(Weighted {
        lengths: [settings.count("reads"), settings.count("writes")],
        turn: Turn::default(),
        waiting: [IdList::default(), IdList::default()],
        is_write: Slots::default(),
        sent: [0; RULES.len()],
    })
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    of_writes: bool,
    /// How many of it were served.
    served: u64,
}

/// The policy. Reads are the first of two, everything else the second.
#[derive(Clone, Debug)]
struct Weighted {
    lengths: [u64; 2],
    turn: Turn,
    waiting: [IdList; 2],
    is_write: Slots<bool>,
    sent: [u64; RULES.len()],
}

impl Weighted {
    fn queue(&mut self, id: RequestId) -> &mut IdList {
        &mut self.waiting[usize::from(self.is_write[id])]
    }

    /// The kind to serve next, whether writes, if it has requests.
    fn next_kind(&self) -> bool {
        let Turn { of_writes, served } = self.turn;
        of_writes != (served >= self.lengths[usize::from(of_writes)])
    }

    /// One of this kind goes.
    fn serve(&mut self, id: RequestId) {
        let of_writes = self.is_write[id];
        let rule = match (of_writes == self.next_kind(), of_writes == self.turn.of_writes) {
            (false, _) => OUT_OF_TURN,
            (true, true) => TURN,
            (true, false) => NEXT_TURN,
        };
        self.sent[rule] += 1;
        let served = if of_writes == self.turn.of_writes { self.turn.served } else { 0 };
        self.turn = Turn { of_writes, served: (served + 1).min(self.lengths[usize::from(of_writes)]) };
        self.queue(id).remove(id);
    }
}

impl Scheduler for Weighted {
    fn insert(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_write.set(id, request.operation != Operation::Read);
        self.queue(id).push_back(id);
    }

    fn dispatch(&mut self, _now: Timestamp, capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        let of_kind = |writes: bool| {
            let capacity = if writes { capacity.writes } else { capacity.reads };
            self.waiting[usize::from(writes)].first().filter(|_| capacity > 0)
        };
        let next = self.next_kind();
        let Some(id) = of_kind(next).or_else(|| of_kind(!next)) else { return Dispatch::Idle };
        self.serve(id);
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        self.queue(id).remove(id);
    }

    fn follow(&mut self, _now: Timestamp, id: RequestId) -> bool {
        self.serve(id);
        true
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        Some(Box::new(self.clone()))
    }

    fn requeue(&mut self, _now: Timestamp, id: RequestId, request: &Request) {
        self.is_write.set(id, request.operation != Operation::Read);
        self.queue(id).push_front(id);
    }

    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}

    fn waiting(&self) -> usize {
        self.waiting.iter().map(IdList::len).sum()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}
