use super::*;

#[test]
fn a_factor_multiplies_and_divides_to_the_nanosecond() {
    let k = ThrottleScale::from_millionths(1_500_000);
    assert_eq!(k.virtual_time(Nanos::from_ns(3)).as_ns(), 4);
    assert_eq!(k.real_time(Nanos::from_ns(4)).as_ns(), 2);
    assert_eq!(k.real_time(k.virtual_time(Nanos::from_ms(9))), Nanos::from_ms(9));
    assert_eq!(k.virtual_time(Nanos::from_ns(u64::MAX)).as_ns(), u64::MAX);
}

#[test]
fn factor_rises_rounded_up_and_falls_rounded_down() {
    let k = ThrottleScale::from_millionths(1_000_001);
    assert_eq!((k.raised(1100).millionths(), k.lowered(900).millionths()), (1_100_002, 900_000));
    let least = ThrottleScale::from_millionths(0);
    assert_eq!((least.raised(1001).millionths(), least.lowered(500).millionths()), (2, 1));
}

#[test]
fn factor_prints_as_it_is_written() {
    for (millionths, text) in [(8_000_000, "8"), (1_100_000, "1.1"), (1, "0.000001"), (10_000_000, "10")] {
        assert_eq!(ThrottleScale::from_millionths(millionths).to_string(), text);
    }
}
