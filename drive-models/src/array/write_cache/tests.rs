use super::*;

#[test]
fn a_page_counts_once_however_many_of_its_sectors_there_are() {
    for (sectors, count) in [(0, 0), (1, 1), (0xFF, 1), (0x80, 1), (0x101, 2), (u128::MAX, 16), (1 << 127, 1)] {
        assert_eq!(pages(sectors), count, "{sectors:x}");
    }
}
