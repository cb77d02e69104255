//! The server: one loop in one thread. It waits for sockets, for announced requests, for the drive's next event and for
//! deadlines, and lets each make a step. No request costs a thread or a wake-up of another one.
//!
//! All clients share the drive. Everything that a client can make the server hold is bounded: handshakes
//! and their time, connections, outstanding requests of a connection, and the bytes of each. Data move in pieces, with
//! due completions between them, so that no client's long request makes others late.

mod block_devices;
mod clients;
mod limits;
mod listener;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use traces::results::serving::Serving;
use traces::{Nanos, Timestamp};

pub use limits::Limits;
pub use listener::Listener;

use crate::ServedDrive;
use crate::clock::monotonic;
use crate::nbd::handshake::{Offer, Offers, flags};
use crate::nbd::transmission::NbdError;
use crate::nbd::{Client, ReplyData};
use crate::requests::{Ended, PIECE_BYTES, Requests};
use crate::ublk::{self, BlockDevice};
use crate::vhost_user::{Answer, Frontend, QUEUES_MAX};
use limits::within_file_limit;

/// Events carry a token and, below it, a number: 0 for a socket, from 1 on for the rings of a client.
const TOKEN_SHIFT: u32 = u64::BITS - (QUEUES_MAX as u64).leading_zeros();
/// Tokens of what is neither a listener nor a client. The listeners' follow, then the clients'.
const STOP: u64 = 0;
const TIMER: u64 = 1;
const FIRST_LISTENER: u64 = 2;
/// The most events that one wait returns, and the most connections that are accepted at once.
const EVENTS_MAX: usize = 64;
/// How long before the drive's next event the loop is awake. It takes an idle processor 50 to 100 us to wake up.
const WAKE_AHEAD: Nanos = Nanos::from_ns(100_000);
/// How long no connection is accepted after the operating system could not give one.
const ACCEPT_PAUSE: Nanos = Nanos::from_ms(100);
/// How often the figures so far are shown.
const STATUS_INTERVAL: Nanos = Nanos::from_ms(1000);

/// What the reply to a request needs.
pub(crate) struct Reply {
    /// The client's token. The client may have gone.
    client: u64,
    to: ReplyTo,
}

enum ReplyTo {
    Nbd { cookie: u64, data: ReplyData },
    VhostUser(Answer),
    BlockDevice(ublk::Answer),
}

impl Reply {
    pub(crate) fn nbd(client: u64, cookie: u64, data: ReplyData) -> Reply {
        Reply { client, to: ReplyTo::Nbd { cookie, data } }
    }

    pub(crate) fn vhost_user(client: u64, answer: Answer) -> Reply {
        Reply { client, to: ReplyTo::VhostUser(answer) }
    }

    pub(crate) fn block_device(client: u64, answer: ublk::Answer) -> Reply {
        Reply { client, to: ReplyTo::BlockDevice(answer) }
    }
}

/// A server of one drive.
pub struct Server {
    pub(crate) drive: ServedDrive,
    pub(crate) limits: Limits,
    pub(crate) offers: Offers,
    /// The clients over NBD.
    clients: HashMap<u64, Box<Client>>,
    /// The clients over vhost-user.
    frontends: HashMap<u64, Box<Frontend>>,
    /// The block devices of this host.
    pub(super) block_devices: HashMap<u64, Box<BlockDevice>>,
    /// Whether the server ends as soon as they have.
    is_ending: bool,
    /// Why one of them cannot be served.
    failure: Option<io::Error>,
    /// Requests at the drive of clients that have gone. Such a client still counts as a connection, so that nobody
    /// fills the drive's queue by coming and going.
    departed: HashMap<u64, u32>,
    /// When each handshake began, from the oldest on.
    handshakes: BTreeMap<u64, Timestamp>,
    next_client: u64,
    pub(crate) requests: Requests<Reply>,
    /// Clients that have more to do in their next turn.
    ready: Vec<u64>,
    /// Bytes that were read from the image before their replies are due.
    pub(crate) buffered: usize,
    // Reused to avoid an allocation for each request.
    ended: Vec<Ended<Reply>>,
    pub(crate) scratch: Vec<u8>,
    listeners: Vec<Listener>,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    /// The time for which the timer is set.
    armed: Option<Timestamp>,
    /// When connections are accepted again.
    accept_at: Option<Timestamp>,
    stop: Arc<OwnedFd>,
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Makes [`Server::run`] return.
    pub fn stop(&self) {
        // It fails only if the counter is full, and then the server is being stopped.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes()));
    }
}

impl Server {
    /// Prepares to serve `drive` to the clients that connect to `listeners`.
    ///
    /// # Errors
    /// A listener's export does not exist, or an error of the operating system.
    pub fn new(drive: ServedDrive, listeners: Vec<Listener>, limits: Limits) -> io::Result<Server> {
        let exports = drive.exports().len();
        if let Some(export) = listeners.iter().filter_map(Listener::export).find(|&export| export >= exports) {
            let problem = format!("there is no export number {export}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        for (token, file) in [(STOP, stop.as_fd()), (TIMER, timer.as_fd())] {
            epoll::add(&epoll, file, event_data(token), EventFlags::IN)?;
        }
        for (token, listener) in (FIRST_LISTENER..).zip(&listeners) {
            epoll::add(&epoll, listener, event_data(token), EventFlags::IN)?;
        }
        Ok(Server {
            limits: within_file_limit(limits),
            offers: Offers { exports: offers(&drive), refusal: None },
            drive,
            clients: HashMap::new(),
            frontends: HashMap::new(),
            block_devices: HashMap::new(),
            is_ending: false,
            failure: None,
            departed: HashMap::new(),
            handshakes: BTreeMap::new(),
            next_client: FIRST_LISTENER + listeners.len() as u64,
            requests: Requests::new(),
            ready: Vec::new(),
            buffered: 0,
            ended: Vec::new(),
            scratch: vec![0; PIECE_BYTES],
            listeners,
            epoll,
            timer,
            armed: None,
            accept_at: None,
            stop,
        })
    }

    /// A handle that ends the server from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until a [`Stopper`] ends it. Shows the figures so far to `status` every second, if there is one.
    ///
    /// # Errors
    /// The operating system's; errors of single connections only end these.
    pub fn run(&mut self, mut status: Option<&mut dyn FnMut(&Serving)>) -> io::Result<()> {
        let mut status_at = status.is_some().then(|| monotonic().saturating_add(STATUS_INTERVAL));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.start_block_devices()?;
        loop {
            self.complete_due();
            self.requests.work(&mut self.drive, &mut self.ended);
            self.reply_to_ended();
            for client in std::mem::take(&mut self.ready) {
                self.advance(client, false);
                self.complete_due();
            }
            let now = monotonic();
            self.end_late_handshakes(now);
            if self.accept_at.is_some_and(|at| at <= now) {
                self.accept_at = None;
                self.watch_listeners(EventFlags::IN)?;
            }
            if let (Some(show), Some(at)) = (status.as_deref_mut(), status_at.filter(|&at| at <= now)) {
                show(&self.drive.report());
                status_at = Some(at.saturating_add(STATUS_INTERVAL));
            }
            self.wait(&mut events, status_at)?;
            for event in events.drain(..) {
                match event.data.u64() >> TOKEN_SHIFT {
                    // A second stop waits for no block device.
                    STOP if self.is_ending || !self.stop_block_devices()? => {
                        self.shut_down();
                        return Ok(());
                    }
                    STOP => {}
                    TIMER => self.armed = None,
                    token if token < self.first_client() => self.accept((token - FIRST_LISTENER) as usize)?,
                    client => {
                        self.client_event(client, event);
                        self.complete_due();
                    }
                }
            }
            if let Some(fault) = self.drive.fault() {
                return Err(io::Error::other(format!("the scheduler is at fault: {fault}")));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.is_ending && self.block_devices.is_empty() {
                self.shut_down();
                return Ok(());
            }
        }
    }

    fn first_client(&self) -> u64 {
        FIRST_LISTENER + self.listeners.len() as u64
    }

    fn watch_listeners(&self, interest: EventFlags) -> io::Result<()> {
        for (token, listener) in (FIRST_LISTENER..).zip(&self.listeners) {
            epoll::modify(&self.epoll, listener, event_data(token), interest)?;
        }
        Ok(())
    }

    /// The drive's exports.
    pub fn exports(&self) -> &[crate::Export] {
        self.drive.exports()
    }

    /// The drive, after serving has ended.
    pub fn into_drive(self) -> ServedDrive {
        self.drive
    }

    /// Waits for an event or the next deadline. The last part of the wait for the drive only looks for events.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, status_at: Option<Timestamp>) -> io::Result<()> {
        let handshake = self.handshakes.first_key_value().map(|(_, &begun)| self.handshake_end(begun));
        let awake_at = |event: Timestamp| Timestamp::from_ns(event.as_ns().saturating_sub(WAKE_AHEAD.as_ns()));
        let deadlines = [self.drive.next_event().map(awake_at), handshake, status_at, self.accept_at];
        let mut timeout = None;
        if let Some(next) = deadlines.into_iter().flatten().min() {
            if next <= monotonic() {
                timeout = Some(Timespec::default());
            } else if self.armed != Some(next) {
                let it_value = timespec(next);
                let setting = Itimerspec { it_interval: Timespec::default(), it_value };
                timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
                self.armed = Some(next);
            }
        }
        if self.requests.has_work() || !self.ready.is_empty() {
            timeout = Some(Timespec::default());
        }
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.iter().any(|event| event.data.u64() >> TOKEN_SHIFT == TIMER) {
            // The number of expirations, of no interest.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        }
        Ok(())
    }

    fn handshake_end(&self, begun: Timestamp) -> Timestamp {
        begun.saturating_add(Nanos::from_ns(self.limits.handshake_time.as_nanos() as u64))
    }

    fn end_late_handshakes(&mut self, now: Timestamp) {
        while let Some((&oldest, &begun)) = self.handshakes.first_key_value()
            && self.handshake_end(begun) <= now
        {
            self.end_client(oldest);
        }
    }

    /// Replies to requests whose completion times have passed.
    fn complete_due(&mut self) {
        self.requests.complete_due(&mut self.drive, &mut self.ended);
        self.reply_to_ended();
    }

    fn reply_to_ended(&mut self) {
        let mut replied: Vec<u64> = Vec::new();
        let mut ended = std::mem::take(&mut self.ended);
        for Ended { reply: Reply { client, to }, errno } in ended.drain(..) {
            let is_here = match to {
                ReplyTo::Nbd { cookie, data } => self.reply_over_nbd(client, cookie, data, errno),
                ReplyTo::VhostUser(answer) => {
                    self.frontends.get_mut(&client).map(|frontend| frontend.request_ended(answer, errno)).is_some()
                }
                ReplyTo::BlockDevice(answer) => {
                    self.block_devices.get_mut(&client).map(|device| device.answer(answer, errno)).is_some()
                }
            };
            if !is_here {
                self.departed_request_ended(client);
            } else if replied.last() != Some(&client) {
                replied.push(client);
            }
        }
        self.ended = ended;
        for client in replied {
            self.advance(client, false);
        }
    }

    /// Queues a reply. Returns whether the client is still there.
    fn reply_over_nbd(&mut self, client: u64, cookie: u64, data: ReplyData, errno: i32) -> bool {
        let Some(client) = self.clients.get_mut(&client) else {
            self.buffered -= data.buffered_bytes();
            return false;
        };
        client.at_drive -= 1;
        client.reply(cookie, (errno != 0).then(|| NbdError::of_errno(errno)), data);
        true
    }

    /// Answers outstanding requests with an error over NBD, as far as clients take it without delay. Over vhost-user
    /// they stay in their rings, where the next server finds them.
    fn shut_down(&mut self) {
        for Reply { client, to } in self.requests.abandon() {
            if let ReplyTo::Nbd { cookie, data } = to {
                self.buffered -= data.buffered_bytes();
                if let Some(client) = self.clients.get_mut(&client) {
                    client.reply(cookie, Some(NbdError::Shutdown), ReplyData::None);
                }
            }
        }
        let tokens: Vec<u64> = self.clients.keys().copied().collect();
        for token in tokens {
            self.advance_client(token, false);
            self.end_client(token);
        }
        self.frontends.clear();
        self.block_devices.clear();
    }
}

/// What the events of a token's socket carry.
fn event_data(token: u64) -> EventData {
    EventData::new_u64(token << TOKEN_SHIFT)
}

fn offers(drive: &ServedDrive) -> Vec<Offer> {
    let always = flags::HAS_FLAGS | flags::FLUSH | flags::FUA | flags::WRITE_ZEROES | flags::CAN_MULTI_CONN;
    // All connections share one drive, so that a flush on one covers all.
    let drives = [(drive.is_rotational(), flags::ROTATIONAL), (drive.discards(), flags::TRIM)];
    let flags = drives.into_iter().filter(|(is, _)| *is).fold(always, |flags, (_, flag)| flags | flag);
    let offer = |export: &crate::Export| Offer { name: export.name.clone(), bytes: export.length.bytes(), flags };
    drive.exports().iter().map(offer).collect()
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: (time.as_ns() / 1_000_000_000) as i64, tv_nsec: (time.as_ns() % 1_000_000_000) as i64 }
}
