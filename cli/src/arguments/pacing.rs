//! Arguments on when requests arrive, and at which addresses.

use clap::ValueEnum;
use replay::sources::Mapping;

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
