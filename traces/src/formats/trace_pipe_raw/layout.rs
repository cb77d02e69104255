//! The layouts that the kernel describes in text: of a page (`events/header_page`), of the header
//! of an event in it (`events/header_event`), and of each tracepoint (`events/block/*/format`).
//! Nothing of them is taken for granted. Source: Linux 6.1 and 6.18, `kernel/trace/ring_buffer.c`
//! (`ring_buffer_print_page_header`, `ring_buffer_print_entry_header`),
//! `kernel/trace/trace_events.c` (`f_show`).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Place, Problem, ReadError};
use crate::formats::capture::tracepoint::{self, Shape, Tracepoint};

/// A description is at most this long; the kernel's are of two kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 18;

/// More tracepoints than the block layer can have.
const EVENTS_MAX: usize = 1 << 10;

/// Pages are at most this long; the kernel's own bound is lower.
const PAGE_BYTES_MAX: usize = 1 << 24;

/// Tracepoints without which a capture says nothing.
const NEEDED: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];

/// How a field holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// An integer.
    Integer { signed: bool },
    /// Bytes, if text up to a zero.
    Bytes,
    /// Where the bytes are, from the event's start: `__data_loc`.
    At,
    /// Where the bytes are, from the field's end: `__rel_loc`.
    AtFromHere,
}

/// A field of a page or an event; offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) holds: Holds,
}

/// The layout of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) timestamp: Field,
    pub(super) commit: Field,
    /// The events.
    pub(super) data: Field,
}

impl Page {
    /// Bytes of a page.
    pub(super) fn bytes(&self) -> usize {
        self.data.offset + self.data.size
    }
}

/// The layout of the word before every event, and the meaning of its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) type_bits: u32,
    pub(super) delta_bits: u32,
    pub(super) padding: u32,
    pub(super) time_extend: u32,
    /// Not in kernels before 4.17.
    pub(super) time_stamp: Option<u32>,
    /// The highest type that is a length, in words.
    pub(super) data_max: u32,
}

/// A tracepoint whose events are read, and its fields; one that its shape needs is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) point: Tracepoint,
    pub(super) pid: Field,
    pub(super) device: Option<Field>,
    pub(super) sector: Option<Field>,
    pub(super) sectors: Option<Field>,
    pub(super) bytes: Option<Field>,
    pub(super) second: Option<Field>,
    pub(super) error: Option<Field>,
    pub(super) priority: Option<Field>,
    pub(super) rwbs: Option<Field>,
    pub(super) command: Option<Field>,
    pub(super) process: Option<Field>,
}

/// All that is needed to decode pages.
#[derive(Clone)]
pub(super) struct Layouts {
    pub(super) page: Page,
    pub(super) header: Header,
    /// The field with the tracepoint of an event.
    pub(super) id: Field,
    /// The tracepoints that are read, by their number.
    pub(super) events: Arc<Vec<Option<Layout>>>,
}

impl Layouts {
    /// Reads the saved descriptions.
    ///
    /// # Errors
    /// A description that is missing, or not in the form that a kernel writes.
    pub(super) fn read(folder: &Path) -> Result<Layouts, ReadError> {
        let page = in_file(&folder.join("header_page"), page)?;
        let header = in_file(&folder.join("header_event"), header)?;
        let mut events: Vec<Option<Layout>> = Vec::new();
        let mut id_field = None;
        for path in event_files(folder)? {
            let (number, id, layout) = in_file(&path, event)?;
            if id_field.is_some_and(|other| other != id) {
                let why = "common_type is not where the other formats have it";
                return Err(ReadError::malformed(&path, Place::Whole, why));
            }
            id_field = Some(id);
            let Some(layout) = layout else { continue };
            if events.len() <= usize::from(number) {
                events.resize(usize::from(number) + 1, None);
            }
            if events[usize::from(number)].replace(layout).is_some() {
                let why = format!("the number {number} is that of another tracepoint, too");
                return Err(ReadError::malformed(&path, Place::Whole, why));
            }
        }
        let Some(id) = id_field else {
            return Err(missing(&folder.join("block"), "there is no format of a tracepoint"));
        };
        Ok(Layouts { page, header, id, events: Arc::new(events) })
    }
}

/// The files that [`Layouts::read`] reads.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = vec![folder.join("header_page"), folder.join("header_event")];
    files.extend(event_files(folder)?);
    Ok(files)
}

/// The descriptions of the tracepoints, by name.
fn event_files(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let block = folder.join("block");
    for needed in NEEDED {
        let path = block.join(needed).join("format");
        if !path.is_file() {
            return Err(missing(&path, "the format of a tracepoint that every capture needs is not there"));
        }
    }
    let fail = |error| ReadError::io(&block, Place::Whole, error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&block).map_err(fail)? {
        let path = entry.map_err(fail)?.path().join("format");
        if path.is_file() {
            files.push(path);
        }
        if files.len() > EVENTS_MAX {
            let why = format!("more than {EVENTS_MAX} tracepoints");
            return Err(ReadError::malformed(&block, Place::Whole, why));
        }
    }
    files.sort();
    Ok(files)
}

fn missing(path: &Path, what: &str) -> ReadError {
    ReadError::new(path, Place::Whole, Problem::Missing(what.to_owned()))
        .remedy("save events/header_page, events/header_event and events/block/*/format of tracefs with the pages")
}

/// The text of a file that need not be there.
pub(super) fn read_optional(path: &Path) -> Result<Option<String>, ReadError> {
    if path.exists() { read_text(path).map(Some) } else { Ok(None) }
}

fn read_text(path: &Path) -> Result<String, ReadError> {
    let fail = |error| ReadError::io(path, Place::Whole, error);
    let mut text = Vec::new();
    File::open(path).map_err(fail)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let why = format!("more than {FILE_BYTES_MAX} bytes, for a description by the kernel");
        return Err(ReadError::malformed(path, Place::Whole, why));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses a file that must be there.
fn in_file<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, ReadError> {
    if !path.is_file() {
        return Err(missing(path, "the description is not there"));
    }
    parse(&read_text(path)?).map_err(|why| ReadError::malformed(path, Place::Whole, why))
}

/// The fields of a description, with their names: `field:int error; offset:28; size:4; signed:1;`.
fn fields(text: &str) -> Result<Vec<(&str, Field)>, String> {
    text.lines().filter_map(|line| line.trim().strip_prefix("field:")).map(field).collect()
}

fn field(line: &str) -> Result<(&str, Field), String> {
    let malformed = || format!("`{}` is no field: expected a declaration, offset and size", line.trim());
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse::<usize>().ok();
    let offset = number("offset:").ok_or_else(malformed)?;
    let size = number("size:").ok_or_else(malformed)?;
    let signed = number("signed:").unwrap_or(0) != 0;
    let (declaration, is_array) = match declaration.split_once('[') {
        // `char rwbs[8]`, but `__data_loc char[] cmd`.
        Some((before, after)) => match after.split_once(']') {
            Some((_, "")) => (before, true),
            _ => (declaration, false),
        },
        None => (declaration, false),
    };
    let name = declaration.rsplit([' ', '*']).next().filter(|name| !name.is_empty()).ok_or_else(malformed)?;
    let holds = if declaration.starts_with("__data_loc ") {
        Holds::At
    } else if declaration.starts_with("__rel_loc ") {
        Holds::AtFromHere
    } else if is_array || !matches!(size, 1 | 2 | 4 | 8) {
        Holds::Bytes
    } else {
        Holds::Integer { signed }
    };
    let is_location = matches!(holds, Holds::At | Holds::AtFromHere);
    if offset > PAGE_BYTES_MAX || size > PAGE_BYTES_MAX || (is_location && size != 4) {
        return Err(malformed());
    }
    Ok((name, Field { offset, size, holds }))
}

fn find(fields: &[(&str, Field)], name: &str) -> Result<Field, String> {
    let found = fields.iter().find(|(of, _)| *of == name);
    found.map(|(_, field)| *field).ok_or_else(|| format!("there is no field `{name}`"))
}

/// The same, which must be an integer.
fn integer(fields: &[(&str, Field)], name: &str) -> Result<Field, String> {
    let field = find(fields, name)?;
    let is_integer = matches!(field.holds, Holds::Integer { .. });
    is_integer.then_some(field).ok_or_else(|| format!("the field `{name}` is no integer"))
}

/// Parses `events/header_page`.
fn page(text: &str) -> Result<Page, String> {
    let fields = fields(text)?;
    let [timestamp, commit] = ["timestamp", "commit"].map(|name| integer(&fields, name));
    let page = Page { timestamp: timestamp?, commit: commit?, data: find(&fields, "data")? };
    let inside =
        |field: &Field, sizes: &[usize]| sizes.contains(&field.size) && field.offset + field.size <= page.data.offset;
    let plausible = inside(&page.timestamp, &[8])
        && inside(&page.commit, &[4, 8])
        && page.data.size > 0
        && page.bytes() <= PAGE_BYTES_MAX;
    if plausible { Ok(page) } else { Err("no page has timestamp, commit and data of such sizes".to_owned()) }
}

/// Parses `events/header_event`.
fn header(text: &str) -> Result<Header, String> {
    let lines = || text.lines().filter_map(|line| line.split_once([':', '=']));
    // `type_len    :    5 bits`, `padding     : type == 29`, `data max type_len  == 28`.
    let number = |key: &str| {
        let (_, value) = lines().find(|(name, _)| name.trim() == key)?;
        value.split_whitespace().find_map(|word| word.parse::<u32>().ok())
    };
    let needed = |key: &str| number(key).ok_or_else(|| format!("there is no number for `{key}`"));
    let header = Header {
        type_bits: needed("type_len")?,
        delta_bits: needed("time_delta")?,
        padding: needed("padding")?,
        time_extend: needed("time_extend")?,
        time_stamp: number("time_stamp"),
        data_max: needed("data max type_len")?,
    };
    let word = header.type_bits.checked_add(header.delta_bits) == Some(u32::BITS) && header.type_bits > 0;
    if word && header.delta_bits > 0 && needed("array")? == u32::BITS {
        Ok(header)
    } else {
        Err("expected a word of type_len and time_delta, and one for array, each of 32 bits".to_owned())
    }
}

/// Parses the format of a tracepoint: its number, the field that holds it in every event, and, of
/// one that is read, its layout.
fn event(text: &str) -> Result<(u16, Field, Option<Layout>), String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let name = value("name:").ok_or("there is no `name:`")?;
    let number = value("ID:").and_then(|number| number.parse().ok()).ok_or("there is no number after `ID:`")?;
    let fields = fields(text)?;
    let id = integer(&fields, "common_type")?;
    if id.size != 2 {
        return Err(format!("common_type has {} bytes, expected 2", id.size));
    }
    let Some(point) = tracepoint::named(name.as_bytes()) else { return Ok((number, id, None)) };
    let of_device = !matches!(point.shape, Shape::Plug | Shape::Unplug);
    let is_completion = matches!(point.shape, Shape::Completion | Shape::BioCompletion);
    let needed = |name: &str, needed: bool| if needed { integer(&fields, name).map(Some) } else { Ok(None) };
    let layout = Layout {
        point,
        pid: integer(&fields, "common_pid")?,
        device: needed("dev", of_device)?,
        sector: needed("sector", of_device)?,
        sectors: needed("nr_sector", of_device && point.shape != Shape::Split)?,
        second: needed("new_sector", point.shape == Shape::Split)?,
        bytes: integer(&fields, "bytes").ok(),
        // Called `errors` before Linux 3.15; a requeue has none in newer kernels.
        error: integer(&fields, "error").or_else(|_| integer(&fields, "errors")).ok().filter(|_| is_completion),
        priority: integer(&fields, "ioprio").ok(),
        rwbs: if of_device { Some(find(&fields, "rwbs")?) } else { None },
        command: find(&fields, "cmd").ok(),
        process: find(&fields, "comm").ok(),
    };
    Ok((number, id, Some(layout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_tell_name_and_kind() {
        let of = |declaration: &str| {
            let line = format!("{declaration};\toffset:12;\tsize:4;\tsigned:1;");
            let (name, field) = self::field(&line).unwrap();
            (name.to_owned(), field.holds)
        };
        assert_eq!(of("unsigned int nr_sector"), ("nr_sector".to_owned(), Holds::Integer { signed: true }));
        assert_eq!(of("char comm[16]"), ("comm".to_owned(), Holds::Bytes));
        assert_eq!(of("__data_loc char[] cmd"), ("cmd".to_owned(), Holds::At));
        assert_eq!(of("__rel_loc char[] cmd"), ("cmd".to_owned(), Holds::AtFromHere));
        assert_eq!(of("struct request *rq"), ("rq".to_owned(), Holds::Integer { signed: true }));
        // Very old kernels do not say whether a field is signed.
        let (_, field) = self::field(" u64 timestamp;\toffset:0;\tsize:8;").unwrap();
        assert_eq!(field, Field { offset: 0, size: 8, holds: Holds::Integer { signed: false } });
        for bad in [
            "",
            "int x",
            "int x; offset:1",
            "int x; offset:-1; size:4;",
            "int x; size:4; offset:0;",
            "; offset:0; size:4;",
        ] {
            assert!(self::field(bad).is_err(), "{bad}");
        }
        assert!(self::field("int x; offset:99999999999; size:4;").is_err());
        assert!(self::field("__data_loc char[] x; offset:9; size:8;").is_err());
    }

    #[test]
    fn the_error_of_a_completion_had_another_name() {
        let of = |name: &str, field: &str| {
            let fields = ["u16 common_type", "int common_pid", "dev_t dev", "u64 sector", "u32 nr_sector", field];
            let lines = fields.iter().map(|field| format!("\tfield:{field};\toffset:8;\tsize:2;\tsigned:1;\n"));
            let rwbs = "\tfield:char rwbs[8];\toffset:8;\tsize:8;\tsigned:0;\n";
            let text = format!("name: {name}\nID: 7\nformat:\n{}{rwbs}", lines.collect::<String>());
            event(&text).unwrap().2.unwrap().error.is_some()
        };
        assert!(of("block_rq_complete", "int error") && of("block_rq_complete", "int errors"));
        assert!(!of("block_rq_complete", "int x") && !of("block_rq_issue", "int error"));
    }

    #[test]
    fn the_header_of_an_event_is_read_by_name() {
        let text = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                    \tarray       :   32 bits\n\n\
                    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
                    \tdata max type_len  == 28\n";
        let header =
            Header { type_bits: 5, delta_bits: 27, padding: 29, time_extend: 30, time_stamp: Some(31), data_max: 28 };
        assert_eq!(self::header(text), Ok(header));
        let old = text.replace("\ttime_stamp : type == 31\n", "");
        assert_eq!(self::header(&old), Ok(Header { time_stamp: None, ..header }));
        for (from, to) in
            [("27 bits", "26 bits"), ("5 bits", "x bits"), ("type_len    ", "typelen"), ("32 bits", "64 bits")]
        {
            assert!(self::header(&text.replacen(from, to, 1)).is_err(), "{from} {to}");
        }
    }
}
