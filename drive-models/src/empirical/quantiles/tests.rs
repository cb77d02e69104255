use super::*;

#[test]
fn the_levels_are_the_documented_ones() {
    let levels = Quantiles::levels();
    assert_eq!((levels[0], levels[1], levels[31]), (0.0, 1.0 / 32.0, 31.0 / 32.0));
    assert_eq!((levels[32], levels[36], levels[37]), (63.0 / 64.0, 1023.0 / 1024.0, 1.0));
}

#[test]
fn a_draw_at_a_level_is_its_quantile() {
    let ns: Vec<u64> = (0..QUANTILES as u64).map(|index| index * index * 1000).collect();
    let quantiles = Quantiles::new(&ns).unwrap();
    for (index, level) in Quantiles::levels().into_iter().enumerate().take(QUANTILES - 1) {
        assert_eq!(quantiles.draw((level * 2f64.powi(64)) as u64).as_ns(), ns[index], "level {level}");
    }
    assert_eq!(quantiles.draw(u64::MAX).as_ns(), ns[QUANTILES - 1] - 1);
    // Half way between the first two, and between the last two.
    assert_eq!(quantiles.draw(1 << 58).as_ns(), 500);
    assert_eq!(quantiles.draw(!0 << 53).as_ns(), (ns[36] + ns[37]) / 2);
}

#[test]
fn missing_or_falling_quantiles_are_refused() {
    assert!(Quantiles::new(&[1; QUANTILES]).is_some());
    assert!(Quantiles::new(&[1; QUANTILES - 1]).is_none());
    let mut falling = [5; QUANTILES];
    falling[20] = 4;
    assert!(Quantiles::new(&falling).is_none());
}
