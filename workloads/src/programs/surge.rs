//! `surge`: the web server of Geist, Jones and Westall 2010, section 5, after Barford and Crovella's generator. This is
//! its entry in the registry; the aged file system and the processes are in [`crate::surge`].

use std::sync::Arc;

use traces::spec::{Settings, Tunable, Unit};

use super::generators::Generators;
use super::{Build, Entry, Processes};
use crate::guest::files::{Files, OutOfSpace};
use crate::guest::program::Program;
use crate::surge::{Content, ImageSettings, Popularity, Reader, ReaderSettings};
use rand::Rng;

pub(super) const ENTRY: Entry = Entry {
    name: "surge",
    summary: "a web server: processes that read popular files page by page, with a pause after each page",
    origin: "Geist, Jones and Westall 2010, section 5, after Barford and Crovella 1998; where the paper is silent, \
             its reproduction",
    tunables: &[
        Tunable::new(
            "files",
            Unit::Count,
            "1000000",
            "number of files; half of them are removed and created again to age the disk",
        )
        .within(1, 10_000_000),
        Tunable::new("directories", Unit::Count, "1000", "number of directories").within(1, 100_000),
        Tunable::new(
            "popularity",
            Unit::Choice(&["by-name", "shuffled"]),
            "by-name",
            "whether popular files share directories (by-name) or lie in any (shuffled)",
        ),
        Tunable::new("metadata", Unit::Switch, "on", "whether opening a file reads its name and its inode"),
        Tunable::new("whole_pages", Unit::Switch, "on", "whether the last page of a file is read whole"),
        Tunable::new("processes", Unit::Count, "50", "number of processes").within(1, 1000),
        Tunable::new("direct", Unit::Switch, "off", "whether reads bypass the page cache (O_DIRECT)"),
        Tunable::new(
            "sleep_scale",
            Unit::Decimal,
            "1",
            "factor of the paper's pauses, which are Pareto with shape 1.5 and at least 2 ms",
        )
        .within(1, 1_000_000),
    ],
    events: &[],
    ends: |_| false,
    build: Build::Processes(build),
};

fn build(settings: &Settings, files: &mut Files, seed: u64) -> Result<Processes, OutOfSpace> {
    let mut seeds = Generators::new(seed).take();
    let image = ImageSettings {
        files: settings.count("files") as u32,
        directories: settings.count("directories") as u32,
        popularity: match settings.word("popularity") {
            "by-name" => Popularity::ByName,
            _ => Popularity::Shuffled,
        },
        whole_pages: settings.switch("whole_pages"),
        metadata: settings.switch("metadata"),
        capacity: files.capacity(),
        seed: seeds.next_u64(),
    };
    let Content { ranked, metadata } = Content::fill(&image, files)?;
    let (ranked, metadata) = (Arc::from(ranked), metadata.map(Arc::new));
    let reader =
        ReaderSettings { direct: settings.switch("direct"), sleep_scale: settings.thousandths("sleep_scale") as u32 };
    let seed = seeds.next_u64();
    let process = |number| -> Box<dyn Program> {
        Box::new(Reader::new(Arc::clone(&ranked), metadata.clone(), reader, seed, number))
    };
    Ok((0..settings.count("processes")).map(process).collect())
}
