use super::*;

const PAIR: &str = r#"
seconds = 20
together = "pairs"
[lun]
drive = "cheetah-15k4"
size = "4g"
[[vm]]
name = "mail"
workload = "mail"
disk = "virtio"
size = "1g"
[[vm]]
name = "web"
workload = "web"
disk = "iscsi"
size = "1g"
"#;

fn read(text: &str) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    Plan::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "plan.toml"))
}

#[test]
fn each_vm_runs_alone_before_the_groups_run() {
    let plan = read(PAIR).unwrap();
    let names: Vec<String> = plan.groups().into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["alone-mail", "alone-web", "together-mail-web"]);
    let listed = read(&PAIR.replace(r#""pairs""#, r#"[["web", "mail"]]"#)).unwrap();
    assert_eq!(listed.groups(), plan.groups());
    let nobody = read(&PAIR.replace("together = \"pairs\"\n", "")).unwrap();
    assert_eq!(nobody.groups().len(), 2);
    assert_eq!(read(&PAIR.replace("pairs", "all")).unwrap().groups(), plan.groups());
}

#[test]
fn three_vms_make_three_pairs_or_one_group_of_all() {
    let third = "[[vm]]\nname = \"db\"\nworkload = \"oltp\"\ndisk = \"virtio\"\nsize = \"1g\"\n";
    let three = PAIR.to_owned() + third;
    let alone = [vec![0], vec![1], vec![2]];
    for (together, expected) in [
        (r#""pairs""#, vec![vec![0, 1], vec![0, 2], vec![1, 2]]),
        (r#""all""#, vec![vec![0, 1, 2]]),
        (r#"[["db", "mail"], ["db", "web", "mail"]]"#, vec![vec![0, 2], vec![0, 1, 2]]),
    ] {
        let groups = read(&three.replace(r#""pairs""#, together)).unwrap().groups();
        let members: Vec<Vec<usize>> = groups.iter().map(|group| group.members.clone()).collect();
        assert_eq!(members, [&alone[..], &expected[..]].concat(), "{together}");
    }
    let listed = read(&three.replace(r#""pairs""#, r#"[["db", "mail"]]"#)).unwrap();
    assert_eq!(listed.groups()[3].name, "together-mail-db");
}

#[test]
fn values_at_the_limits_are_accepted() {
    let fills = read(&PAIR.replace("\"4g\"", "\"2g\"")).unwrap();
    assert_eq!((fills.place(1), fills.vms[1].size), (1 << 30, 1 << 30));
    let long = "a".repeat(32);
    assert_eq!(read(&PAIR.replace("\"mail\"\nworkload", &format!("{long:?}\nworkload"))).unwrap().vms[0].name, long);
    assert!(read(&PAIR.replace("\"mail\"\nworkload", &format!("\"{long}a\"\nworkload"))).is_err());
    assert!(read(&PAIR.replace("\"1g\"", "\"64m\"")).is_ok() && read(&PAIR.replace("\"1g\"", "\"63m\"")).is_err());
    assert!(read(&PAIR.replace("seconds = 20", "seconds = 20\nwarm_up_seconds = 19")).is_ok());
    let depth = |depth: u32, disk: &str| {
        let disk = format!("disk = {disk:?}");
        let text = PAIR.replace(r#"disk = "virtio""#, &disk).replace(r#"disk = "iscsi""#, &disk);
        read(&text.replacen("[[vm]]", &format!("[guest]\nqueue_depth = {depth}\n[[vm]]"), 1))
    };
    assert!(depth(1, "virtio").is_ok() && depth(8, "virtio").is_ok() && depth(10, "virtio-scsi").is_ok());
    assert!(depth(32, "virtio").is_ok() && depth(1024, "virtio").is_ok());
    for disk in ["virtio-scsi", "iscsi"] {
        let refused = depth(11, disk).unwrap_err().to_string();
        assert!(refused.contains("queue_depth 11: use 1 to 10, or virtio disks only; nbdfuse"), "{refused}");
        assert!(depth(0, disk).is_err());
    }
}

#[test]
fn omitted_settings_get_their_defaults() {
    let plan = read(PAIR).unwrap();
    assert_eq!((plan.warm_up_seconds, plan.repetitions, plan.seed), (0, 1, 1));
    assert_eq!((plan.guest, plan.lun.scheduler), (GuestSettings::default(), None));
    assert_eq!(GuestSettings::default().memory, 512 << 20);
}

#[test]
fn slices_are_equal_and_aligned() {
    let plan = read(&PAIR.replace("4g", "4097m")).unwrap();
    assert_eq!((plan.place(0), plan.place(1)), (0, 2048 << 20));
}

#[test]
fn invalid_plans_are_refused_with_the_valid_values() {
    for (from, to, expected) in [
        ("seconds = 20", "seconds = 0", "plan.toml: seconds is 0"),
        ("seconds = 20", "seconds = 20\nwarm_up_seconds = 20", "must be less than seconds"),
        ("seconds = 20", "seconds = 20\nrepetitions = 0", "repetitions is 0"),
        ("seconds = 20", "seconds = 20\nspeed = 3", "at line 3: unknown field `speed`"),
        (r#"name = "web""#, r#"name = "mail""#, "two VMs are called mail"),
        (r#"name = "web""#, r#"name = "a/b""#, "letters, digits and -"),
        ("\"4g\"", "\"1500m\"", "the disk of mail has 1024 MB, but the LUN has only 750 MB for each of 2 VMs"),
        ("\"1g\"", "\"8m\"", "size of mail: use whole megabytes, at least 64 MB"),
        ("\"1g\"", "\"1x\"", "at line 11"),
        (r#""pairs""#, r#"[["mail", "wbe"]]"#, r#"together names "wbe"; the VMs are mail, web"#),
        (r#""pairs""#, r#"[["mail", "mail"]]"#, "two or more different VMs"),
        (r#""pairs""#, r#"[["mail"]]"#, "two or more different VMs"),
        (
            r#"workload = "web""#,
            r#"workload = "wbe""#,
            "workload wbe of web: there is no such workload (mail, web, file, oltp) and no such file",
        ),
        (r#"workload = "web""#, r#"filebench = "none.f""#, "filebench none.f of web: No such file"),
        (
            r#"workload = "web""#,
            "workload = \"web\"\nfilebench = \"a.f\"",
            "web must have either workload or filebench",
        ),
        ("workload = \"web\"\n", "", "web must have either workload or filebench"),
        (r#"disk = "virtio""#, r#"disk = "floppy""#, "at line 10: unknown variant `floppy`"),
        ("[[vm]]", "[guest]\nqueue_depth = 0\n[[vm]]", "queue_depth 0: mail has a virtio disk"),
        (
            "[[vm]]",
            "[guest]\nqueue_depth = 10\n[[vm]]",
            "queue_depth 10: mail has a virtio disk, whose queue holds a power",
        ),
        ("[[vm]]", "[guest]\nqueue_depth = 2048\n[[vm]]", "up to 1024"),
        (r#"name = "mail""#, r#"name = "carrier""#, "vm name carrier: the guests' own disk is called so"),
    ] {
        assert!(PAIR.contains(from), "{from}");
        let message = read(&PAIR.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
    assert!(Plan::read(Path::new("/nowhere/plan.toml")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn iscsi_names_and_uuids_differ_between_vms() {
    let plan = read(PAIR).unwrap();
    assert_ne!(plan.vms[0].initiator(), plan.vms[1].initiator());
    assert_ne!(plan.vms[0].target(), plan.vms[1].target());
    assert_ne!(uuid(1, 0), uuid(1, 1));
    assert_ne!(uuid(1, 0), uuid(2, 0));
    assert_eq!(uuid(u64::MAX, 4095).len(), 36);
}

#[test]
fn variant_of_a_plan_has_another_scheduler_and_no_groups() {
    let text = PAIR.replace("[lun]", "[guest]\nqueue_depth = 4\nscheduler = \"bfq\"\n[lun]");
    let (plan, kept) = Plan::alone_under(&text, "kyber", None, Path::new("plan.toml")).unwrap();
    assert_eq!((plan.guest.scheduler.as_deref(), plan.guest.queue_depth, plan.seconds), (Some("kyber"), 4, 20));
    let names: Vec<String> = plan.groups().into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["alone-mail", "alone-web"]);
    // The text is that of the plan, and all else is as it was.
    assert_eq!(toml::from_str::<Plan>(&kept).unwrap(), plan);
    let before: Plan = toml::from_str(&text).unwrap();
    assert_eq!((plan.vms, plan.lun), (before.vms, before.lun));
    // Without [guest], and for another time.
    let (plan, _) = Plan::alone_under(PAIR, "none", Some(40), Path::new("plan.toml")).unwrap();
    assert_eq!((plan.guest.scheduler.as_deref(), plan.seconds), (Some("none"), 40));
    let error = |text: &str| Plan::alone_under(text, "none", None, Path::new("plan.toml")).unwrap_err().to_string();
    assert!(error("seconds = ").contains("plan.toml"));
    assert!(
        error(&format!("guest = 3\n{PAIR}")).contains("plan.toml: guest is no table"),
        "{}",
        error(&format!("guest = 3\n{PAIR}"))
    );
    assert!(error(&PAIR.replace("seconds = 20", "seconds = 0")).contains("seconds is 0"));
}

#[test]
fn plans_of_the_suite_have_the_same_vms_which_its_split_has_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/suite");
    let split: toml::Table = traces::read_text(&folder.join("split.toml")).unwrap().parse().unwrap();
    let names = |of: &str| -> Vec<String> {
        let parts = ["train", "validation", "test"].map(|part| split[of][part].as_array().unwrap());
        let mut names: Vec<String> =
            parts.into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("drives"), ["array", "disk", "slow", "ssd"]);
    for drive in names("drives") {
        let plan = Plan::read(&folder.join(format!("{drive}.toml"))).unwrap();
        let mut vms: Vec<String> = plan.vms.iter().map(|vm| vm.name.clone()).collect();
        vms.sort();
        assert_eq!(vms, names("workloads"), "{drive}");
        // Twelve alone, and the groups of each part.
        assert_eq!(plan.groups().len(), 24, "{drive}");
    }
}
