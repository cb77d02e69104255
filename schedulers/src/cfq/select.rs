//! The queue to serve, and how many of its requests may be below at once.

use traces::RequestId;

use super::Cfq;
use super::queue::Class;

impl Cfq {
    /// The queue to send from now, if any (`cfq_select_queue`).
    pub(super) fn select_queue(&mut self) -> Option<usize> {
        if self.is_3_5() { self.select_queue_3_5() } else { self.select_queue_2_6_30() }
    }

    fn select_queue_2_6_30(&mut self) -> Option<usize> {
        let mut successor = None;
        if let Some(active) = self.active {
            let queue = &self.queues[active];
            let used = queue.slice_used(self.now) && !queue.must_dispatch;
            if !used && queue.class != Class::RealTime && self.busy_real_time > 0 {
                self.end_slice(true);
            } else {
                if !used {
                    if !queue.waiting.is_empty() {
                        return Some(active);
                    }
                    successor = self.cooperator(active);
                    if let Some(other) = successor {
                        // One turn each: until it has been active of its own, it takes over no more.
                        self.queues[other].cooperates = true;
                    } else {
                        let queue = &self.queues[active];
                        if self.idle_until.is_some() || (queue.in_flight > 0 && queue.idle_window) {
                            return None;
                        }
                    }
                }
                self.end_slice(false);
            }
        }
        let takes_over = successor.is_some();
        if !takes_over {
            successor = self.first_in_any_tree();
            if let Some(first) = successor {
                self.queues[first].cooperates = false;
            }
        }
        self.activate_queue(successor, takes_over);
        successor
    }

    /// Classes strictly in order.
    fn first_in_any_tree(&self) -> Option<usize> {
        (0..self.groups[0].trees.len()).find_map(|tree| self.first_in(0, tree))
    }

    fn select_queue_3_5(&mut self) -> Option<usize> {
        let mut successor = None;
        if let Some(active) = self.active {
            match self.keeps_turn_3_5(active) {
                Turn::Serves => return Some(active),
                Turn::Waits => return None,
                Turn::PassesTo(other) => successor = Some(other),
                Turn::IsOver => {}
            }
            self.end_slice(false);
        }
        let takes_over = successor.is_some();
        if !takes_over {
            successor = self.choose_group().and_then(|group| self.first_in(group, self.workload.tree()));
        }
        self.activate_queue(successor, takes_over);
        successor
    }

    fn keeps_turn_3_5(&mut self, active: usize) -> Turn {
        let queue = &self.queues[active];
        let empty = queue.waiting.is_empty();
        if queue.prolonged && !empty {
            return Turn::IsOver;
        }
        let is_alone = self.groups[queue.group].queues == 1;
        if queue.slice_used(self.now) && !queue.must_dispatch {
            // Alone in its group, it is waited for lest the group lose its turn.
            if is_alone && empty && queue.in_flight > 0 && self.should_idle(active) {
                return Turn::Waits;
            }
            return self.waits_for_group(active);
        }
        if !empty {
            return Turn::Serves;
        }
        if let Some(other) = self.cooperator(active) {
            if self.queues[active].merge_into.is_none() {
                self.plan_merge(active, other);
            }
            return Turn::PassesTo(other);
        }
        if self.idle_until.is_some() {
            return Turn::Waits;
        }
        let now = self.now;
        let queue = &mut self.queues[active];
        // It seeks, and has not even used half of its slice: not deep enough to be worth idling.
        let rests_more_than_half = queue.slice_is_new
            || queue.slice_start.is_some_and(|start| queue.slice_rest(now) > now.saturating_since(start).as_ns());
        if queue.is_seeky() && queue.idle_window && rests_more_than_half {
            queue.deep = false;
            queue.idle_window = false;
        }
        if self.queues[active].in_flight > 0 && self.should_idle(active) {
            return Turn::Waits;
        }
        self.waits_for_group(active)
    }

    /// The only queue of a group with requests below is waited for if the group's next comes soon.
    fn waits_for_group(&self, active: usize) -> Turn {
        let group = &self.groups[self.queues[active].group];
        let waits = self.set.group_idle > 0
            && group.queues == 1
            && group.in_flight > 0
            && !group.think.is_longer_than(self.set.group_idle);
        if waits { Turn::Waits } else { Turn::IsOver }
    }

    /// Whether the queue may send one more request beside the requests of all queues that are below.
    pub(super) fn may_dispatch(&mut self, number: usize) -> bool {
        if self.is_3_5() { self.may_dispatch_3_5(number) } else { self.may_dispatch_2_6_30(number) }
    }

    /// Async waits for sync to be done. A queue has at most `quantum` below while others wait, four
    /// times that if none does, and one if it is of the idle class.
    fn may_dispatch_2_6_30(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if self.in_flight[1] > 0 && !queue.is_sync {
            return false;
        }
        let max = match queue.class {
            Class::Idle => 1,
            _ if self.busy > 1 => self.set.quantum,
            _ => 4 * self.set.quantum,
        };
        queue.in_flight < max
    }

    /// The same with three differences. Sync that is worth idling waits until async is done. Half of `quantum` is
    /// always allowed, and more while the slice lasts, without bound if no other queue or no other sync queue is busy.
    /// With `low_latency` async goes the deeper the longer no sync request was late.
    fn may_dispatch_3_5(&mut self, number: usize) -> bool {
        if self.in_flight[0] > 0 && self.should_idle(number) {
            return false;
        }
        let queue = &self.queues[number];
        if self.in_flight[1] > 0 && !queue.is_sync {
            return false;
        }
        let mut max = if queue.class == Class::Idle { 1 } else { (self.set.quantum / 2).max(1) };
        if queue.in_flight >= max {
            if queue.class == Class::Idle {
                return false;
            }
            let is_only_sync = queue.is_sync && self.busy_sync == 1;
            if self.busy > 1 && !is_only_sync && self.slice_is_used_soon(number) {
                return false;
            }
            max = if self.busy == 1 || is_only_sync { u64::MAX } else { self.set.quantum };
        }
        if !queue.is_sync && self.set.low_latency {
            let quiet = match self.last_delayed_sync {
                Some(late) => self.now.saturating_since(late).as_ns(),
                // The kernel begins with one a second ago.
                None => self.now.as_ns().saturating_add(1_000_000_000),
            };
            let depth = quiet / self.set.slice[1];
            max = max.min(if depth == 0 && queue.in_flight == 0 { 1 } else { depth });
        }
        queue.in_flight < max
    }

    /// Whether the slice ends before the requests below are served, each in a `slice_idle`.
    fn slice_is_used_soon(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        queue.slice_is_new || self.set.slice_idle.saturating_mul(queue.in_flight) > queue.slice_rest(self.now)
    }

    /// A request of the active queue goes.
    pub(super) fn send_from(&mut self, number: usize, id: RequestId) {
        self.queues[number].fifo_was_checked = true;
        self.decide(id);
        self.active_process.get_or_insert(self.held[id].process);
        let queue = &mut self.queues[number];
        queue.slice_sent += 1;
        queue.must_dispatch = false;
        self.end_slice_if_spent(number);
    }

    /// A waiting request leaves its queue for the dispatch queue (`cfq_dispatch_insert`). 3.5 looks
    /// for the next from there even if another was to be next.
    pub(super) fn decide(&mut self, id: RequestId) {
        let number = self.held[id].queue;
        if self.is_3_5() {
            self.queues[number].next = self.next_after(id);
        }
        self.take_out(id);
        let queue = &mut self.queues[number];
        queue.in_flight += 1;
        self.in_flight[usize::from(queue.is_sync)] += 1;
        self.groups[queue.group].in_flight += 1;
    }

    /// A decided request is done with or gone.
    pub(super) fn left_flight(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        queue.in_flight -= 1;
        self.in_flight[usize::from(queue.is_sync)] -= 1;
        self.groups[queue.group].in_flight -= 1;
    }
}

/// The next state of the active queue's turn.
enum Turn {
    Serves,
    Waits,
    PassesTo(usize),
    IsOver,
}
