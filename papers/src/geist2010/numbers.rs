//! The numbers that the paper prints (Geist, Jones, Westall 2010, section 6).

/// The schedulers in the order of the paper's columns, which is also their rank by response time.
pub const SCHEDULERS: [&str; 3] = ["cats", "deadline", "cfq"];

/// One system's half of a table: a row for each quantity, a column for each scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Mean service time, ms.
    pub mean_service: [f64; 3],
    /// Variance of service times, ms².
    pub variance_service: [f64; 3],
    /// Mean response time, ms.
    pub mean_response: [f64; 3],
    /// Variance of response times, ms².
    pub variance_response: [f64; 3],
    /// Sectors per millisecond.
    pub throughput: [f64; 3],
}

/// Table 2 (`O_DIRECT`): the real system, and the VM in the real disk's scale.
pub const TABLE_2: [Columns; 2] = [
    Columns {
        mean_service: [1.96, 2.71, 1.39],
        variance_service: [8.51, 9.76, 5.85],
        mean_response: [37.35, 59.87, 124.70],
        variance_response: [6961.50, 561.15, 839_270.49],
        throughput: [8.19, 6.08, 2.19],
    },
    Columns {
        mean_service: [2.58, 3.24, 2.36],
        variance_service: [9.03, 8.23, 7.78],
        mean_response: [53.79, 78.27, 117.13],
        variance_response: [16641.07, 633.28, 28651.71],
        throughput: [6.15, 5.06, 3.38],
    },
];

/// Table 3 (through the page cache).
pub const TABLE_3: [Columns; 2] = [
    Columns {
        mean_service: [6.53, 7.41, 7.80],
        variance_service: [11.13, 8.80, 17.62],
        mean_response: [114.91, 121.87, 179.17],
        variance_response: [8080.16, 3296.87, 35349.39],
        throughput: [12.00, 12.04, 9.08],
    },
    Columns {
        mean_service: [7.15, 7.60, 8.57],
        variance_service: [6.22, 6.05, 10.30],
        mean_response: [189.45, 198.33, 258.75],
        variance_response: [19292.52, 6839.66, 65796.33],
        throughput: [11.44, 11.68, 8.82],
    },
];

/// Requests captured in a run.
pub const REQUESTS: u64 = 50_000;

/// Hits in the run of CATS on the real system: requests with a service time below 250 µs.
pub const HITS: u64 = 31_949;

/// The share of these hits that the shadow cache predicted.
pub const RECALL: f64 = 0.97;

/// Table 1: mean service time and mean response time, greedy and optimal.
pub const TABLE_1: [(&str, &str, [f64; 2]); 2] =
    [("sstf", "greedy", [79.0, 131.5]), ("table", "optimal", [75.0, 124.5])];
