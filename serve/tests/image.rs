//! Images: creation, locking, holes, and the files that are refused.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iocast_serve::image::Image;
use iocast_serve::{ImageSource, Opening};
use traces::Sectors;

fn at(path: &Path) -> ImageSource {
    ImageSource::Path(path.to_owned())
}

fn made(length: u64) -> Opening {
    Opening { create: Some(Sectors::new(length)), ..Opening::default() }
}

fn refusal(path: &Path, opening: Opening) -> String {
    Image::open(&at(path), opening).unwrap_err().to_string()
}

#[test]
fn created_file_is_sparse_and_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    assert!(refusal(&path, Opening::default()).ends_with("there is no such file; --create SIZE makes a sparse one"));
    let image = Image::open(&at(&path), made(1 << 21)).unwrap();
    assert_eq!(image.length(), Sectors::new(1 << 21));
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.len() == 1 << 30 && metadata.blocks() < 64, "1 GiB that takes no space");
    assert!(refusal(&path, Opening::default()).ends_with("another server uses it"));
    assert!(refusal(&path, made(8)).contains("it exists already; leave out --create"));
    image.write(&[5; 8192], 4096).unwrap();
    image.zero(4096, 4096).unwrap();
    drop(image);
    let again = Image::open(&at(&path), Opening::default()).unwrap();
    let mut bytes = [1; 8192];
    again.read(&mut bytes, 4096).unwrap();
    assert!(bytes[..4096] == [0; 4096] && bytes[4096..] == [5; 4096]);
}

#[test]
fn zeroing_a_file_frees_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let image = Image::open(&at(&path), made(1 << 12)).unwrap();
    image.write(&vec![5; 1 << 20], 0).unwrap();
    image.sync().unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    image.zero(0, 1 << 20).unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert!(after.blocks() + 1000 < before, "{before} blocks before, {} after", after.blocks());
    assert_eq!(after.len(), 1 << 21, "its length stays the same");
}

#[test]
fn path_that_is_no_image_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(folder.path(), Opening::default()).ends_with("it is neither a file nor a block device"));
    assert!(refusal(Path::new("/dev/null"), Opening::default()).ends_with("it is neither a file nor a block device"));
    let odd = folder.path().join("odd");
    for length in [0, 1000] {
        std::fs::write(&odd, vec![0; length]).unwrap();
        let error = refusal(&odd, Opening::default());
        assert!(error.contains(&format!("its {length} bytes are not a whole number of 512-byte sectors")), "{error}");
    }
    let empty = folder.path().join("empty");
    assert!(refusal(&empty, made(0)).contains("its 0 bytes"));
    assert!(!empty.exists(), "no file was created");
    // A server that was killed before the file had its length.
    std::fs::write(&empty, "").unwrap();
    assert_eq!(Image::open(&at(&empty), made(8)).unwrap().length(), Sectors::new(8));
    let memory = Image::open(&ImageSource::Memory(Sectors::ZERO), Opening::default()).unwrap_err();
    assert!(memory.to_string().starts_with("image memory: its 0 bytes"));
}
