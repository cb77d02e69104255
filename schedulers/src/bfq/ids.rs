//! Typed indices of the tables that bfq keeps, and those tables.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use traces::RequestId;

/// An index into a [`Table`].
pub(super) trait Id: Copy {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct $name(u32);

        impl Id for $name {
            #[inline]
            fn new(index: usize) -> Self {
                $name(index as u32)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A queue of requests (`struct bfq_queue`).
    QueueId
    /// A process (`struct bfq_io_cq`).
    ProcessId
    /// A queue or a group in the fair queueing (`struct bfq_entity`).
    EntityId
    /// A group of queues (`struct bfq_group`).
    GroupId
}

impl GroupId {
    /// The group that holds all others.
    pub(super) const ROOT: GroupId = GroupId(0);
}

impl Id for RequestId {
    fn new(index: usize) -> Self {
        RequestId(index as u32)
    }

    fn index(self) -> usize {
        RequestId::index(self)
    }
}

/// A vector that is indexed by one kind of index.
#[derive(Clone, Debug)]
pub(super) struct Table<I, T> {
    rows: Vec<T>,
    id: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table { rows: Vec::new(), id: PhantomData }
    }
}

impl<I: Id, T> Table<I, T> {
    /// The index that the next row gets.
    pub(super) fn next_id(&self) -> I {
        I::new(self.rows.len())
    }

    pub(super) fn push(&mut self, row: T) -> I {
        let id = self.next_id();
        self.rows.push(row);
        id
    }

    /// Stores a row at an index; rows before it that are missing become `filler`.
    pub(super) fn set(&mut self, id: I, row: T, filler: T)
    where
        T: Clone,
    {
        if id.index() >= self.rows.len() {
            self.rows.resize(id.index() + 1, filler);
        }
        self.rows[id.index()] = row;
    }

    pub(super) fn get(&self, id: I) -> Option<&T> {
        self.rows.get(id.index())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut()
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.rows[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.rows[id.index()]
    }
}
