//! Rows as columns: the buffers both reader and writer go through, and the checksum over rows.

use crate::formats::check::Bad;
use crate::record::{Observed, Record};
use crate::request::{Flags, Operation, Priority, Request, StreamId, VmId};
use crate::units::{Lba, Sectors, Timestamp};

/// Some rows, one vector per column.
#[derive(Default)]
pub(super) struct Batch {
    arrival: Vec<i64>,
    lba: Vec<i64>,
    sectors: Vec<i32>,
    operation: Vec<i32>,
    flags: Vec<i32>,
    priority: Vec<i32>,
    vm: Vec<i32>,
    stream: Vec<i32>,
    cpu: Vec<i32>,
    inserted: Times,
    issued: Times,
    completed: Times,
    error: Vec<i32>,
}

/// An optional column: which rows have a value, and the values.
#[derive(Default)]
pub(super) struct Times {
    pub(super) levels: Vec<i16>,
    pub(super) values: Vec<i64>,
    /// The value of the next row that has one, while rows are taken.
    next: usize,
}

/// A column's buffer, by its kind.
pub(super) enum Column<'a> {
    Wide(&'a mut Vec<i64>),
    Narrow(&'a mut Vec<i32>),
    Times(&'a mut Times),
}

impl Times {
    fn push(&mut self, time: Option<Timestamp>) {
        self.levels.push(i16::from(time.is_some()));
        self.values.extend(time.map(|time| time.as_ns() as i64));
    }

    fn take(&mut self, row: usize) -> Option<Timestamp> {
        (self.levels[row] == 1).then(|| {
            self.next += 1;
            Timestamp::from_ns(self.values[self.next - 1] as u64)
        })
    }
}

impl Batch {
    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.arrival.len()
    }

    /// The columns, in the order of the schema.
    pub(super) fn columns(&mut self) -> [Column<'_>; 13] {
        [
            Column::Wide(&mut self.arrival),
            Column::Wide(&mut self.lba),
            Column::Narrow(&mut self.sectors),
            Column::Narrow(&mut self.operation),
            Column::Narrow(&mut self.flags),
            Column::Narrow(&mut self.priority),
            Column::Narrow(&mut self.vm),
            Column::Narrow(&mut self.stream),
            Column::Narrow(&mut self.cpu),
            Column::Times(&mut self.inserted),
            Column::Times(&mut self.issued),
            Column::Times(&mut self.completed),
            Column::Narrow(&mut self.error),
        ]
    }

    /// Forgets the rows and keeps the buffers.
    pub(super) fn clear(&mut self) {
        for column in self.columns() {
            match column {
                Column::Wide(values) => values.clear(),
                Column::Narrow(values) => values.clear(),
                Column::Times(times) => {
                    times.levels.clear();
                    times.values.clear();
                    times.next = 0;
                }
            }
        }
    }

    /// Adds a row. Unsigned values are stored with the same bits.
    pub(super) fn push(&mut self, record: &Record) {
        let Record { request, observed } = record;
        self.arrival.push(request.arrival.as_ns() as i64);
        self.lba.push(request.lba.sector() as i64);
        self.sectors.push(request.sectors().count() as u32 as i32);
        self.operation.push(request.operation as i32);
        self.flags.push(i32::from(request.flags.bits()));
        self.priority.push(i32::from(request.priority.as_byte()));
        self.vm.push(i32::from(request.vm.0));
        self.stream.push(request.stream.0 as i32);
        self.cpu.push(i32::from(request.cpu));
        self.inserted.push(observed.inserted);
        self.issued.push(observed.issued);
        self.completed.push(observed.completed);
        self.error.push(observed.error);
    }

    /// The record of row `row`; rows are taken in order. `vms` is how many VMs have a name.
    pub(super) fn take(&mut self, row: usize, vms: usize) -> Result<Record, Bad> {
        // Taken before anything can fail: they count the rows that have a value.
        let observed = Observed {
            inserted: self.inserted.take(row),
            issued: self.issued.take(row),
            completed: self.completed.take(row),
            error: self.error[row],
        };
        let small = |column: &str, value: i32| {
            u8::try_from(value).map_err(|_| Bad::malformed(format!("{column} {value}, not one of 0 to 255")))
        };
        let small16 = |column: &str, value: i32| {
            u16::try_from(value).map_err(|_| Bad::malformed(format!("{column} {value}, not one of 0 to 65535")))
        };
        let operation = small("operation", self.operation[row])?;
        let operation = Operation::from_number(operation)
            .ok_or_else(|| Bad::unsupported(format!("operation {operation}, not one of 0 to 3")))?;
        let (lba, sectors) = (self.lba[row] as u64, u64::from(self.sectors[row] as u32));
        if lba.checked_add(sectors).is_none() {
            let what = format!("sector {lba} and {sectors} sectors reach beyond the last address");
            return Err(Bad::malformed(what));
        }
        let arrival = Timestamp::from_ns(self.arrival[row] as u64);
        let mut request = Request::new(arrival, operation, Lba::new(lba), Sectors::new(sectors));
        let flags = small("flags", self.flags[row])?;
        request.flags = Flags::from_bits(flags)
            .ok_or_else(|| Bad::malformed(format!("flags {flags}, with bits that have no meaning")))?;
        let priority = small("priority", self.priority[row])?;
        request.priority = Priority::from_byte(priority)
            .ok_or_else(|| Bad::malformed(format!("priority {priority}, with a class above 3")))?;
        let vm = small16("vm", self.vm[row])?;
        if usize::from(vm) >= vms {
            return Err(Bad::malformed(format!("vm {vm}, but the metadata names {vms}")));
        }
        request.vm = VmId(vm);
        request.stream = StreamId(self.stream[row] as u32);
        request.cpu = small16("cpu", self.cpu[row])?;
        Ok(Record { request, observed })
    }
}

/// A checksum over records in order and texts. It finds damage; it does not keep anyone from forging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksum(u64);

impl Checksum {
    pub(super) const fn new() -> Checksum {
        Checksum(0)
    }

    pub(super) fn add(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let small = u64::from(request.operation as u8)
            | u64::from(request.flags.bits()) << 8
            | u64::from(request.priority.as_byte()) << 16
            | u64::from(request.vm.0) << 24
            | u64::from(request.cpu) << 40
            | u64::from(observed.inserted.is_some()) << 56
            | u64::from(observed.issued.is_some()) << 57
            | u64::from(observed.completed.is_some()) << 58;
        let time = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_ns);
        for word in [
            request.arrival.as_ns(),
            request.lba.sector(),
            request.sectors().count() << 32 | u64::from(request.stream.0),
            small,
            time(observed.inserted),
            time(observed.issued),
            time(observed.completed),
            u64::from(observed.error as u32),
        ] {
            self.add_word(word);
        }
    }

    /// Takes in a text of the metadata.
    pub(super) fn add_text(&mut self, text: &str) {
        self.add_word(text.len() as u64);
        for bytes in text.as_bytes().chunks(8) {
            self.add_word(bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
    }

    /// One step of a multiplicative hash. It is a bijection of the state, so that two sequences
    /// which differ in one word never end in the same state.
    fn add_word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    pub(super) fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}
