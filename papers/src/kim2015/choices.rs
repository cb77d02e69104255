//! Choices for details that Kim et al. 2015 leave open.

/// A value for each choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// What Terasort sorts in each VM.
    pub terasort: &'static str,
    /// Megabytes (binary) of a VM's page cache.
    pub cache_mb: u32,
    /// fio's file.
    pub fio_file: &'static str,
    /// IOzone's file, in gigabytes (binary).
    pub iozone_gb: u32,
}

impl Choices {
    /// The chosen values. Terasort's data is the multiple of 8 MB that brings cfq nearest to the paper's 192 s.
    pub const FROZEN: Choices = Choices { terasort: "416m", cache_mb: 800, fio_file: "2g", iozone_gb: 2 };

    /// Every other value of every choice, with the names of the choice and of the value.
    pub fn alternatives() -> Vec<(&'static str, &'static str, Choices)> {
        let frozen = Choices::FROZEN;
        vec![
            ("Terasort's data in each VM", "256 MB", Choices { terasort: "256m", ..frozen }),
            ("Terasort's data in each VM", "1 GB", Choices { terasort: "1g", ..frozen }),
            ("page cache", "600 MB", Choices { cache_mb: 600, ..frozen }),
            ("page cache", "900 MB", Choices { cache_mb: 900, ..frozen }),
            ("fio's file", "4 GB", Choices { fio_file: "4g", ..frozen }),
            ("IOzone's file", "1 GB", Choices { iozone_gb: 1, ..frozen }),
        ]
    }
}
