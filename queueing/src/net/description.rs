//! Nets described in TOML.
