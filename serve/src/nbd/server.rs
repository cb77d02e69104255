//! The loop: it waits for sockets, for the drive's next event and for deadlines, and lets each make a step.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use traces::results::serving::Serving;
use traces::{Nanos, RequestId, Timestamp};

use super::PIECE_BYTES;
use super::client::{Client, Phase};
use super::handshake::{Offer, Offers, flags};
use super::requests::Pending;
use super::socket::Listener;
use crate::ServedDrive;
use crate::clock::monotonic;
use crate::simulated_drive::FinishedRequest;

/// Events of these are not a client's.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const TIMER: u64 = 2;
const FIRST_CLIENT: u64 = 3;
/// The most events that one wait returns, and the most connections that are accepted at once.
const EVENTS_MAX: usize = 64;
/// The files that the server opens beside its connections.
const OTHER_FILES: u64 = 64;
/// How long no connection is accepted after the operating system could not give one.
const ACCEPT_PAUSE: Nanos = Nanos::from_ms(100);
/// How often the figures so far are shown.
const STATUS_INTERVAL: Nanos = Nanos::from_ms(1000);

/// Bounds on what clients can make a server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most outstanding requests of a connection.
    pub requests: u32,
    /// The most connections that have an export open.
    pub connections: usize,
    /// The most connections that choose an export. Another one ends the oldest of them.
    pub handshakes: usize,
    /// How long they may take.
    pub handshake_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { requests: 64, connections: 1024, handshakes: 256, handshake_time: Duration::from_secs(10) }
    }
}

/// A server of one drive.
pub struct Server {
    pub(super) drive: ServedDrive,
    pub(super) limits: Limits,
    pub(super) offers: Offers,
    pub(super) clients: HashMap<u64, Box<Client>>,
    /// Requests at the drive of clients that have gone. Such a client still counts as a connection, so that nobody
    /// fills the drive's queue by coming and going.
    departed: HashMap<u64, u32>,
    /// When each handshake began, from the oldest on.
    handshakes: BTreeMap<u64, Timestamp>,
    next_client: u64,
    /// Requests that have arrived at the drive, by id.
    pub(super) pending: Vec<Option<Pending>>,
    /// Requests that zero a part of the image.
    pub(super) zeroing: VecDeque<RequestId>,
    /// Clients that have more requests for their next turn.
    ready: Vec<u64>,
    /// Bytes that were read from the image before their replies are due.
    pub(super) buffered: usize,
    // Reused to avoid an allocation for each request.
    pub(super) finished: Vec<FinishedRequest>,
    pub(super) scratch: Vec<u8>,
    listener: Listener,
    epoll: OwnedFd,
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
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Server {
    /// Prepares to serve `drive` to the clients that connect to `listener`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(drive: ServedDrive, listener: Listener, limits: Limits) -> io::Result<Server> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        for (token, file) in [(LISTENER, listener.as_fd()), (STOP, stop.as_fd()), (TIMER, timer.as_fd())] {
            epoll::add(&epoll, file, EventData::new_u64(token), EventFlags::IN)?;
        }
        Ok(Server {
            limits: within_file_limit(limits),
            offers: Offers { exports: offers(&drive), refusal: None },
            drive,
            clients: HashMap::new(),
            departed: HashMap::new(),
            handshakes: BTreeMap::new(),
            next_client: FIRST_CLIENT,
            pending: Vec::new(),
            zeroing: VecDeque::new(),
            ready: Vec::new(),
            buffered: 0,
            finished: Vec::new(),
            scratch: vec![0; PIECE_BYTES],
            listener,
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
        loop {
            self.complete_due();
            self.zero_a_piece();
            for client in std::mem::take(&mut self.ready) {
                self.advance_client(client, false);
                self.complete_due();
            }
            let now = monotonic();
            self.end_late_handshakes(now);
            if self.accept_at.is_some_and(|at| at <= now) {
                self.accept_at = None;
                epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
            }
            if let (Some(show), Some(at)) = (status.as_deref_mut(), status_at.filter(|&at| at <= now)) {
                show(&self.drive.report());
                status_at = Some(at.saturating_add(STATUS_INTERVAL));
            }
            self.wait(&mut events, status_at)?;
            for event in events.drain(..) {
                match event.data.u64() {
                    STOP => {
                        self.shut_down();
                        return Ok(());
                    }
                    LISTENER => self.accept()?,
                    TIMER => self.armed = None,
                    client => {
                        self.client_event(client, event.flags);
                        self.complete_due();
                    }
                }
            }
        }
    }

    /// The drive, after serving has ended.
    pub fn into_drive(self) -> ServedDrive {
        self.drive
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, status_at: Option<Timestamp>) -> io::Result<()> {
        let handshake = self.handshakes.first_key_value().map(|(_, &begun)| self.handshake_end(begun));
        let deadlines = [self.drive.next_event(), handshake, status_at, self.accept_at];
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
        if !self.zeroing.is_empty() || !self.ready.is_empty() {
            timeout = Some(Timespec::default());
        }
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.iter().any(|event| event.data.u64() == TIMER) {
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

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..EVENTS_MAX {
            match self.listener.accept() {
                Ok(socket) => {
                    let token = self.next_client;
                    self.next_client += 1;
                    let client = Client::new(socket, EventFlags::IN);
                    // The kernel bounds the sockets that a user may watch. Who is beyond the bound gets no answer.
                    if epoll::add(&self.epoll, &client.socket, EventData::new_u64(token), client.interest).is_err() {
                        continue;
                    }
                    self.clients.insert(token, Box::new(client));
                    self.handshakes.insert(token, monotonic());
                    if self.handshakes.len() > self.limits.handshakes
                        && let Some((&oldest, _)) = self.handshakes.first_key_value()
                    {
                        self.end_client(oldest);
                    }
                    self.advance_client(token, false);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.accept_at = Some(monotonic().saturating_add(ACCEPT_PAUSE));
                    let nothing = EventFlags::empty();
                    epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), nothing)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn client_event(&mut self, token: u64, event: EventFlags) {
        if event.intersects(EventFlags::HUP | EventFlags::ERR) {
            self.end_client(token);
        } else {
            self.advance_client(token, event.contains(EventFlags::IN));
        }
    }

    /// Receives, processes and sends as much as the client permits.
    pub(super) fn advance_client(&mut self, token: u64, is_readable: bool) {
        let Some(mut client) = self.clients.remove(&token) else { return };
        let advanced = self.exchange(token, &mut client, is_readable);
        if let Ok(true) = advanced {
            self.ready.push(token);
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, client.may_send(self.limits.requests));
        interest.set(EventFlags::OUT, client.has_output());
        let mut is_over = advanced.is_err() || client.has_ended();
        if !is_over && interest != client.interest {
            client.interest = interest;
            is_over = epoll::modify(&self.epoll, &client.socket, EventData::new_u64(token), interest).is_err();
        }
        self.clients.insert(token, client);
        if is_over {
            self.end_client(token);
        }
    }

    /// Notes that a client has opened an export.
    pub(super) fn handshake_ended(&mut self, token: u64) {
        self.handshakes.remove(&token);
        self.limit_connections(1);
    }

    /// Closes a connection. Its requests at the drive complete, and are logged, without a reply.
    fn end_client(&mut self, token: u64) {
        let Some(client) = self.clients.remove(&token) else { return };
        self.handshakes.remove(&token);
        self.buffered -= client.buffered_bytes();
        if client.at_drive > 0 {
            self.departed.insert(token, client.at_drive);
        }
        if matches!(client.phase, Phase::Transmission { .. }) {
            self.limit_connections(0);
        }
    }

    /// Notes that the drive has completed a request of a client that has gone.
    pub(super) fn departed_request_ended(&mut self, token: u64) {
        let Some(requests) = self.departed.get_mut(&token) else { return };
        *requests -= 1;
        if *requests == 0 {
            self.departed.remove(&token);
            self.limit_connections(0);
        }
    }

    /// Admits no further client while as many as permitted have an export open: those in the maps, and `others`.
    fn limit_connections(&mut self, others: usize) {
        let open = self.clients.len() + self.departed.len() + others - self.handshakes.len();
        let most = self.limits.connections;
        self.offers.refusal = (open >= most).then(|| format!("the server has its {most} connections already"));
    }

    /// Answers outstanding requests with an error, as far as clients take it without delay.
    fn shut_down(&mut self) {
        self.fail_pending();
        let tokens: Vec<u64> = self.clients.keys().copied().collect();
        for token in tokens {
            self.advance_client(token, false);
            self.end_client(token);
        }
    }
}

fn offers(drive: &ServedDrive) -> Vec<Offer> {
    let always = flags::HAS_FLAGS | flags::FLUSH | flags::FUA | flags::WRITE_ZEROES | flags::CAN_MULTI_CONN;
    // All connections share one drive, so that a flush on one covers all.
    let drives = [(drive.is_rotational(), flags::ROTATIONAL), (drive.discards(), flags::TRIM)];
    let flags = drives.into_iter().filter(|(is, _)| *is).fold(always, |flags, (_, flag)| flags | flag);
    let offer = |export: &crate::Export| Offer { name: export.name.clone(), bytes: export.length.bytes(), flags };
    drive.exports().iter().map(offer).collect()
}

/// Raises the limit of open files as far as `limits` need it, or lowers `limits` to it.
fn within_file_limit(limits: Limits) -> Limits {
    let found = getrlimit(Resource::Nofile);
    let needed = (limits.connections + limits.handshakes) as u64 + OTHER_FILES;
    let most = found.maximum.map_or(needed, |maximum| maximum.min(needed));
    let current = found.current.unwrap_or(u64::MAX);
    if current >= needed {
        return limits;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..found });
    let files = if raised.is_ok() { most } else { current };
    // A third of a low limit is for handshakes.
    let usable = files.saturating_sub(OTHER_FILES).max(3) as usize;
    let handshakes = limits.handshakes.min(usable / 3);
    Limits { handshakes, connections: limits.connections.min(usable - handshakes), ..limits }
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: (time.as_ns() / 1_000_000_000) as i64, tv_nsec: (time.as_ns() % 1_000_000_000) as i64 }
}
