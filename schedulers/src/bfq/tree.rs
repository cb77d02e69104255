//! The entities of one class that have requests, by virtual finish: the red-black tree of
//! `lib/rbtree.c` with the least start of every subtree in its root. The kernel's search for the
//! first eligible entity stops at an eligible ancestor once it has entered a left subtree whose own
//! eligible entity lies on the right, so the answer depends on the tree's shape; balance is kept
//! with the same rotations for that reason.

use super::service::is_after;

const NIL: u32 = u32::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    finish: u64,
    least_start: u64,
    parent: u32,
    child: [u32; 2],
    red: bool,
}

const UNLINKED: Node = Node { start: 0, finish: 0, least_start: 0, parent: NIL, child: [NIL; 2], red: false };

/// The tree; nodes lie in a vector indexed by entity.
#[derive(Clone, Debug)]
pub(super) struct ActiveTree {
    nodes: Vec<Node>,
    root: u32,
}

impl Default for ActiveTree {
    fn default() -> Self {
        ActiveTree { nodes: Vec::new(), root: NIL }
    }
}

impl ActiveTree {
    pub(super) fn is_empty(&self) -> bool {
        self.root == NIL
    }

    fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    fn child(&self, id: u32, side: usize) -> u32 {
        self.nodes[id as usize].child[side]
    }

    fn is_red(&self, id: u32) -> bool {
        id != NIL && self.nodes[id as usize].red
    }

    /// The least start of all.
    pub(super) fn least_start(&self) -> Option<u64> {
        (self.root != NIL).then(|| self.node(self.root).least_start)
    }

    /// The entity the kernel's search finds: see above.
    pub(super) fn first_eligible(&self, vtime: u64) -> u32 {
        let mut first = NIL;
        let mut at = self.root;
        while at != NIL {
            let node = self.node(at);
            if !is_after(node.start, vtime) {
                first = at;
            }
            let left = node.child[LEFT];
            if left != NIL && !is_after(self.node(left).least_start, vtime) {
                at = left;
            } else if first != NIL {
                break;
            } else {
                at = node.child[RIGHT];
            }
        }
        first
    }

    fn refresh(&mut self, id: u32) {
        let node = *self.node(id);
        let mut least = node.start;
        for child in [node.child[RIGHT], node.child[LEFT]] {
            if child != NIL && is_after(least, self.node(child).least_start) {
                least = self.node(child).least_start;
            }
        }
        self.node_mut(id).least_start = least;
    }

    fn refresh_upwards(&mut self, mut id: u32) {
        while id != NIL {
            self.refresh(id);
            id = self.node(id).parent;
        }
    }

    /// Puts `new` where `old` hangs.
    fn replace_child(&mut self, old: u32, new: u32, parent: u32) {
        if parent == NIL {
            self.root = new;
        } else {
            let side = usize::from(self.child(parent, RIGHT) == old);
            self.node_mut(parent).child[side] = new;
        }
        if new != NIL {
            self.node_mut(new).parent = parent;
        }
    }

    /// Rotates `id` down to `side`; its child of the other side takes its place.
    fn rotate(&mut self, id: u32, side: usize) {
        let riser = self.child(id, 1 - side);
        let inner = self.child(riser, side);
        let parent = self.node(id).parent;
        self.replace_child(id, riser, parent);
        self.node_mut(riser).child[side] = id;
        self.node_mut(id).parent = riser;
        self.node_mut(id).child[1 - side] = inner;
        if inner != NIL {
            self.node_mut(inner).parent = id;
        }
        self.refresh(id);
        self.refresh(riser);
    }

    pub(super) fn insert(&mut self, id: u32, start: u64, finish: u64) {
        if id as usize >= self.nodes.len() {
            self.nodes.resize(id as usize + 1, UNLINKED);
        }
        let (mut parent, mut at, mut side) = (NIL, self.root, LEFT);
        while at != NIL {
            parent = at;
            side = usize::from(!is_after(self.node(at).finish, finish));
            at = self.child(at, side);
        }
        *self.node_mut(id) = Node { start, finish, least_start: start, parent, child: [NIL; 2], red: true };
        if parent == NIL {
            self.root = id;
        } else {
            self.node_mut(parent).child[side] = id;
        }
        self.refresh_upwards(parent);
        self.rebalance_inserted(id);
    }

    fn rebalance_inserted(&mut self, mut id: u32) {
        loop {
            let parent = self.node(id).parent;
            if parent == NIL {
                self.node_mut(id).red = false;
                return;
            }
            if !self.is_red(parent) {
                return;
            }
            let grandparent = self.node(parent).parent;
            let side = usize::from(self.child(grandparent, RIGHT) == parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.node_mut(uncle).red = false;
                self.node_mut(parent).red = false;
                self.node_mut(grandparent).red = true;
                id = grandparent;
                continue;
            }
            let mut top = parent;
            if self.child(parent, 1 - side) == id {
                self.rotate(parent, side);
                top = id;
            }
            self.node_mut(top).red = false;
            self.node_mut(grandparent).red = true;
            self.rotate(grandparent, 1 - side);
            return;
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Node { parent, child: [left, right], red, .. } = *self.node(id);
        // Where the tree may be a black node short, and from where the least starts are to be renewed.
        let (short, hole_parent, hole_side);
        if left == NIL || right == NIL {
            let only = if left == NIL { right } else { left };
            hole_side = usize::from(parent != NIL && self.child(parent, RIGHT) == id);
            self.replace_child(id, only, parent);
            // An only child is red under a black node: it takes the colour over.
            if only != NIL {
                self.node_mut(only).red = red;
            }
            short = only == NIL && !red;
            hole_parent = parent;
        } else {
            let mut successor = right;
            while self.child(successor, LEFT) != NIL {
                successor = self.child(successor, LEFT);
            }
            let orphan = self.child(successor, RIGHT);
            let successor_red = self.node(successor).red;
            if successor == right {
                (hole_parent, hole_side) = (successor, RIGHT);
            } else {
                (hole_parent, hole_side) = (self.node(successor).parent, LEFT);
                self.replace_child(successor, orphan, hole_parent);
                self.node_mut(successor).child[RIGHT] = right;
                self.node_mut(right).parent = successor;
            }
            self.node_mut(successor).child[LEFT] = left;
            self.node_mut(left).parent = successor;
            self.replace_child(id, successor, parent);
            self.node_mut(successor).red = red;
            if orphan != NIL {
                self.node_mut(orphan).red = false;
            }
            short = orphan == NIL && !successor_red;
        }
        self.refresh_upwards(hole_parent);
        if short && hole_parent != NIL {
            self.rebalance_removed(hole_parent, hole_side);
        }
    }

    fn rebalance_removed(&mut self, mut parent: u32, mut side: usize) {
        loop {
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.node_mut(sibling).red = false;
                self.node_mut(parent).red = true;
                self.rotate(parent, side);
                sibling = self.child(parent, 1 - side);
            }
            if !self.is_red(self.child(sibling, 1 - side)) {
                let near = self.child(sibling, side);
                if !self.is_red(near) {
                    self.node_mut(sibling).red = true;
                    if self.is_red(parent) {
                        self.node_mut(parent).red = false;
                        return;
                    }
                    let above = self.node(parent).parent;
                    if above == NIL {
                        return;
                    }
                    side = usize::from(self.child(above, RIGHT) == parent);
                    parent = above;
                    continue;
                }
                self.node_mut(near).red = false;
                self.node_mut(sibling).red = true;
                self.rotate(sibling, 1 - side);
                sibling = near;
            }
            let far = self.child(sibling, 1 - side);
            let colour = self.node(parent).red;
            self.node_mut(sibling).red = colour;
            self.node_mut(far).red = false;
            self.node_mut(parent).red = false;
            self.rotate(parent, side);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl ActiveTree {
        /// The entities in order, and the number of black nodes on every way down.
        fn checked(&self, at: u32, ids: &mut Vec<u32>) -> usize {
            if at == NIL {
                return 1;
            }
            let node = self.node(at);
            let left = self.checked(node.child[LEFT], ids);
            ids.push(at);
            let right = self.checked(node.child[RIGHT], ids);
            assert_eq!(left, right, "as many black nodes on the left as on the right");
            for child in node.child.into_iter().filter(|&child| child != NIL) {
                assert_eq!(self.node(child).parent, at);
                assert!(!(node.red && self.node(child).red), "two red nodes in a row");
            }
            left + usize::from(!node.red)
        }
    }

    proptest! {
        /// Against a list, through rotations and equal finishes.
        #[test]
        fn it_is_a_balanced_order_by_finish_that_knows_the_least_start(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..60, 0_usize..500), 1..400),
        ) {
            let mut tree = ActiveTree::default();
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            for (id, (removes, start, span, pick)) in steps.into_iter().enumerate() {
                if removes && !list.is_empty() {
                    let gone = list.remove(pick % list.len());
                    tree.remove(gone.2);
                } else {
                    let finish = start + span;
                    let at = list.partition_point(|&(other, _, _)| other <= finish);
                    list.insert(at, (finish, start, id as u32));
                    tree.insert(id as u32, start, finish);
                }
                let mut ids = Vec::new();
                tree.checked(tree.root, &mut ids);
                prop_assert_eq!(&ids, &list.iter().map(|&(_, _, id)| id).collect::<Vec<_>>());
                prop_assert_eq!(tree.is_empty(), list.is_empty());
                prop_assert_eq!(tree.least_start(), list.iter().map(|&(_, start, _)| start).min());
                for vtime in [0, 20, 40, 1000] {
                    let eligible: Vec<u32> =
                        list.iter().filter(|&&(_, start, _)| start <= vtime).map(|&(_, _, id)| id).collect();
                    let found = tree.first_eligible(vtime);
                    prop_assert_eq!(eligible.is_empty(), found == NIL);
                    prop_assert!(found == NIL || eligible.contains(&found));
                    prop_assert!(eligible.len() != list.len() || eligible.first().is_none_or(|&first| first == found));
                }
            }
        }
    }

    #[test]
    fn the_search_stops_at_an_ancestor_as_the_kernels_does() {
        // Of the four, 3 is the root's left child's right child: its start is reached, its parent's is not.
        let mut tree = ActiveTree::default();
        for (id, start, finish) in [(0, 0, 50), (1, 90, 20), (2, 0, 80), (3, 0, 30)] {
            tree.insert(id, start, finish);
        }
        assert_eq!((tree.root, tree.node(3).parent), (0, 1));
        assert_eq!(tree.first_eligible(10), 0);
        // The whole order would say 3.
        assert_eq!(tree.first_eligible(90), 1);
    }
}
