//! The packages' imports obey docs/ARCHITECTURE.md, by cargo's own metadata.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// By folder: the packages that each package may depend on, dev-dependencies apart.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("traces", &[]),
    ("queueing", &["traces"]),
    ("schedulers", &["traces"]),
    ("drive-models", &["traces", "schedulers"]),
    ("replay", &["traces", "schedulers", "drive-models"]),
    ("workloads", &["traces", "schedulers", "drive-models", "replay"]),
    ("predictors", &["traces", "queueing", "schedulers", "drive-models", "replay", "workloads"]),
    ("papers", &["traces", "schedulers", "drive-models", "replay", "workloads", "predictors"]),
    ("report", &["traces"]),
    ("capture", &["traces"]),
    ("serve", &["traces", "schedulers", "drive-models"]),
    (
        "cli",
        &[
            "traces",
            "schedulers",
            "drive-models",
            "replay",
            "workloads",
            "predictors",
            "queueing",
            "papers",
            "report",
            "capture",
            "serve",
            "benches",
        ],
    ),
    ("benches", &["traces", "schedulers", "drive-models", "replay", "workloads"]),
];

#[test]
fn packages_import_only_what_they_may() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let rules: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    // By package: its folder, which the table names.
    let folder = |package: &Package| package.manifest_path.parent().unwrap().file_name().unwrap().to_owned();
    let folders: BTreeMap<&str, String> =
        metadata.packages.iter().map(|package| (package.name.as_str(), folder(package))).collect();
    for package in &metadata.packages {
        let name = &folders[package.name.as_str()];
        let allowed = rules.get(&**name).unwrap_or_else(|| panic!("{name} is missing from the table of imports"));
        let imports = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        for import in imports.filter_map(|import| folders.get(import.name.as_str())) {
            assert!(allowed.contains(&&**import), "{name} may not import {import}");
        }
    }
    assert_eq!(metadata.packages.len(), MAY_IMPORT.len(), "the table names packages that do not exist");
}
