//! Short reads and writes, at every call: a small library before the C library's own calls moves half of the data.
