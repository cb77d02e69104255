//! Sessions and their command numbers. CmdSN numbers the commands of a session over all its connections (RFC 7143,
//! section 4.2.2.1). Numbers that were never seen are therefore commands that the capture lost.

/// Command numbers of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// The target's session handle and the initiator's session identifier, if a login was captured.
    handle: u16,
    identifier: [u8; 6],
    initiator: u128,
    target: u128,
    /// The first and the last number assigned, extended beyond 32 bits.
    first: i64,
    last: i64,
    begun: bool,
    /// The number of PDUs seen with such a number.
    seen: u64,
}

impl Session {
    /// The number nearest to the last one that equals `number` modulo 2³².
    fn extended(&self, number: u32) -> i64 {
        self.last + i64::from(number.wrapping_sub(self.last as u32) as i32)
    }

    fn lost(&self) -> u64 {
        if !self.begun {
            return 0;
        }
        ((self.last - self.first + 1).max(0) as u64).saturating_sub(self.seen)
    }
}

/// All sessions.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    sessions: Vec<Session>,
}

impl Sessions {
    /// Adds a session of which nothing is known.
    pub fn add(&mut self) -> usize {
        self.sessions.push(Session::default());
        self.sessions.len() - 1
    }

    /// The session that a login joins: an existing one if its handle is not zero, else a new one.
    pub fn join(&mut self, initiator: u128, target: u128, identifier: [u8; 6], handle: u16) -> usize {
        let same = |session: &Session| {
            handle != 0
                && session.handle == handle
                && (session.initiator, session.target, session.identifier) == (initiator, target, identifier)
        };
        if let Some(index) = self.sessions.iter().rposition(same) {
            return index;
        }
        self.sessions.push(Session { initiator, target, identifier, handle, ..Session::default() });
        self.sessions.len() - 1
    }

    /// Sets the target's handle of a session.
    pub fn named(&mut self, session: usize, handle: u16) {
        self.sessions[session].handle = handle;
    }

    /// A login gives the number of the session's first command. Later logins add no information.
    pub fn begins(&mut self, session: usize, number: u32) {
        let session = &mut self.sessions[session];
        if !std::mem::replace(&mut session.begun, true) {
            (session.first, session.last) = (i64::from(number), i64::from(number) - 1);
        }
    }

    /// A PDU with this number was seen.
    pub fn seen(&mut self, session: usize, number: u32) {
        let session = &mut self.sessions[session];
        session.seen += 1;
        if !std::mem::replace(&mut session.begun, true) {
            (session.first, session.last) = (i64::from(number), i64::from(number));
            return;
        }
        let number = session.extended(number);
        (session.first, session.last) = (session.first.min(number), session.last.max(number));
    }

    /// The target has received every number before this one.
    pub fn expects(&mut self, session: usize, number: u32) {
        self.begins(session, number);
        let session = &mut self.sessions[session];
        session.last = session.last.max(session.extended(number) - 1);
    }

    /// The count of numbers that were never seen.
    pub fn lost(&self) -> u64 {
        self.sessions.iter().map(Session::lost).sum::<u64>()
    }
}
