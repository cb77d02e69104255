//! Our reading of job files against fio itself: the values that it parses, and the accesses that it logs on a file in a
//! temporary folder. fio must be installed (`make tools`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use iocast_workloads::guest::Step;
use iocast_workloads::programs::build_jobs;
use iocast_workloads::programs::fio::Jobs;
use traces::Operation;

use crate::driver::run_jobs;

fn fio(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("fio").args(arguments).current_dir(folder).output();
    output.unwrap_or_else(|error| panic!("fio is needed for this test (`make tools` installs it): {error}"))
}

/// A logged access: `r`ead, `w`rite or `s`ync, offset and bytes.
type Logged = (char, u64, u64);

/// The accesses of fio for a job, from its log.
fn peer(job: &str) -> Vec<Logged> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.fio"), format!("[global]\nwrite_iolog=log\nioengine=psync\n{job}")).unwrap();
    let output = fio(folder.path(), &["job.fio"]);
    assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let logged = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| ["read", "write", "sync", "datasync"].contains(word))?;
        let number = |index: usize| words.get(index).map_or(0, |word| word.parse().unwrap());
        match words[at] {
            "sync" | "datasync" => Some(('s', 0, 0)),
            word => Some((word.chars().next().unwrap(), number(at + 1), number(at + 2))),
        }
    };
    log.lines().filter_map(logged).collect()
}

/// Our accesses for it.
fn ours(job: &str) -> Vec<Logged> {
    let logged = |step: Step| match step {
        Step::Access(access) | Step::Start(access) => {
            let operation = if access.operation == Operation::Read { 'r' } else { 'w' };
            Some((operation, access.offset.bytes(), access.sectors.bytes()))
        }
        Step::Sync(_) => Some(('s', 0, 0)),
        _ => None,
    };
    run_jobs(&format!("[global]\nwrite_iolog=log\nioengine=psync\n{job}"))
        .seen
        .iter()
        .filter_map(|seen| logged(seen.step))
        .collect()
}

/// Checks each job in a thread of its own: fio waits most of the time that it takes.
fn side_by_side<Job: Copy + Send + Sync>(jobs: &[Job], check: impl Fn(Job) + Sync) {
    std::thread::scope(|scope| {
        for &job in jobs {
            let check = &check;
            scope.spawn(move || check(job));
        }
    });
}

#[test]
fn sequential_accesses_equal_those_of_fio() {
    side_by_side(
        &[
            "rw=write\nbs=64k\nsize=1m",
            "rw=read\nbs=64k\nsize=1000k",
            "rw=write\nbs=64k\nsize=1m\nio_size=1536k",
            "rw=write\nbs=64k\nsize=1m\nio_size=1500k",
            "rw=write\nbs=64k\nsize=1m\nio_size=1030k",
            "rw=write\nbs=64k\nsize=1m\nio_size=500k",
            "rw=write\nbs=64k\nsize=1m\nio_size=50%",
            "rw=write\nbs=64k\nsize=1000k\nloops=3",
            "rw=write\nbs=64k\nsize=1m\nloops=2\nio_size=512k",
            "rw=write\nbs=64k\nsize=512k\nfilesize=2m",
            "rw=write\nbs=64k\nsize=512k\nfilesize=2m\nio_size=1m",
            "rw=write\nbs=64k\nsize=512k\nfilesize=2m\nloops=6",
            "rw=write\nbs=64k\nfilesize=2m\noffset=512k",
            "rw=write\nbs=64k\nsize=4m\nfilesize=1m",
            "rw=write\nbs=64k\nsize=50%\nfilesize=2m",
            "rw=write\nbs=64k\nsize=1m\noffset=256k",
            "rw=write\nbs=64k\nsize=512k\nfsync=3",
            "rw=write\nbs=64k\nsize=512k\nfsync=4\nend_fsync=1",
            "rw=write\nbs=64k\nsize=512k\nfdatasync=3\nloops=2",
            "rw=write\nbs=4ki\nsize=16ki",
            "rw=write\nbs=4kib\nsize=17kb\nkb_base=1000",
            "rw=write\nbs=512\nsize=4kib",
            "rw=write\nbs=0x1000\nsize=16K",
            "rw=write\nbs=4k\nsize=1m\nnumber_ios=7",
            "readwrite=write\nblocksize=4k ; eight\nsize=32k # of them\n\n# all",
        ],
        |options| {
            let job = format!("[j]\nfilename=f\n{options}\n");
            assert_eq!(ours(&job), peer(&job), "{options}");
        },
    );
}

/// Figures of some logs: accesses and bytes of each kind, distinct places, accesses that continue the one
/// before of their kind, and how many there are of each length.
#[derive(Default)]
struct Shape {
    accesses: BTreeMap<char, usize>,
    bytes: u64,
    distinct: usize,
    continued: usize,
    lengths: BTreeMap<u64, usize>,
}

/// Adds the accesses of a log.
fn add(shape: &mut Shape, log: &[Logged]) {
    shape.bytes += log.iter().map(|logged| logged.2).sum::<u64>();
    shape.distinct += log.iter().filter(|logged| logged.0 != 's').map(|logged| logged.1).collect::<BTreeSet<_>>().len();
    let mut ends: BTreeMap<char, u64> = BTreeMap::new();
    for &(kind, offset, bytes) in log {
        *shape.accesses.entry(kind).or_default() += 1;
        if kind != 's' {
            *shape.lengths.entry(bytes).or_default() += 1;
            shape.continued += usize::from(ends.insert(kind, offset + bytes) == Some(offset));
        }
    }
}

/// Runs of each job that are added up.
const SEEDS: u64 = 4;

/// Whether two counts differ by at most a percentage of the larger total, or by at most 3.
fn near(ours: usize, theirs: usize, of: usize, percent: usize) -> bool {
    ours.abs_diff(theirs) <= (of * percent / 100).max(3)
}

#[test]
fn random_accesses_have_the_same_distribution_as_in_fio() {
    side_by_side(
        &[
            "rw=randread\nbs=4k\nsize=8m",
            "rw=randwrite\nbs=16k\nsize=8m\nnorandommap",
            "rw=randwrite\nbs=4k\nsize=4m\nio_size=6m",
            "rw=randwrite\nbs=12k\nsize=4m",
            "rw=randwrite\nbs=4k\nsize=4m\nloops=3",
            "rw=randwrite\nbs=4k\nsize=2m\nfilesize=8m",
            "rw=randwrite\nbs=4k\nsize=1m\nfilesize=4m\nio_size=2m",
            "rw=randwrite\nbs=16k\nba=4k\nsize=4m",
            "rw=randwrite\nbs=16k\nblockalign=64k\nsize=4m",
            "rw=randread\nbs=4k\nsize=8m\npercentage_random=20",
            "rw=randread\nbs=4k\nsize=8m\nrandom_distribution=zipf:1.2",
            "rw=randread\nbs=4k\nsize=8m\nrandom_distribution=zipf:0.7",
            "rw=randread\nbs=4k\nsize=8m\nrandom_distribution=pareto:0.2",
            "rw=randwrite\nbssplit=4k/50:64k/50\nsize=64m\nnorandommap",
            "rw=randwrite\nbssplit=4k/50:64k/50\nsize=64m",
            "rw=write\nbssplit=4k/10:64k/50:32k/\nsize=32m",
            "rw=rw\nbs=4k\nsize=8m\nrwmixread=25",
            "rw=rw\nbs=4k\nsize=4m\nio_size=6m",
            "rw=randrw\nbs=4k\nsize=8m\nrwmixwrite=30\nfsync=16",
            "rw=rw\nbs=4k,16k\nsize=8m",
        ],
        has_the_same_shape,
    );
}

fn has_the_same_shape(options: &str) {
    let (mut modelled, mut theirs) = (Shape::default(), Shape::default());
    for seed in 1..=SEEDS {
        let job = format!("[j]\nfilename=f\nrandseed={seed}\n{options}\n");
        add(&mut modelled, &ours(&job));
        add(&mut theirs, &peer(&job));
    }
    let ours = modelled;
    let total: usize = theirs.accesses.values().sum();
    for kind in ['r', 'w', 's'] {
        let count = |shape: &Shape| shape.accesses.get(&kind).copied().unwrap_or(0);
        assert!(near(count(&ours), count(&theirs), total, 4), "{options}: {kind} {} {}", count(&ours), count(&theirs));
    }
    assert!(ours.bytes.abs_diff(theirs.bytes) <= 65_536 * SEEDS, "{options}: {} {} bytes", ours.bytes, theirs.bytes);
    assert!(near(ours.distinct, theirs.distinct, total, 4), "{options}: {} {} places", ours.distinct, theirs.distinct);
    assert!(near(ours.continued, theirs.continued, total, 3), "{options}: {} {}", ours.continued, theirs.continued);
    for (bytes, &count) in theirs.lengths.iter().filter(|&(_, &count)| count * 20 > total) {
        let mine = ours.lengths.get(bytes).copied().unwrap_or(0);
        assert!(near(mine, count, total, 4), "{options}: {bytes} bytes: {mine} {count}");
    }
}

/// A number as fio's parser reports it for an option.
fn parsed_by_fio(option: &str, value: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let output =
        fio(folder.path(), &["--parse-only", "--debug=parse", "--name=a", "--size=1g", &format!("--{option}={value}")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let behind = text.split(&format!("__handle_option={option},")).last().unwrap_or_else(|| panic!("{text}"));
    let number = behind.split("out=").nth(1).unwrap_or_else(|| panic!("{option}={value}: {text}"));
    number.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn sizes_are_read_as_fio_reads_them() {
    for (value, bytes) in [("64k", 65_536), ("64KB", 65_536), ("64ki", 65_536), ("64kib", 64_000), ("1mib", 1_000_000)]
    {
        assert_eq!(parsed_by_fio("size", value), bytes, "{value}");
        let run = run_jobs(&format!("[a]\nbs=512\nsize={value}\n"));
        assert_eq!(run.moved().0, bytes / 512 * 512, "{value}");
    }
}

/// A span of time decides when a job of direct reads of 100 us ends.
#[test]
fn times_are_read_as_fio_reads_them() {
    for (value, us) in [("3", 3_000_000), ("250ms", 250_000), ("400us", 400), ("1m", 60_000_000), ("700msec", 700_000)]
    {
        assert_eq!(parsed_by_fio("startdelay", value), us, "{value}");
        let run = run_jobs(&format!("[a]\nsize=4k\ndirect=1\nstartdelay={value}\n"));
        assert_eq!(run.end.as_ns(), (us + 100) * 1000, "{value}");
    }
    for (value, us) in [("300", 300), ("2ms", 2000), ("1s", 1_000_000)] {
        assert_eq!(parsed_by_fio("thinktime", value), us, "{value}");
        let run = run_jobs(&format!("[a]\nsize=4k\ndirect=1\nthinktime={value}\n"));
        assert_eq!(run.end.as_ns(), (us + 100) * 1000, "{value}");
    }
}

/// How long fio runs a job, in milliseconds.
fn runtime_of(job: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.fio"), job).unwrap();
    let output = fio(folder.path(), &["job.fio", "--output-format=json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let number = text.split("\"job_runtime\" : ").nth(1).unwrap_or_else(|| panic!("{job}: {text}"));
    number.split(',').next().unwrap().parse().unwrap()
}

/// How often fio may be held up before its time counts against us.
const RUNS_MAX: usize = 30;

/// Rates and pauses decide how long these take, and next to them the 100 us that our accesses take and its do
/// not. A busy machine holds fio up, but makes it no faster: the shortest of its runs counts, and it runs again
/// while that is too long.
#[test]
fn rates_and_pauses_take_as_long_as_in_fio() {
    let jobs = [
        "rate_iops=100",
        "rate=200k",
        "thinktime=10ms\nthinktime_blocks=10",
        "rw=rw\nsize=1600k\nrate_iops=100,300",
        "rate_iops=100\nthinktime=20ms\nthinktime_blocks=10",
        "startdelay=1\nruntime=500ms\ntime_based\nthinktime=1ms",
    ];
    side_by_side(&jobs, |options| {
        let job = format!("[j]\nfilename=f\nioengine=psync\nbs=4k\nsize=400k\n{options}\n");
        let run = run_jobs(&job);
        let first = run.seen.iter().find(|seen| matches!(seen.step, Step::Access(_))).unwrap().at;
        let accesses = run.seen.iter().filter(|seen| matches!(seen.step, Step::Access(_))).count() as u64;
        let ours = run.end.since(first).as_ns() / 1_000_000;
        let mut theirs = u64::MAX;
        for _ in 0..RUNS_MAX {
            theirs = theirs.min(runtime_of(&job));
            assert!((theirs + accesses / 10) * 100 >= ours * 95, "{options}: {ours} ms, fio only {theirs} ms");
            if theirs <= ours * 3 / 2 + 50 {
                return;
            }
        }
        panic!("{options}: {ours} ms, the shortest of {RUNS_MAX} runs of fio {theirs} ms");
    });
}

#[test]
fn both_refuse_the_same_job_files() {
    let options = [
        ("rw=randread\nsize=1m", true),
        ("rw=randreed\nsize=1m", false),
        ("size=1m\niodepht=3", false),
        ("size=1m\nrwmixread=101", false),
        ("size=1m\niodepth=0", false),
        ("size=1m\nbs=4k\nstonewall\ngroup_reporting\nthread=1\nnice=5", true),
        ("size=1m\nnrfiles=1\nverify=0\nsync=0\nsync=none\nexitall=0\natomic=0\npre_read=0\ncreate_only=0", true),
        ("size=1m\nfile_append=0\nfill_device=0\nbs_unaligned=0\nzonemode=none\nio_submit_mode=inline", true),
        ("size=1m\niodepth_batch=1\niodepth_batch_complete_min=1\nrate_process=linear\nrw_sequencer=identical", true),
        ("size=1m\nrate_ignore_thinktime=0\nthinktime_blocks_type=complete\nthinktime_iotime=0\nwrite_barrier=0", true),
        ("size=1m\nrandom_distribution=zipf:1.0", false),
        ("size=1m\nrandom_distribution=pareto:1.5", false),
        ("size=1m\nrandom_distribution=bogus", false),
    ];
    side_by_side(&options, |(options, accepted)| {
        let folder = tempfile::tempdir().unwrap();
        let job = format!("[a]\n{options}\n");
        std::fs::write(folder.path().join("job.fio"), &job).unwrap();
        assert_eq!(fio(folder.path(), &["--parse-only", "job.fio"]).status.success(), accepted, "fio: {options}");
        assert_eq!(Jobs::parse("test", &job).is_ok(), accepted, "{options}");
    });
}

/// Options that we accept exist, and options that exist are either accepted or named in the refusal.
#[test]
fn every_option_of_fio_is_accepted_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let help = fio(folder.path(), &["--cmdhelp=all"]);
    let text = String::from_utf8(help.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 200);
    let mut accepted = 0;
    for name in names.iter().map(|name| name.trim_end_matches(':')) {
        match build_jobs("test", &format!("[a]\nsize=1m\nruntime=1\n{name}=\n")) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(error.line == Some(4) && error.problem.contains(name), "{name}: {error}"),
        }
    }
    assert!(accepted > 80, "{accepted}");
}
