//! The state that a policy keeps for each waiting request, in a vector indexed by its id.

use std::ops::{Index, IndexMut};

use traces::RequestId;

/// One value per request id. Ids are small and reused, so the vector stays as long as the largest
/// number of requests that were ever outstanding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots<T> {
    values: Vec<T>,
}

impl<T: Clone + Default> Slots<T> {
    /// Stores the value of a request.
    pub(crate) fn set(&mut self, id: RequestId, value: T) {
        if id.index() >= self.values.len() {
            self.values.resize(id.index() + 1, T::default());
        }
        self.values[id.index()] = value;
    }
}

impl<T> Slots<T> {
    /// The value of a request; `None` if no request ever had this id.
    pub(crate) fn get(&self, id: RequestId) -> Option<&T> {
        self.values.get(id.index())
    }
}

impl<T> Index<RequestId> for Slots<T> {
    type Output = T;
    fn index(&self, id: RequestId) -> &T {
        &self.values[id.index()]
    }
}

impl<T> IndexMut<RequestId> for Slots<T> {
    fn index_mut(&mut self, id: RequestId) -> &mut T {
        &mut self.values[id.index()]
    }
}
