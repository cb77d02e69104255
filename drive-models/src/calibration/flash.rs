//! A solid-state drive from reads of growing size at random positions, one at a time.
//!
//! The transfer time of a byte is the least growth of time with size among the *fastest* reads of each size. The data
//! of these was spread over dies and channels, so that only the link to the host remains. The time of a page beyond its
//! transfer, as the median of the fitted half, is the sum of the controller's time, other overheads and the dies' read
//! time. Reads that are alone cannot separate these. Everything that only writes or queues would determine is taken
//! from the shipped drive whose link is more alike.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::calibration::Parameter;
use traces::spec::Spec;
use traces::{Lba, Nanos, Sectors, Timestamp};

use super::{DeviceError, FitError, FitEvidence, FittedModel, MeasuredDevice, ModelFit, ProfileText};
use crate::Profile;
use crate::flash::MODEL;

/// The table's row.
pub(super) const FIT: ModelFit = ModelFit {
    name: "flash",
    summary: "time of a read and transfer by reads of growing size; the rest of a shipped SSD",
    fit,
};

/// Where what reads do not show is taken from.
const SHIPPED: [&str; 2] = ["nvme-ssd", "sata-ssd"];
/// Sizes that are read beside the page, each four times as long as the one before: to 1 MiB.
const STEPS: u32 = 4;
/// Reads of each size.
const PROBES: u32 = 256;

fn fit(evidence: &FitEvidence, device: Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError> {
    let refused = |why: &str| Err(FitError::NotFitted(why.to_owned()));
    let Some(device) = device else {
        return refused("a trace cannot be asked for reads of every size: calibrate the drive itself (--device)");
    };
    if evidence.depends_on_distance {
        return refused("the times depend on distance, which those of flash do not");
    }
    let mut half = evidence.reads.half(true);
    let (Some(read), false) = (evidence.reads.measurements.first(), half.is_empty()) else {
        return refused("there are no reads");
    };
    let page = read.request.sectors();
    let middle = half.len() / 2;
    let median = half.select_nth_unstable_by_key(middle, |(_, time)| *time).1.1.as_ns() as f64;
    let (byte_ps, longest) = transfer(device, page, evidence.seed)?;
    if byte_ps < 0.5 {
        return refused("longer reads take no more time than short ones, so there is no transfer to be found");
    }
    let (shipped, link) = shipped(byte_ps);
    let taken = shipped.resolve(&MODEL, &named(&shipped, &[])).expect("a shipped profile is complete");
    let units = page.bytes().next_multiple_of(taken.bytes("mapping_unit"));
    let channel = (units * taken.count("channel_byte_ps")) as f64 / 1e3;
    let sum = median - page.bytes() as f64 * byte_ps / 1e3 - channel;
    let behind_command = sum - taken.nanos("command").as_ns() as f64;
    if behind_command < 0.0 {
        return Err(FitError::NotFitted(format!(
            "a read takes {median} ns, less than the controller and a channel of {} alone: it is answered from memory",
            shipped.name
        )));
    }
    let read_time = behind_command.min(taken.nanos("read_time").as_ns() as f64);
    let origin = evidence.origin;
    let name = &shipped.name;
    let inseparable = format!(
        "median of {} reads of {} bytes of {origin}, less their transfer and command, read_time and channel of {name}: only \
         the sum of all is measured, which reads one at a time do not take apart",
        half.len(),
        page.bytes()
    );
    let growth = format!(
        "least growth of the fastest of {PROBES} reads of each size from {} to {} bytes of {origin}",
        page.bytes(),
        longest.bytes()
    );
    let found = [
        ("capacity", evidence.capacity.bytes().to_string(), "as measured or given"),
        ("read_overhead", format!("{}ns", (behind_command - read_time).round()), &inseparable),
        ("read_time", format!("{}ns", read_time.round()), &inseparable),
        ("link_byte_ps", format!("{}", byte_ps.round()), &growth),
    ];
    let settings =
        shipped.resolve(&MODEL, &named(&shipped, &found)).map_err(|error| FitError::NotFitted(error.to_string()))?;
    (MODEL.check)(&settings)
        .map_err(|contradiction| FitError::NotFitted(contradiction.among(&settings, name).to_string()))?;
    let from = format!("taken over from {name}: not measurable by reads alone");
    let text = ProfileText::new("flash", &format!("reads of {origin}, all else of {name}"));
    let profile = MODEL.tunables.iter().fold(text, |text, tunable| {
        match found.iter().find(|(setting, ..)| *setting == tunable.name) {
            Some((setting, value, source)) => text.setting(setting, value, source),
            None => text.setting(tunable.name, &shipped.settings[tunable.name].0, &from),
        }
    });
    Ok(FittedModel {
        profile,
        parameters: vec![
            Parameter::new("command_and_read_ns", sum.round(), "controller, other overheads and the dies' read time"),
            Parameter::new("transfer_byte_ps", byte_ps.round(), "transfer to the host, of a byte"),
        ],
        notes: vec![
            format!(
                "command, read_overhead and read_time are one sum, since reads one at a time do not take them apart; it is \
                 split as in {name}"
            ),
            format!(
                "writes, queues and what is inside the drive were not measured and are those of {name}, whose link of \
                 {:.2} ns a byte is the more alike of the shipped ones",
                link / 1e3
            ),
        ],
    })
}

/// The least growth of the fastest reads from a page to each larger size, in ps a byte; and the largest.
fn transfer(device: &mut dyn MeasuredDevice, page: Sectors, seed: u64) -> Result<(f64, Sectors), DeviceError> {
    let capacity = device.capacity().count();
    let sizes = (0..=STEPS).map(|step| page.count() << (2 * step)).filter(|&sectors| sectors <= capacity);
    let mut fastest: Vec<(u64, Nanos)> = sizes.map(|sectors| (sectors, Nanos::from_ns(u64::MAX))).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // All sizes in turn, so that whatever else happens meanwhile happens to each.
    for _ in 0..PROBES {
        for (sectors, least) in &mut fastest {
            let places = (capacity - *sectors) / page.count() + 1;
            let lba = Lba::new(random.random_range(0..places) * page.count());
            let measured = device.read(Timestamp::ZERO, lba, Sectors::new(*sectors))?;
            *least = measured.service.min(*least);
        }
    }
    let (short, alone) = fastest[0];
    let growth = fastest[1..].iter().map(|(sectors, time)| {
        (time.as_ns() as f64 - alone.as_ns() as f64) * 1e3 / Sectors::new(sectors - short).bytes() as f64
    });
    let longest = fastest.last().map_or(short, |(sectors, _)| *sectors);
    Ok((growth.fold(f64::INFINITY, f64::min), Sectors::new(longest)))
}

/// The shipped drive whose link is the more alike, by ratio, and that link's ps a byte.
fn shipped(byte_ps: f64) -> (Profile, f64) {
    let drives = SHIPPED.map(|name| {
        let profile = Profile::shipped(name).expect("the drive is shipped");
        let link = profile.settings["link_byte_ps"].0.parse::<f64>().expect("a setting that was checked");
        (profile, link)
    });
    let unlike = |link: f64| (link / byte_ps).ln().abs();
    let [one, other] = drives;
    if unlike(one.1) <= unlike(other.1) { one } else { other }
}

/// A profile with settings of one's own.
fn named(profile: &Profile, settings: &[(&str, String, &str)]) -> Spec {
    let given = settings.iter().map(|(name, value, _)| ((*name).to_owned(), value.clone())).collect();
    Spec { name: profile.name.clone(), given }
}
