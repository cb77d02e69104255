//! The plugin that nbdkit loads: a thin shell around a [`ServedDrive`].
//!
//! nbdkit passes the settings as `key=value` ([`Description::from_pairs`]), calls the plugin from its worker threads,
//! and sends each reply when the call returns. The plugin prints status lines ([`StatusLine`]) on standard output: when
//! it is ready, every second if asked to, and at the end. With `ends-with-input`, the end of standard input ends the
//! serving. nbdkit itself, on a signal, waits for connected clients even if they are idle. Standard input also ends if
//! `iocast serve` is killed.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use drive_models::WriteCache;
use nbdkit::{Error, FuaFlags, Result, Server, ThreadModel, plugin};

use crate::checked::{Checked, check};
use crate::description::Description;
use crate::served::{Connection, ServedDrive, Zeroing};
use crate::status_line::StatusLine;

/// The error number (`EINVAL`) of errors that have none of the operating system's.
const EINVAL: i32 = 22;
/// How long nbdkit may take to shut down before the process exits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval between status lines.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

static FINISHED: Once = Once::new();
static SETTINGS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
static CHECKED: Mutex<Option<Checked>> = Mutex::new(None);
/// A duplicate of standard output, which nbdkit closes before it serves.
static STATUS_OUTPUT: Mutex<Option<File>> = Mutex::new(None);
static DRIVE: OnceLock<ServedDrive> = OnceLock::new();
/// A duplicate of standard input, if its end ends the serving.
static INPUT: Mutex<Option<File>> = Mutex::new(None);
static STATUS_THREAD: Mutex<Option<(Sender<()>, JoinHandle<()>)>> = Mutex::new(None);

struct Client {
    drive: &'static ServedDrive,
    connection: Connection,
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::new(EINVAL, error.to_string())
}

fn lock<T>(mutex: &'static Mutex<T>) -> std::sync::MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a status line. If `iocast serve` has ended, the line is lost.
fn print_status(status: &StatusLine) {
    if let (Some(out), Ok(line)) = (lock(&STATUS_OUTPUT).as_mut(), serde_json::to_string(status)) {
        let _ = out.write_all(format!("{line}\n").as_bytes());
    }
}

/// Starts the thread that prints a status line every second.
fn start_status_thread(drive: &'static ServedDrive) {
    let (stop, stopped) = channel();
    let spawned = std::thread::Builder::new().name("status".to_owned()).spawn(move || {
        while stopped.recv_timeout(STATUS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            print_status(&StatusLine::Progress(Box::new(drive.report())));
        }
    });
    // If the thread cannot be started, only the final status line is printed.
    *lock(&STATUS_THREAD) = spawned.ok().map(|thread| (stop, thread));
}

/// Completes the log and prints the final status line. A second call does nothing.
fn finish() {
    if let Some((stop, thread)) = lock(&STATUS_THREAD).take() {
        drop(stop);
        let _ = thread.join();
    }
    if let Some(drive) = DRIVE.get() {
        FINISHED.call_once(|| print_status(&StatusLine::Ended(Box::new(drive.finish()))));
    }
}

/// Ends the serving when `input` ends, and then the process, even if clients stay connected.
fn end_with(mut input: File) {
    // Input is ignored; a read error also ends the serving.
    let _ = std::io::copy(&mut input, &mut std::io::sink());
    finish();
    nbdkit::shutdown();
    std::thread::sleep(SHUTDOWN_TIMEOUT);
    std::process::exit(0);
}

impl Server for Client {
    fn name() -> &'static str {
        "iocast"
    }

    fn longname() -> Option<&'static str> {
        Some("iocast modelled drive")
    }

    fn description() -> Option<&'static str> {
        Some("a modelled drive: data at full speed, completions at the model's times; started by `iocast serve`")
    }

    fn version() -> Option<&'static str> {
        Some(traces::VERSION)
    }

    fn config(key: &str, value: &str) -> Result<()> {
        lock(&SETTINGS).push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    fn config_complete() -> Result<()> {
        *lock(&STATUS_OUTPUT) = std::io::stdout().as_fd().try_clone_to_owned().ok().map(File::from);
        let description = Description::from_pairs(&lock(&SETTINGS)).map_err(refused)?;
        if description.ends_with_input {
            let input = std::io::stdin().as_fd().try_clone_to_owned()?;
            *lock(&INPUT) = Some(File::from(input));
        }
        *lock(&CHECKED) = Some(check(description).map_err(refused)?);
        Ok(())
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    /// nbdkit may fork before this call, so threads are started here.
    fn after_fork() -> Result<()> {
        // Sleeps would otherwise end up to 50 us late. Threads started from here on inherit the setting.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let checked = lock(&CHECKED).take().ok_or_else(|| refused("there is no description"))?;
        let live = checked.is_live();
        let drive = DRIVE.get_or_init(|| ServedDrive::begin(checked));
        drive.open_log().map_err(refused)?;
        print_status(&StatusLine::Ready);
        if live {
            start_status_thread(drive);
        }
        if let Some(input) = lock(&INPUT).take() {
            let thread = std::thread::Builder::new().name("input".to_owned());
            thread.spawn(move || end_with(input))?;
        }
        Ok(())
    }

    fn unload() {
        finish();
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        let drive = DRIVE.get().ok_or_else(|| refused("the drive is not ready yet"))?;
        let name = nbdkit::export_name().map_err(|error| refused(error.to_string()))?;
        let connection = drive.connect(&name).map_err(refused)?;
        Ok(Box::new(Client { drive, connection }))
    }

    fn get_size(&self) -> Result<i64> {
        i64::try_from(self.drive.length(&self.connection).bytes()).map_err(refused)
    }

    fn is_rotational(&self) -> Result<bool> {
        Ok(self.drive.is_rotational())
    }

    /// All connections share one drive, so a flush on one covers all.
    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    /// If the drive has a volatile cache without forced unit access, nbdkit emulates it with a flush after the write.
    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(match self.drive.write_cache() {
            WriteCache::Volatile { fua: false } => FuaFlags::Emulate,
            WriteCache::Through | WriteCache::Volatile { fua: true } => FuaFlags::Native,
        })
    }

    fn can_trim(&self) -> Result<bool> {
        Ok(self.drive.discards())
    }

    fn can_zero(&self) -> Result<bool> {
        Ok(true)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.drive.read(&self.connection, bytes, offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, flags: nbdkit::Flags) -> Result<()> {
        Ok(self.drive.write(&self.connection, bytes, offset, flags.contains(nbdkit::Flags::FUA))?)
    }

    fn zero(&self, count: u32, offset: u64, flags: nbdkit::Flags) -> Result<()> {
        let how =
            Zeroing { may_discard: flags.contains(nbdkit::Flags::MAY_TRIM), fua: flags.contains(nbdkit::Flags::FUA) };
        Ok(self.drive.zero(&self.connection, offset, count.into(), how)?)
    }

    fn trim(&self, count: u32, offset: u64, _flags: nbdkit::Flags) -> Result<()> {
        Ok(self.drive.discard(&self.connection, offset, count.into())?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.drive.flush(&self.connection)?)
    }
}

plugin!(Client {
    config,
    config_complete,
    thread_model,
    after_fork,
    unload,
    is_rotational,
    can_multi_conn,
    can_flush,
    can_fua,
    can_trim,
    can_zero,
    write_at,
    zero,
    trim,
    flush
});
