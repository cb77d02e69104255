//! Three examples below the help of each subcommand, and the headings under which its options stand.

use clap::Command;

/// The subcommand, by the names on the way to it, and its examples: what each does, and its line.
type Examples = (&'static [&'static str], [(&'static str, &'static str); 3]);

/// The examples of each subcommand.
const EXAMPLES: &[Examples] = &[
    (
        &["compare"],
        [
            (
                "Two schedulers on a Cheetah; requests wait for their completions as in the trace",
                "iocast compare web.parquet --schedulers deadline,cats --drive cheetah-15k4 --pacing closed",
            ),
            (
                "Two VMs on one drive, 64 GiB apart, each with its own figures",
                "iocast compare --vm web=web.parquet --vm mail=mail.parquet@64g --pacing closed --per-vm",
            ),
            (
                "Linux's schedulers on two drives side by side, and a picture",
                "iocast compare web.parquet --pacing closed --drive nvme-ssd --drive sata-7200 -o web",
            ),
        ],
    ),
    (
        &["sweep"],
        [
            ("All tasks of a plan on all cores; goes on where it was killed", "iocast sweep plan.toml --out sweep"),
            ("The third of 16 shares, in a job of a Slurm array", "iocast sweep plan.toml --out sweep --shard 3/16"),
            (
                "On a cluster of Apache Spark",
                "iocast sweep plan.toml --out sweep --engine spark --master spark://spark.example.org:7077",
            ),
        ],
    ),
    (
        &["tune"],
        [
            (
                "Shorter p99 of reads, if requests/s fall by at most 2 %",
                "iocast tune day*.parquet --scheduler mq-deadline --for p99_read --limit throughput=-2% --pacing closed --out tune",
            ),
            (
                "Two tunables in ranges of your own, another one fixed, proven on the traces of Friday",
                "iocast tune day*.parquet --scheduler mq-deadline:front_merges=off --tunables fifo_batch=1..64,read_expire=50ms..2s --hold-out friday.parquet --out tune",
            ),
            (
                "On an SSD, more candidates, on a cluster of Apache Spark",
                "iocast tune day*.parquet --scheduler kyber --drive sata-ssd --candidates 81 --out tune --engine spark --master yarn",
            ),
        ],
    ),
    (
        &["worker"],
        [
            ("Tasks in an Arrow stream", "iocast worker < tasks.arrows > results.arrows"),
            ("From a program that makes them", "iocast worker < tasks.fifo > results.fifo"),
            ("The first results only: the worker ends when nobody reads", "iocast worker < tasks.arrows | head -c 1m"),
        ],
    ),
    (
        &["report"],
        [
            ("From a comparison that kept what happened over time", "iocast report result.json -o result.html"),
            ("With each chart as a picture", "iocast report result.json -o result.html --figures pictures"),
            (
                "Response times by VM and operation, of what `iocast compare --per-request` wrote",
                "iocast report requests.parquet --by vm,operation --quantile 0.5,0.99,0.999",
            ),
        ],
    ),
    (
        &["diff"],
        [
            ("What a change of a scheduler did", "iocast diff before.json after.json"),
            (
                "For a pull request: nothing may change by more than 2 %",
                "iocast diff before.json after.json --threshold 2% --output-format markdown",
            ),
            ("Thresholds by figure", "iocast diff before.json after.json --threshold limits.toml"),
        ],
    ),
    (
        &["bench", "init"],
        [
            ("A scheduler of your own beside mq-deadline on a Cheetah", "iocast bench init mine --traces web.parquet"),
            (
                "The first half minute of two VMs, beside two schedulers, on a SATA disk",
                "iocast bench init mine --traces web.parquet mail.parquet --schedulers bfq,none --drive sata-7200 --end 30s",
            ),
            ("With the packages of a checkout", "iocast bench init mine --traces web.parquet --iocast ~/iocast"),
        ],
    ),
    (
        &["convert"],
        [
            ("A capture of blktrace as one small file", "iocast convert web web.parquet"),
            ("The same requests for fio", "iocast convert web.parquet web.iolog"),
            (
                "The second minute, without names and addresses that identify the owner",
                "iocast convert web.parquet shared.parquet --start 1min --end 2min --anonymise key.txt --anonymise-lba",
            ),
        ],
    ),
    (
        &["stat"],
        [
            ("Times between stages, queues, seeks, sizes", "iocast stat web.parquet"),
            ("A report with pictures, to look at and to pass on", "iocast stat web.parquet --report web.html"),
            ("What a disk of this host does now, and which VM or process asks for it", "iocast stat --live /dev/vdb"),
        ],
    ),
    (
        &["replay"],
        [
            ("The reads of a trace at their recorded times", "iocast replay web.parquet --device /dev/sdb"),
            (
                "A scheduler in front of the device; the requests as a trace",
                "iocast replay web.parquet --device /dev/sdb --pacing closed --scheduler cats --depth 1 -o run.parquet",
            ),
            (
                "Two VMs on a file, twice as fast, with their writes",
                "iocast replay web.parquet mail.parquet --device disk.img --map remap --pacing scaled=0.5 --allow-writes",
            ),
        ],
    ),
    (
        &["predict"],
        [
            ("Two VMs that will share a device, from a trace of each alone", "iocast predict mail.parquet web.parquet"),
            (
                "On another drive, beside a replay; the VMs' disks lie 64 GiB apart",
                "iocast predict mail.parquet@0 web.parquet@64g --drive cheetah-15k4-mechanical",
            ),
            (
                "Two predictors, and profiles of the VMs for later forecasts",
                "iocast predict mail.parquet web.parquet --predictors twin,casale -o forecast",
            ),
        ],
    ),
    (
        &["place"],
        [
            ("VMs on LUNs within the limits of a plan", "iocast place plan.toml"),
            ("With a picture of how much VMs slow each other down", "iocast place plan.toml -o plan"),
            ("For a program", "iocast place plan.toml --output-format json"),
        ],
    ),
    (
        &["serve"],
        [
            (
                "A Cheetah in memory for VMs of this host",
                "iocast serve --drive cheetah-15k4 --image memory:8g --listen unix:/tmp/lun",
            ),
            (
                "Two LUNs of one drive that may be written to, with a log of all requests",
                "iocast serve --drive atlas-10k --image disk.img --create 4g --export a@0:2g --export b@2g:2g \
             --allow-writes --listen tcp:10809 --log served.parquet",
            ),
            (
                "Behind a scheduler",
                "iocast serve --drive cheetah-15k4 --image memory:8g --scheduler cats --listen unix:/tmp/lun",
            ),
        ],
    ),
    (
        &["calibrate"],
        [
            ("Measure a disk by reads, and write its profile", "iocast calibrate --device /dev/sdb -o sdb"),
            ("The mechanical model only", "iocast calibrate --device /dev/sdb --models mechanical -o sdb"),
            ("From a trace that was recorded on the disk", "iocast calibrate sdb.parquet -o sdb"),
        ],
    ),
    (
        &["calibrate", "qpn"],
        [
            (
                "Captures of readers alone, writers alone, and both",
                "iocast calibrate qpn 10/0=r10.parquet 50/0=r50.parquet 0/10=w10.parquet 0/50=w50.parquet 20/20=m.parquet",
            ),
            (
                "Captures of threads that never think, which are counted, and files for later forecasts",
                "iocast calibrate qpn r10.parquet r50.parquet w10.parquet w50.parquet m.parquet -o storage",
            ),
            (
                "Without the first minute of each capture",
                "iocast calibrate qpn r10.parquet w10.parquet m.parquet --start 1min",
            ),
        ],
    ),
    (
        &["validate"],
        [
            (
                "Our scheduler against decisions of the kernel's",
                "iocast validate decisions sdb-decisions --scheduler mq-deadline",
            ),
            ("A drive model against measured times", "iocast validate drive cheetah-9lp cheetah9lp.validate"),
            ("Forecasts against a lab's measurements", "iocast validate consolidation lab-results"),
        ],
    ),
    (
        &["validate", "closed"],
        [
            ("A capture on the drive that is its own fit", "iocast validate closed file.parquet"),
            (
                "On the drive that it was recorded on",
                "iocast validate closed web.parquet --drive cheetah-15k4-mechanical",
            ),
            (
                "For a program",
                "iocast validate closed web.parquet --drive cheetah-15k4-mechanical --output-format json",
            ),
        ],
    ),
    (
        &["validate", "cross"],
        [
            ("The VMs of two labs, each from one device to the other", "iocast validate cross lab-disk lab-ssd"),
            (
                "Those that a model is made on, of a split that was drawn before",
                "iocast validate cross disk slow array ssd --split split.toml --part train",
            ),
            ("Simulated guests on six devices", "iocast validate cross --synthetic --vms 20 --seed 7"),
        ],
    ),
    (
        &["validate", "decisions"],
        [
            (
                "A capture of `iocast capture decisions`",
                "iocast validate decisions sdb-decisions --scheduler mq-deadline",
            ),
            (
                "In CI: code 3 if fewer than 95 % agree",
                "iocast validate decisions sdb-decisions --scheduler bfq --min-agreement 95%",
            ),
            ("Throughput and times of a free run", "iocast validate decisions sdb-decisions --scheduler kyber --free"),
        ],
    ),
    (
        &["validate", "drive"],
        [
            ("A shipped drive", "iocast validate drive cheetah-9lp cheetah9lp.validate"),
            ("A profile of your own", "iocast validate drive sdb-mechanical.toml sdb.validate"),
            ("For a program", "iocast validate drive cheetah-9lp cheetah9lp.validate --output-format json"),
        ],
    ),
    (
        &["validate", "guest"],
        [
            (
                "Four schedulers of Linux on a plan's workloads, real and simulated",
                "iocast validate guest plan.toml -o guests",
            ),
            (
                "Two schedulers, from a longer capture",
                "iocast validate guest plan.toml --schedulers none,bfq --capture-seconds 120",
            ),
            ("Runs that were made before", "iocast validate guest guests --output-format markdown"),
        ],
    ),
    (
        &["validate", "scheduler"],
        [
            ("One of ours, with a tunable", "iocast validate scheduler mq-deadline:fifo_batch=1"),
            (
                "One in a shared library; in CI: code 3 if it breaks a promise",
                "iocast validate scheduler plugin:./libmine.so",
            ),
            ("More sequences, from another seed", "iocast validate scheduler bfq --sequences 10000 --seed 20000"),
        ],
    ),
    (
        &["reproduce"],
        [
            ("The tables and figures of a paper", "iocast reproduce geist2010"),
            ("Quickly, with one seed", "iocast reproduce kim2015 --seeds 1"),
            ("With files and pictures", "iocast reproduce casale2011 -o casale"),
        ],
    ),
    (
        &["kernel-scheduler", "build"],
        [
            ("The scheduler of an unpacked kernel", "iocast kernel-scheduler build linux/block/mq-deadline.c -o mq.so"),
            (
                "A changed copy, compiled against the same kernel",
                "iocast kernel-scheduler build mine/block/bfq-iosched.c --tree linux -o bfq.so",
            ),
            (
                "For a kernel with 1000 ticks in a second; an older library is overwritten",
                "iocast kernel-scheduler build linux/block/kyber-iosched.c --hz 1000 -o kyber.so --force",
            ),
        ],
    ),
    (
        &["list"],
        [
            ("All schedulers with their tunables", "iocast list schedulers"),
            ("One of them", "iocast list schedulers cats"),
            ("A drive with the values of its profile", "iocast list drives cheetah-15k4"),
        ],
    ),
    (
        &["doctor"],
        [
            ("All needs of all subcommands", "iocast doctor"),
            ("Those of one; exit code 1 if it cannot run here", "iocast doctor --for capture lab"),
            ("For a program", "iocast doctor --output-format json"),
        ],
    ),
    (
        &["completions"],
        [
            ("For bash, until the shell ends", "iocast completions bash > iocast.bash && . ./iocast.bash"),
            ("For zsh, in a folder of fpath", "iocast completions zsh > ~/.zfunc/_iocast"),
            ("For fish", "iocast completions fish > ~/.config/fish/completions/iocast.fish"),
        ],
    ),
    (
        &["man"],
        [
            ("The page of the program", "iocast man | man -l -"),
            ("That of a subcommand", "iocast man capture block | man -l -"),
            ("A file for each page", "iocast man -o man1"),
        ],
    ),
    (
        &["capture", "block"],
        [
            ("A disk for a minute", "iocast capture block /dev/vdb -w 60 -o web.parquet"),
            (
                "All disks of KVM guests, always on: histograms by second and VM",
                "iocast capture block /dev/vdb /dev/vdc --histograms --vm-by cgroup --rotate 64m --keep 20 -o host.jsonl",
            ),
            (
                "Always on and cheap: raw, the last 5 GB",
                "iocast capture block /dev/vdb --raw --rotate 256m --keep 20 -o web",
            ),
        ],
    ),
    (
        &["capture", "iscsi"],
        [
            ("An interface for a minute", "iocast capture iscsi --interface eth0 -w 60s -o san.parquet"),
            ("A file of tcpdump or Wireshark", "iocast capture iscsi --read san.pcapng.gz -o san.parquet"),
            ("A target on another port", "iocast capture iscsi --interface eth0 -w 60s --port 3261 -o san.parquet"),
        ],
    ),
    (
        &["capture", "decisions"],
        [
            ("For half a minute", "iocast capture decisions /dev/vdb -w 30"),
            ("With names of one's own", "iocast capture decisions /dev/vdb -w 30 -o busy"),
            ("Under a heavy load", "iocast capture decisions /dev/vdb -w 30 --buffer 64m"),
        ],
    ),
    (
        &["capture", "lab"],
        [
            ("Run a plan", "iocast capture lab pairs.toml"),
            ("With results elsewhere", "iocast capture lab pairs.toml -o results"),
            ("Go on where it was interrupted", "iocast capture lab pairs.toml -o results --resume"),
        ],
    ),
    (
        &["capture", "scrub"],
        [
            ("A capture without user data", "iocast capture scrub san.pcapng clean.pcapng"),
            ("With the names of the login", "iocast capture scrub san.pcapng clean.pcapng --keep-login"),
            ("A target on another port", "iocast capture scrub san.pcapng clean.pcapng --port 3261"),
        ],
    ),
];

/// The headings under which options stand, by their ids. Others stand under clap's own heading.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "How traces are read",
        &["at", "input_format", "op", "time_unit", "address_unit", "length_unit", "think_time", "layer", "lenient"],
    ),
    ("Part of the traces", &["start", "end", "limit"]),
    (
        "Queue in front of the drive",
        &["depth", "write_depth", "look_ahead", "merge", "max_request", "max_segments", "max_queue"],
    ),
    ("Stack of layers", &["stacks", "stack", "in"]),
    ("Generated workloads", &["workloads", "guest_capacity", "guest_cache", "guest_journal"]),
    (
        "Results",
        &[
            "output",
            "output_format",
            "force",
            "size",
            "picture_size",
            "details",
            "mechanisms",
            "series",
            "interval",
            "decision_log",
            "per_request",
            "per_vm",
            "until",
            "misses",
            "requests",
            "top",
            "report",
            "statistics",
            "log",
            "digest",
        ],
    ),
];

/// The command line with examples and headings.
pub fn explained(command: Command) -> Command {
    EXAMPLES.iter().fold(headed(command), |command, (path, examples)| at(command, path, examples))
}

/// Puts the options of every subcommand under their headings.
fn headed(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = command.mut_args(|argument| {
        let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&argument.get_id().as_str()));
        match heading {
            Some((heading, _)) if !argument.is_positional() => argument.help_heading(*heading),
            _ => argument,
        }
    });
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, headed))
}

fn at(command: Command, path: &[&'static str], examples: &[(&str, &str)]) -> Command {
    let [name, rest @ ..] = path else {
        let lines: Vec<String> = examples.iter().map(|(what, line)| format!("  # {what}\n  {line}\n")).collect();
        let before = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
        return command.after_help(format!("{before}Examples:\n{}", lines.join("\n")));
    };
    command.mut_subcommand(*name, |command| at(command, rest, examples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Cli;

    #[test]
    fn every_example_is_accepted() {
        for (path, examples) in EXAMPLES {
            for (_, line) in examples {
                // The shell takes the rest.
                let words = line.split_whitespace().take_while(|word| !["|", "<", ">"].contains(word));
                let matched = Cli::command_line().try_get_matches_from(words);
                assert!(matched.is_ok(), "{line}: {}", matched.unwrap_err());
                assert!(line.starts_with(&format!("iocast {}", path[0])), "{line} is an example of {path:?}");
            }
        }
    }

    #[test]
    fn every_subcommand_that_does_something_has_examples() {
        let command = Cli::command_line();
        for subcommand in command.get_subcommands() {
            let has = |name: &str| EXAMPLES.iter().any(|(path, _)| path[0] == name);
            assert!(has(subcommand.get_name()), "{}", subcommand.get_name());
        }
    }
}
