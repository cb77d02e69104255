//! The runs of subcommands that need something of the host.

use serde::Serialize;

/// A run of a subcommand: every one, or one under a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The subcommand's name, as on the command line.
    pub subcommand: &'static str,
    /// The condition; `None` for every run.
    pub when: Option<&'static str>,
}

impl Use {
    const fn every(subcommand: &'static str) -> Use {
        Use { subcommand, when: None }
    }

    const fn when(subcommand: &'static str, when: &'static str) -> Use {
        Use { subcommand, when: Some(when) }
    }

    /// Whether it is a run of this subcommand, or of one below it.
    pub fn is_of(self, subcommand: &str) -> bool {
        self.subcommand.strip_prefix(subcommand).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

impl std::fmt::Display for Use {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.when {
            None => out.write_str(self.subcommand),
            Some(when) => write!(out, "{} {when}", self.subcommand),
        }
    }
}

pub const CALIBRATE_DEVICE: Use = Use::when("calibrate", "with --device");
pub const CAPTURE_BLOCK: Use = Use::every("capture block");
pub const CAPTURE_BLOCK_BLKTRACE: Use = Use::when("capture block", "with --backend blktrace");
pub const CAPTURE_BLOCK_TRACEFS: Use = Use::when("capture block", "with --backend tracefs");
pub const CAPTURE_BLOCK_BLK_TRACER: Use = Use::when("capture block", "with --backend blk-tracer");
pub const CAPTURE_BLOCK_HISTOGRAMS: Use = Use::when("capture block", "with --histograms");
pub const CAPTURE_DECISIONS: Use = Use::every("capture decisions");
pub const CAPTURE_ISCSI_INTERFACE: Use = Use::when("capture iscsi", "with --interface");
pub const CAPTURE_ISCSI_TSHARK: Use = Use::when("capture iscsi", "with --engine tshark");
pub const CAPTURE_LAB: Use = Use::every("capture lab");
pub const CAPTURE_LAB_IMAGE: Use = Use::when("capture lab", "if the guests' image is not built yet");
pub const CAPTURE_LAB_FILE: Use = Use::when("capture lab", "with a disk other than virtio");
pub const CAPTURE_LAB_ISCSI: Use = Use::when("capture lab", "with an iSCSI disk");
pub const CAPTURE_LAB_KVM: Use = Use::when("capture lab", "with accelerator = \"kvm\"");
pub const CAPTURE_LAB_FILEBENCH: Use = Use::when("capture lab", "with a filebench personality");
pub const CONVERT_REPLAYED: Use = Use::when("convert", "to replay the output");
pub const KERNEL_SCHEDULER_BUILD: Use = Use::when("kernel-scheduler build", "without --cc");
pub const REPLAY: Use = Use::every("replay");
pub const REPLAY_BTREPLAY: Use = Use::when("replay", "with --engine btreplay");
pub const REPLAY_FIO: Use = Use::when("replay", "with --engine fio");
pub const REPLAY_IO_URING: Use = Use::when("replay", "with --backend io_uring");
pub const REPORT_TABLES: Use = Use::when("report", "with --table, --by or --sql");
pub const SERVE: Use = Use::every("serve");
pub const SERVE_CLIENTS: Use = Use::when("serve", "as its client");
pub const SERVE_UBLK: Use = Use::when("serve", "with --listen ublk");
pub const SERVE_REALTIME: Use = Use::when("serve", "with --urgency realtime");
pub const STAT_LIVE: Use = Use::when("stat", "with --live");
pub const SWEEP_SPARK: Use = Use::when("sweep", "with --engine spark");
pub const TUNE_SPARK: Use = Use::when("tune", "with --engine spark");
pub const VALIDATE_GUEST: Use = Use::when("validate guest", "with a plan");
pub const VALIDATE_GUEST_IMAGE: Use = Use::when("validate guest", "if the guests' image is not built yet");

/// Runs of one subcommand, of which one has to be possible.
pub const ALTERNATIVES: [[Use; 3]; 1] = [[CAPTURE_BLOCK_BLKTRACE, CAPTURE_BLOCK_TRACEFS, CAPTURE_BLOCK_BLK_TRACER]];
