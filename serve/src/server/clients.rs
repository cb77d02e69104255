//! Clients come, make steps, and go.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::event::epoll::{self, EventFlags};

use super::listener::Accepted;
use super::{ACCEPT_PAUSE, EVENTS_MAX, Server, TOKEN_SHIFT, event_data};
use crate::clock::monotonic;
use crate::nbd::socket::Socket;
use crate::nbd::{Client, Phase};
use crate::vhost_user::Frontend;

impl Server {
    pub(super) fn accept(&mut self, listener: usize) -> io::Result<()> {
        for _ in 0..EVENTS_MAX {
            match self.listeners[listener].accept() {
                Ok(Accepted::Nbd(socket)) => self.accept_client(socket),
                Ok(Accepted::VhostUser(socket, export)) => self.accept_frontend(socket, export),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.accept_at = Some(monotonic().saturating_add(ACCEPT_PAUSE));
                    return self.watch_listeners(EventFlags::empty());
                }
            }
        }
        Ok(())
    }

    fn accept_client(&mut self, socket: Socket) {
        let token = self.next_client;
        self.next_client += 1;
        let client = Client::new(socket, EventFlags::IN);
        // The kernel bounds the sockets that a user may watch. Who is beyond the bound gets no answer.
        if epoll::add(&self.epoll, &client.socket, event_data(token), client.interest).is_err() {
            return;
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

    /// Accepts a client over vhost-user. The protocol has no answer for one that is refused.
    fn accept_frontend(&mut self, socket: UnixStream, export: usize) {
        if self.frontends.len() >= self.limits.devices || self.open_connections() >= self.limits.connections {
            return;
        }
        let token = self.next_client;
        self.next_client += 1;
        let length = self.drive.exports()[export].length;
        let first_ring = (token << TOKEN_SHIFT) + 1;
        let discards = self.drive.discards();
        let Ok(frontend) = Frontend::new(socket, (export, length), discards, &self.epoll, first_ring) else { return };
        // By edges, so that a message whose rest does not come does not keep the loop awake.
        let interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(&self.epoll, frontend.socket(), event_data(token), interest).is_err() {
            return;
        }
        self.frontends.insert(token, Box::new(frontend));
        self.limit_connections();
    }

    pub(super) fn client_event(&mut self, token: u64, event: epoll::Event) {
        let flags = event.flags;
        let is_over = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
        let is_socket = event.data.u64() == event_data(token).u64();
        if is_over && is_socket {
            self.end(token);
        } else {
            self.advance(token, is_socket && flags.contains(EventFlags::IN));
        }
    }

    /// Lets a client make its next steps.
    pub(super) fn advance(&mut self, token: u64, is_readable: bool) {
        if self.frontends.contains_key(&token) {
            self.advance_frontend(token, is_readable);
        } else if self.block_devices.contains_key(&token) {
            self.advance_block_device(token);
        } else {
            self.advance_client(token, is_readable);
        }
    }

    fn advance_frontend(&mut self, token: u64, is_readable: bool) {
        let Some(mut frontend) = self.frontends.remove(&token) else { return };
        let served = self.serve_frontend(token, &mut frontend, is_readable);
        self.frontends.insert(token, frontend);
        match served {
            Ok(true) => self.ready.push(token),
            Ok(false) => {}
            Err(_) => self.end(token),
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
            is_over = epoll::modify(&self.epoll, &client.socket, event_data(token), interest).is_err();
        }
        self.clients.insert(token, client);
        if is_over {
            self.end_client(token);
        }
    }

    /// Notes that a client has opened an export.
    pub(crate) fn handshake_ended(&mut self, token: u64) {
        self.handshakes.remove(&token);
        // The client is not in its map now.
        self.refuse_beyond(self.open_connections() + 1);
    }

    /// Closes a connection. Its requests at the drive complete, and are logged, without a reply.
    pub(super) fn end(&mut self, token: u64) {
        match self.frontends.remove(&token) {
            Some(frontend) => {
                if frontend.at_drive > 0 {
                    self.departed.insert(token, frontend.at_drive);
                }
                self.limit_connections();
            }
            None => self.end_client(token),
        }
    }

    pub(super) fn end_client(&mut self, token: u64) {
        let Some(client) = self.clients.remove(&token) else { return };
        self.handshakes.remove(&token);
        self.buffered -= client.buffered_bytes();
        if client.at_drive > 0 {
            self.departed.insert(token, client.at_drive);
        }
        if matches!(client.phase, Phase::Transmission { .. }) {
            self.limit_connections();
        }
    }

    /// Notes that the drive has completed a request of a client that has gone.
    pub(super) fn departed_request_ended(&mut self, token: u64) {
        let Some(requests) = self.departed.get_mut(&token) else { return };
        *requests -= 1;
        if *requests == 0 {
            self.departed.remove(&token);
            self.limit_connections();
        }
    }

    /// The connections in the maps that have an export open.
    fn open_connections(&self) -> usize {
        self.clients.len() + self.frontends.len() + self.departed.len() - self.handshakes.len()
    }

    fn limit_connections(&mut self) {
        self.refuse_beyond(self.open_connections());
    }

    /// Admits no further client while as many as permitted have an export open.
    fn refuse_beyond(&mut self, open: usize) {
        let most = self.limits.connections;
        self.offers.refusal = (open >= most).then(|| format!("the server has its {most} connections already"));
    }
}
