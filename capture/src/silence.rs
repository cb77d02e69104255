//! Judges a capture that recorded nothing: it failed if the kernel's own counters grew meanwhile; otherwise the source
//! was idle.

/// A capture that recorded nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// There was nothing to record, or the counters cannot be read: a warning.
    Harmless(String),
    /// There was something to record: an error, with the remedy.
    Missed(String),
}

/// A reading of the kernel's counters; the reason if they cannot be read.
pub type Reading = Result<u64, String>;

/// What the kernel counted between two readings.
pub(crate) fn counted(before: &Reading, after: &Reading) -> Reading {
    Ok(after.clone()?.saturating_sub(before.clone()?))
}

impl Silence {
    /// The silence of `device`, whose I/Os the kernel `counted`. `others` are the backends that were not tried.
    pub fn of_device(device: &str, backend: &str, counted: &Reading, others: &[&str]) -> Silence {
        let ios = match counted {
            Ok(0) => {
                return Silence::Harmless(format!(
                    "{device} was idle: the kernel counted no I/O during the capture, and no event was recorded"
                ));
            }
            Ok(ios) => ios,
            Err(why) => {
                return Silence::Harmless(format!(
                    "no event of {device} was recorded; whether it was idle cannot be checked: {why}"
                ));
            }
        };
        let remedy = match others {
            [] => "the kernel's block tracing does not work (CONFIG_BLK_DEV_IO_TRACE)".to_owned(),
            others => format!("use another backend: --force --backend {}", others.join(" or ")),
        };
        Silence::Missed(format!(
            "{device}: the kernel counted {ios} I/Os during the capture, but backend {backend} recorded no event; \
             {remedy}"
        ))
    }

    /// The silence of a network interface, on which the kernel `counted` packets and the filter of `ports` let none
    /// pass.
    pub fn of_interface(interface: &str, ports: &[u16], counted: &Reading) -> Silence {
        let ports = listed(ports);
        match counted {
            Ok(0) => Silence::Harmless(format!(
                "{interface} was idle: the kernel counted no packet during the capture, and none was captured"
            )),
            Ok(packets) => Silence::Missed(format!(
                "{interface}: the kernel counted {packets} packets during the capture, but none from or to TCP port \
                 {ports}; name the target's port with --port, or the interface of its portal with --interface \
                 (`ss -tn` shows both on the initiator)"
            )),
            Err(why) => Silence::Harmless(format!(
                "no packet from or to TCP port {ports} was captured; whether {interface} was idle cannot be checked: \
                 {why}"
            )),
        }
    }

    /// The silence of a file with this many packets, none of which holds iSCSI at one of `ports`.
    pub fn of_file(file: &str, ports: &[u16], packets: u64) -> Silence {
        match packets {
            0 => Silence::Harmless(format!("{file} holds no packets")),
            packets => Silence::Missed(format!(
                "{file} holds {packets} packets, but no iSCSI at TCP port {}; --port names another",
                listed(ports)
            )),
        }
    }
}

fn listed(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(silence: Silence) -> String {
        match silence {
            Silence::Missed(why) => why,
            Silence::Harmless(why) => panic!("harmless: {why}"),
        }
    }

    fn harmless(silence: Silence) -> String {
        match silence {
            Silence::Harmless(why) => why,
            Silence::Missed(why) => panic!("missed: {why}"),
        }
    }

    #[test]
    fn silent_device_is_an_error_if_the_kernel_counted_ios() {
        let of = |counted: Reading, others: &[&str]| Silence::of_device("sdb", "blktrace", &counted, others);
        let why = missed(of(Ok(4711), &["tracefs", "blk-tracer"]));
        assert!(why.starts_with("sdb: the kernel counted 4711 I/Os"), "{why}");
        assert!(why.ends_with("--backend tracefs or blk-tracer"), "{why}");
        assert!(missed(of(Ok(1), &[])).contains("recorded no event; the kernel's block tracing"));
        assert!(harmless(of(Ok(0), &["tracefs"])).starts_with("sdb was idle"));
        assert!(harmless(of(Err("no file".into()), &[])).ends_with("cannot be checked: no file"));
    }

    #[test]
    fn counters_are_compared_only_if_both_readings_succeeded() {
        assert_eq!(counted(&Ok(5), &Ok(12)), Ok(7));
        // A counter that was reset.
        assert_eq!(counted(&Ok(12), &Ok(5)), Ok(0));
        assert_eq!(counted(&Err("before".into()), &Ok(5)), Err("before".into()));
        assert_eq!(counted(&Ok(5), &Err("after".into())), Err("after".into()));
    }

    #[test]
    fn silent_interface_and_file_name_the_filter_and_its_option() {
        let why = missed(Silence::of_interface("eth1", &[3260, 860], &Ok(99)));
        assert!(why.contains("eth1: the kernel counted 99 packets"), "{why}");
        assert!(why.contains("TCP port 3260 or 860") && why.contains("--port"), "{why}");
        assert!(harmless(Silence::of_interface("eth1", &[3260], &Ok(0))).contains("idle"));
        assert!(harmless(Silence::of_interface("eth1", &[3260], &Err("gone".into()))).ends_with("checked: gone"));
        let why = missed(Silence::of_file("a.pcap", &[9], 4));
        assert_eq!(why, "a.pcap holds 4 packets, but no iSCSI at TCP port 9; --port names another");
        assert_eq!(harmless(Silence::of_file("a.pcap", &[9], 0)), "a.pcap holds no packets");
    }
}
