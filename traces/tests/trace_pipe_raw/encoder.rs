//! Writes pages of a ring buffer and the descriptions of their layout, after the documentation in
//! `include/linux/ring_buffer.h` and `Documentation/trace/events.rst`, for machines of either byte
//! order and word size and with the fields of events where the test wants them.

use std::path::Path;

/// The numbers of types of events in a page.
pub(crate) const PADDING: u32 = 29;
pub(crate) const TIME_EXTEND: u32 = 30;
pub(crate) const TIME_STAMP: u32 = 31;

/// Flags of a page's commit.
pub(crate) const MISSED: u64 = 1 << 31;
pub(crate) const MISSED_STORED: u64 = 1 << 30;

/// The form of a machine's pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) big_endian: bool,
    /// Bytes of a `long`.
    pub(crate) long: usize,
    pub(crate) page_bytes: usize,
}

pub(crate) const PC: Machine = Machine { big_endian: false, long: 8, page_bytes: 4096 };

impl Machine {
    pub(crate) fn integer(&self, value: u64, size: usize) -> Vec<u8> {
        let mut bytes = value.to_le_bytes()[..size].to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn word(&self, value: u32) -> Vec<u8> {
        self.integer(u64::from(value), 4)
    }

    /// The word before an event: five bits of type, 27 of time.
    pub(crate) fn event_word(&self, kind: u32, delta: u32) -> Vec<u8> {
        assert!(kind < 32 && delta < 1 << 27);
        self.word(if self.big_endian { kind << 27 | delta } else { delta << 5 | kind })
    }

    pub(crate) fn header_bytes(&self) -> usize {
        8 + self.long
    }

    fn header_page(&self) -> String {
        let (long, data) = (self.long, self.header_bytes());
        let size = self.page_bytes - data;
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{size};\tsigned:0;\n"
        )
    }
}

/// The pages of one CPU.
pub(crate) struct Pages {
    machine: Machine,
    pub(crate) done: Vec<u8>,
    /// Time of the page begun, and its contents.
    page: Option<(u64, Vec<u8>)>,
    time: u64,
    /// Flags for the next page's commit, and the number of lost events.
    pub(crate) flags: u64,
    pub(crate) missed: u64,
}

impl Pages {
    pub(crate) fn new(machine: Machine) -> Pages {
        Pages { machine, done: Vec::new(), page: None, time: 0, flags: 0, missed: 0 }
    }

    /// An event with this data, as short as the format allows or, if `long`, with its length apart.
    pub(crate) fn event(&mut self, time: u64, data: &[u8], long: bool) {
        let mut bytes = self.delta(time, data.len() + 16);
        let delta = u32::from_le_bytes(bytes.drain(..4).collect::<Vec<u8>>().try_into().unwrap());
        let padded = data.len().next_multiple_of(4);
        if long || padded > 28 * 4 {
            bytes.extend(self.machine.event_word(0, delta));
            // Not rounded, which readers must do.
            bytes.extend(self.machine.word(data.len() as u32 + 4));
        } else {
            bytes.extend(self.machine.event_word(padded as u32 / 4, delta));
        }
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.raw(&bytes);
        self.time = time;
    }

    /// Anything, in the page begun.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.page.as_mut().unwrap().1.extend(bytes);
    }

    /// Begins a page unless one has capacity; gives the time since the event before, as a plain number in
    /// four bytes, and the words that must come before the event for one that is longer.
    fn delta(&mut self, time: u64, room: usize) -> Vec<u8> {
        let room_of_page = self.machine.page_bytes - self.machine.header_bytes();
        if self.page.as_ref().is_some_and(|(_, data)| data.len() + room > room_of_page) {
            self.end_page();
        }
        if self.page.is_none() {
            self.page = Some((time, Vec::new()));
            self.time = time;
        }
        let delta = time - self.time;
        let small = (delta & ((1 << 27) - 1)) as u32;
        if delta >> 27 == 0 {
            return small.to_le_bytes().to_vec();
        }
        let mut bytes = 0u32.to_le_bytes().to_vec();
        bytes.extend(self.machine.event_word(TIME_EXTEND, small));
        bytes.extend(self.machine.word((delta >> 27) as u32));
        bytes
    }

    /// An absolute time, of which 59 bits fit.
    pub(crate) fn stamp(&mut self, time: u64) {
        let mut bytes = self.machine.event_word(TIME_STAMP, (time & ((1 << 27) - 1)) as u32);
        bytes.extend(self.machine.word((time >> 27) as u32));
        self.raw(&bytes);
        self.time = time;
    }

    /// An event that was discarded, a number of nanoseconds after the one before.
    pub(crate) fn discarded(&mut self, delta: u32, bytes: usize) {
        let mut padding = self.machine.event_word(PADDING, delta);
        padding.extend(self.machine.word(bytes as u32));
        padding.resize(4 + bytes, 0xaa);
        self.raw(&padding);
        self.time += u64::from(delta);
    }

    pub(crate) fn end_page(&mut self) {
        let Some((time, mut data)) = self.page.take() else { return };
        let size = self.machine.page_bytes - self.machine.header_bytes();
        assert!(data.len() <= size);
        let commit = data.len() as u64 | std::mem::take(&mut self.flags);
        // The kernel adds flags to a signed number.
        let commit = if commit & MISSED != 0 { commit | 0xffff_ffff << 32 } else { commit };
        self.done.extend(self.machine.integer(time, 8));
        self.done.extend(self.machine.integer(commit, self.machine.long));
        if commit & MISSED_STORED != 0 {
            data.extend(self.machine.integer(self.missed, self.machine.long));
        }
        data.resize(size, 0);
        self.done.extend(data);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.end_page();
        self.done
    }
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Text {
    /// In the field, of so many bytes.
    Here(usize),
    /// Behind all fields, counted from the event's start.
    At,
    /// The same, counted from the field's end.
    AtFromHere,
}

/// A value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(u64),
    Text(Vec<u8>),
}

/// A tracepoint with its fields at places of their own: declaration, name, size or text.
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) id: u16,
    fields: Vec<(&'static str, &'static str, usize, Result<usize, Text>)>,
    size: usize,
}

impl Layout {
    /// `fields` stand behind the common ones, in that order, each at a multiple of its size.
    pub(crate) fn new(
        name: &'static str,
        id: u16,
        fields: &[(&'static str, &'static str, Result<usize, Text>)],
    ) -> Layout {
        let common = [("unsigned short", "common_type", Ok(2)), ("int", "common_pid", Ok(4))];
        let mut layout = Layout { name, id, fields: Vec::new(), size: 0 };
        for (declaration, name, kind) in common.iter().chain(fields) {
            let (size, alignment) = match kind {
                Ok(size) => (*size, *size),
                Err(Text::Here(size)) => (*size, 1),
                Err(Text::At | Text::AtFromHere) => (4, 4),
            };
            let offset = layout.size.next_multiple_of(alignment);
            layout.fields.push((declaration, name, offset, *kind));
            layout.size = offset + size;
        }
        layout
    }

    /// The `format` file.
    pub(crate) fn format(&self) -> String {
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name, self.id);
        for (declaration, name, offset, kind) in &self.fields {
            let signed = u8::from(*declaration == "int");
            let (declaration, size) = match kind {
                Ok(size) => (format!("{declaration} {name}"), *size),
                Err(Text::Here(size)) => (format!("char {name}[{size}]"), *size),
                Err(Text::At) => (format!("__data_loc char[] {name}"), 4),
                Err(Text::AtFromHere) => (format!("__rel_loc char[] {name}"), 4),
            };
            text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
            if *name == "common_pid" {
                text.push('\n');
            }
        }
        text + "\nprint fmt: \"not read\"\n"
    }

    /// An event with these values; fields that are not named are zero.
    pub(crate) fn encode(&self, machine: Machine, pid: u32, values: &[(&str, Value)]) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        for (_, name, offset, kind) in &self.fields {
            let value = match *name {
                "common_type" => Value::Number(u64::from(self.id)),
                "common_pid" => Value::Number(u64::from(pid)),
                name => match values.iter().find(|(of, _)| *of == name) {
                    Some((_, value)) => value.clone(),
                    None => continue,
                },
            };
            let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
            match (kind, value) {
                (Ok(size), Value::Number(number)) => put(*offset, &machine.integer(number, *size)),
                (Err(Text::Here(size)), Value::Text(text)) => put(*offset, &text[..text.len().min(*size)]),
                (Err(where_), Value::Text(mut text)) => {
                    text.push(0);
                    let base = if *where_ == Text::At { 0 } else { offset + 4 };
                    let location = (text.len() << 16 | (bytes.len() - base)) as u64;
                    let location = machine.integer(location, 4);
                    bytes[*offset..*offset + 4].copy_from_slice(&location);
                    bytes.extend(text);
                }
                (kind, value) => panic!("{name}: {value:?} in {kind:?}"),
            }
        }
        bytes
    }
}

/// Writes the folder of descriptions.
pub(crate) fn write_formats(folder: &Path, machine: Machine, layouts: &[Layout]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("header_page"), machine.header_page()).unwrap();
    let header = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                  \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
                  \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    std::fs::write(folder.join("header_event"), header).unwrap();
    for layout in layouts {
        let folder = folder.join("block").join(layout.name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("format"), layout.format()).unwrap();
    }
}
