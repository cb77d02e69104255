//! Which rule has sent each request: cases made by hand, with exact counts. Every rule of the registry has a case that
//! it sends one request in, so none is dead. That the counts of all rules add up is tested in `conformance.rs`.

use iocast_schedulers::SCHEDULERS;

use crate::driver::Driver;
use crate::rule_cases::{Case, cases};

#[test]
fn each_rule_counts_the_requests_that_it_sends() {
    for (number, case) in cases().enumerate() {
        let mut driver = Driver::new(case.spec);
        (case.calls)(&mut driver);
        assert_eq!(driver.sent_by_rule(), case.sent, "{}, case {number}", case.spec);
    }
}

#[test]
fn every_rule_of_the_registry_can_send_a_request() {
    for entry in SCHEDULERS {
        for rule in entry.rules {
            let of_entry = |case: &&Case| case.spec.split(':').next() == Some(entry.name);
            let sends_one = cases().filter(of_entry).any(|case| case.sent.contains(&(rule.name, 1)));
            assert!(sends_one, "no case has {}'s rule `{}` send one request", entry.name, rule.name);
        }
    }
}
