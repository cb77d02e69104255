//! The text of login PDUs: `key=value` pairs, each ended by a zero byte (RFC 7143, section 6).

/// The value of the first pair with this key.
pub fn value<'a>(text: &'a [u8], key: &str) -> Option<&'a str> {
    pairs(text).find(|(found, _)| *found == key).map(|(_, value)| value)
}

/// Every pair that is valid text.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    text.split(|&byte| byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='))
}
