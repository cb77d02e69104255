//! How results and traces name the files that they come from. An absolute path tells about the host and its users, and
//! nothing to others.

use std::path::Path;

/// The path as it was given if it is relative or names a device, else the file's name alone.
pub fn without_folders(path: &str) -> &str {
    let is_name = |name: &&str| !name.is_empty() && !matches!(*name, "." | "..");
    match path.strip_prefix('/') {
        Some(absolute) if !absolute.starts_with("dev/") => path.rsplit('/').find(is_name).unwrap_or(path),
        _ => path,
    }
}

/// The file's name without folders and extensions.
pub fn short_name(path: &Path) -> String {
    let file = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    file.split('.').next().filter(|name| !name.is_empty()).unwrap_or(&file).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_path_is_named_by_its_file() {
        for (path, named) in [
            ("/home/alice/lab/lun.img", "lun.img"),
            ("/tmp/x/", "x"),
            ("traces/mail.parquet", "traces/mail.parquet"),
            ("../mail.parquet", "../mail.parquet"),
            ("/dev/disk/by-id/x", "/dev/disk/by-id/x"),
            ("-", "-"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(without_folders(path), named);
        }
    }

    #[test]
    fn a_part_names_its_profiles_without_folders() {
        let spec = |text: &str| text.parse::<crate::spec::Spec>().unwrap().without_folders().to_string();
        assert_eq!(spec("/home/alice/disk.toml:cache=off"), "disk.toml:cache=off");
        assert_eq!(spec("throttle:virtual=/home/alice/disk.toml,k=2"), "throttle:virtual=disk.toml,k=2");
        assert_eq!(spec("profiles/disk.toml"), "profiles/disk.toml");
    }
}
