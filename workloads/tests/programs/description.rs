//! Descriptions of guests: the accepted content, and the errors with their lines.

use iocast_workloads::guest::{Event, Step};
use iocast_workloads::programs::description::{Description, PRESETS};
use traces::{Lba, Nanos, Sectors};

use crate::driver::drive;

const GOOD: &str = r#"summary = "two guests"
source = "made up"

[[guest]]
name = "a"
workload = "dd:size=1m"
capacity = "1g"
cache = "0"

[[guest]]
name = "b"
jobs = '''
[one]
size=4k
[two]
stonewall
size=4k
'''
copies = 2
capacity = "64m"
place = "3g"
cache = "16m"
"#;

#[test]
fn description_gives_workload_disk_and_place_of_each_guest() {
    let description = Description::parse("x", GOOD).unwrap();
    let [a, b] = &description.guests[..] else { panic!("two guests") };
    assert_eq!((a.place, a.capacity, a.cache_bytes, a.copies), (Lba::ZERO, Sectors::new(1 << 21), 0, 1));
    assert_eq!((b.place, b.capacity, b.cache_bytes, b.copies), (Lba::new(6 << 20), Sectors::new(1 << 17), 16 << 20, 2));
    assert_eq!(a.events(), ["run ends"]);
    assert_eq!(b.events(), ["one ends (copy 0)", "two ends (copy 0)", "one ends (copy 1)", "two ends (copy 1)"]);
    let unplaced = Description::parse("x", &GOOD.replace("place = \"3g\"\n", "")).unwrap();
    assert_eq!(unplaced.guests[1].place, Lba::new(1 << 21), "behind the one before");
}

#[test]
fn each_copy_has_its_own_files_and_events() {
    let mut populated = Description::parse("x", GOOD).unwrap().populate(1).unwrap();
    let b = populated.pop().unwrap();
    assert_eq!((b.files.count(), b.processes.len()), (4, 4));
    let run = drive(b.processes, b.files, Nanos::from_us(1), 1000);
    assert!(run.ended, "a barrier waits for the jobs of its own copy");
    let mut posted: Vec<u32> = run
        .seen
        .iter()
        .filter_map(|seen| match seen.step {
            Step::Post(Event(event)) => Some(event),
            _ => None,
        })
        .collect();
    posted.sort_unstable();
    assert_eq!(posted, [0, 1, 2, 3]);
}

#[test]
fn each_guest_and_copy_has_its_own_random_numbers() {
    let guest = "[[guest]]\nname = \"N\"\nworkload = \"fio:rw=randread,size=1m\"\ncapacity = \"1g\"\ncache = \"0\"\n\
                 copies = 2\n";
    let text = format!("summary = \"\"\nsource = \"\"\n{}{}", guest.replace('N', "a"), guest.replace('N', "b"));
    let offsets = |seed: u64| {
        let populated = Description::parse("x", &text).unwrap().populate(seed).unwrap();
        let runs = populated.into_iter().map(|guest| drive(guest.processes, guest.files, Nanos::from_us(1), 100_000));
        let of = |run: &crate::driver::Run, process| {
            run.accesses().iter().filter(|access| access.0 == process).map(|access| access.3).collect::<Vec<_>>()
        };
        runs.flat_map(|run| [of(&run, 0), of(&run, 1)]).collect::<Vec<_>>()
    };
    let first = offsets(1);
    for (index, one) in first.iter().enumerate() {
        assert_eq!(one.len(), 256);
        assert!(first[..index].iter().all(|other| other != one));
    }
    assert!(first == offsets(1) && first != offsets(2));
}

#[test]
fn errors_are_reported_with_their_line() {
    for (from, to, message) in [
        ("source =", "sauce =", " at line 2: unknown field `sauce`"),
        ("cache = \"0\"", "cache = \"0\"\ncash = 1", " at line 9: unknown field `cash`"),
        ("dd:size", "dd:sise", " at line 6: `dd` has no tunable `sise`; did you mean size?"),
        ("\"dd:size=1m\"", "\"ddd\"", " at line 6: unknown workload `ddd`; did you mean dd"),
        ("stonewall", "stonewal", " at line 16: fio job file: `stonewal` is not an option"),
        ("'''\n[one]", "'''[one]", ""),
        ("size=4k\n[two]", "siz=4k\n[two]", " at line 14: fio job file: `siz`"),
        ("name = \"b\"", "name = \"a\"", " at line 11: `a` is empty or another guest's name"),
        ("place = \"3g\"", "place = \"512m\"", " at line 21: its disk lies where that of guest `a` does"),
        ("place = \"3g\"", "place = \"700\"", " at line 21: `700` is not a whole number of 512-byte sectors"),
        ("capacity = \"1g\"", "capacity = \"16t\"", " at line 7: capacity is from 4 KiB to below 16 TiB"),
        ("capacity = \"1g\"", "capacity = \"512\"", " at line 7: capacity is from"),
        ("cache = \"16m\"", "cache = \"lots\"", " at line 22: `lots` is not a size"),
        ("copies = 2", "copies = 0", " at line 19: copies is from 1 to 1000"),
        ("copies = 2", "workload = \"dd\"", " at line 11: a guest has either a workload or jobs"),
        ("workload = \"dd:size=1m\"\n", "", " at line 5: a guest has either"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        match Description::parse("x", &text) {
            Ok(_) => assert_eq!(message, "", "{to} is accepted"),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !message.is_empty() && error.starts_with(&format!("workload description x{message}")),
                    "{error}"
                );
            }
        }
    }
    let none = Description::parse("x", "summary = \"\"\nsource = \"\"\n").unwrap_err().to_string();
    assert!(none.contains("from 1 to 1024 guests"), "{none}");
}

#[test]
fn capacity_is_from_a_block_to_a_block_below_16_tib() {
    for (bytes, is_accepted) in [(3584, false), (4096, true), ((1_u64 << 44) - 4096, true), (1 << 44, false)] {
        let text = format!(
            "summary = \"\"\nsource = \"\"\n[[guest]]\nname = \"a\"\ncapacity = \"{bytes}\"\nworkload = \"dd:size=1m\"\ncache = \"0\"\n"
        );
        let refused = Description::parse("x", &text).is_err_and(|error| error.to_string().contains("capacity is from"));
        assert_ne!(refused, is_accepted, "{bytes}");
    }
}

#[test]
fn error_in_a_job_that_starts_right_after_its_quotes_has_the_right_line() {
    let text = GOOD.replace("'''\n[one]\nsize=4k", "'''[one]\nsiz=4k");
    let error = Description::parse("x", &text).unwrap_err();
    assert_eq!(error.line, Some(13));
    let text = GOOD.replace("[one]\nsize=4k", "[one]\nsiz=4k").replace('\n', "\r\n");
    assert_eq!(Description::parse("x", &text).unwrap_err().line, Some(14));
}

#[test]
fn error_of_a_full_disk_names_the_guest() {
    let text = GOOD.replace("dd:size=1m", "dd:size=2g");
    let error = Description::parse("x", &text).unwrap().populate(1).err().unwrap().to_string();
    assert!(
        error.starts_with("workload description x at line 4: guest `a`: the file system of 2097152 sectors is full"),
        "{error}"
    );
}

#[test]
fn the_files_and_processes_of_all_guests_are_bounded() {
    let problem = |workload: &str, copies: u64, guests: usize| {
        let guest = |number: usize| {
            let place = number * 64;
            format!(
                "[[guest]]\nname = \"{number}\"\nworkload = \"{workload}\"\ncopies = {copies}\ncache = \"0\"\n\
                 place = \"{place}g\"\ncapacity = \"64g\"\n"
            )
        };
        let guests: String = (0..guests).map(guest).collect();
        let description = Description::parse("x", &format!("summary = \"a\"\nsource = \"b\"\n{guests}")).unwrap();
        description.populate(1).err().map(|error| error.to_string())
    };
    let processes = "fio:size=4k,numjobs=1000";
    assert_eq!(problem(processes, 50, 2), None);
    let of_one = problem(processes, 101, 1).unwrap();
    assert!(
        of_one.contains("x at line 3: guest `0`: with 101000 files and 101000 processes there are too many"),
        "{of_one}"
    );
    assert!(problem(processes, 51, 2).unwrap().contains("guest `1`: with 102000 files and 102000 processes"));
}

#[test]
fn every_preset_has_guests_that_fit_their_disks() {
    for (name, _) in PRESETS {
        let description = Description::find(name).unwrap();
        assert!(!description.summary.is_empty() && !description.source.is_empty(), "{name}");
        let populated = description.populate(1).unwrap();
        assert!(populated.iter().all(|guest| !guest.processes.is_empty()), "{name}");
    }
}

#[test]
fn descriptions_are_found_by_name_and_by_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, GOOD).unwrap();
    assert_eq!(Description::find(&path.display().to_string()).unwrap().guests.len(), 2);
    let error = Description::find("kim2015-d").unwrap_err().to_string();
    assert!(error.contains("did you mean kim2015-dd"), "{error}");
    let error = Description::find("absent.toml").unwrap_err().to_string();
    assert!(error.starts_with("workload description absent.toml: "), "{error}");
}
