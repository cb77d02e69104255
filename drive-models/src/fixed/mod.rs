//! A drive that takes the same time for every request. It is the test double, and the service process of queueing
//! formulas (D in M/D/1).
//!
//! Its write cache may be declared volatile. Flushes then reach the drive and take a time of their own. Which data a
//! power failure would lose is not modelled.

use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::description::SettingsAlone;
use crate::drive::WriteCache;
use crate::model_row::{ModelRow, memory_without_tables, never_contradict, queue_of_one_at_a_time};
use crate::single_server::{Service, ServiceModel, SingleServer};

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "fixed",
    summary: "every access takes the same time (test double)",
    tunables: &[
        Tunable::new("service", Unit::Time, "1ms", "time of a read, write or discard").within(0, 1_000_000_000_000),
        Tunable::new("flush", Unit::Time, "1ms", "time of a flush, if the write cache is volatile")
            .within(0, 1_000_000_000_000),
        Tunable::new("capacity", Unit::Bytes, "1t", "capacity").within(512, 1 << 62),
        WriteCache::TUNABLE,
    ],
    one_at_a_time: true,
    queue_depth: queue_of_one_at_a_time,
    is_rotational: false,
    check: never_contradict,
    memory: memory_without_tables,
    sections: &[],
    describe: |_| Ok(Box::new(SettingsAlone(|settings| Box::new(SingleServer::new(Fixed::new(settings)))))),
};

/// The drive's service times.
#[derive(Debug)]
pub struct Fixed {
    service: Nanos,
    flush: Nanos,
    capacity: Sectors,
    write_cache: WriteCache,
    position: Lba,
}

impl Fixed {
    /// A drive with the settings of [`MODEL`].
    pub fn new(settings: &Settings) -> Fixed {
        Fixed {
            service: settings.nanos("service"),
            flush: settings.nanos("flush"),
            capacity: Sectors::new(settings.bytes("capacity") / traces::SECTOR_BYTES),
            write_cache: WriteCache::from_settings(settings),
            position: Lba::ZERO,
        }
    }
}

impl AccessCost for Fixed {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
        self.service
    }
}

impl ServiceModel for Fixed {
    fn serve(&mut self, _started: Timestamp, request: &Request) -> Service {
        if request.operation == Operation::Flush {
            return Service { time: self.flush, seek: Sectors::ZERO, hit: false };
        }
        let seek = self.position.distance(request.lba);
        self.position = request.end();
        Service { time: self.service, seek, hit: false }
    }

    fn write_cache(&self) -> WriteCache {
        self.write_cache
    }

    fn discards(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
