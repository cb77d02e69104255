//! Which bytes are proven to be no user data. Wherever the walk may have taken user data for a header, it shows only
//! later: by a header that does not stand where the lengths before it say. So the bytes of headers wait until enough
//! headers have followed one another, and are given up when the chain breaks.

use super::{ConnectionState, PduHandler};

/// The sound headers in a row, each where the length of the one before says, that prove a place in the stream.
pub(super) const CHAIN_MIN: u64 = 4;
/// The `needed` of data that nobody has judged yet.
const UNJUDGED: u64 = u64::MAX;

/// What the waiting bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Header,
    LoginText,
}

/// Bytes of a packet that wait for their proof.
#[derive(Clone, Copy, Debug)]
struct WaitingBytes {
    frame: u64,
    offset: usize,
    bytes: usize,
    what: Kept,
    /// The length of the chain that proves them.
    needed: u64,
}

/// The chain of headers in one direction, and the bytes that wait for it.
#[derive(Debug, Default)]
pub(super) struct Proof {
    links: u64,
    waiting: Vec<WaitingBytes>,
}

impl Proof {
    /// The proof of a stream whose beginning was captured.
    pub(super) fn of_opened() -> Proof {
        Proof { links: CHAIN_MIN, waiting: Vec::new() }
    }

    /// Keeps bytes once the place is proven and the chain has `behind` more headers.
    pub(super) fn keep<H: PduHandler>(
        &mut self,
        [frame, offset, bytes]: [u64; 3],
        what: Kept,
        behind: u64,
        handler: &mut H,
    ) {
        self.wait(frame, [offset, bytes], what, (self.links + behind).max(CHAIN_MIN), handler);
        self.pass_on(handler);
    }

    /// Keeps data once [`Proof::judge`] says that they hold no user data.
    pub(super) fn keep_if_judged<H: PduHandler>(&mut self, [frame, offset, bytes]: [u64; 3], handler: &mut H) {
        self.wait(frame, [offset, bytes], Kept::Header, UNJUDGED, handler);
    }

    fn wait<H: PduHandler>(&mut self, frame: u64, [offset, bytes]: [u64; 2], what: Kept, needed: u64, handler: &mut H) {
        if bytes > 0 {
            handler.held(frame);
            let (offset, bytes) = (offset as usize, bytes as usize);
            self.waiting.push(WaitingBytes { frame, offset, bytes, what, needed });
        }
    }

    /// Says whether the data that wait for it hold no user data.
    pub(super) fn judge<H: PduHandler>(&mut self, harmless: bool, handler: &mut H) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.needed == UNJUDGED) {
            waiting.needed = self.links.max(CHAIN_MIN);
            if !harmless {
                handler.released(waiting.frame);
                waiting.bytes = 0;
            }
        }
        self.waiting.retain(|waiting| waiting.bytes > 0);
        self.pass_on(handler);
    }

    /// A sound header stands where one must.
    pub(super) fn link<H: PduHandler>(&mut self, handler: &mut H) {
        self.links += 1;
        self.pass_on(handler);
    }

    /// The place in the stream is no longer certain. What waits is given up.
    pub(super) fn break_chain<H: PduHandler>(&mut self, shared: &mut ConnectionState, handler: &mut H) {
        self.links = 0;
        shared.breaks += 1;
        self.waiting.drain(..).for_each(|waiting| handler.released(waiting.frame));
    }

    fn pass_on<H: PduHandler>(&mut self, handler: &mut H) {
        let links = self.links;
        self.waiting.retain(|&WaitingBytes { frame, offset, bytes, what, needed }| {
            if needed > links {
                return true;
            }
            match what {
                Kept::Header => handler.header_bytes(frame, offset, bytes),
                Kept::LoginText => handler.login_bytes(frame, offset, bytes),
            }
            handler.released(frame);
            false
        });
    }
}
