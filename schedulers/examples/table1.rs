//! Prints Table 1 of Geist, Jones and Westall 2010 from the policies themselves. The head is on block 100, the requests
//! are for blocks 20, 82, 120 and 200, and service times equal distance.

use iocast_schedulers::DistanceCost;
use iocast_schedulers::table::{evaluate, greedy_sequence, optimal_sequence};
use traces::{Lba, Sectors};

const HEADER: &str = "\
| algorithm | mean service | mean response |
|--------------------------|--------------|---------------|
";
const CAPTION: &str = "\nTable 1. Sub-optimal performance of the greedy algorithm.\n";

fn main() {
    print!("{}", table1());
}

fn table1() -> String {
    let head = Lba::new(100);
    let queue = [20, 82, 120, 200].map(Lba::new);
    let cost = DistanceCost { position: head, capacity: Sectors::new(1000) };
    let mut text = String::from(HEADER);
    for (name, sequence) in
        [("greedy", greedy_sequence(head, &queue, &cost)), ("optimal", optimal_sequence(head, &queue, &cost))]
    {
        let result = evaluate(head, &sequence, &cost);
        let mean = |sum: u128| {
            let tenths = sum * 10 / u128::from(result.requests);
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let blocks: Vec<String> = sequence.iter().map(Lba::to_string).collect();
        let (service, response) = (mean(result.service_ns), mean(result.response_ns));
        text += &format!("| {name} {} | {service} | {response} |\n", blocks.join(", "));
    }
    text + CAPTION
}

#[cfg(test)]
mod tests {
    #[test]
    fn printed_table_equals_table_1_of_geist_2010() {
        let paper = "\
| algorithm | mean service | mean response |
|--------------------------|--------------|---------------|
| greedy 82, 120, 200, 20 | 79.0 | 131.5 |
| optimal 120, 82, 20, 200 | 75.0 | 124.5 |

Table 1. Sub-optimal performance of the greedy algorithm.
";
        assert_eq!(super::table1(), paper);
    }
}
