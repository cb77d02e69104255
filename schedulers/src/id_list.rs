//! A list of waiting requests in the order in which they queued up. The links lie in a vector indexed by request id, so
//! a request in the middle is removed as fast as the first one. Memory is allocated only when a request id is larger
//! than all before.

use traces::RequestId;

const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    listed: bool,
}

const UNLISTED: Link = Link { before: END, after: END, listed: false };

/// A doubly linked list over request ids; an id is in it at most once.
#[derive(Clone, Debug)]
pub(crate) struct IdList {
    links: Vec<Link>,
    first: u32,
    last: u32,
    len: usize,
}

impl Default for IdList {
    fn default() -> Self {
        IdList { links: Vec::new(), first: END, last: END, len: 0 }
    }
}

impl IdList {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<RequestId> {
        (self.first != END).then_some(RequestId(self.first))
    }

    pub(crate) fn after(&self, id: RequestId) -> Option<RequestId> {
        let after = self.links[id.index()].after;
        (after != END).then_some(RequestId(after))
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.links.get(id.index()).is_some_and(|link| link.listed)
    }

    pub(crate) fn push_back(&mut self, id: RequestId) {
        self.link(self.last, id.0, END);
    }

    pub(crate) fn push_front(&mut self, id: RequestId) {
        self.link(END, id.0, self.first);
    }

    /// Puts `id` directly in front of `place`, which is in the list.
    pub(crate) fn insert_before(&mut self, place: RequestId, id: RequestId) {
        self.link(self.links[place.index()].before, id.0, place.0);
    }

    pub(crate) fn remove(&mut self, id: RequestId) {
        let Link { before, after, listed } = self.links[id.index()];
        assert!(listed, "request {} is not in the list", id.0);
        match before {
            END => self.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            END => self.last = before,
            after => self.links[after as usize].before = before,
        }
        self.links[id.index()] = UNLISTED;
        self.len -= 1;
    }

    fn link(&mut self, before: u32, id: u32, after: u32) {
        let index = id as usize;
        if index >= self.links.len() {
            self.links.resize(index + 1, UNLISTED);
        }
        assert!(!self.links[index].listed, "request {id} is in the list already");
        self.links[index] = Link { before, after, listed: true };
        match before {
            END => self.first = id,
            before => self.links[before as usize].after = id,
        }
        match after {
            END => self.last = id,
            after => self.links[after as usize].before = id,
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &IdList) -> Vec<u32> {
        std::iter::successors(list.first(), |&id| list.after(id)).map(|id| id.0).collect()
    }

    #[test]
    fn requests_leave_from_any_place_and_come_in_at_any() {
        let mut list = IdList::default();
        for id in [3, 1, 4, 0] {
            list.push_back(RequestId(id));
        }
        list.remove(RequestId(1));
        assert_eq!(ids(&list), [3, 4, 0]);
        list.remove(RequestId(0));
        list.push_back(RequestId(5));
        list.push_front(RequestId(1));
        list.insert_before(RequestId(4), RequestId(9));
        list.insert_before(RequestId(1), RequestId(0));
        assert_eq!((ids(&list), list.len()), (vec![0, 1, 3, 9, 4, 5], 6));
        for id in [0, 5, 9, 1, 4, 3] {
            assert!(list.contains(RequestId(id)));
            list.remove(RequestId(id));
            assert!(!list.contains(RequestId(id)));
        }
        assert!(list.is_empty() && list.first().is_none());
        list.push_back(RequestId(2));
        assert_eq!(ids(&list), [2]);
    }

    #[test]
    #[should_panic(expected = "not in the list")]
    fn a_request_leaves_once() {
        let mut list = IdList::default();
        list.push_back(RequestId(0));
        list.remove(RequestId(0));
        list.remove(RequestId(0));
    }
}
