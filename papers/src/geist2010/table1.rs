//! Table 1 of Geist et al. 2010: schedulers on a small queue, where the service time is the seek distance.

use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::results::reproduction::Cell;
use traces::spec::SpecError;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use super::numbers::TABLE_1;
use crate::estimate::cell;

/// The position of the head, and the addresses of the waiting requests.
const HEAD: u64 = 100;
const QUEUE: [u64; 4] = [20, 82, 120, 200];

/// A drive with a seek time of one nanosecond for each sector; nothing else takes time.
struct Line {
    head: Lba,
}

impl AccessCost for Line {
    fn position(&self) -> Lba {
        self.head
    }
    fn capacity(&self) -> Sectors {
        Sectors::new(1000)
    }
    fn between(&self, from: Lba, to: Lba, _sectors: Sectors) -> Nanos {
        Nanos::from_ns(from.distance(to).count())
    }
    fn access(&self, _now: Timestamp, request: &Request) -> Nanos {
        self.between(self.head, request.lba, request.sectors())
    }
}

/// The cells of the table.
///
/// # Errors
/// There is no such scheduler.
pub fn cells() -> Result<Vec<Cell>, SpecError> {
    let mut cells = Vec::new();
    for (scheduler, row, paper) in TABLE_1 {
        let (_, ours) = serve(scheduler)?;
        for (index, column) in ["mean service", "mean response"].into_iter().enumerate() {
            cells.push(cell(["1", row, column], "distance", Some(paper[index]), &[ours[index]], true));
        }
    }
    Ok(cells)
}

/// The order in which a scheduler serves the queue, with the mean service and response times.
///
/// # Errors
/// There is no such scheduler.
pub fn serve(scheduler: &str) -> Result<(Vec<u64>, [f64; 2]), SpecError> {
    let mut scheduler = schedulers::build(&scheduler.parse()?)?.scheduler;
    for (index, lba) in QUEUE.into_iter().enumerate() {
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::ZERO);
        scheduler.insert(Timestamp::ZERO, RequestId(index as u32), &request);
    }
    let mut line = Line { head: Lba::new(HEAD) };
    let (mut order, mut now, mut responses) = (Vec::new(), 0, 0);
    while let Dispatch::Send(id) = scheduler.dispatch(Timestamp::from_ns(now), Capacity::UNLIMITED, &line) {
        let to = Lba::new(QUEUE[id.index()]);
        now += line.head.distance(to).count();
        responses += now;
        line.head = to;
        order.push(to.sector());
    }
    let n = QUEUE.len() as f64;
    Ok((order, [now as f64 / n, responses as f64 / n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_means_equal_table_1_to_the_digit() {
        for (scheduler, _, paper) in TABLE_1 {
            assert_eq!(serve(scheduler).unwrap().1, paper);
        }
        assert_eq!(serve("sstf").unwrap().0, [82, 120, 200, 20]);
        assert_eq!(serve("table").unwrap().0, [120, 82, 20, 200]);
    }
}
