//! Text that is safe to show. Names from traces, files and networks may hold characters that a terminal obeys or a
//! reader does not see; here they become visible escapes.

use std::borrow::Cow;

/// Whether a terminal or an editor would obey the character or hide it: control characters (C0, DEL, C1), separators of
/// lines and paragraphs, and characters that turn the direction of text or have no width.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// `text` in one line, with an escape such as `\u{1b}` or `\n` for each character that a terminal obeys or hides.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe, |character| character.escape_default().to_string())
}

/// Like [`printable`], but line feeds stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |character| character != '\n' && is_unsafe(character),
        |character| character.escape_default().to_string(),
    )
}

/// Like [`printable`], as a cell or sentence of Markdown in which nothing is markup.
pub fn printable_markdown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in printable(text).chars() {
        if matches!(character, '\\' | '|' | '`' | '<' | '[') {
            line.push('\\');
        }
        line.push(character);
    }
    line
}

/// A JSON document of the same value as `json`, in which no character is obeyed or hidden. Line feeds stay.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // Outside of strings a document has no character above ASCII, and in a string any may be written as UTF-16.
    let escape = |character: char| {
        let mut units = [0; 2];
        character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    escaped(json, |character| character != '\n' && is_unsafe(character), escape)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => safe.push_str(&escape(character)),
            false => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "\u{1b}]0;x\u{7}\r\n\t\0\u{7f}\u{85}\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}\u{ad}";

    #[test]
    fn characters_that_a_terminal_obeys_or_hides_become_escapes() {
        let expected = "\\u{1b}]0;x\\u{7}\\r\\n\\t\\u{0}\\u{7f}\\u{85}\\u{9b}\\u{202e}\\u{2066}\\u{200b}\\u{2028}\
                        \\u{feff}\\u{e0041}\\u{ad}";
        assert_eq!(printable(HOSTILE), expected);
        assert_eq!(printable_lines("a\nb\r\n"), "a\nb\\r\n");
        for plain in ["kworker/u8:2", "Grüße, 日本語, नमस्ते, e\u{301}", "–±·µ│ ×", "C:\\new", ""]
        {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain), "{plain}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let document = serde_json::to_string_pretty(&[HOSTILE, "plain"]).unwrap();
        let safe = printable_json(&document);
        assert!(!safe.chars().any(|character| character != '\n' && is_unsafe(character)), "{safe}");
        let read: Vec<String> = serde_json::from_str(&safe).unwrap();
        assert_eq!(read, [HOSTILE, "plain"]);
    }
}
