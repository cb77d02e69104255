//! The kernel's own count of an interface's packets, against which a live capture is checked.

use std::fs;

use crate::silence::Reading;

/// The interfaces of the network namespace of this process. The folder /sys/class/net may be that of another. Source:
/// proc_pid_net(5).
const INTERFACES: &str = "/proc/self/net/dev";
/// The received and sent packets among the numbers behind an interface's name.
const PACKETS: [usize; 2] = [1, 9];
/// The capturing program's name for all interfaces.
const ANY: &str = "any";

/// The packets that an interface (or `any`) has received and sent.
pub(super) fn packets(interface: &str) -> Reading {
    let text = fs::read_to_string(INTERFACES).map_err(|error| format!("{INTERFACES}: {error}"))?;
    packets_in(&text, interface)
}

fn packets_in(text: &str, interface: &str) -> Reading {
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    let mut wanted = rows.filter(|(name, _)| interface == ANY || name.trim() == interface).peekable();
    if wanted.peek().is_none() {
        return Err(format!("{INTERFACES} does not list {interface}"));
    }
    wanted.map(|(name, numbers)| packets_of(name.trim(), numbers)).sum()
}

fn packets_of(name: &str, numbers: &str) -> Reading {
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    let packets = PACKETS.map(|at| numbers.get(at)?.parse::<u64>().ok());
    let sum = packets.into_iter().sum::<Option<u64>>();
    sum.ok_or_else(|| format!("{INTERFACES}: unknown numbers of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 4711 10    0    0    0     0          0         0  4712 5    0    0    0     0       0          0
  eth1:99 100    0    0    0     0          0         0  77 0    0    0    0     0       0          0
";

    #[test]
    fn packets_of_one_and_of_all_interfaces_are_counted() {
        let of = |name: &str| packets_in(TEXT, name);
        assert_eq!((of("lo"), of("eth1"), of("any")), (Ok(15), Ok(100), Ok(115)));
        assert_eq!(of("eth9"), Err("/proc/self/net/dev does not list eth9".to_owned()));
        assert_eq!(packets_in("eth1: 99\n", "eth1"), Err("/proc/self/net/dev: unknown numbers of eth1".to_owned()));
        assert!(packets("lo").is_ok());
    }
}
