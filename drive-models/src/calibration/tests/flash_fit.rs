//! Solid-state drives of our own, found again by their reads.

use super::*;

/// The times of `drive` for the controller, other overheads and its dies, in ns, and for a byte of its link.
fn known_of(drive: &str) -> (f64, f64) {
    let spec = drive.parse().unwrap();
    let profile = Profile::shipped(drive.split(':').next().unwrap()).unwrap();
    let settings = profile.resolve(&crate::flash::MODEL, &spec).unwrap();
    let sum: u64 = ["command", "read_overhead", "read_time"].iter().map(|name| settings.nanos(name).as_ns()).sum();
    (sum as f64, settings.count("link_byte_ps") as f64)
}

#[test]
fn a_solid_state_drive_of_our_own_is_found_again() {
    for (name, like) in [
        ("nvme-ssd", "nvme-ssd"),
        ("sata-ssd", "sata-ssd"),
        ("nvme-ssd:read_overhead=100us,link_byte_ps=600", "nvme-ssd"),
        ("nvme-ssd:read_time=20us,read_overhead=0,link_byte_ps=150", "nvme-ssd"),
        ("sata-ssd:read_overhead=300us,link_byte_ps=3600", "sata-ssd"),
    ] {
        let mut drive = simulated(name);
        let reads = measured(&mut drive, 1_000);
        let found = fitted("flash", &reads, &mut drive).unwrap();
        let (sum, byte_ps) = known_of(name);
        within(parameter(&found, "command_and_read_ns"), sum, 0.01);
        within(parameter(&found, "transfer_byte_ps"), byte_ps, 0.01);
        let judged = judged(&found, &reads);
        assert!(judged.distribution.relative_rms < 0.01, "{name}: {judged:?}");
        let profile = Profile::parse("fitted", &found.profile.render("none")).unwrap();
        let setting = |name: &str| &profile.settings[name];
        let shipped = Profile::shipped(like).unwrap();
        assert_eq!(setting("channels").0, shipped.settings["channels"].0);
        assert_eq!(setting("erase_time").1, format!("taken over from {like}: not measurable by reads alone"));
        assert!(setting("read_overhead").1.contains("do not take apart"), "{:?}", setting("read_overhead"));
    }
}

#[test]
fn device_that_is_no_flash_drive_is_refused() {
    for (drive, why) in [
        ("cheetah-15k4:cache=off", "the times depend on distance"),
        ("fixed", "longer reads take no more time"),
        ("nvme-ssd:command=0,read_time=0,read_overhead=0", "a read takes 7421 ns, less than"),
        ("nvme-ssd:dies=1,channels=4,simulated=64m,capacity=64m", "nvme-ssd:capacity=`67108864` is not at least"),
    ] {
        let mut drive = simulated(drive);
        let reads = measured(&mut drive, 1_000);
        let refused = fitted("flash", &reads, &mut drive).unwrap_err().to_string();
        assert!(refused.starts_with(why), "{refused}");
    }
    let mut drive = simulated("nvme-ssd");
    let reads = measured(&mut drive, 1_000);
    let evidence = FitEvidence {
        reads: &reads,
        capacity: drive.capacity(),
        origin: "a trace",
        depends_on_distance: false,
        force_linear: false,
        heads: None,
        seed: 5,
    };
    let refused = (flash::FIT.fit)(&evidence, None).unwrap_err().to_string();
    assert!(refused.starts_with("a trace cannot be asked"), "{refused}");
}

/// A solid-state drive behind a host that sees each completion up to 20 us late.
struct LateHost {
    drive: SimulatedDevice,
    random: Xoshiro256PlusPlus,
}

impl MeasuredDevice for LateHost {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn granule(&self) -> Sectors {
        self.drive.granule()
    }

    fn now(&self) -> Timestamp {
        self.drive.now()
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        let measured = self.drive.read(at, lba, sectors)?;
        let late = Nanos::from_ns(self.random.random_range(0..20_000));
        Ok(Measurement { service: measured.service + late, ..measured })
    }
}

#[test]
fn a_late_host_counts_as_overhead_and_hardly_as_transfer() {
    for name in ["nvme-ssd", "sata-ssd"] {
        let mut drive = LateHost { drive: simulated(name), random: Xoshiro256PlusPlus::seed_from_u64(7) };
        let reads = measured(&mut drive, 1_000);
        let found = fitted("flash", &reads, &mut drive).unwrap();
        let (sum, byte_ps) = known_of(name);
        within(parameter(&found, "command_and_read_ns"), sum + 10_000.0, 0.02);
        within(parameter(&found, "transfer_byte_ps"), byte_ps, 0.1);
    }
}
