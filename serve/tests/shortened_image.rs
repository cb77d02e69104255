//! An image that another program shortens while it is served.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::fs::File;

use support::{EIO, READ, TestServer, described};

#[test]
fn reads_beyond_its_end_fail_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let image = File::create(&path).unwrap();
    image.set_len(1 << 20).unwrap();
    let server = TestServer::start(described("fixed:service=0", path.to_str().unwrap()));
    let mut client = server.client("");
    for offset in [0, 512 << 10] {
        client.write(offset, &[7; 4096], 0);
    }
    image.set_len(4096).unwrap();
    assert_eq!(client.fail(READ, 0, 512 << 10, 4096, &[]), EIO);
    assert_eq!(client.read(0, 4096), [7; 4096]);
    // A write makes the file longer again.
    client.write(512 << 10, &[9; 4096], 0);
    assert_eq!(client.read(512 << 10, 4096), [9; 4096]);
    let (report, _log) = server.end();
    assert_eq!(report.failed, 1);
}
