//! The modelled options of a fio job and their values.

use traces::spec::nearest;

use super::distribution::Law;
use super::unmodelled;
use super::values::{Amount, Prefixes, amount, count, directions, micros, size, switch};

/// The lengths of the accesses in one direction, each with its weight.
pub(super) type Lengths = Vec<(u64, u32)>;

/// The kind of accesses of a job (`rw`). Directions are numbered as in fio: 0 reads, 1 writes, 2 trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One direction.
    Only(usize),
    /// Reads and writes.
    Mixed,
    /// Each block is trimmed and then written.
    TrimWrite,
}

impl Kind {
    /// Whether it has accesses in this direction.
    pub(super) fn has(self, direction: usize) -> bool {
        match self {
            Kind::Only(only) => only == direction,
            Kind::Mixed => direction < 2,
            Kind::TrimWrite => direction > 0,
        }
    }
}

/// The options of a job section, including those of the global sections above it.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) kind: Kind,
    pub(super) random: bool,
    pub(super) lengths: [Lengths; 3],
    pub(super) align: [Option<u64>; 3],
    pub(super) depth: u64,
    pub(super) asynchronous: bool,
    pub(super) copies: u64,
    pub(super) reads_percent: u64,
    pub(super) offset: Amount,
    pub(super) offset_increment: Amount,
    pub(super) size: Option<Amount>,
    pub(super) file_size: Option<u64>,
    pub(super) io_size: Option<Amount>,
    pub(super) most_ios: Option<u64>,
    pub(super) think_us: u64,
    pub(super) think_blocks: u64,
    pub(super) rate: [u64; 3],
    pub(super) rate_iops: [u64; 3],
    pub(super) runtime_us: u64,
    pub(super) ramp_us: u64,
    pub(super) time_based: bool,
    pub(super) sync_every: u64,
    pub(super) datasync_every: u64,
    pub(super) end_sync: bool,
    pub(super) random_percent: [u64; 3],
    pub(super) direct: bool,
    pub(super) repeatable: bool,
    pub(super) seed: Option<u64>,
    pub(super) map: bool,
    pub(super) law: Law,
    pub(super) start_delay_us: u64,
    pub(super) barrier: bool,
    pub(super) loops: u64,
    pub(super) file: Option<String>,
    pub(super) directory: String,
    pub(super) prefixes: Prefixes,
}

impl Default for Options {
    /// The defaults of fio.
    fn default() -> Options {
        Options {
            kind: Kind::Only(0),
            random: false,
            lengths: std::array::from_fn(|_| vec![(4096, 1)]),
            align: [None; 3],
            depth: 1,
            asynchronous: false,
            copies: 1,
            reads_percent: 50,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            size: None,
            file_size: None,
            io_size: None,
            most_ios: None,
            think_us: 0,
            think_blocks: 1,
            rate: [0; 3],
            rate_iops: [0; 3],
            runtime_us: 0,
            ramp_us: 0,
            time_based: false,
            sync_every: 0,
            datasync_every: 0,
            end_sync: false,
            random_percent: [100; 3],
            direct: false,
            repeatable: true,
            seed: None,
            map: true,
            law: Law::Uniform,
            start_delay_us: 0,
            barrier: false,
            loops: 1,
            file: None,
            directory: String::new(),
            prefixes: Prefixes::Compatible,
        }
    }
}

impl Options {
    /// Whether random accesses visit every block once before any block again.
    pub(super) fn maps(&self) -> bool {
        self.map && self.law == Law::Uniform && self.align == [None; 3]
    }
}

type Set = fn(&mut Options, &str) -> Result<(), String>;

/// The names of the modelled options, with the alias last.
const MODELLED: &[(&[&str], Set)] = &[
    (&["rw", "readwrite"], set_kind),
    (&["bs", "blocksize"], |job, text| {
        let prefixes = job.prefixes;
        let mut fixed = [0; 3];
        directions(text, &mut fixed, |part| size(part, prefixes).and_then(positive))?;
        for (lengths, bytes) in job.lengths.iter_mut().zip(fixed).filter(|&(_, bytes)| bytes > 0) {
            *lengths = vec![(bytes, 1)];
        }
        Ok(())
    }),
    (&["bssplit"], set_split),
    (&["ba", "blockalign"], |job, text| {
        let prefixes = job.prefixes;
        directions(text, &mut job.align, |part| size(part, prefixes).and_then(positive).map(Some))
    }),
    (&["ioengine"], set_engine),
    (&["iodepth"], |job, text| {
        job.depth = count(text).and_then(positive)?;
        Ok(())
    }),
    (&["numjobs"], |job, text| set(&mut job.copies, count(text).and_then(positive))),
    (&["rwmixread"], |job, text| set(&mut job.reads_percent, percent(text))),
    (&["rwmixwrite"], |job, text| set(&mut job.reads_percent, percent(text).map(|writes| 100 - writes))),
    (&["offset", "fileoffset"], |job, text| set(&mut job.offset, amount(text, job.prefixes))),
    (&["offset_increment"], |job, text| set(&mut job.offset_increment, amount(text, job.prefixes))),
    (&["size"], |job, text| set(&mut job.size, amount(text, job.prefixes).map(Some))),
    (&["filesize"], |job, text| {
        if text.contains('-') {
            return Err("a range of file sizes is not modelled; give one size".to_owned());
        }
        set(&mut job.file_size, size(text, job.prefixes).and_then(positive).map(Some))
    }),
    (&["io_size", "io_limit"], |job, text| set(&mut job.io_size, amount(text, job.prefixes).map(Some))),
    (&["number_ios"], |job, text| set(&mut job.most_ios, count(text).map(|ios| (ios > 0).then_some(ios)))),
    (&["thinktime"], |job, text| set(&mut job.think_us, micros(text, 1))),
    (&["thinktime_blocks"], |job, text| set(&mut job.think_blocks, count(text).map(|blocks| blocks.max(1)))),
    (&["rate"], |job, text| {
        let prefixes = job.prefixes;
        directions(text, &mut job.rate, |part| size(part, prefixes))
    }),
    (&["rate_iops"], |job, text| directions(text, &mut job.rate_iops, count)),
    (&["runtime", "timeout"], |job, text| set(&mut job.runtime_us, micros(text, 1_000_000))),
    (&["ramp_time"], |job, text| set(&mut job.ramp_us, micros(text, 1_000_000))),
    (&["time_based"], |job, text| set(&mut job.time_based, switch(text))),
    (&["fsync"], |job, text| set(&mut job.sync_every, count(text))),
    (&["fdatasync"], |job, text| set(&mut job.datasync_every, count(text))),
    (&["end_fsync", "fsync_on_close"], |job, text| set(&mut job.end_sync, switch(text))),
    (&["percentage_random"], |job, text| directions(text, &mut job.random_percent, percent)),
    (&["direct"], |job, text| set(&mut job.direct, switch(text))),
    (&["buffered"], |job, text| set(&mut job.direct, switch(text).map(|buffered| !buffered))),
    (&["randrepeat"], |job, text| set(&mut job.repeatable, switch(text))),
    (&["randseed"], |job, text| set(&mut job.seed, count(text).map(Some))),
    (&["norandommap"], |job, text| set(&mut job.map, switch(text).map(|none| !none))),
    (&["random_distribution"], set_law),
    (&["startdelay"], |job, text| {
        if text.contains('-') {
            return Err("a range of delays is not modelled; give one time".to_owned());
        }
        set(&mut job.start_delay_us, micros(text, 1_000_000))
    }),
    (&["stonewall", "wait_for_previous"], |job, text| set(&mut job.barrier, switch(text))),
    (&["loops"], |job, text| set(&mut job.loops, count(text).map(|loops| loops.max(1)))),
    (&["filename"], |job, text| match text {
        "" => Err("filename is empty".to_owned()),
        _ if text.contains(':') => Err("a list of files is not modelled; give each file a job".to_owned()),
        _ => set(&mut job.file, Ok(Some(text.to_owned()))),
    }),
    (&["directory"], |job, text| set(&mut job.directory, Ok(text.to_owned()))),
    (&["kb_base"], |job, text| {
        let prefixes = match text {
            "1024" => Ok(Prefixes::Compatible),
            "1000" => Ok(Prefixes::Standard),
            _ => Err(format!("`{text}` is not 1000 or 1024")),
        };
        set(&mut job.prefixes, prefixes)
    }),
];

/// Sets an option.
///
/// # Errors
/// A value that is not understood or not modelled, or an option that is not modelled or does not exist.
pub(super) fn set_option(job: &mut Options, name: &str, value: &str) -> Result<(), String> {
    if let Some((_, set)) = MODELLED.iter().find(|(names, _)| names.contains(&name)) {
        return set(job, value).map_err(|problem| format!("{name}: {problem}"));
    }
    if let Some(accepted) = unmodelled::judge(name, value) {
        return accepted;
    }
    let near = nearest(name, MODELLED.iter().flat_map(|(names, _)| names.iter().copied()));
    let near = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
    Err(format!("`{name}` is not an option that is modelled{near}"))
}

fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn positive(number: u64) -> Result<u64, String> {
    if number == 0 { Err("0 is too small".to_owned()) } else { Ok(number) }
}

fn percent(text: &str) -> Result<u64, String> {
    count(text).ok().filter(|&percent| percent <= 100).ok_or_else(|| format!("`{text}` is not from 0 to 100"))
}

fn set_kind(job: &mut Options, text: &str) -> Result<(), String> {
    const KINDS: &[(&str, Kind, bool)] = &[
        ("read", Kind::Only(0), false),
        ("write", Kind::Only(1), false),
        ("trim", Kind::Only(2), false),
        ("randread", Kind::Only(0), true),
        ("randwrite", Kind::Only(1), true),
        ("randtrim", Kind::Only(2), true),
        ("rw", Kind::Mixed, false),
        ("readwrite", Kind::Mixed, false),
        ("randrw", Kind::Mixed, true),
        ("trimwrite", Kind::TrimWrite, false),
        ("randtrimwrite", Kind::TrimWrite, true),
    ];
    if let Some((kind, suffix)) = text.split_once(':') {
        return Err(format!("the suffix `:{suffix}` is not modelled; write {kind}"));
    }
    let found = KINDS.iter().find(|(name, ..)| *name == text);
    let names = || KINDS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let &(_, kind, random) = found.ok_or_else(|| format!("`{text}` is not one of {}", names()))?;
    (job.kind, job.random) = (kind, random);
    Ok(())
}

fn set_engine(job: &mut Options, text: &str) -> Result<(), String> {
    job.asynchronous = match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => false,
        "libaio" | "io_uring" | "posixaio" => true,
        _ => {
            let modelled = "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio";
            return Err(format!("`{text}` is not modelled; use one of {modelled}"));
        }
    };
    Ok(())
}

fn set_law(job: &mut Options, text: &str) -> Result<(), String> {
    let (law, parameter) = text.split_once(':').map_or((text, None), |(law, parameter)| (law, Some(parameter)));
    let number = |default: f64| match parameter {
        None => Ok(default),
        Some(parameter) => parameter.parse::<f64>().map_err(|_| format!("`{parameter}` is not a number")),
    };
    job.law = match law {
        "random" if parameter.is_none() => Law::Uniform,
        "zipf" => match number(1.1)? {
            theta if theta > 0.0 && theta <= 100.0 && theta != 1.0 => Law::Zipf(theta),
            _ => return Err(format!("`{text}`: zipf's theta is above 0, at most 100 and not 1")),
        },
        "pareto" => match number(0.2)? {
            h if h > 0.0 && h < 1.0 => Law::Pareto(h),
            _ => return Err(format!("`{text}`: pareto's h is between 0 and 1")),
        },
        _ => return Err(format!("`{text}` is not modelled; use random, zipf:theta or pareto:h")),
    };
    Ok(())
}

/// `size/percent:size/percent…`, separated by commas for reads, writes and trims. Sizes without a
/// percentage share what is left of 100 evenly.
fn set_split(job: &mut Options, text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has more than three splits: reads, writes, trims"));
    }
    let splits = parts.iter().map(|part| split(part, job.prefixes)).collect::<Result<Vec<_>, _>>()?;
    for (direction, lengths) in job.lengths.iter_mut().enumerate() {
        lengths.clone_from(&splits[direction.min(splits.len() - 1)]);
    }
    Ok(())
}

fn split(text: &str, prefixes: Prefixes) -> Result<Lengths, String> {
    let mut given: Vec<(u64, Option<u32>)> = Vec::new();
    for part in text.split(':').filter(|part| !part.trim().is_empty()) {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        let share = if share.trim().is_empty() { None } else { Some(percent(share)? as u32) };
        given.push((size(bytes, prefixes).and_then(positive)?, share));
    }
    let sum: u32 = given.iter().filter_map(|&(_, share)| share).fold(0, u32::saturating_add);
    let open = given.iter().filter(|(_, share)| share.is_none()).count() as u32;
    if given.is_empty() || sum > 100 || (open == 0 && sum < 100) {
        return Err(format!("`{text}`: percentages add up to {sum}, not 100"));
    }
    // In units of 1 / (100 times the number of sizes without a share), so that their shares are whole numbers.
    let scale = open.max(1);
    let weight = |share: Option<u32>| share.map_or(100 - sum, |share| share * scale);
    let lengths = given.into_iter().map(|(bytes, share)| (bytes, weight(share)));
    Ok(lengths.filter(|&(_, weight)| weight > 0).collect())
}
