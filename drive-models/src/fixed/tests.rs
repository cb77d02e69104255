use traces::RequestId;
use traces::spec::Spec;

use super::*;
use crate::drive::DriveModel;

#[test]
fn it_keeps_its_capacity_and_knows_where_its_head_is() {
    let spec: Spec = "fixed:capacity=1m".parse().unwrap();
    let mut drive = SingleServer::new(Fixed::new(&Settings::resolve(&spec, MODEL.tunables).unwrap()));
    assert_eq!(drive.capacity(), Sectors::new(2048));
    let mut done = Vec::new();
    for (id, lba) in [100, 50].into_iter().enumerate() {
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(8));
        drive.submit(Timestamp::ZERO, RequestId(id as u32), &request);
    }
    drive.advance(Timestamp::MAX, &mut done);
    assert_eq!(done.iter().map(|c| c.seek.count()).collect::<Vec<_>>(), [100, 58]);
}
