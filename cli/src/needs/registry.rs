//! The registry of needs.

use super::probes;
use super::uses::*;
use super::{Kind, Need, Use};

const fn program(name: &'static str, package: &'static str, needed: &'static [Use], useful: &'static [Use]) -> Need {
    Need { name, kind: Kind::Program(package), needed, useful }
}

/// The program that makes tables, whose packages this one does not link.
pub const TABLES: &str = "iocast-tables";

/// Everything that a subcommand may need of the host.
pub const NEEDS: &[Need] = &[
    program("blktrace", "blktrace", &[CAPTURE_BLOCK_BLKTRACE], &[CAPTURE_BLOCK]),
    program("dumpcap", "wireshark-common", &[CAPTURE_ISCSI_INTERFACE, CAPTURE_LAB_ISCSI], &[]),
    program("tshark", "tshark", &[CAPTURE_ISCSI_TSHARK], &[]),
    program("qemu-system-x86_64", "qemu-system-x86", &[CAPTURE_LAB, VALIDATE_GUEST], &[SERVE_CLIENTS]),
    program("nbdfuse", "libnbd-bin", &[CAPTURE_LAB_FILE], &[SERVE_CLIENTS]),
    program("tar", "tar", &[CAPTURE_LAB, VALIDATE_GUEST], &[]),
    program("unshare", "util-linux", &[CAPTURE_LAB, VALIDATE_GUEST], &[]),
    program("setpriv", "util-linux", &[CAPTURE_LAB, VALIDATE_GUEST], &[]),
    program("ip", "iproute2", &[CAPTURE_LAB, VALIDATE_GUEST], &[]),
    program("sh", "dash", &[CAPTURE_LAB_IMAGE, VALIDATE_GUEST_IMAGE], &[]),
    program("apt-get", "apt", &[CAPTURE_LAB_IMAGE, VALIDATE_GUEST_IMAGE], &[]),
    program("apt-cache", "apt", &[CAPTURE_LAB_IMAGE, VALIDATE_GUEST_IMAGE], &[]),
    program("dpkg-deb", "dpkg", &[CAPTURE_LAB_IMAGE, VALIDATE_GUEST_IMAGE], &[]),
    program("mount", "mount", &[CAPTURE_LAB_ISCSI], &[]),
    program("tgtd", "tgt", &[CAPTURE_LAB_ISCSI], &[]),
    program("tgtadm", "tgt", &[CAPTURE_LAB_ISCSI], &[]),
    Need {
        name: "filebench",
        kind: Kind::Unpackaged(
            "Debian has no package of it; build it from its sources (github.com/filebench/filebench) and put it on the \
             PATH",
        ),
        needed: &[CAPTURE_LAB_FILEBENCH],
        useful: &[],
    },
    program("ldd", "libc-bin", &[CAPTURE_LAB_FILEBENCH], &[]),
    program("chrt", "util-linux", &[SERVE_REALTIME], &[SERVE]),
    program("cc", "gcc", &[KERNEL_SCHEDULER_BUILD], &[]),
    Need {
        name: TABLES,
        kind: Kind::Companion(
            "`make tables` builds it in iocast's sources, in about a quarter of an hour, and `make install` installs it \
             beside iocast",
        ),
        needed: &[REPORT_TABLES],
        useful: &[],
    },
    Need {
        name: "spark-submit",
        kind: Kind::Unpackaged(
            "Debian has no package of it; install pyspark in a virtual environment of Python and put its folder bin on \
             the PATH, or set SPARK_HOME to a folder of Apache Spark",
        ),
        needed: &[SWEEP_SPARK, TUNE_SPARK],
        useful: &[],
    },
    program("java", "default-jre-headless", &[SWEEP_SPARK, TUNE_SPARK], &[]),
    program("nbd-client", "nbd-client", &[], &[SERVE_CLIENTS]),
    program("nbdinfo", "libnbd-bin", &[], &[SERVE_CLIENTS]),
    program("fio", "fio", &[REPLAY_FIO], &[CONVERT_REPLAYED]),
    program("btreplay", "blktrace", &[REPLAY_BTREPLAY], &[CONVERT_REPLAYED]),
    program("blkreplay", "blkreplay", &[], &[CONVERT_REPLAYED]),
    Need { name: "CAP_SYS_ADMIN", kind: Kind::Permission(probes::mounting), needed: &[CAPTURE_LAB_ISCSI], useful: &[] },
    Need {
        name: "CAP_NET_RAW",
        kind: Kind::Permission(probes::packets),
        needed: &[CAPTURE_ISCSI_INTERFACE, CAPTURE_LAB_ISCSI],
        useful: &[],
    },
    Need {
        name: "CAP_SYS_NICE",
        kind: Kind::Permission(probes::realtime),
        needed: &[SERVE_REALTIME],
        useful: &[SERVE],
    },
    Need {
        name: "block devices",
        kind: Kind::Permission(probes::block_devices),
        needed: &[],
        useful: &[REPLAY, CALIBRATE_DEVICE],
    },
    Need {
        name: "namespaces",
        kind: Kind::Permission(probes::namespaces),
        needed: &[CAPTURE_LAB, VALIDATE_GUEST],
        useful: &[],
    },
    Need { name: "open files", kind: Kind::Permission(probes::open_files), needed: &[], useful: &[SERVE] },
    Need {
        name: "tracefs",
        kind: Kind::Kernel(probes::tracefs),
        needed: &[CAPTURE_DECISIONS, CAPTURE_BLOCK_TRACEFS, CAPTURE_BLOCK_HISTOGRAMS, STAT_LIVE],
        useful: &[CAPTURE_BLOCK],
    },
    Need {
        name: "tracer blk",
        kind: Kind::Kernel(probes::blk_tracer),
        needed: &[CAPTURE_BLOCK_BLK_TRACER],
        useful: &[CAPTURE_BLOCK],
    },
    Need {
        name: "debugfs, no lockdown",
        kind: Kind::Kernel(probes::debugfs),
        needed: &[CAPTURE_BLOCK_BLKTRACE],
        useful: &[CAPTURE_BLOCK],
    },
    Need { name: "io_uring", kind: Kind::Kernel(probes::io_uring), needed: &[REPLAY_IO_URING], useful: &[REPLAY] },
    Need {
        name: "/dev/kvm",
        kind: Kind::Device(probes::kvm),
        needed: &[CAPTURE_LAB_KVM],
        useful: &[CAPTURE_LAB, VALIDATE_GUEST, SERVE_CLIENTS],
    },
    Need { name: "/dev/ublk-control", kind: Kind::Device(probes::ublk), needed: &[SERVE_UBLK], useful: &[] },
    Need { name: "/dev/nbd0", kind: Kind::Device(probes::nbd), needed: &[], useful: &[SERVE_CLIENTS] },
    Need {
        name: "memory",
        kind: Kind::Resource(probes::memory),
        needed: &[],
        useful: &[CAPTURE_LAB, VALIDATE_GUEST, SERVE],
    },
    Need {
        name: "free space",
        kind: Kind::Resource(probes::space),
        needed: &[],
        useful: &[CAPTURE_BLOCK, CAPTURE_LAB, VALIDATE_GUEST, SERVE],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Part of every Debian system, so that no package names them (Debian Policy, 3.8).
    const ESSENTIAL: [&str; 5] = ["dash", "dpkg", "libc-bin", "tar", "util-linux"];

    #[test]
    fn debian_package_recommends_or_suggests_every_program() {
        let manifest: toml::Table = include_str!("../../Cargo.toml").parse().unwrap();
        let deb = &manifest["package"]["metadata"]["deb"];
        let listed = ["recommends", "suggests"].map(|field| deb[field].as_str().unwrap().split(", "));
        let mut listed: Vec<&str> = listed.into_iter().flatten().collect();
        listed.sort_unstable();
        let needed: BTreeSet<&str> = NEEDS.iter().filter_map(Need::package).collect();
        let needed: Vec<&str> = needed.into_iter().filter(|package| !ESSENTIAL.contains(package)).collect();
        assert_eq!(listed, needed);
    }
}
