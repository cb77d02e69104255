//! Handshakes byte by byte, as the protocol's document has them.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const FLAGS: [u8; 4] = [0, 0, 0, 3];

fn offers() -> Offers {
    let offer = |name: &str, bytes| Offer { name: name.to_owned(), bytes, flags: 0x0123 };
    Offers { exports: vec![offer("mail", 4096), offer("web", 1 << 40)], refusal: None }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [OPTION_MAGIC, &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// The data of `INFO` and `GO`.
fn named(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|number| number.to_be_bytes()));
    data
}

/// A reply's option, kind and data.
type OptionReply = (u32, u32, Vec<u8>);

fn replies(mut output: &[u8]) -> Vec<OptionReply> {
    let mut found = Vec::new();
    while !output.is_empty() {
        assert_eq!(output[..8], 0x3e889045565a9u64.to_be_bytes());
        let length = number(&output[16..20]) as usize;
        found.push((number(&output[8..12]), number(&output[12..16]), output[20..20 + length].to_vec()));
        output = &output[20 + length..];
    }
    found
}

/// The steps behind the client's flags, and the output.
fn shaken(input: &[u8], offers: &Offers) -> (Vec<Step>, Vec<u8>) {
    let mut handshake = Handshake::default();
    let (mut at, mut steps, mut output) = (0, Vec::new(), Vec::new());
    while at < input.len() {
        let (taken, step) = handshake.advance(&input[at..], offers, &mut output);
        at += taken;
        if taken > 4 || step != Step::Continue {
            steps.push(step);
        }
        if step != Step::Continue {
            break;
        }
    }
    (steps, output)
}

fn asked(options: &[Vec<u8>], offers: &Offers) -> (Vec<Step>, Vec<OptionReply>) {
    let (steps, output) = shaken(&[&FLAGS[..], &options.concat()].concat(), offers);
    (steps, replies(&output))
}

#[test]
fn go_gives_size_flags_and_the_block_sizes_that_are_asked_for() {
    let (steps, found) = asked(&[option(GO, &named("web", &[1, 3]))], &offers());
    assert_eq!(steps, [Step::Transmission(1)]);
    let export = [&[0, 0][..], &(1u64 << 40).to_be_bytes(), &[1, 0x23]].concat();
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0].to_vec();
    assert_eq!(found, [(7, 3, export), (7, 3, sizes), (7, 1, Vec::new())]);
}

#[test]
fn info_goes_on_and_a_refusal_of_go_gives_the_reason() {
    let full = Offers { refusal: Some("full".to_owned()), ..offers() };
    let (steps, found) = asked(&[option(INFO, &named("mail", &[])), option(GO, &named("mail", &[]))], &full);
    assert_eq!(steps, [Step::Continue, Step::Continue]);
    assert_eq!(found[1], (6, 1, Vec::new()));
    assert_eq!(found[2], (7, 0x8000_0002, b"full".to_vec()));
    assert_eq!(asked(&[option(EXPORT_NAME, b"mail")], &full).0, [Step::Close]);
}

#[test]
fn options_of_other_servers_and_wrong_data_are_refused_and_the_handshake_goes_on() {
    let given = [
        (5, Vec::new(), ERROR_UNSUPPORTED),
        (8, Vec::new(), ERROR_UNSUPPORTED),
        (77, vec![1; 8192], ERROR_UNSUPPORTED),
        (LIST, vec![1], ERROR_INVALID),
        (GO, Vec::new(), ERROR_INVALID),
        (GO, named("web", &[3])[..8].to_vec(), ERROR_INVALID),
        (GO, [&[0, 0, 0, 9][..], b"web\0\0"].concat(), ERROR_INVALID),
        (GO, [&[255, 255, 255, 255][..], b"web\0\0"].concat(), ERROR_INVALID),
        (GO, [&[0, 0, 0, 1][..], &[255, 0, 0]].concat(), ERROR_INVALID),
        (GO, named("db", &[]), ERROR_UNKNOWN),
        (INFO, named("", &[]), ERROR_UNKNOWN),
    ];
    let options: Vec<Vec<u8>> = given.iter().map(|(number, data, _)| option(*number, data)).collect();
    let (steps, found) = asked(&options, &offers());
    assert_eq!(steps, [Step::Continue; 11]);
    let kinds: Vec<(u32, u32)> = found.iter().map(|(option, kind, _)| (*option, *kind)).collect();
    assert_eq!(kinds, given.map(|(option, _, error)| (option, error)));
}

#[test]
fn list_names_all_exports_and_abort_ends() {
    let (steps, found) = asked(&[option(LIST, &[]), option(ABORT, &[])], &offers());
    assert_eq!(steps, [Step::Continue, Step::Close]);
    let name = |name: &[u8]| [&(name.len() as u32).to_be_bytes(), name].concat();
    assert_eq!(found[..2], [(3, 2, name(b"mail")), (3, 2, name(b"web"))]);
    assert_eq!(found[2..], [(3, 1, Vec::new()), (2, 1, Vec::new())]);
}

#[test]
fn export_name_gives_size_and_flags_with_zeroes_unless_they_are_left_out() {
    for (flags, zeroes) in [(1, 124), (3, 0)] {
        let (steps, output) = shaken(&[&[0, 0, 0, flags][..], &option(EXPORT_NAME, b"mail")].concat(), &offers());
        assert_eq!(steps, [Step::Transmission(0)]);
        assert_eq!(output, [&4096u64.to_be_bytes()[..], &[1, 0x23], &vec![0; zeroes]].concat());
    }
    assert_eq!(asked(&[option(EXPORT_NAME, b"db")], &offers()).0, [Step::Close]);
    let only = Offers { exports: offers().exports.split_off(1), refusal: None };
    let unnamed = [&FLAGS[..], &option(EXPORT_NAME, b"")].concat();
    assert_eq!(shaken(&unnamed, &only).0, [Step::Transmission(0)], "the only one");
}

#[test]
fn handshake_ends_at_unknown_flags_wrong_magic_and_long_options() {
    assert_eq!(shaken(&[0, 0, 0, 7], &offers()).0, [Step::Close]);
    assert_eq!(asked(&[b"IHAVEOPS12345678".to_vec()], &offers()).0, [Step::Close]);
    let long = [OPTION_MAGIC, &GO.to_be_bytes()[..], &8193u32.to_be_bytes()].concat();
    assert_eq!(asked(&[long], &offers()).0, [Step::Close], "before its data arrive");
}

/// The same cases at every run.
fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(1), cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(seeded(20_000))]

    /// Whatever comes, and in whatever pieces: no panic, no endless loop, and the same output.
    #[test]
    fn any_bytes_end_in_a_step_that_does_not_depend_on_their_pieces(
        options in prop::collection::vec((0u32..10, prop::collection::vec(any::<u8>(), 0..40)), 0..4),
        more in prop::collection::vec(any::<u8>(), 0..60),
        piece in 1usize..50,
        changed in any::<Option<(u16, u8)>>(),
    ) {
        let mut input = FLAGS.to_vec();
        input.extend(options.iter().flat_map(|(number, data)| option(*number, data)));
        input.extend(&more);
        if let Some((place, byte)) = changed {
            let place = usize::from(place) % input.len();
            input[place] = byte;
        }
        let whole = shaken(&input, &offers());
        let mut handshake = Handshake::default();
        let (mut waiting, mut output, mut last) = (Vec::new(), Vec::new(), Step::Continue);
        'all: for bytes in input.chunks(piece) {
            waiting.extend(bytes);
            loop {
                let (taken, step) = handshake.advance(&waiting, &offers(), &mut output);
                prop_assert!((taken == 0) == (step == Step::Incomplete));
                waiting.drain(..taken);
                last = step;
                if matches!(step, Step::Close | Step::Transmission(_)) {
                    break 'all;
                }
                if taken == 0 {
                    break;
                }
            }
        }
        prop_assert_eq!(whole.1, output);
        if let Some(&step) = whole.0.last().filter(|&&step| step != Step::Incomplete && step != Step::Continue) {
            prop_assert_eq!(step, last);
        }
    }
}
