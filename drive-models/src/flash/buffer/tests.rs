use super::*;

#[test]
fn flush_waits_for_earlier_units_only() {
    let mut buffer = WriteBuffer::new(4);
    assert_eq!(buffer.end_epoch(), None);
    let one = buffer.put(10).unwrap();
    let epoch = buffer.end_epoch().unwrap();
    assert!(buffer.urgent());
    let two = buffer.put(11).unwrap();
    buffer.place_in_row(one, 100, NONE);
    assert!(!buffer.urgent() && !buffer.is_clean(epoch));
    assert_eq!(buffer.programmed(one), (Some(10), 100, NONE));
    assert!(buffer.is_clean(epoch));
    let later = buffer.end_epoch().unwrap();
    assert_eq!(buffer.drop_unit(two), None);
    assert!(buffer.is_clean(later));
}

#[test]
fn slots_are_reused_and_never_exceed_the_capacity() {
    let mut buffer = WriteBuffer::new(2);
    let (one, two) = (buffer.put(1).unwrap(), buffer.put(2).unwrap());
    assert_eq!((buffer.put(3), buffer.waiting()), (None, 2));
    buffer.drop_unit(one);
    assert_eq!(buffer.oldest_waiting(), Some((two, 2)));
    assert_eq!((buffer.put(3), buffer.put(4)), (Some(one), None));
}

#[test]
fn unit_rewritten_while_programmed_names_its_place_in_the_cells() {
    let mut buffer = WriteBuffer::new(2);
    let one = buffer.put(1).unwrap();
    buffer.place_in_row(one, 7, NONE);
    assert_eq!(buffer.drop_unit(one), Some(7));
    assert_eq!(buffer.programmed(one), (None, 7, NONE));
}
