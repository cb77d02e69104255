//! The tables of `docs/validation/papers.md` are what their commands print, with all seeds: three minutes of CPU of a
//! release build. With `IOCAST_UPDATE_DOCS=1` it writes them instead.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod generated;

use generated::{BEGIN, Block, CLOSE, END, digest_of, document, parts, printed};

/// Set to 1, it makes the test write the document instead of comparing it.
const UPDATE: &str = "IOCAST_UPDATE_DOCS";

#[test]
fn tables_of_papers_are_what_their_commands_print() {
    let path = document();
    let (blocks, behind) = parts(&std::fs::read_to_string(&path).unwrap());
    let generate = |(before, block): (String, Block)| {
        let text = printed(&block.arguments);
        (block.text == text, (before, Block { digest: digest_of(&text), text, arguments: block.arguments }))
    };
    let generated: Vec<_> = blocks.into_iter().map(generate).collect();
    let stale = generated.iter().filter(|(fresh, _)| !fresh);
    let stale: Vec<String> = stale.map(|(_, (_, block))| block.arguments.join(" ")).collect();
    if std::env::var(UPDATE).is_ok_and(|value| value == "1") {
        let blocks: Vec<_> = generated.into_iter().map(|(_, block)| block).collect();
        std::fs::write(&path, joined(&blocks, &behind)).unwrap();
        return;
    }
    assert!(
        stale.is_empty(),
        "{}: no longer what `iocast {}` prints; {UPDATE}=1 cargo test --profile long --workspace \
         --test long_papers writes it anew",
        path.display(),
        stale.join("`, `iocast ")
    );
}

/// The document with these blocks: the inverse of [`parts`].
fn joined(blocks: &[(String, Block)], behind: &str) -> String {
    let block = |(before, Block { arguments, text, digest }): &(String, Block)| {
        let arguments = arguments.join(" ");
        format!("{before}{BEGIN}{arguments}{CLOSE}\n{text}\n{END}{digest}{CLOSE}")
    };
    blocks.iter().map(block).collect::<String>() + behind
}
