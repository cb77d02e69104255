//! The process that queued the first bio of each request: the process that issues it is often a kernel thread.
//!
//! The kernel allocates a request in the process that queued its first bio, at the bio's sector (`block_getrq`; Linux
//! 6.18, `block/blk-mq.c`, `blk_mq_submit_bio`, after splitting). The request is found by that sector when it is issued,
//! also if it is issued again. A bio that is merged to its front moves it; a request that is merged into another is
//! gone. Requests at one sector at the same time count as those of the last process: on one disk they are of one VM.

use std::collections::HashMap;

use traces::events::{Category, Event, action};

/// The most requests that are remembered; a device has fewer tags. Where events were lost, requests stay for ever, so
/// that beyond this all are forgotten.
const REMEMBERED_MAX: usize = 1 << 16;

struct Queued {
    pid: u32,
    /// Requests at the sector that have not completed.
    requests: u32,
}

/// The requests of one device.
#[derive(Default)]
pub(super) struct QueuedBy {
    by_start: HashMap<(u64, u16), Queued>,
}

/// Reads, writes and discards are apart even at the same sector.
fn key(event: &Event) -> (u64, u16) {
    (event.sector, (event.category() & (Category::WRITE | Category::DISCARD)).bits())
}

impl QueuedBy {
    /// Takes in an event. An issue gets the process that queued the request; 0 if that is not known.
    pub(super) fn follow(&mut self, event: &mut Event) {
        if event.bytes == 0 {
            return;
        }
        let key = key(event);
        match event.code() {
            action::GET_REQUEST => self.add(key, event.pid),
            action::ISSUE => event.pid = self.by_start.get(&key).map_or(0, |queued| queued.pid),
            action::FRONT_MERGE => {
                if let Some(pid) = self.remove((event.end(), key.1)) {
                    self.add(key, pid);
                }
            }
            action::COMPLETE | action::BACK_MERGE => {
                self.remove(key);
            }
            _ => {}
        }
    }

    fn add(&mut self, key: (u64, u16), pid: u32) {
        if self.by_start.len() >= REMEMBERED_MAX {
            self.by_start.clear();
        }
        let queued = self.by_start.entry(key).or_insert(Queued { pid, requests: 0 });
        (queued.pid, queued.requests) = (pid, queued.requests.saturating_add(1));
    }

    fn remove(&mut self, key: (u64, u16)) -> Option<u32> {
        let queued = self.by_start.get_mut(&key)?;
        let pid = queued.pid;
        queued.requests -= 1;
        if queued.requests == 0 {
            self.by_start.remove(&key);
        }
        Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Category = Category::WRITE;

    fn event(code: u8, category: Category, pid: u32, sector: u64) -> Event {
        Event { pid, sector, bytes: 4096, action: u32::from(code) | category.in_action(), ..Event::default() }
    }

    /// The process of an issue at that sector, which a kernel thread does.
    fn issued(of: &mut QueuedBy, category: Category, sector: u64) -> u32 {
        let mut issue = event(action::ISSUE, category, 1, sector);
        of.follow(&mut issue);
        issue.pid
    }

    #[test]
    fn issue_has_the_process_of_the_first_bio_until_the_request_completes() {
        let mut of = QueuedBy::default();
        of.follow(&mut event(action::GET_REQUEST, WRITE, 70, 8));
        of.follow(&mut event(action::GET_REQUEST, Category::READ, 80, 8));
        assert_eq!((issued(&mut of, WRITE, 8), issued(&mut of, Category::READ, 8)), (70, 80));
        // Taken back and issued again.
        of.follow(&mut event(action::REQUEUE, WRITE, 1, 8));
        assert_eq!(issued(&mut of, WRITE, 8), 70);
        // A second request at the sector, before the first completes.
        of.follow(&mut event(action::GET_REQUEST, WRITE, 71, 8));
        of.follow(&mut event(action::COMPLETE, WRITE, 1, 8));
        assert_eq!(issued(&mut of, WRITE, 8), 71);
        of.follow(&mut event(action::COMPLETE, WRITE, 1, 8));
        assert_eq!((issued(&mut of, WRITE, 8), of.by_start.len()), (0, 1));
    }

    #[test]
    fn merges_move_and_remove_requests() {
        let mut of = QueuedBy::default();
        of.follow(&mut event(action::GET_REQUEST, WRITE, 70, 8));
        of.follow(&mut event(action::GET_REQUEST, WRITE, 71, 16));
        // A bio of another process before the first request; then the second one becomes a part of it.
        of.follow(&mut event(action::FRONT_MERGE, WRITE, 99, 0));
        of.follow(&mut event(action::BACK_MERGE, WRITE, 99, 16));
        assert_eq!([0, 8, 16].map(|sector| issued(&mut of, WRITE, sector)), [70, 0, 0]);
        assert_eq!(of.by_start.len(), 1);
    }

    #[test]
    fn requests_whose_completion_was_lost_take_bounded_memory() {
        let mut of = QueuedBy::default();
        for number in 0..3 * REMEMBERED_MAX as u64 {
            of.follow(&mut event(action::GET_REQUEST, WRITE, 70, number * 8));
            assert_eq!(issued(&mut of, WRITE, number * 8), 70);
        }
        assert!(of.by_start.len() <= REMEMBERED_MAX);
    }
}
