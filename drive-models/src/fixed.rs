//! A drive that takes the same time for everything: the test double, and the service process of
//! queueing formulas (D in M/D/1). Its write cache may be declared volatile, in which case flushes
//! reach it and take a time of their own; which data would be lost is not modelled.

use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel, WriteCache};
use crate::registry::Model;
use crate::single_server::{Service, SingleServer};

/// The registry's row.
pub const MODEL: Model = Model {
    name: "fixed",
    summary: "every access takes the same time (test double)",
    tunables: &[
        Tunable::new("service", Unit::Time, "1ms", "time of a read, write or discard").within(0, 1_000_000_000_000),
        Tunable::new("flush", Unit::Time, "1ms", "time of a flush, if the write cache is volatile")
            .within(0, 1_000_000_000_000),
        Tunable::new("capacity", Unit::Bytes, "1t", "capacity").within(512, 1 << 62),
        Tunable::new(
            "write_cache",
            Unit::Choice(&["through", "volatile", "volatile-fua"]),
            "through",
            "whether completed writes are durable, need a flush, or may ask for forced unit access",
        ),
    ],
    build: |settings| Box::new(Fixed::new(settings)),
};

/// The drive.
#[derive(Debug)]
pub struct Fixed {
    service: Nanos,
    flush: Nanos,
    capacity: Sectors,
    write_cache: WriteCache,
    position: Lba,
    server: SingleServer,
}

impl Fixed {
    /// A drive with the settings of [`MODEL`].
    pub fn new(settings: &Settings) -> Fixed {
        Fixed {
            service: settings.nanos("service"),
            flush: settings.nanos("flush"),
            capacity: Sectors::new(settings.bytes("capacity") / traces::SECTOR_BYTES),
            write_cache: match settings.word("write_cache") {
                "through" => WriteCache::Through,
                word => WriteCache::Volatile { fua: word == "volatile-fua" },
            },
            position: Lba::ZERO,
            server: SingleServer::default(),
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

impl DriveModel for Fixed {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let service = if request.operation == Operation::Flush {
            Service { time: self.flush, seek: Sectors::ZERO, hit: false }
        } else {
            let seek = self.position.distance(request.lba);
            self.position = request.end();
            Service { time: self.service, seek, hit: false }
        };
        self.server.submit(now, id, service);
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.server.next_event()
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.server.advance(now, completions);
    }

    fn cost(&self) -> &dyn AccessCost {
        self
    }

    fn write_cache(&self) -> WriteCache {
        self.write_cache
    }

    fn discards(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use traces::spec::Spec;

    use super::*;

    #[test]
    fn it_keeps_its_capacity_and_knows_where_its_head_is() {
        let spec: Spec = "fixed:capacity=1m".parse().unwrap();
        let mut drive = Fixed::new(&Settings::resolve(&spec, MODEL.tunables).unwrap());
        assert_eq!(DriveModel::capacity(&drive), Sectors::new(2048));
        let mut done = Vec::new();
        for (id, lba) in [100, 50].into_iter().enumerate() {
            let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8));
            drive.submit(Timestamp::ZERO, RequestId(id as u32), &request);
        }
        drive.advance(Timestamp::MAX, &mut done);
        assert_eq!(done.iter().map(|c| c.seek.count()).collect::<Vec<_>>(), [100, 58]);
    }
}
