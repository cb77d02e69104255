/*
 * What a blk-mq elevator takes from the block layer: requests, queues, processes with their I/O contexts, tags, and the
 * calls of block/elevator.c and block/blk-mq-sched.c. Names are the kernel's; what stands behind them is not.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_BLOCK_H
#define IOCAST_BLOCK_H

#include "kernel.h"
#include <linux/list.h>
#include <linux/rbtree.h>
#include <uapi/linux/ioprio.h>

struct request_queue;
struct request;
struct bio;
struct elevator_queue;
struct elevator_type;
struct blk_mq_hw_ctx;

#define SECTOR_SHIFT 9
#define SECTOR_SIZE 512
#define READ 0
#define WRITE 1

/* Operations and flags. */
typedef u32 blk_opf_t;
typedef u32 req_flags_t;
typedef u32 blk_insert_t;
typedef u32 blk_mq_req_flags_t;
typedef u8 blk_status_t;
enum req_op {
    REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3, REQ_OP_SECURE_ERASE = 5,
    REQ_OP_ZONE_APPEND = 7, REQ_OP_WRITE_ZEROES = 9, REQ_OP_DRV_IN = 34, REQ_OP_DRV_OUT = 35, REQ_OP_LAST = 36,
};
#define REQ_OP_BITS 8
#define REQ_OP_MASK ((1 << REQ_OP_BITS) - 1)
#define REQ_SYNC (1U << 11)
#define REQ_META (1U << 12)
#define REQ_PRIO (1U << 13)
#define REQ_NOMERGE (1U << 14)
#define REQ_IDLE (1U << 15)
#define REQ_FUA (1U << 17)
#define REQ_PREFLUSH (1U << 18)
#define REQ_RAHEAD (1U << 19)
#define REQ_BACKGROUND (1U << 20)
#define REQ_NOWAIT (1U << 21)
#define RQF_STARTED (1U << 1)
#define RQF_FLUSH_SEQ (1U << 4)
#define RQF_DONTPREP (1U << 7)
#define RQF_ELVPRIV (1U << 12)
#define RQF_IO_STAT (1U << 13)
#define RQF_HASHED (1U << 16)
#define RQF_STATS (1U << 17)
#define RQF_ELV (1U << 22)
#define RQF_USE_SCHED (1U << 22)
#define BLK_MQ_INSERT_AT_HEAD 1U
static inline bool op_is_write(blk_opf_t op) { return op & 1; }
static inline bool op_is_discard(blk_opf_t op) { return (op & REQ_OP_MASK) == REQ_OP_DISCARD; }
static inline bool op_is_sync(blk_opf_t op) {
    return (op & REQ_OP_MASK) == REQ_OP_READ || op & (REQ_SYNC | REQ_FUA | REQ_PREFLUSH);
}
static inline bool op_is_flush(blk_opf_t op) { return op & (REQ_FUA | REQ_PREFLUSH); }
static inline unsigned int op_stat_group(blk_opf_t op) { return op_is_discard(op) ? 2 : op_is_write(op); }

/* Processes. */
struct io_context {
    unsigned short ioprio;
    atomic_long_t refcount;
    atomic_t active_ref;
    struct io_cq *icq;
};
struct task_struct {
    pid_t pid, tgid;
    char comm[16];
    struct io_context *io_context;
};
#define current (iocast_world->task)
#define task_nice_ioprio(task) ((void)(task), 4)
#define task_nice_ioclass(task) ((void)(task), IOPRIO_CLASS_BE)
#define IOPRIO_DEFAULT IOPRIO_PRIO_VALUE(IOPRIO_CLASS_NONE, 0)
#define ioprio_valid(ioprio) (IOPRIO_PRIO_CLASS(ioprio) != IOPRIO_CLASS_NONE)
static inline void put_io_context(struct io_context *ioc) {}
struct io_cq {
    struct request_queue *q;
    struct io_context *ioc;
    unsigned int flags;
};
#define ICQ_EXITED (1 << 2)
#define ICQ_DESTROYED (1 << 3)
struct io_cq *iocast_find_icq(struct request_queue *q, bool create);
#define ioc_lookup_icq(q) iocast_find_icq(q, false)
#define ioc_find_get_icq(q) iocast_find_icq(q, true)

/* Devices. */
#define MINORBITS 20
#define MKDEV(major, minor) (((major) << MINORBITS) | (minor))
struct device { int unused; };
struct backing_dev_info { struct device *dev; unsigned long ra_pages; };
struct blk_independent_access_range { sector_t sector, nr_sectors; };
struct blk_independent_access_ranges { unsigned int nr_ia_ranges; struct blk_independent_access_range ia_range[1]; };
struct gendisk {
    struct request_queue *queue;
    struct backing_dev_info *bdi;
    struct blk_independent_access_ranges *ia_ranges;
    char disk_name[32];
    int node_id;
};
struct block_device { struct gendisk *bd_disk; };
static inline const char *bdi_dev_name(struct backing_dev_info *bdi) { return "iocast"; }
#define disk_devt(disk) 0
static inline sector_t get_capacity(struct gendisk *disk) { return ~0ULL >> 1; }

/* Requests. */
struct bvec_iter { sector_t bi_sector; unsigned int bi_size; };
struct blkcg_gq;
struct bio {
    struct bio *bi_next;
    struct block_device *bi_bdev;
    blk_opf_t bi_opf;
    unsigned short bi_flags, bi_ioprio;
    struct bvec_iter bi_iter;
    struct blkcg_gq *bi_blkg;
};
struct request {
    struct request_queue *q;
    struct blk_mq_ctx *mq_ctx;
    struct blk_mq_hw_ctx *mq_hctx;
    blk_opf_t cmd_flags;
    req_flags_t rq_flags;
    int tag, internal_tag;
    unsigned int __data_len;
    sector_t __sector;
    struct bio *bio, *biotail;
    struct list_head queuelist;
    struct block_device *part;
    u64 alloc_time_ns, start_time_ns, io_start_time_ns;
    unsigned short ioprio, nr_phys_segments, write_hint;
    struct hlist_node hash;
    struct rb_node rb_node;
    struct {
        struct io_cq *icq;
        void *priv[2];
    } elv;
    u64 fifo_time;
    /* Of this plug-in. */
    struct bio iocast_bio;
    u32 iocast_id;
    u8 iocast_place;
};
#define req_op(rq) ((enum req_op)((rq)->cmd_flags & REQ_OP_MASK))
#define rq_data_dir(rq) (op_is_write(req_op(rq)) ? WRITE : READ)
#define rq_is_sync(rq) op_is_sync((rq)->cmd_flags)
#define rq_list_add(list, rq) ((rq)->rq_next = *(list), *(list) = (rq))
#define bio_op(bio) ((enum req_op)((bio)->bi_opf & REQ_OP_MASK))
#define bio_data_dir(bio) (op_is_write(bio_op(bio)) ? WRITE : READ)
#define bio_sectors(bio) ((bio)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_end_sector(bio) ((bio)->bi_iter.bi_sector + bio_sectors(bio))
#define bio_prio(bio) ((bio)->bi_ioprio)
#define bio_has_data(bio) ((bio)->bi_iter.bi_size > 0)
static inline sector_t blk_rq_pos(const struct request *rq) { return rq->__sector; }
static inline unsigned int blk_rq_bytes(const struct request *rq) { return rq->__data_len; }
static inline unsigned int blk_rq_sectors(const struct request *rq) { return rq->__data_len >> SECTOR_SHIFT; }
static inline unsigned short req_get_ioprio(const struct request *rq) { return rq->ioprio; }
static inline bool blk_rq_is_passthrough(const struct request *rq) { return req_op(rq) >= REQ_OP_DRV_IN; }
static inline bool rq_mergeable(const struct request *rq) { return !(rq->cmd_flags & REQ_NOMERGE); }
static inline bool blk_discard_mergable(const struct request *rq) { return false; }
/* No device here has zones. */
static inline bool blk_rq_is_seq_zoned_write(struct request *rq) { return false; }
static inline bool blk_req_can_dispatch_to_zone(struct request *rq) { return true; }
static inline void blk_req_zone_write_lock(struct request *rq) {}
static inline void blk_req_zone_write_unlock(struct request *rq) {}
static inline unsigned int blk_rq_zone_no(struct request *rq) { return 0; }
#define ELEVATOR_F_ZBD_SEQ_WRITE (1U << 0)

/* Queues. */
enum { QUEUE_FLAG_STOPPED, QUEUE_FLAG_NONROT, QUEUE_FLAG_STATS, QUEUE_FLAG_SQ_SCHED };
struct queue_limits { unsigned int features, max_sectors; };
struct request_queue {
    struct elevator_queue *elevator;
    struct request *last_merge;
    unsigned long queue_flags;
    spinlock_t queue_lock;
    unsigned long nr_requests;
    unsigned int nr_hw_queues;
    int node;
    struct gendisk *disk;
    struct queue_limits limits;
    struct list_head icq_list;
    unsigned int async_depth;
    /* The request that a bio may be merged into, and the answer. */
    struct request *iocast_candidate;
    bool iocast_may_merge;
};
#define blk_queue_flag_set(flag, q) ((void)((q)->queue_flags |= BIT(flag)))
#define blk_queue_flag_clear(flag, q) ((void)((q)->queue_flags &= ~BIT(flag)))
#define blk_queue_flag_test_and_set(flag, q) ({ bool was_ = test_bit(flag, &(q)->queue_flags); blk_queue_flag_set(flag, q); was_; })
#define blk_queue_nonrot(q) test_bit(QUEUE_FLAG_NONROT, &(q)->queue_flags)
#define blk_queue_rot(q) (!blk_queue_nonrot(q))
#define blk_queue_is_zoned(q) false
#define blk_queue_nomerges(q) 0
#define blk_queue_sq_sched(q) test_bit(QUEUE_FLAG_SQ_SCHED, &(q)->queue_flags)
#define queue_max_hw_sectors(q) ((q)->limits.max_sectors)
static inline void blk_stat_enable_accounting(struct request_queue *q) {}
static inline void blk_stat_disable_accounting(struct request_queue *q) {}
#define wbt_disable_default(disk_or_queue) ((void)(disk_or_queue))
#define wbt_enable_default(disk_or_queue) ((void)(disk_or_queue))
#define BLK_MQ_DEFAULT_DEPTH 256
#define BLKDEV_DEFAULT_RQ 128

/* Sets of bits, and tokens that are counted: which of them are free does not matter. */
struct sbitmap { unsigned int depth, shift, set; unsigned long *bits; };
struct wait_queue_entry;
typedef int (*wait_queue_func_t)(struct wait_queue_entry *, unsigned int, int, void *);
typedef struct wait_queue_entry {
    void *private;
    wait_queue_func_t func;
    struct list_head entry;
} wait_queue_entry_t;
typedef struct { spinlock_t lock; struct list_head head; } wait_queue_head_t;
struct sbq_wait_state { wait_queue_head_t wait; };
struct sbitmap_queue { struct sbitmap sb; unsigned int used, min_shallow_depth; struct sbq_wait_state ws; };
struct sbq_wait { struct sbitmap_queue *sbq; struct wait_queue_entry wait; };
typedef bool (*sb_for_each_fn)(struct sbitmap *, unsigned int, void *);
int iocast_sbitmap_init(struct sbitmap *sb, unsigned int depth);
#define sbitmap_init_node(sb, depth, shift, flags, node, ...) iocast_sbitmap_init(sb, depth)
#define sbitmap_free(sb) iocast_free((sb)->bits)
#define sbitmap_set_bit(sb, bit) __set_bit(bit, (sb)->bits)
#define sbitmap_clear_bit(sb, bit) __clear_bit(bit, (sb)->bits)
#define sbitmap_test_bit(sb, bit) test_bit(bit, (sb)->bits)
bool sbitmap_any_bit_set(const struct sbitmap *sb);
void sbitmap_for_each_set(struct sbitmap *sb, sb_for_each_fn function, void *data);
int iocast_sbitmap_queue_init(struct sbitmap_queue *sbq, unsigned int depth);
#define sbitmap_queue_init_node(sbq, depth, shift, round_robin, flags, node) iocast_sbitmap_queue_init(sbq, depth)
#define sbitmap_queue_free(sbq) ((void)(sbq))
#define sbitmap_queue_resize(sbq, to) ((void)((sbq)->sb.depth = (to)))
#define sbitmap_queue_min_shallow_depth(sbq, depth) ((void)((sbq)->min_shallow_depth = (depth)))
int __sbitmap_queue_get(struct sbitmap_queue *sbq);
void sbitmap_queue_clear(struct sbitmap_queue *sbq, unsigned int nr, unsigned int cpu);
#define sbq_wait_ptr(sbq, index) ((void)(index), &(sbq)->ws)
void sbitmap_add_wait_queue(struct sbitmap_queue *sbq, struct sbq_wait_state *ws, struct sbq_wait *wait);
void sbitmap_del_wait_queue(struct sbq_wait *wait);
#define init_waitqueue_func_entry(waiter, function) ((void)((waiter)->func = (function), (waiter)->private = (void *)0))
struct sbitmap_word { unsigned long word; };

/* Hardware queues. */
struct blk_mq_tags { unsigned int nr_tags; struct sbitmap_queue bitmap_tags, breserved_tags; };
struct blk_mq_ctx { unsigned int cpu; unsigned short index_hw[3]; struct request_queue *queue; };
struct blk_mq_hw_ctx {
    struct request_queue *queue;
    unsigned int queue_num;
    unsigned short type, nr_ctx;
    int numa_node;
    void *sched_data;
    struct blk_mq_tags *tags, *sched_tags;
    struct blk_mq_ctx **ctxs;
};
enum hctx_type { HCTX_TYPE_DEFAULT, HCTX_TYPE_READ, HCTX_TYPE_POLL, HCTX_MAX_TYPES };
struct blk_mq_alloc_data {
    struct request_queue *q;
    blk_mq_req_flags_t flags;
    unsigned int shallow_depth;
    blk_opf_t cmd_flags;
    struct blk_mq_ctx *ctx;
    struct blk_mq_hw_ctx *hctx;
};
struct blk_mq_ctx *blk_mq_get_ctx(struct request_queue *q);
struct blk_mq_hw_ctx *blk_mq_map_queue(struct request_queue *q, blk_opf_t opf, struct blk_mq_ctx *ctx);
#define blk_mq_run_hw_queue(hctx, async) ((void)(hctx), iocast_world->run = true)
#define blk_mq_run_hw_queues(q, async) ((void)(q), iocast_world->run = true)
#define blk_mq_sched_mark_restart_hctx(hctx) ((void)(hctx))
/* The owner of the scheduler looks for what adjoins, so nothing is merged here (runtime.c). */
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int segments, struct request **freed);
bool blk_bio_list_merge(struct request_queue *q, struct list_head *list, struct bio *bio, unsigned int segments);
#define blk_mq_sched_try_insert_merge(q, rq, free) ((void)(free), false)
#define blk_mq_free_request(rq) iocast_bug("a request is freed within the scheduler", __FILE__, __LINE__)
#define blk_mq_free_requests(list) BUG_ON(!list_empty(list))

/* Tracing and statistics do nothing. */
#define trace_block_rq_insert(rq) ((void)(rq))
#define trace_kyber_latency(...) ((void)0)
#define trace_kyber_adjust(...) ((void)0)
#define trace_kyber_throttled(...) ((void)0)
#define blk_trace_note_message_enabled(q) false
#define blk_add_trace_msg(q, ...) ((void)(q))
#define blk_add_cgroup_trace_msg(q, group, ...) ((void)(q))
struct blk_mq_debugfs_attr;

/* Control groups are not compiled in. */
struct blkg_policy_data { int unused; };
struct blkcg_policy_data { int unused; };
struct blkg_rwstat { int unused; };
struct cgroup_subsys_state { int unused; };
#define blk_cgroup_bio_start(bio) ((void)(bio))

#endif
