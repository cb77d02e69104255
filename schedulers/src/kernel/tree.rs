//! A kernel tree: its version, and the sources that an elevator consists of.

use std::fs;
use std::path::{Path, PathBuf};

use super::BuildError;

/// What must be there: the sources that are taken from a tree whatever the elevator is.
pub(super) const NEEDED: [&str; 8] = [
    "Makefile",
    "block/elevator.h",
    "include/linux/list.h",
    "include/linux/rbtree.h",
    "include/linux/rbtree_types.h",
    "include/linux/rbtree_augmented.h",
    "include/uapi/linux/ioprio.h",
    "lib/rbtree.c",
];

pub(super) struct Tree {
    root: PathBuf,
    pub(super) version: String,
}

impl Tree {
    /// # Errors
    /// A folder that is no kernel tree.
    pub(super) fn open(root: &Path) -> Result<Tree, BuildError> {
        if let Some(missing) = NEEDED.iter().map(|name| root.join(name)).find(|path| !path.is_file()) {
            let problem = "there is no such file, so this is no unpacked tree of Linux's sources".to_owned();
            return Err(BuildError::File { path: missing, problem });
        }
        let path = root.join("Makefile");
        let fail = |problem: String| BuildError::File { path: path.clone(), problem };
        let makefile = fs::read_to_string(&path).map_err(|error| fail(error.to_string()))?;
        let value = |name: &str| {
            let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
            line.map(str::trim).filter(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let [Some(version), Some(level), Some(sub)] = ["VERSION", "PATCHLEVEL", "SUBLEVEL"].map(value) else {
            return Err(fail("it states no VERSION, PATCHLEVEL and SUBLEVEL, so it is not of Linux".to_owned()));
        };
        Ok(Tree { root: root.to_owned(), version: format!("{version}.{level}.{sub}") })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// How messages call a source: relative to the tree if it lies there.
    pub(super) fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// The header that `source` includes by this name: beside it, or in the tree's `block/`.
    pub(super) fn local_header(&self, source: &Path, name: &str) -> Option<PathBuf> {
        let beside = source.parent().unwrap_or(Path::new("")).join(name);
        [beside, self.root.join("block").join(name)].into_iter().find(|path| path.is_file())
    }

    /// The sources of the elevator in `file`: itself, and what `block/Makefile` links with it.
    ///
    /// # Errors
    /// A file that is missing.
    pub(super) fn sources_of(&self, file: &Path) -> Result<Vec<PathBuf>, BuildError> {
        if !file.is_file() {
            let problem = "there is no such file".to_owned();
            return Err(BuildError::File { path: file.to_owned(), problem });
        }
        let makefile = fs::read_to_string(self.root.join("block/Makefile")).unwrap_or_default();
        let object = format!("{}.o", file.file_stem().unwrap_or_default().to_string_lossy());
        let mut sources = vec![file.to_owned()];
        for other in linked_with(&makefile, &object) {
            let name = other.trim_end_matches(".o").to_owned() + ".c";
            let Some(path) = self.local_header(file, &name) else {
                let problem = format!("block/Makefile links it with {}, and it is not there", file.display());
                return Err(BuildError::File { path: self.root.join("block").join(name), problem });
            };
            sources.push(path);
        }
        Ok(sources)
    }
}

/// The other objects of the module that has `object`, as in `bfq-y := bfq-iosched.o bfq-wf2q.o bfq-cgroup.o`.
fn linked_with<'a>(makefile: &'a str, object: &str) -> Vec<&'a str> {
    let objects = |line: &'a str| -> Option<Vec<&'a str>> {
        let (name, objects) = line.split_once(":=").or_else(|| line.split_once("+="))?;
        let is_module = !name.trim_start().starts_with("obj-") && name.trim_end().ends_with("-y");
        is_module.then(|| objects.split_whitespace().collect())
    };
    let modules = makefile.lines().filter_map(objects);
    let of = modules.into_iter().find(|objects| objects.contains(&object)).unwrap_or_default();
    of.into_iter().filter(|&other| other != object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_module_are_found_and_others_left_out() {
        let makefile = "obj-y := bdev.o mq-deadline.o\nbfq-y\t\t:= bfq-iosched.o bfq-wf2q.o bfq-cgroup.o\n\
                        obj-$(CONFIG_IOSCHED_BFQ) += bfq.o\n";
        assert_eq!(linked_with(makefile, "bfq-iosched.o"), ["bfq-wf2q.o", "bfq-cgroup.o"]);
        assert_eq!(linked_with(makefile, "mq-deadline.o"), [""; 0]);
    }

    #[test]
    fn sources_of_an_elevator_are_itself_and_what_the_makefile_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("block")).unwrap();
        let file = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        file("block/Makefile", "bfq-y := bfq-iosched.o bfq-wf2q.o\n");
        file("block/bfq-wf2q.c", "");
        file("mine.c", "");
        let tree = Tree { root: root.to_owned(), version: "6.1.0".to_owned() };
        let elevator = root.join("block/bfq-iosched.c");
        assert!(tree.sources_of(&elevator).is_err());
        file("block/bfq-iosched.c", "");
        assert_eq!(tree.sources_of(&elevator).unwrap(), [elevator.clone(), root.join("block/bfq-wf2q.c")]);
        // Beside the source first, then in the tree.
        assert_eq!(tree.local_header(&root.join("mine.c"), "bfq-wf2q.c"), Some(root.join("block/bfq-wf2q.c")));
        file("bfq-wf2q.c", "");
        assert_eq!(tree.local_header(&root.join("mine.c"), "bfq-wf2q.c"), Some(root.join("bfq-wf2q.c")));
        assert_eq!(tree.local_header(&root.join("mine.c"), "other.h"), None);
        fs::remove_file(root.join("block/bfq-wf2q.c")).unwrap();
        let error = tree.sources_of(&elevator).unwrap_err().to_string();
        assert!(error.contains("bfq-wf2q.c") && error.contains("it is not there"), "{error}");
    }
}
