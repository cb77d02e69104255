//! The folder of headers that a source is compiled with: the shim's, the tree's own, and for each other header that
//! something includes one that leads to the shim.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SHIM_HEADERS;
use super::tree::Tree;

/// Headers that are taken from the tree.
const FROM_TREE: [&str; 5] =
    ["linux/list.h", "linux/rbtree.h", "linux/rbtree_types.h", "linux/rbtree_augmented.h", "uapi/linux/ioprio.h"];
/// Headers beside the sources that are the block layer's and not the elevator's, by how their names begin. The shim
/// stands in for them.
const OF_BLOCK_LAYER: [&str; 2] = ["blk.h", "blk-"];
/// What leads to the shim.
const TO_SHIM: &str = "#include <iocast/block.h>\n";

/// Where a header is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Included {
    /// `<linux/list.h>`
    Angle(String),
    /// `"elevator.h"`
    Quoted(String),
}

/// Writes all headers below `folder`: those of `<>` in `include/`, those of quotation marks in `local/`.
pub(super) fn write(folder: &Path, tree: &Tree, sources: &[PathBuf]) -> io::Result<()> {
    let (include, local) = (folder.join("include"), folder.join("local"));
    fs::create_dir_all(include.join("iocast"))?;
    fs::create_dir_all(&local)?;
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for (name, text) in SHIM_HEADERS {
        fs::write(include.join("iocast").join(name), text)?;
        texts.push((PathBuf::new(), text.to_owned()));
    }
    for path in sources.iter().chain([&tree.file("lib/rbtree.c"), &tree.file("block/elevator.h")]) {
        texts.push((path.clone(), fs::read_to_string(path)?));
    }
    let mut done = BTreeSet::new();
    while let Some((of, text)) = texts.pop() {
        for included in text.lines().filter_map(included) {
            if done.insert(included.clone()) {
                texts.extend(place(&included, &of, tree, &include, &local)?);
            }
        }
    }
    // The shim's own sources include it, whoever else does.
    fs::copy(tree.file("block/elevator.h"), local.join("elevator.h"))?;
    Ok(())
}

/// Puts one header in its place. Returns the text of one that may include others.
fn place(
    included: &Included,
    of: &Path,
    tree: &Tree,
    include: &Path,
    local: &Path,
) -> io::Result<Option<(PathBuf, String)>> {
    let (at, source) = match included {
        Included::Angle(name) if is_of_kernel(name) => {
            let from_tree = FROM_TREE.contains(&name.as_str());
            (include.join(name), from_tree.then(|| tree.file("include").join(name)))
        }
        Included::Angle(_) => return Ok(None),
        Included::Quoted(name) if OF_BLOCK_LAYER.iter().any(|begin| name.starts_with(begin)) => {
            (local.join(name), None)
        }
        Included::Quoted(name) => (local.join(name), tree.local_header(of, name)),
    };
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = source.as_ref().map_or_else(|| Ok(TO_SHIM.to_owned()), fs::read_to_string)?;
    fs::write(&at, &text)?;
    Ok(source.map(|path| (path, text)))
}

/// Whether a header is the kernel's, not the compiler's or the shim's.
fn is_of_kernel(name: &str) -> bool {
    ["linux/", "asm/", "asm-generic/", "trace/", "uapi/", "vdso/", "generated/"].iter().any(|of| name.starts_with(of))
}

/// The header that a line includes. A name that would leave the folder is none.
fn included(line: &str) -> Option<Included> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let (named, as_angle) = match rest.strip_prefix('<') {
        Some(rest) => (rest.split_once('>')?.0, true),
        None => (rest.strip_prefix('"')?.split_once('"')?.0, false),
    };
    let stays = !named.is_empty() && !named.starts_with('/') && !named.split('/').any(|part| part == "..");
    let named = named.to_owned();
    stays.then_some(if as_angle { Included::Angle(named) } else { Included::Quoted(named) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_off_a_line_and_stay_in_their_folder() {
        assert_eq!(included("# include <linux/list.h>"), Some(Included::Angle("linux/list.h".to_owned())));
        assert_eq!(included("#include \"blk.h\" // x"), Some(Included::Quoted("blk.h".to_owned())));
        for line in
            ["include <x.h>", "#include MACRO", "#include \"../../etc/x.h\"", "#include </etc/passwd>", "#define a"]
        {
            assert_eq!(included(line), None, "{line}");
        }
    }
}
