//! Descriptions of stacks: the accepted forms, the refused forms and their messages.

use iocast_replay::stack::{LAYER_SETTINGS, PRESETS, StackSpec};
use schedulers::Registry;
use traces::{Lba, Operation, Request, Sectors, StreamId, Timestamp};

use crate::support::{drives, replay_in, requests_of};

fn refusal(text: &str) -> String {
    StackSpec::of(text).unwrap_err().to_string()
}

fn toml_refusal(text: &str) -> String {
    StackSpec::from_toml("my.toml", text, &Registry::builtin()).unwrap_err().to_string()
}

#[test]
fn every_shipped_stack_is_valid_and_names_its_origin() {
    for preset in PRESETS {
        let stack = StackSpec::of(preset.name).unwrap();
        assert_eq!(stack.to_string(), preset.line, "{} is not written as it is read", preset.name);
        assert!(!preset.summary.is_empty() && !preset.origin.is_empty());
        for drive in drives() {
            let load = requests_of(3, 40);
            assert_eq!(replay_in(&stack, drive, &load).completed.len(), load.len(), "{} on {drive}", preset.name);
        }
    }
}

#[test]
fn line_and_file_with_equal_content_give_equal_stacks() {
    let line = "guest=cfq-3.5@depth=32,look_ahead=on,max_request=44k/hypervisor=ba:S_quantum=2s,depth=8@queue=64\
                /lun=fifo@depth=32,write_depth=16,delay_up=200us,per_vm=off";
    let file = r#"
        [[layer]]
        name = "guest"
        scheduler = "cfq-3.5"
        settings = { depth = 32, look_ahead = true, max_request = "44k" }

        [[layer]]
        name = "hypervisor"
        scheduler = "ba:S_quantum=2s,depth=8"
        settings.queue = 64

        [[layer]]
        name = "lun"
        scheduler = "fifo"
        [layer.settings]
        depth = 32
        write_depth = 16
        delay_up = "200us"
        per_vm = false
    "#;
    let (line, file) =
        (StackSpec::of(line).unwrap(), StackSpec::from_toml("my.toml", file, &Registry::builtin()).unwrap());
    assert_eq!(line.layers.len(), 3);
    for (one, other) in line.layers.iter().zip(&file.layers) {
        assert_eq!((&one.name, &one.scheduler, &one.settings), (&other.name, &other.scheduler, &other.settings));
    }
    assert_eq!(line.to_string(), line.name);
}

#[test]
fn defaults_of_a_layer_are_those_of_compare_without_a_stack() {
    let stack = StackSpec::of("device=deadline").unwrap();
    let settings = &stack.layers[0].settings;
    assert_eq!(settings.iter().count(), LAYER_SETTINGS.len());
    assert_eq!((settings.count("depth"), settings.word("look_ahead"), settings.word("merge")), (1, "off", "on"));
    assert_eq!(settings.bytes("max_request"), 1280 * 1024);
}

#[test]
fn first_of_several_layers_has_a_stage_for_each_vm() {
    // With one stage for each VM both VMs send a request at once; a shared stage of depth 1 sends one after the other.
    let served = |line: &str| {
        let log = replay_in(&StackSpec::of(line).unwrap(), "fixed", &requests_of(2, 2));
        log.events.iter().filter(|(now, letter, _)| *letter == 'D' && now.as_ns() == 0).count()
    };
    assert_eq!(served("guest=fifo/device=fifo@depth=8"), 2);
    assert_eq!(served("guest=fifo@per_vm=off/device=fifo@depth=8"), 1);
    assert_eq!(served("device=fifo"), 1);
    assert_eq!(served("device=fifo@per_vm=on"), 2);
}

#[test]
fn each_setting_of_a_layer_takes_effect() {
    let load: Vec<Request> = (0..6)
        .map(|n| {
            let mut request = Request::new(Timestamp::ZERO, Operation::Write, Lba::new(n * 8), Sectors::new(8));
            request.stream = StreamId(7);
            request
        })
        .collect();
    let log = |settings: &str| {
        let line = format!("guest=fifo@merge=off,depth=6/host=fifo@{settings}");
        replay_in(&StackSpec::of(&line).unwrap(), "fixed", &load)
    };
    let sent = |settings: &str| -> Vec<(u64, u64, u32, bool)> {
        let log = log(settings);
        let issued = log.events.iter().filter(|(_, letter, _)| *letter == 'D');
        issued.map(|(now, _, r)| (now.as_ns() / 1000, r.sectors().count(), r.stream.0, r.is_sync())).collect()
    };
    assert_eq!(sent("depth=1"), [(0, 48, 7, false)]);
    assert_eq!(sent("streams=vm"), [(0, 48, 0, false)]);
    assert_eq!(sent("writes=sync"), [(0, 48, 7, true)]);
    assert_eq!(sent("max_segments=4"), [(0, 32, 7, false), (1000, 16, 7, false)]);
    assert_eq!(sent("max_request=12k"), [(0, 24, 7, false), (1000, 24, 7, false)]);
    // Requests in the queue can merge; the others wait above.
    assert_eq!(sent("queue=2"), [(0, 16, 7, false), (1000, 16, 7, false), (2000, 16, 7, false)]);
    assert_eq!(sent("merge=off,depth=6,write_depth=5")[4..], [(0, 8, 7, false), (1000, 8, 7, false)]);
    assert_eq!(sent("merge=off,depth=4")[3..5], [(0, 8, 7, false), (1000, 8, 7, false)]);
    let delayed = log("delay_down=300us,delay_up=200us").served[0];
    assert_eq!((delayed.started.as_ns(), delayed.finished.as_ns()), (300_000, 1_500_000));
}

#[test]
fn error_in_a_line_is_reported_with_the_right_form() {
    for (line, message) in [
        ("xen-ccfq", "unknown stack `xen-ccfq`; did you mean xen-cfq"),
        ("mainframe", "unknown stack `mainframe`; `iocast list stacks` names them all"),
        ("guest=cfk", "stack guest=cfk: layer guest: unknown scheduler `cfk`; did you mean cfq"),
        ("guest=deadline:fifo_batch=x", "layer guest: deadline:fifo_batch=`x` is not a whole number"),
        ("guest=cfq@depht=4", "`layer guest` has no tunable `depht`; did you mean depth"),
        ("guest=cfq@depth=0", "layer guest:depth=`0` is not from 1 to 4294967295"),
        ("guest=cfq@depth=4294967296", "is not from 1 to 4294967295"),
        ("guest=cfq@merge=maybe", "layer guest:merge=`maybe` is not on|off"),
        ("guest=cfq@max_request=700", "layer guest: max_request is not a multiple of 512 bytes"),
        ("guest=cfq@delay_up=2d", "delay_up=`2d` is not a time such as"),
        ("guest=cfq@", "layer guest: `` is not of the form setting=value"),
        ("guest=cfq@depth", "layer guest: `depth` is not of the form setting=value"),
        ("guest=cfq@depth=1,depth=2", "layer guest: `depth` is given twice"),
        ("guest=cfq/", "`` is not of the form NAME=SCHEDULER@setting=value"),
        ("guest=cfq/lun", "`lun` is not of the form NAME=SCHEDULER@setting=value"),
        ("guest=cfq/guest=fifo", "two layers are named `guest`"),
        ("a guest=cfq", "`a guest` is no name for a layer"),
        ("=cfq", "`` is no name for a layer"),
        ("guest=", "layer guest: `` is not of the form name:tunable=value"),
        ("/nowhere/my.toml", "stack /nowhere/my.toml: No such file or directory"),
    ] {
        assert!(refusal(line).contains(message), "{line}: {}", refusal(line));
    }
}

#[test]
fn error_in_a_file_is_reported_with_its_line() {
    let layer = "[[layer]]\nname = \"guest\"\nscheduler = \"cfq\"\n";
    for (text, message) in [
        (String::new(), "stack my.toml at line 1: missing field `layer`"),
        ("layer = []".to_owned(), "stack my.toml: it has no layer: write at least one [[layer]]"),
        ("[[layer]]\nname = \"guest\"\n".to_owned(), "at line 1: missing field `scheduler`"),
        (format!("{layer}depth = 3\n"), "at line 4: unknown field `depth`"),
        (format!("{layer}[layer.settings]\n\ndepht = 3\n"), "at line 6: `layer guest` has no tunable `depht`"),
        (format!("{layer}settings.write_depth = 0\n"), "at line 4: layer guest:write_depth=`0` is not from 1"),
        (format!("{layer}settings.depth = 1.5\n"), "at line 4: "),
        (format!("{layer}settings.depth = -1\n"), "at line 4: "),
        (format!("{layer}\n{layer}"), "at line 6: two layers are named `guest`"),
        ("[[layer]]\nname = \"guest\"\nscheduler = \"cfk\"\n".to_owned(), "at line 3: layer guest: unknown scheduler"),
        ("[[layer]]\nname = \"\"\nscheduler = \"cfq\"\n".to_owned(), "at line 2: `` is no name for a layer"),
        (format!("stack = 1\n{layer}"), "at line 1: unknown field `stack`"),
        ("[[layer\n".to_owned(), "at line 1: "),
    ] {
        assert!(toml_refusal(&text).contains(message), "{text}: {}", toml_refusal(&text));
    }
}

#[test]
fn schedulers_are_compared_in_the_named_layer_else_the_hypervisor_else_the_last() {
    let stack = StackSpec::of("guest=cfq/hypervisor=sfq/lun=fifo").unwrap();
    assert_eq!((stack.layer(None).unwrap(), stack.layer(Some("guest")).unwrap()), (1, 0));
    assert_eq!(StackSpec::of("guest=cfq/lun=fifo").unwrap().layer(None).unwrap(), 1);
    let message = stack.layer(Some("lum")).unwrap_err().to_string();
    assert!(message.ends_with("has no layer `lum`; it has guest, hypervisor, lun; did you mean lun?"), "{message}");
    let other = stack.clone().with_scheduler(1, &"ba:depth=4".parse().unwrap()).unwrap();
    assert_eq!(other.to_string(), "guest=cfq/hypervisor=ba:depth=4/lun=fifo");
    assert!(stack.with_scheduler(1, &"cfk".parse().unwrap()).is_err());
}

#[test]
fn a_guest_flushes_a_disk_whose_writes_are_durable_and_nothing_waits_for_ever() {
    // The flush passes the guest's layer and has nothing to do in the next; no other event follows.
    let stack = StackSpec::of("guest=none@depth=8,flushes=always/drive=fifo@depth=4").unwrap();
    let mut commit = Request::new(Timestamp::ZERO, Operation::Write, Lba::new(80), Sectors::new(8));
    commit.flags = traces::Flags::PREFLUSH | traces::Flags::FUA;
    let flush = Request::new(Timestamp::from_ns(300_000), Operation::Flush, Lba::ZERO, Sectors::ZERO);
    let log = replay_in(&stack, "fixed", &[commit, flush]);
    let times: Vec<u64> = log.completed.iter().map(|(at, _)| at / 1000).collect();
    // The flush waits for the data of the commit.
    assert_eq!(times, [1000, 1000]);
    // Unless the layer knows that writes are durable.
    let stack = StackSpec::of("guest=none@depth=8/drive=fifo@depth=4").unwrap();
    let log = replay_in(&stack, "fixed", &[commit, flush]);
    assert_eq!(log.completed.iter().map(|(at, _)| at / 1000).collect::<Vec<_>>(), [300, 1000]);
}
