//! The commands that the drive has, by the id of their request.

use traces::{Request, RequestId, Timestamp};

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
pub struct FlashCommand {
    /// What it asks for.
    pub request: Request,
    /// When the controller began with it.
    pub started: Timestamp,
    /// Page reads that it waits for.
    pub pages: u32,
    /// Whether no page had to be read for it.
    pub hit: bool,
    /// When the last of its data is over the link.
    pub transferred: Timestamp,
    /// Units of it that are in the write buffer or on their way there.
    pub taken: u64,
}

/// Commands in a vector, as ids are small.
#[derive(Debug, Default)]
pub struct Commands {
    commands: Vec<Option<FlashCommand>>,
    count: u32,
}

impl Commands {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A new one.
    pub fn put(&mut self, id: RequestId, request: &Request, started: Timestamp) {
        if id.index() >= self.commands.len() {
            self.commands.resize(id.index() + 1, None);
        }
        let command =
            FlashCommand { request: *request, started, pages: 0, hit: false, transferred: Timestamp::ZERO, taken: 0 };
        self.commands[id.index()] = Some(command);
        self.count += 1;
    }

    /// The one with this id.
    pub fn get(&mut self, id: RequestId) -> &mut FlashCommand {
        self.commands[id.index()].as_mut().expect("a command is known until it completes")
    }

    /// Forgets the one with this id.
    pub fn take(&mut self, id: RequestId) -> FlashCommand {
        self.count -= 1;
        self.commands[id.index()].take().expect("a command completes once")
    }
}
