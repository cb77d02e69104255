//! Calls into the Parquet library that must not end the program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::errors::ParquetError;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call of [`caught`]: a panic there becomes an error, of which a program's hook for panics
/// need not tell.
pub fn is_caught() -> bool {
    IS_CAUGHT.get()
}

/// Calls the Parquet library, which panics on some damaged files (version 60 does, e.g. where a run length has too many
/// bytes), and makes an error of that.
///
/// # Errors
/// Those of the call, and a panic. After a panic the caller gives up what it was decoding: nobody knows its state.
pub fn caught<T, E: From<ParquetError>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let was = IS_CAUGHT.replace(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    IS_CAUGHT.set(was);
    called.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(ParquetError::General(format!("the decoder gave up: {text}")).into())
    })
}
