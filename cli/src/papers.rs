//! The papers that `iocast reproduce` regenerates, of all packages.

use replay::papers::Paper;

/// Every paper that can be regenerated.
pub fn papers() -> impl Iterator<Item = &'static Paper> {
    replay::papers::PAPERS.iter().chain(predictors::papers::PAPERS)
}
