//! The kernel's own count of an interface's packets, against which a live capture is checked.

use std::fs;
use std::path::Path;

use crate::silence::Reading;

/// The folder in which the kernel describes network interfaces.
const INTERFACES: &str = "/sys/class/net";
/// The capturing program's name for all interfaces.
const ANY: &str = "any";

/// The packets that an interface (or `any`) has received and sent.
pub(super) fn packets(interface: &str) -> Reading {
    packets_at(Path::new(INTERFACES), interface)
}

fn packets_at(interfaces: &Path, interface: &str) -> Reading {
    if interface == ANY {
        let entries = fs::read_dir(interfaces).map_err(|error| format!("{}: {error}", interfaces.display()))?;
        // Other entries, such as bonding_masters, and interfaces that vanish meanwhile have no counters.
        let counts = entries.flatten().filter_map(|entry| packets_in(&entry.path()).ok());
        return Ok(counts.sum());
    }
    packets_in(&interfaces.join(interface))
}

fn packets_in(folder: &Path) -> Reading {
    let mut sum = 0;
    for name in ["statistics/rx_packets", "statistics/tx_packets"] {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        sum += text.trim().parse::<u64>().map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_and_of_all_interfaces_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, received, sent) in [("eth0", "10\n", "5\n"), ("eth1", "100\n", "0\n")] {
            let statistics = folder.path().join(name).join("statistics");
            fs::create_dir_all(&statistics).unwrap();
            fs::write(statistics.join("rx_packets"), received).unwrap();
            fs::write(statistics.join("tx_packets"), sent).unwrap();
        }
        fs::write(folder.path().join("bonding_masters"), "").unwrap();
        let of = |name: &str| packets_at(folder.path(), name);
        assert_eq!((of("eth0"), of("eth1"), of("any")), (Ok(15), Ok(100), Ok(115)));
        assert!(of("eth9").unwrap_err().contains("eth9/statistics/rx_packets: No such file"));
    }
}
