//! Values in the names of folders and files. Characters with a meaning there become `%` and two hexadecimal digits, as
//! Apache Hive writes them.

/// Hive's name for a value that nobody knows.
pub const DEFAULT: &str = "__HIVE_DEFAULT_PARTITION__";

/// A value as a part of a name. ASCII but letters, digits, `-`, `_` and `.` is encoded, which is more than Hive encodes;
/// all readers decode it. Other characters stay: Spark decodes characters where others decode bytes.
pub fn encoded(value: &str) -> String {
    let mut name = String::with_capacity(value.len());
    for (at, letter) in value.chars().enumerate() {
        // Readers pass over files and folders whose names begin with one of these.
        let is_hidden = at == 0 && matches!(letter, '.' | '_');
        let is_plain = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.') || !letter.is_ascii();
        if is_plain && !is_hidden {
            name.push(letter);
        } else {
            name.push_str(&format!("%{:02X}", u32::from(letter)));
        }
    }
    name
}

/// The value of a part of a name. A `%` without two digits stands for itself.
pub fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match coded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_nothing_that_a_path_or_a_reader_gives_a_meaning() {
        assert_eq!(encoded("web-1.example_x"), "web-1.example_x");
        assert_eq!(encoded(".."), "%2E.");
        assert_eq!(encoded("__HIVE_DEFAULT_PARTITION__"), "%5F_HIVE_DEFAULT_PARTITION__");
        assert_eq!(
            encoded("a/b=c%d e\n\0\u{7f}*?[]{}@:\"'\\"),
            "a%2Fb%3Dc%25d%20e%0A%00%7F%2A%3F%5B%5D%7B%7D%40%3A%22%27%5C"
        );
        assert_eq!(encoded("Zürich π"), "Zürich%20π");
    }

    #[test]
    fn what_is_encoded_comes_back() {
        for value in ["", "..", "%", "%2", "%2F", "%zz", "a b", "µ/π\u{85}\u{202e}", "100%", "+"] {
            assert_eq!(decoded(&encoded(value)), value);
        }
        assert_eq!(decoded("50%+%4"), "50%+%4");
        assert_eq!(decoded("%+1"), "%+1");
        assert_eq!(decoded("%2f%FF"), "/\u{fffd}");
    }
}
