//! The substitute for the paper's mainframe: VMs of clients on a replayed array. A model sees response times only.

use replay::engine::Engine;
use replay::observer::Observer;
use replay::stack::StackSpec;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};
use workloads::guest::Files;
use workloads::programs;
use workloads::{Guest, Guests, Until};

use crate::ReproduceError;

/// Threads of one VM: those that read and those that write.
pub type Threads = [u32; 2];

/// What the paper leaves open about its storage and its VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testbed {
    /// The array.
    pub drive: &'static str,
    /// The layers above it.
    pub stack: &'static str,
    /// Each VM's file set, in GiB. The VMs' disks of this size lie side by side.
    pub file_set_gib: u64,
    /// Time before the measurement.
    pub warm_up: Nanos,
    /// Length of the measurement.
    pub measured: Nanos,
}

/// Response times of one kind of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Responses {
    /// How many.
    pub count: u64,
    /// Their mean, in seconds.
    pub mean: f64,
    /// Their standard deviation, in seconds.
    pub deviation: f64,
}

/// Response times of a VM's reads and writes.
pub type VmResponses = [Responses; 2];

/// Sums of response times in nanoseconds, by VM and kind.
struct Watch {
    from: Timestamp,
    sums: Vec<[Sums; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    ns: u128,
    squared_ns: u128,
}

impl Sums {
    fn responses(self) -> Responses {
        let count = self.count.max(1) as f64;
        let mean = self.ns as f64 / count;
        let variance = (self.squared_ns as f64 / count - mean * mean).max(0.0);
        Responses { count: self.count, mean: mean / 1e9, deviation: libm::sqrt(variance) / 1e9 }
    }
}

impl Observer for Watch {
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if now < self.from {
            return;
        }
        let sums = &mut self.sums[usize::from(request.vm.0)][usize::from(request.operation != Operation::Read)];
        let response = now.since(request.arrival).as_ns();
        sums.count += 1;
        sums.ns += u128::from(response);
        sums.squared_ns += u128::from(response) * u128::from(response);
    }
}

impl Testbed {
    /// The chosen testbed.
    ///
    /// Both caches are a thirty-second of the DS8700's, and so is the file set, so that a minute makes them steady.
    /// Linux keeps 128 requests for a disk (`nr_requests`). How many the hypervisor sends at once and in which order the
    /// drives serve was chosen by the spreads of Figure 1 (`statements.rs`).
    pub const FROZEN: Testbed = Testbed {
        drive: "ds8700-raid5-7:write_cache=64m,read_cache=1600m,scheduler=fifo",
        stack: "guest=none@depth=128,merge=off,per_vm=on/hypervisor=fifo@depth=16,merge=off",
        file_set_gib: 8,
        warm_up: Nanos::from_s(20),
        measured: Nanos::from_s(60),
    };

    /// Other values of each choice, with the names of the choice and of the value.
    pub fn alternatives() -> Vec<(&'static str, &'static str, Testbed)> {
        let frozen = Testbed::FROZEN;
        let depth = "requests that the hypervisor sends at once";
        vec![
            (
                depth,
                "8",
                Testbed {
                    stack: "guest=none@depth=128,merge=off,per_vm=on/hypervisor=fifo@depth=8,merge=off",
                    ..frozen
                },
            ),
            (
                depth,
                "32",
                Testbed {
                    stack: "guest=none@depth=128,merge=off,per_vm=on/hypervisor=fifo@depth=32,merge=off",
                    ..frozen
                },
            ),
            (
                "requests that each VM sends at once",
                "32, and the hypervisor as many",
                Testbed {
                    stack: "guest=none@depth=32,merge=off,per_vm=on/hypervisor=fifo@depth=32,merge=off",
                    ..frozen
                },
            ),
            (
                "requests that each VM sends at once, order within the drives",
                "32, and the hypervisor as many; shortest access time first",
                Testbed {
                    drive: "ds8700-raid5-7:write_cache=64m,read_cache=1600m",
                    stack: "guest=none@depth=32,merge=off,per_vm=on/hypervisor=fifo@depth=32,merge=off",
                    ..frozen
                },
            ),
            (
                "order within the drives",
                "shortest access time first",
                Testbed { drive: "ds8700-raid5-7:write_cache=64m,read_cache=1600m", ..frozen },
            ),
            ("file set of a VM", "4 GiB", Testbed { file_set_gib: 4, ..frozen }),
            ("file set of a VM", "16 GiB", Testbed { file_set_gib: 16, ..frozen }),
        ]
    }

    /// Runs VMs of these threads beside one another, and measures the response times of each.
    ///
    /// # Errors
    /// An invalid part; a file set that does not fit the disk.
    pub fn measure(&self, vms: &[Threads], seed: u64) -> Result<Vec<VmResponses>, ReproduceError> {
        let drive = drive_models::build(&self.drive.parse()?)?.drive;
        let disk = Sectors::new(self.file_set_gib << 21);
        let mut guests = Vec::new();
        for (vm, threads) in vms.iter().enumerate() {
            // The file system's own blocks need a few more.
            let mut files = Files::new(disk + Sectors::new(1 << 21));
            let place = Lba::new(files.capacity().count() * vm as u64);
            let text = jobs(self.file_set_gib, *threads);
            let workload = programs::build_jobs("clients", &text).expect("the job file is well formed");
            let programs = workload.processes(&mut files, seed.wrapping_add((vm as u64) << 32))?;
            guests.push(Guest { name: format!("vm{vm}"), place, files, journal: None, memory: None, programs });
        }
        let from = Timestamp::ZERO + self.warm_up;
        let until = Until { requests: None, time: Some(from + self.measured) };
        let watch = Watch { from, sums: vec![Default::default(); vms.len()] };
        let stack = StackSpec::of(self.stack)?.build(drive);
        let ended = Engine::on(Guests::new(guests, until), stack, watch).run()?;
        Ok(ended.observer.sums.into_iter().map(|vm| vm.map(Sums::responses)).collect())
    }
}

/// fio's job file for the clients: each thread has a request of 4 KiB at a random place of the file set, and issues
/// the next when it is complete.
fn jobs(gib: u64, threads: Threads) -> String {
    let mut text =
        format!("[global]\ndirect=1\nbs=4k\nsize={gib}g\nfilename=set\nnorandommap=1\ntime_based=1\nruntime=86400\n");
    for (name, threads) in ["read", "write"].into_iter().zip(threads) {
        if threads > 0 {
            text.push_str(&format!("[{name}s]\nrw=rand{name}\nnumjobs={threads}\n"));
        }
    }
    text
}
