//! The active tree: the entities of one class that have requests, by virtual finish. Linux 6.18, block/bfq-wf2q.c and
//! lib/rbtree.c: a red-black tree in which the root of every subtree knows the subtree's smallest start.
//!
//! The kernel's search for the first eligible entity can stop too early. Once it has entered a left subtree whose
//! eligible entity lies on the right, it returns an eligible ancestor instead. Its answer therefore depends on the
//! shape of the tree, and this tree is balanced by the kernel's rotations.

use super::ids::{EntityId, Table};
use super::virtual_time::VirtualTime;

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// An entity's neighbour in the tree, if it has one there.
type Link = Option<EntityId>;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    start: VirtualTime,
    finish: VirtualTime,
    /// The smallest start in the subtree (`min_start`).
    least_start: VirtualTime,
    parent: Link,
    child: [Link; 2],
    red: bool,
}

/// The tree; its nodes lie in a table indexed by entity.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveTree {
    nodes: Table<EntityId, Node>,
    root: Link,
}

impl ActiveTree {
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    fn child(&self, id: EntityId, side: usize) -> Link {
        self.nodes[id].child[side]
    }

    /// The side of its parent on which a node hangs.
    fn side_of(&self, id: Link, parent: EntityId) -> usize {
        usize::from(self.child(parent, RIGHT) == id)
    }

    fn is_red(&self, id: Link) -> bool {
        id.is_some_and(|id| self.nodes[id].red)
    }

    /// The smallest start of all entities.
    pub(super) fn least_start(&self) -> Option<VirtualTime> {
        self.root.map(|root| self.nodes[root].least_start)
    }

    /// The entity that the kernel's search finds (`bfq_first_active_entity`; see above).
    pub(super) fn first_eligible(&self, vtime: VirtualTime) -> Option<EntityId> {
        let mut first = None;
        let mut at = self.root;
        while let Some(id) = at {
            let node = &self.nodes[id];
            if !node.start.is_after(vtime) {
                first = at;
            }
            match node.child[LEFT] {
                Some(left) if !self.nodes[left].least_start.is_after(vtime) => at = Some(left),
                _ if first.is_some() => break,
                _ => at = node.child[RIGHT],
            }
        }
        first
    }

    /// Renews the smallest start of a subtree (`bfq_update_active_node`).
    fn refresh(&mut self, id: EntityId) {
        let node = &self.nodes[id];
        let mut least = node.start;
        for child in [node.child[RIGHT], node.child[LEFT]].into_iter().flatten() {
            let start = self.nodes[child].least_start;
            if least.is_after(start) {
                least = start;
            }
        }
        self.nodes[id].least_start = least;
    }

    fn refresh_upwards(&mut self, mut at: Link) {
        while let Some(id) = at {
            self.refresh(id);
            at = self.nodes[id].parent;
        }
    }

    /// Puts `new` in the place of `old` below `parent`.
    fn replace_child(&mut self, old: EntityId, new: Link, parent: Link) {
        match parent {
            None => self.root = new,
            Some(parent) => {
                let side = self.side_of(Some(old), parent);
                self.nodes[parent].child[side] = new;
            }
        }
        if let Some(new) = new {
            self.nodes[new].parent = parent;
        }
    }

    /// Rotates `id` down to `side`; its child of the other side takes its place.
    fn rotate(&mut self, id: EntityId, side: usize) {
        let riser = self.child(id, 1 - side).expect("a node is rotated with its child");
        let inner = self.child(riser, side);
        let parent = self.nodes[id].parent;
        self.replace_child(id, Some(riser), parent);
        self.nodes[riser].child[side] = Some(id);
        let node = &mut self.nodes[id];
        node.parent = Some(riser);
        node.child[1 - side] = inner;
        if let Some(inner) = inner {
            self.nodes[inner].parent = Some(id);
        }
        self.refresh(id);
        self.refresh(riser);
    }

    pub(super) fn insert(&mut self, id: EntityId, start: VirtualTime, finish: VirtualTime) {
        let (mut parent, mut at, mut side) = (None, self.root, LEFT);
        while let Some(above) = at {
            parent = at;
            side = usize::from(!self.nodes[above].finish.is_after(finish));
            at = self.child(above, side);
        }
        let node = Node { start, finish, least_start: start, parent, child: [None; 2], red: true };
        self.nodes.set(id, node, Node::default());
        match parent {
            None => self.root = Some(id),
            Some(parent) => self.nodes[parent].child[side] = Some(id),
        }
        self.refresh_upwards(parent);
        self.rebalance_inserted(id);
    }

    fn rebalance_inserted(&mut self, mut id: EntityId) {
        loop {
            let Some(parent) = self.nodes[id].parent else {
                self.nodes[id].red = false;
                return;
            };
            if !self.nodes[parent].red {
                return;
            }
            let grandparent = self.nodes[parent].parent.expect("the root is black");
            let side = self.side_of(Some(parent), grandparent);
            if let Some(uncle) = self.child(grandparent, 1 - side).filter(|&uncle| self.nodes[uncle].red) {
                self.nodes[uncle].red = false;
                self.nodes[parent].red = false;
                self.nodes[grandparent].red = true;
                id = grandparent;
                continue;
            }
            let mut top = parent;
            if self.child(parent, 1 - side) == Some(id) {
                self.rotate(parent, side);
                top = id;
            }
            self.nodes[top].red = false;
            self.nodes[grandparent].red = true;
            self.rotate(grandparent, 1 - side);
            return;
        }
    }

    pub(super) fn remove(&mut self, id: EntityId) {
        let Node { parent, child, red, .. } = self.nodes[id];
        // The place from which the smallest starts are renewed, and where the tree may be short of a black node.
        let (short, hole_parent, hole_side);
        if let [Some(left), Some(right)] = child {
            let mut successor = right;
            while let Some(smaller) = self.child(successor, LEFT) {
                successor = smaller;
            }
            let orphan = self.child(successor, RIGHT);
            let successor_red = self.nodes[successor].red;
            if successor == right {
                (hole_parent, hole_side) = (Some(successor), RIGHT);
            } else {
                (hole_parent, hole_side) = (self.nodes[successor].parent, LEFT);
                self.replace_child(successor, orphan, hole_parent);
                self.nodes[successor].child[RIGHT] = Some(right);
                self.nodes[right].parent = Some(successor);
            }
            self.nodes[successor].child[LEFT] = Some(left);
            self.nodes[left].parent = Some(successor);
            self.replace_child(id, Some(successor), parent);
            self.nodes[successor].red = red;
            if let Some(orphan) = orphan {
                self.nodes[orphan].red = false;
            }
            short = orphan.is_none() && !successor_red;
        } else {
            let only = child[LEFT].or(child[RIGHT]);
            hole_side = parent.map_or(LEFT, |parent| self.side_of(Some(id), parent));
            self.replace_child(id, only, parent);
            // An only child is red below a black node; it takes over the colour.
            if let Some(only) = only {
                self.nodes[only].red = red;
            }
            short = only.is_none() && !red;
            hole_parent = parent;
        }
        self.refresh_upwards(hole_parent);
        if let Some(hole_parent) = hole_parent.filter(|_| short) {
            self.rebalance_removed(hole_parent, hole_side);
        }
    }

    /// Makes up for the black node that is missing on one side of `parent`; the other side has at least one.
    fn rebalance_removed(&mut self, mut parent: EntityId, mut side: usize) {
        const HAS_SIBLING: &str = "the other side has a black node more";
        loop {
            let mut sibling = self.child(parent, 1 - side).expect(HAS_SIBLING);
            if self.nodes[sibling].red {
                self.nodes[sibling].red = false;
                self.nodes[parent].red = true;
                self.rotate(parent, side);
                sibling = self.child(parent, 1 - side).expect(HAS_SIBLING);
            }
            if !self.is_red(self.child(sibling, 1 - side)) {
                let Some(near) = self.child(sibling, side).filter(|&near| self.nodes[near].red) else {
                    self.nodes[sibling].red = true;
                    if self.nodes[parent].red {
                        self.nodes[parent].red = false;
                        return;
                    }
                    let Some(above) = self.nodes[parent].parent else { return };
                    side = self.side_of(Some(parent), above);
                    parent = above;
                    continue;
                };
                self.nodes[near].red = false;
                self.nodes[sibling].red = true;
                self.rotate(sibling, 1 - side);
                sibling = near;
            }
            let far = self.child(sibling, 1 - side).expect("it is red");
            let colour = self.nodes[parent].red;
            self.nodes[sibling].red = colour;
            self.nodes[far].red = false;
            self.nodes[parent].red = false;
            self.rotate(parent, side);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ids::Id;
    use super::*;

    impl ActiveTree {
        /// Collects the entities in order and returns the number of black nodes on every path down.
        fn checked(&self, at: Link, ids: &mut Vec<EntityId>) -> usize {
            let Some(at) = at else { return 1 };
            let node = &self.nodes[at];
            let left = self.checked(node.child[LEFT], ids);
            ids.push(at);
            let right = self.checked(node.child[RIGHT], ids);
            assert_eq!(left, right, "as many black nodes on the left as on the right");
            for child in node.child.into_iter().flatten() {
                assert_eq!(self.nodes[child].parent, Some(at));
                assert!(!(node.red && self.nodes[child].red), "two red nodes in a row");
            }
            left + usize::from(!node.red)
        }
    }

    fn at(time: u64) -> VirtualTime {
        VirtualTime::new(time)
    }

    proptest! {
        /// Compares the tree with a sorted list, through rotations and equal finishes.
        #[test]
        fn tree_is_a_balanced_order_by_finish_that_knows_the_smallest_start(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..60, 0_usize..500), 1..400),
        ) {
            let mut tree = ActiveTree::default();
            let mut list: Vec<(u64, u64, EntityId)> = Vec::new();
            for (index, (removes, start, span, pick)) in steps.into_iter().enumerate() {
                if removes && !list.is_empty() {
                    let gone = list.remove(pick % list.len());
                    tree.remove(gone.2);
                } else {
                    let finish = start + span;
                    let place = list.partition_point(|&(other, _, _)| other <= finish);
                    list.insert(place, (finish, start, EntityId::new(index)));
                    tree.insert(EntityId::new(index), at(start), at(finish));
                }
                let mut ids = Vec::new();
                tree.checked(tree.root, &mut ids);
                prop_assert_eq!(&ids, &list.iter().map(|&(_, _, id)| id).collect::<Vec<_>>());
                prop_assert_eq!(tree.is_empty(), list.is_empty());
                prop_assert_eq!(tree.least_start(), list.iter().map(|&(_, start, _)| start).min().map(at));
                for vtime in [0, 20, 40, 1000] {
                    let eligible: Vec<EntityId> =
                        list.iter().filter(|&&(_, start, _)| start <= vtime).map(|&(_, _, id)| id).collect();
                    let found = tree.first_eligible(at(vtime));
                    prop_assert_eq!(eligible.is_empty(), found.is_none());
                    prop_assert!(found.is_none_or(|found| eligible.contains(&found)));
                    prop_assert!(eligible.len() != list.len() || eligible.first().copied() == found);
                }
            }
        }
    }

    #[test]
    fn search_stops_at_an_eligible_ancestor_as_the_kernels_does() {
        // Entity 3 is the right child of the root's left child. Its own start is reached, that of its parent is not.
        let mut tree = ActiveTree::default();
        let [root, parent, right, below] = [0, 1, 2, 3].map(EntityId::new);
        for (id, start, finish) in [(root, 0, 50), (parent, 90, 20), (right, 0, 80), (below, 0, 30)] {
            tree.insert(id, at(start), at(finish));
        }
        assert_eq!((tree.root, tree.nodes[below].parent), (Some(root), Some(parent)));
        assert_eq!(tree.first_eligible(at(10)), Some(root), "a search of the whole order would find entity 3");
        assert_eq!(tree.first_eligible(at(90)), Some(parent));
    }
}
