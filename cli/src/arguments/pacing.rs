//! Arguments on when requests arrive, and at which addresses.

use std::str::FromStr;

use clap::ValueEnum;
use replay::sources::Mapping;
use traces::quantity::Fraction;

use crate::error::UsageError;

/// When requests arrive in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    Recorded,
    Scaled(Fraction),
    Asap(u32),
    Closed,
}

/// Outstanding requests of `--pacing asap` without a number.
const ASAP_OUTSTANDING: u32 = 32;

impl FromStr for Pacing {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Pacing, UsageError> {
        let unknown = || UsageError("expected recorded, scaled=F, asap, asap=N or closed".to_owned());
        match text.split_once('=') {
            None if text == "recorded" => Ok(Pacing::Recorded),
            None if text == "closed" => Ok(Pacing::Closed),
            None if text == "asap" => Ok(Pacing::Asap(ASAP_OUTSTANDING)),
            Some(("asap", n)) => n.parse().ok().filter(|&n| n > 0).map(Pacing::Asap).ok_or_else(unknown),
            Some(("scaled", factor)) => {
                factor.parse().map(Pacing::Scaled).map_err(|error| UsageError(format!("{error}")))
            }
            _ => Err(unknown()),
        }
    }
}

/// When requests arrive in a free run of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FreePacing {
    Closed,
    Recorded,
}

impl From<FreePacing> for replay::Pacing {
    fn from(pacing: FreePacing) -> replay::Pacing {
        match pacing {
            FreePacing::Closed => replay::Pacing::Closed,
            FreePacing::Recorded => replay::Pacing::Recorded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapArgument {
    Exact,
    Wrap,
    Scale,
    Remap,
}

impl std::fmt::Display for MapArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value().expect("no variant is skipped");
        f.write_str(value.get_name())
    }
}

impl MapArgument {
    pub fn mapping(self) -> Mapping {
        match self {
            MapArgument::Exact => Mapping::Exact,
            MapArgument::Wrap => Mapping::Wrap,
            MapArgument::Scale => Mapping::Scale,
            MapArgument::Remap => Mapping::Remap,
        }
    }
}
