//! The plugin that nbdkit loads: a thin shell around a [`ServedDrive`].
//!
//! nbdkit hands over the settings as `key=value` ([`Description::from_pairs`]), calls from as many threads as it was
//! told, and sends the reply when a call returns. Standard output is the line to `iocast serve`: a JSON object of one
//! line, [`crate::Told`], when it is ready, every second if it was asked to, and at the end. The end of standard input
//! ends the serving if it was told so: nbdkit itself waits, on a signal, for clients that are connected and say nothing,
//! and a starter that was killed closes it too.

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
use crate::told::Told;

/// Errors without a number of the operating system's (`EINVAL`).
const EINVAL: i32 = 22;
/// How long nbdkit gets to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// How often it tells how it goes.
const EVERY: Duration = Duration::from_secs(1);

static ENDED: Once = Once::new();
static GIVEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
static CHECKED: Mutex<Option<Checked>> = Mutex::new(None);
/// Standard output, which nbdkit closes before it serves.
static LINE: Mutex<Option<File>> = Mutex::new(None);
static DRIVE: OnceLock<ServedDrive> = OnceLock::new();
/// Standard input, if its end is ours.
static INPUT: Mutex<Option<File>> = Mutex::new(None);
static TELLER: Mutex<Option<(Sender<()>, JoinHandle<()>)>> = Mutex::new(None);

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

/// One line to whoever started nbdkit; if he is gone, nobody listens.
fn tell(told: &Told) {
    if let (Some(out), Ok(line)) = (lock(&LINE).as_mut(), serde_json::to_string(told)) {
        let _ = out.write_all(format!("{line}\n").as_bytes());
    }
}

/// Tells how it goes until it is told to stop.
fn keep_telling(drive: &'static ServedDrive) {
    let (stop, stopped) = channel();
    let spawned = std::thread::Builder::new().name("teller".to_owned()).spawn(move || {
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            tell(&Told::Going(Box::new(drive.report())));
        }
    });
    // Without it there is nothing to look at meanwhile, and the end is told all the same.
    *lock(&TELLER) = spawned.ok().map(|thread| (stop, thread));
}

/// Completes the log and tells the figures of the end; the second time there is nothing left to do.
fn end() {
    if let Some((stop, thread)) = lock(&TELLER).take() {
        drop(stop);
        let _ = thread.join();
    }
    if let Some(drive) = DRIVE.get() {
        ENDED.call_once(|| tell(&Told::Ended(Box::new(drive.finish()))));
    }
}

/// Ends the serving when whoever started it closes `input`, and the process even if clients stay connected.
fn end_with(mut input: File) {
    // What is written there means nothing, and an error ends it as well.
    let _ = std::io::copy(&mut input, &mut std::io::sink());
    end();
    nbdkit::shutdown();
    std::thread::sleep(GRACE);
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
        lock(&GIVEN).push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    fn config_complete() -> Result<()> {
        *lock(&LINE) = std::io::stdout().as_fd().try_clone_to_owned().ok().map(File::from);
        let description = Description::from_pairs(&lock(&GIVEN)).map_err(refused)?;
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

    /// Threads begin here: before, nbdkit may still split.
    fn after_fork() -> Result<()> {
        // Sleeps otherwise end up to 50 us late; threads that are started from here on inherit it.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let checked = lock(&CHECKED).take().ok_or_else(|| refused("nothing was described"))?;
        let live = checked.is_live();
        let drive = DRIVE.get_or_init(|| ServedDrive::begin(checked));
        drive.open_log().map_err(refused)?;
        tell(&Told::Ready);
        if live {
            keep_telling(drive);
        }
        if let Some(input) = lock(&INPUT).take() {
            let thread = std::thread::Builder::new().name("input".to_owned());
            thread.spawn(move || end_with(input))?;
        }
        Ok(())
    }

    fn unload() {
        end();
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        let drive = DRIVE.get().ok_or_else(|| refused("not ready yet"))?;
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

    /// All connections are to one drive: a flush on any of them is about all.
    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    /// A drive with a volatile cache that does not understand it has a flush behind the write.
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
