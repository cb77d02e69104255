//! The shipped stacks: the layers that requests passed in the systems measured in papers, and pass in current systems.

/// A shipped stack.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on the command line.
    pub name: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
    /// The source of the stack and of its numbers.
    pub origin: &'static str,
    /// The stack, in the notation of [`super::spec`].
    pub line: &'static str,
}

/// Every shipped stack.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "bare",
        summary: "one stage for all VMs above the drive, as `compare` uses without --stack",
        origin: "no real system: the smallest possible stack",
        line: "device=deadline",
    },
    Preset {
        name: "xen-cfq",
        summary: "Xen: cfq in each guest, Blkback per VM, cfq in the control domain",
        origin: "Kim, Kang, Choi 2015, sections 2 and 4: Xen 4.1.4, Linux 3.5.5 on both sides; the ring has 32 \
                 requests of 11 pages (xen/interface/io/blkif.h), Blkback writes synchronously and as one process \
                 a VM (Linux 3.5 drivers/block/xen-blkback/blkback.c). The guests' scheduler is not printed: it is \
                 Linux 3.5's default",
        line: "guest=cfq-3.5@depth=32,look_ahead=on,max_request=44k,per_vm=on\
               /blkback=fifo@depth=32,merge=off,per_vm=on,streams=vm,writes=sync\
               /hypervisor=cfq-3.5@look_ahead=on,max_request=512k",
    },
    Preset {
        name: "xen-ba",
        summary: "as xen-cfq, with the burstiness-aware scheduler between Blkback and cfq",
        origin: "Kim, Kang, Choi 2015, section 4; as xen-cfq, ba holds the control domain's cfq. A ring \
                 holds 1.4 MB and B_threshold is 4 MB, so a VM that is held back is judged by what ba says of such \
                 VMs: the paper does not say how its demand is seen",
        line: "guest=cfq-3.5@depth=32,look_ahead=on,max_request=44k,per_vm=on\
               /blkback=fifo@depth=32,merge=off,per_vm=on,streams=vm,writes=sync\
               /hypervisor=ba@look_ahead=on,max_request=512k",
    },
    Preset {
        name: "esx-3.5-iscsi",
        summary: "VMware ESX 3.5: cfq in each guest, a fair share of VMs in batches, a LUN queue of 32 with 16 writes",
        origin: "Casale, Kraft, Krishnamurthy 2011, sections II and IV: guests of Linux 2.6.26 with cfq, fair share \
                 per VM with equal shares, reads and writes in batches of their own, at most 32 requests at the storage \
                 of which 16 are writes. The depth of \
                 a guest's adapter is not printed: 32 is ours; the VMM keeps to the LUN's limits, so that writes \
                 do not fill its queue; the network takes no time",
        line: "guest=cfq@depth=32,look_ahead=on,max_request=512k,per_vm=on\
               /hypervisor=esx@depth=32,write_depth=16,streams=vm\
               /lun=fifo@depth=32,write_depth=16,merge=off",
    },
    Preset {
        name: "kvm-virtio",
        summary: "KVM: mq-deadline in each guest, virtio-blk, mq-deadline in the host",
        origin: "QEMU 6 and later: a virtio-blk queue of 256 requests (hw/block/virtio-blk.c, queue-size), cache=none, \
                 so the host sees one stream a VM and synchronous writes (O_DIRECT). The guest's requests at once, \
                 128, and one at a time at the drive are ours: give hypervisor a depth above a drive that queues",
        line: "guest=mq-deadline@depth=128,per_vm=on\
               /virtio=none@depth=256,queue=256,merge=off,per_vm=on,streams=vm,writes=sync\
               /hypervisor=mq-deadline",
    },
];
