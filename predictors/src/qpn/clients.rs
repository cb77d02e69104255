//! The clients of a VM alone: how many there are of each kind, and how long they think.

use traces::results::isolation::{IsolatedOperation, IsolationProfile};

use super::net::Group;

/// Clients that never think keep the device busy for at least this share of the time.
const BUSY_MIN: f64 = 0.9;

/// A VM has so many clients that this share of its requests find no more of them at the device.
const FOUND_SHARE: f64 = 0.99;

/// A VM alone, as the net sees it.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Reads, writes: requests per second.
    pub rates: [f64; 2],
    /// Mean response times, seconds; 0 without requests.
    pub responses: [f64; 2],
    /// Share of the time during which the device has a request.
    pub busy: f64,
    /// Reads, writes: number of clients; 0 without requests.
    clients: [f64; 2],
    /// The squared deviation of service times by the squared mean, where it was measured.
    variation: [Option<f64>; 2],
}

impl Clients {
    /// The clients of a VM. If the device is never idle, they never think: by Little's law there are X ρ of them. If
    /// not, so many of a kind were seen at the device at once.
    pub fn of(profile: &IsolationProfile) -> Clients {
        let operations = [&profile.reads, &profile.writes];
        let busy = profile.busy_share.unwrap_or(1.0);
        let rates = operations.map(|operation| operation.iops);
        let responses = operations.map(|operation| operation.response_ns.unwrap_or(0.0) / 1e9);
        let at_device = [0, 1].map(|kind| rates[kind] * responses[kind]);
        let seen = |kind: usize| {
            if rates[kind] > 0.0 { seen(operations[kind], kind).max(at_device[kind].ceil()) } else { 0.0 }
        };
        let clients = if busy >= BUSY_MIN { at_device } else { [seen(0), seen(1)] };
        Clients { rates, responses, busy, clients, variation: operations.map(variation) }
    }

    /// Requests of both kinds per second.
    pub fn rate(&self) -> f64 {
        self.rates[0] + self.rates[1]
    }

    /// The share of reads.
    pub fn share_of_reads(&self) -> f64 {
        self.rates[0] / self.rate()
    }

    /// Whether its clients pause between requests.
    pub fn think(&self) -> bool {
        self.busy < BUSY_MIN
    }

    /// Its groups, without those of no clients.
    pub fn groups(&self) -> Vec<Group> {
        let group = |kind: usize| {
            let clients = self.clients[kind];
            let think = if self.think() { (clients / self.rates[kind] - self.responses[kind]).max(0.0) } else { 0.0 };
            (clients > 0.0).then_some(Group { kind, clients, think })
        };
        [0, 1].into_iter().filter_map(group).collect()
    }

    /// Its groups with whole clients, as a simulated net needs. A part of a client thinks so long that the VM has its own
    /// rates where it has its own response times.
    pub fn whole(&self) -> Vec<Group> {
        self.groups().iter().map(|group| group.whole(self.responses[group.kind])).collect()
    }

    /// The squared coefficient of variation of service times of a kind, and its requests per second.
    pub fn variation(&self, kind: usize) -> Option<(f64, f64)> {
        self.variation[kind].map(|variation| (variation, self.rates[kind]))
    }
}

/// How many clients of a kind were at the device at once.
fn seen(operation: &IsolatedOperation, kind: usize) -> f64 {
    let own = |&(reads, writes, _): &(u64, u64, u64)| if kind == 0 { reads } else { writes };
    let all: u64 = operation.found_joint.iter().map(|(.., times)| times).sum();
    if all == 0 {
        let found = if kind == 0 { operation.found_reads } else { operation.found_writes };
        return 1.0 + found.unwrap_or(0.0).ceil();
    }
    let mut found: Vec<(u64, u64)> = operation.found_joint.iter().map(|row| (own(row), row.2)).collect();
    found.sort_unstable();
    let mut below = 0;
    let enough = |&(_, times): &(u64, u64)| {
        below += times;
        below as f64 >= FOUND_SHARE * all as f64
    };
    1.0 + found.iter().copied().find(enough).map_or(0.0, |(found, _)| found as f64)
}

fn variation(operation: &IsolatedOperation) -> Option<f64> {
    let (mean, square) = (operation.service_ns?, operation.service_square_ns2?);
    (mean > 0.0).then(|| (square / (mean * mean) - 1.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(busy: f64, found_joint: Vec<(u64, u64, u64)>) -> Clients {
        let reads =
            IsolatedOperation { iops: 100.0, response_ns: Some(5e6), found_joint, ..IsolatedOperation::default() };
        Clients::of(&IsolationProfile { busy_share: Some(busy), reads, ..IsolationProfile::default() })
    }

    #[test]
    fn clients_that_keep_the_device_busy_never_think_and_others_were_seen_at_the_device() {
        let never = reading(0.95, vec![(3, 0, 10)]).groups();
        assert_eq!(never, [Group { kind: 0, clients: 0.5, think: 0.0 }]);
        // 990 of 1,000 find at most two others, whatever the writes: three clients, each of which has a request every
        // 30 ms and waits 5 ms for it.
        let found = vec![(0, 7, 500), (1, 0, 400), (2, 0, 90), (9, 0, 10)];
        let groups = reading(0.5, found).groups();
        assert_eq!((groups.len(), groups[0].clients), (1, 3.0));
        assert!((groups[0].think - 0.025).abs() < 1e-12);
        assert_eq!(reading(0.5, Vec::new()).groups()[0].clients, 1.0);
    }

    #[test]
    fn part_of_a_client_becomes_a_client_that_thinks_and_has_the_rate_of_the_vm_alone() {
        let [group] = reading(0.95, Vec::new()).whole()[..] else { panic!("one group of readers") };
        // 100 reads of 5 ms a second: one client has a read every 10 ms.
        assert!(group.clients == 1.0 && (group.think - 0.005).abs() < 1e-12, "{group:?}");
        let thinks = reading(0.5, vec![(2, 0, 10)]);
        assert_eq!(thinks.whole(), thinks.groups());
    }
}
