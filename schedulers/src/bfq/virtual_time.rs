//! Virtual time of B-WF2Q+: service over weight in fixed point, which wraps around.

/// Fixed-point shift of virtual time (`SERVICE_SHIFT`, block/bfq-wf2q.c).
const SERVICE_SHIFT: u32 = 22;

/// A point in the virtual time of a service tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VirtualTime(u64);

impl VirtualTime {
    /// The point at which an entity of this weight has received `service` sectors more (`bfq_delta`).
    pub(super) fn after_service(self, service: u64, weight: u64) -> VirtualTime {
        VirtualTime(self.0.wrapping_add((service << SERVICE_SHIFT) / weight.max(1)))
    }

    /// Whether this point is later than `other` (`bfq_gt`). As virtual time wraps around, the sign of the difference
    /// decides.
    pub(super) fn is_after(self, other: VirtualTime) -> bool {
        (self.0.wrapping_sub(other.0) as i64) > 0
    }

    /// Whether the number is larger, without regard to the wrap: the kernel compares so before it moves the virtual
    /// time of a tree forward (`bfq_update_vtime`).
    pub(super) fn exceeds(self, other: VirtualTime) -> bool {
        self.0 > other.0
    }

    /// The part of the span since `earlier` that is left when it is divided by `divisor`.
    pub(super) fn span_since(self, earlier: VirtualTime, divisor: u64) -> u64 {
        self.0.wrapping_sub(earlier.0) / divisor
    }

    pub(super) fn moved_by(self, span: u64) -> VirtualTime {
        VirtualTime(self.0.wrapping_add(span))
    }

    #[cfg(test)]
    pub(super) fn new(time: u64) -> VirtualTime {
        VirtualTime(time)
    }
}
