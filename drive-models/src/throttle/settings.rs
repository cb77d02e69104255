//! A throttle's tunables.

use traces::Nanos;
use traces::spec::{Settings, Tunable, Unit};

use super::control::Rules;
use super::scale::ThrottleScale;
use crate::description::Contradiction;

/// Largest time that a tunable takes: 1,000 s.
const TIME_MAX: u64 = 1_000_000_000_000;
/// Largest k, in thousandths.
const K_MAX: u64 = 1_000_000_000;

/// A throttle's own tunables, beside the virtual disk. The defaults are the paper's disk.
pub(super) const TUNABLES: &[Tunable] = &[
    Tunable::new("k", Unit::Decimal, "8", "scale factor: every request takes k times as long as on the real disk")
        .within(1, K_MAX),
    Tunable::new("dynamic", Unit::Switch, "off", "whether k adapts to the speed of the virtual disk"),
    Tunable::new("raise", Unit::Decimal, "1.1", "factor of a dynamic k for a completion after its target")
        .within(1001, 1_000_000),
    Tunable::new("lower", Unit::Decimal, "0.95", "factor of a dynamic k for a long queue of held completions")
        .within(1, 999),
    Tunable::new("lower_at", Unit::Count, "16", "how many held completions are a long queue; 0 is never")
        .within(0, 1 << 20),
    Tunable::new("k_min", Unit::Decimal, "0.001", "lower bound of a dynamic k").within(1, K_MAX),
    Tunable::new("k_max", Unit::Decimal, "1000000", "upper bound of a dynamic k").within(1, K_MAX),
    Tunable::new("timer", Unit::Time, "0", "period with which held completions are checked; 0 is exact")
        .within(0, TIME_MAX),
    Tunable::new("overhead", Unit::Time, "0", "time that measuring adds to every request, independent of k")
        .within(0, TIME_MAX),
    Tunable::new("a", Unit::Time, "4.25ms", "real disk: cost of an access without a seek").within(0, TIME_MAX),
    Tunable::new("b", Unit::Time, "5.25ms", "real disk: cost of a seek over the whole capacity on top of it")
        .within(0, TIME_MAX),
    Tunable::new("per_byte_ps", Unit::Count, "0", "real disk: transfer time in picoseconds per byte")
        .within(0, 1_000_000_000),
    Tunable::new("cache", Unit::Switch, "on", "real disk: the on-board cache"),
    Tunable::new("segments", Unit::Count, "64", "real disk: cache segments").within(1, 4096),
    Tunable::new("segment_sectors", Unit::Count, "221", "real disk: sectors a segment holds").within(1, 1 << 20),
    Tunable::new("prefetch_sectors", Unit::Count, "64", "real disk: sectors read ahead behind every read")
        .within(0, 1 << 20),
    Tunable::new("fill_on_hit", Unit::Switch, "on", "real disk: whether a hit, too, enters the cache"),
    Tunable::new("hit", Unit::Time, "250us", "real disk: service time of a cache hit").within(0, TIME_MAX),
];

/// A throttle's settings, in accord with one another.
#[derive(Clone, Debug)]
pub struct ThrottleSettings {
    /// The k of the first request.
    pub k: ThrottleScale,
    /// Whether k changes.
    pub dynamic: bool,
    /// How, if it does.
    pub rules: Rules,
    /// The period with which held completions are checked; zero is exact.
    pub timer: Nanos,
    /// The overhead that measuring adds to every request.
    pub overhead: Nanos,
    /// Whether the clock that drives the throttle already runs k times slower.
    clock_is_slowed: bool,
    /// The tunables of the line and the cache, which are the linear model's.
    pub(super) line: Settings,
}

impl ThrottleSettings {
    /// Checks settings against each other.
    ///
    /// # Errors
    /// A k outside its bounds, or bounds that no k satisfies: the tunable to change and why.
    pub fn new(settings: &Settings) -> Result<ThrottleSettings, Contradiction> {
        let scale = |name| ThrottleScale::from_millionths(settings.thousandths(name).saturating_mul(1000));
        let (k, least, largest) = (scale("k"), scale("k_min"), scale("k_max"));
        let at_least = |tunable, than: &str| {
            Err(Contradiction { tunable, expected: format!("at least {than}={}", settings.word(than)) })
        };
        if largest < least {
            return at_least("k_max", "k_min");
        }
        if k < least {
            return at_least("k", "k_min");
        }
        if k > largest {
            return Err(Contradiction { tunable: "k", expected: format!("at most k_max={}", settings.word("k_max")) });
        }
        let (raise, lower) = (settings.thousandths("raise"), settings.thousandths("lower"));
        Ok(ThrottleSettings {
            k,
            dynamic: settings.switch("dynamic"),
            rules: Rules { raise, lower, lower_at: settings.count("lower_at"), least, largest },
            timer: settings.nanos("timer"),
            overhead: settings.nanos("overhead"),
            clock_is_slowed: false,
            line: settings.clone(),
        })
    }

    /// The same for the line and the cache of `line`, a drive of the linear model.
    #[must_use]
    pub fn of_line(&self, line: &Settings) -> ThrottleSettings {
        ThrottleSettings { line: line.clone(), ..self.clone() }
    }

    /// The same for a clock that runs k times slower, so that its times are the real disk's.
    #[must_use]
    pub fn on_slowed_clock(&self) -> ThrottleSettings {
        ThrottleSettings { clock_is_slowed: true, ..self.clone() }
    }

    /// How many times slower the clock runs, with the factor `k` in force.
    pub(super) fn slows_clock(&self, k: ThrottleScale) -> ThrottleScale {
        if self.clock_is_slowed { k } else { ThrottleScale::ONE }
    }

    /// The factor between the real disk's times and those of the clock, with the factor `k` in force.
    pub(super) fn slows(&self, k: ThrottleScale) -> ThrottleScale {
        if self.clock_is_slowed { ThrottleScale::ONE } else { k }
    }

    /// The same with a k that begins at `k` and changes.
    #[must_use]
    pub fn dynamic_from(&self, k: ThrottleScale) -> ThrottleSettings {
        ThrottleSettings { k, dynamic: true, ..self.clone() }
    }

    /// The same with a k that stays a step above `k`, where a late completion would raise a dynamic k to.
    #[must_use]
    pub fn raised_from(&self, k: ThrottleScale) -> ThrottleSettings {
        self.fixed_at(k.raised(self.rules.raise).min(self.rules.largest))
    }

    /// The same with a k that stays `k`.
    #[must_use]
    pub fn fixed_at(&self, k: ThrottleScale) -> ThrottleSettings {
        ThrottleSettings { k, dynamic: false, ..self.clone() }
    }
}
