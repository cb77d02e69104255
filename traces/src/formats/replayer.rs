//! The programs that replay what is written, and their command lines.

use std::path::Path;

/// The program that replays files of a format.
pub struct Replayer {
    /// The command line for a POSIX shell, or why the program cannot use the device.
    pub command: fn(&Replay) -> Result<String, String>,
    /// What the user should know of it.
    pub note: &'static str,
}

/// A written file, and what it is to be replayed on.
pub struct Replay<'a> {
    /// The file.
    pub file: &'a Path,
    /// The device or file for the replay, if it was named when the file was written.
    pub device: Option<&'a str>,
    /// How many devices with addresses of their own the file holds.
    pub devices: usize,
}

/// Stands for a device that is not known.
pub const DEVICE: &str = "DEVICE";

impl Replay<'_> {
    /// The device, or [`DEVICE`].
    pub(crate) fn device_or_placeholder(&self) -> &str {
        self.device.unwrap_or(DEVICE)
    }
}

/// `text` as one word of a POSIX shell.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-=+:,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_shell_keeps_every_character() {
        assert_eq!(quoted("/dev/disk/by-path/pci-0000:00"), "/dev/disk/by-path/pci-0000:00");
        for word in ["a b", "it's", "$HOME", "a\\:b", "*", "", "~", "ä;b"] {
            let echoed = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
            assert_eq!(String::from_utf8(echoed.unwrap().stdout).unwrap(), word);
        }
    }
}
