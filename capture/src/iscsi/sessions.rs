//! Sessions and their command numbers. CmdSN counts the commands of a session over all its connections (RFC 7143, section
//! 4.2.2.1), so that numbers which were never seen are commands that the capture lost.

/// Command numbers of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// Target's handle and initiator's identifier, where a login told.
    handle: u16,
    identifier: [u8; 6],
    initiator: u128,
    target: u128,
    /// The first and the last number that was given out, counted on over 2³².
    first: i64,
    last: i64,
    begun: bool,
    /// How many of them were seen.
    seen: u64,
}

impl Session {
    /// The number nearest to the last one that is `number` modulo 2³².
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
    /// A session of which nothing is known.
    pub fn add(&mut self) -> usize {
        self.sessions.push(Session::default());
        self.sessions.len() - 1
    }

    /// The session that a login goes to: one that there is if its handle is not zero.
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

    /// The target's handle of a session.
    pub fn named(&mut self, session: usize, handle: u16) {
        self.sessions[session].handle = handle;
    }

    /// A login has told the number that the session's first command has. Later logins say no more than other PDUs.
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

    /// The target has had every number before this one.
    pub fn expects(&mut self, session: usize, number: u32) {
        self.begins(session, number);
        let session = &mut self.sessions[session];
        session.last = session.last.max(session.extended(number) - 1);
    }

    /// SequenceNumbers that were never seen.
    pub fn lost(&self) -> u64 {
        self.sessions.iter().map(Session::lost).sum::<u64>()
    }
}
