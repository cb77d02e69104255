//! A scheduler in a shared library that does not return: it takes ten seconds until that is said. `plugin.rs` has the
//! other faults.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod plugins;
mod program;

#[test]
fn call_that_does_not_return_ends_the_program_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let said = plugins::crashed(&plugins::faulty(&folder, "libfaulty.so", &[]), 12);
    let call = "the scheduler in libfaulty.so does not return from dispatch() for 10 s, called at ";
    assert!(said.contains(call), "{said}");
}
