//! What is wrong with a text that describes a part: the profile of a drive, a workload, a stack.

/// Why a description was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name}{}: {problem}", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
pub struct DescriptionError {
    /// What it describes, in words: "drive profile".
    pub what: &'static str,
    /// Its name or path.
    pub name: String,
    /// The line, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The line, from 1, that holds the byte at `offset` of a text; the last one behind its end.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named_where_one_is_to_blame() {
        let error = |line| DescriptionError {
            what: "drive profile",
            name: "x.toml".to_owned(),
            line,
            problem: "it is empty".to_owned(),
        };
        assert_eq!(error(Some(3)).to_string(), "drive profile x.toml at line 3: it is empty");
        assert_eq!(error(None).to_string(), "drive profile x.toml: it is empty");
    }

    #[test]
    fn lines_count_from_one_and_no_offset_is_too_far() {
        let text = "a\nµ\n\nb";
        assert_eq!([0, 1, 2, 3, 5, 6, 99].map(|offset| line_of(text, offset)), [1, 1, 2, 2, 3, 4, 4]);
    }
}
