//! The tables of `docs/validation/papers.md` are what their commands print, with all seeds: three minutes of CPU of a
//! release build. With `IOCAST_UPDATE_DOCS=1` it writes them instead.

mod generated;

use generated::{check, document};

#[test]
fn tables_of_papers_are_what_their_commands_print() {
    check(&document(), "`IOCAST_UPDATE_DOCS=1 cargo test --profile long --workspace --test long_papers`");
}
