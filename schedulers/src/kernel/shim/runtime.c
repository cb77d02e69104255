/*
 * The functions behind kernel.h and block.h.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <iocast/block.h>
#include "elevator.h"
#include <iocast/runtime.h>

__thread struct iocast_world *iocast_world __attribute__((tls_model("initial-exec")));

int fprintf(void *, const char *, ...);
extern void *stderr;

void iocast_bug(const char *condition, const char *file, int line) {
    fprintf(stderr, "the kernel's check failed: %s (%s:%d)\n", condition, file, line);
    abort();
}

/* Numbers as text, as the attributes of an elevator read them. */
static int parsed(const char *text, unsigned int base, long long least, unsigned long long most, bool negative,
                  unsigned long long *value) {
    char *end;
    if (!*text || (*text == '-' && !negative))
        return -EINVAL;
    *value = *text == '-' ? (unsigned long long)strtoll(text, &end, base) : strtoull(text, &end, base);
    if (*end == '\n')
        end++;
    if (*end)
        return -EINVAL;
    if (*text == '-' ? (long long)*value < least : *value > most)
        return -ERANGE;
    return 0;
}

#define KSTRTO(function, type, least, most, negative)                                                                  \
    int function(const char *text, unsigned int base, type *value) {                                                   \
        unsigned long long parsed_value;                                                                               \
        int error = parsed(text, base, least, most, negative, &parsed_value);                                          \
        if (!error)                                                                                                    \
            *value = (type)parsed_value;                                                                               \
        return error;                                                                                                  \
    }
KSTRTO(kstrtoint, int, INT_MIN, INT_MAX, true)
KSTRTO(kstrtouint, unsigned int, 0, UINT_MAX, false)
KSTRTO(kstrtol, long, LONG_MIN, LONG_MAX, true)
KSTRTO(kstrtoul, unsigned long, 0, ULONG_MAX, false)
KSTRTO(kstrtoull, unsigned long long, 0, ULLONG_MAX, false)
KSTRTO(kstrtou64, u64, 0, ULLONG_MAX, false)

int kstrtobool(const char *text, bool *value) {
    switch (*text) {
    case '1': case 'y': case 'Y': case 't': case 'T': *value = true; return 0;
    case '0': case 'n': case 'N': case 'f': case 'F': *value = false; return 0;
    case 'o': case 'O': *value = text[1] == 'n' || text[1] == 'N'; return 0;
    default: return -EINVAL;
    }
}

/* Memory: the blocks of a world stand in a list. */
struct iocast_block { struct iocast_block *next, **place; };

void *iocast_alloc(size_t size) {
    struct iocast_block *block = calloc(1, sizeof(*block) + size);
    if (!block)
        return NULL;
    block->place = &iocast_world->blocks;
    block->next = iocast_world->blocks;
    if (block->next)
        block->next->place = &block->next;
    iocast_world->blocks = block;
    return block + 1;
}

void iocast_free(const void *p) {
    struct iocast_block *block = (struct iocast_block *)p - 1;
    if (!p)
        return;
    *block->place = block->next;
    if (block->next)
        block->next->place = block->place;
    free(block);
}

void iocast_free_all(void) {
    while (iocast_world->blocks)
        iocast_free(iocast_world->blocks + 1);
}

struct kmem_cache *iocast_kmem_cache(size_t size) {
    struct kmem_cache *cache = calloc(1, sizeof(*cache));
    cache->size = size;
    return cache;
}

/* Timers. Few are armed at once, so they stand in a plain list. */
static bool unlink_timer(struct timer_list *timer) {
    struct timer_list **place = &iocast_world->timers;
    if (!timer->armed)
        return false;
    while (*place != timer)
        place = &(*place)->next_armed;
    *place = timer->next_armed;
    timer->armed = false;
    return true;
}

int mod_timer(struct timer_list *timer, unsigned long expires) {
    bool was_armed = unlink_timer(timer);
    timer->expires = expires;
    timer->armed = true;
    timer->next_armed = iocast_world->timers;
    iocast_world->timers = timer;
    return was_armed;
}

int timer_reduce(struct timer_list *timer, unsigned long expires) {
    if (timer->armed && time_before_eq(timer->expires, expires))
        return 1;
    return mod_timer(timer, expires);
}

int timer_delete(struct timer_list *timer) {
    return unlink_timer(timer);
}

static bool unlink_hrtimer(struct hrtimer *timer) {
    struct hrtimer **place = &iocast_world->hrtimers;
    if (!timer->armed)
        return false;
    while (*place != timer)
        place = &(*place)->next_armed;
    *place = timer->next_armed;
    timer->armed = false;
    return true;
}

static void arm_hrtimer(struct hrtimer *timer) {
    timer->armed = true;
    timer->next_armed = iocast_world->hrtimers;
    iocast_world->hrtimers = timer;
}

void hrtimer_start(struct hrtimer *timer, ktime_t time, enum hrtimer_mode mode) {
    unlink_hrtimer(timer);
    timer->expires = mode == HRTIMER_MODE_ABS ? time : ktime_get() + time;
    arm_hrtimer(timer);
}

int hrtimer_try_to_cancel(struct hrtimer *timer) {
    return unlink_hrtimer(timer);
}

/* The time of the replay at which the kernel's clock shows `ns`. */
static u64 replay_time(u64 ns) {
    return ns < IOCAST_BOOTED_NS ? 0 : ns - IOCAST_BOOTED_NS;
}

/* A timer of jiffies runs one tick after its time (kernel/time/timer.c, calc_index). */
static u64 due_ns(const struct timer_list *timer) {
    return replay_time((timer->expires + 1) * TICK_NSEC);
}

u64 iocast_next_timer(void) {
    u64 next = ~0ULL;
    for (struct timer_list *timer = iocast_world->timers; timer; timer = timer->next_armed)
        next = min(next, due_ns(timer));
    for (struct hrtimer *timer = iocast_world->hrtimers; timer; timer = timer->next_armed)
        next = min(next, replay_time(timer->expires));
    return next;
}

void iocast_set_clock(u64 now_ns) {
    iocast_world->now_ns = now_ns;
    iocast_world->ticks = (IOCAST_BOOTED_NS + now_ns) / TICK_NSEC;
}

static void fire(u64 at) {
    for (struct timer_list *timer = iocast_world->timers; timer; timer = timer->next_armed)
        if (due_ns(timer) == at) {
            unlink_timer(timer);
            timer->function(timer);
            return;
        }
    for (struct hrtimer *timer = iocast_world->hrtimers; timer; timer = timer->next_armed)
        if (replay_time(timer->expires) == at) {
            unlink_hrtimer(timer);
            if (timer->function(timer) == HRTIMER_RESTART)
                arm_hrtimer(timer);
            return;
        }
}

void iocast_pass_time(u64 now_ns) {
    if (iocast_world->timers || iocast_world->hrtimers) {
        u64 next;
        while ((next = iocast_next_timer()) <= now_ns) {
            iocast_set_clock(max(next, iocast_world->now_ns));
            fire(next);
        }
    }
    iocast_set_clock(now_ns);
}

/* Sets of bits, and tokens. */
int iocast_sbitmap_init(struct sbitmap *sb, unsigned int depth) {
    sb->depth = depth;
    sb->bits = iocast_alloc(BITS_TO_LONGS(depth ? depth : 1) * sizeof(long));
    return sb->bits ? 0 : -ENOMEM;
}

bool sbitmap_any_bit_set(const struct sbitmap *sb) {
    for (unsigned int word = 0; word < BITS_TO_LONGS(sb->depth); word++)
        if (sb->bits[word])
            return true;
    return false;
}

void sbitmap_for_each_set(struct sbitmap *sb, sb_for_each_fn function, void *data) {
    for (unsigned int bit = 0; bit < sb->depth; bit++)
        if (test_bit(bit, sb->bits) && !function(sb, bit, data))
            return;
}

int iocast_sbitmap_queue_init(struct sbitmap_queue *sbq, unsigned int depth) {
    *sbq = (struct sbitmap_queue){.sb.depth = depth};
    INIT_LIST_HEAD(&sbq->ws.wait.head);
    return 0;
}

int __sbitmap_queue_get(struct sbitmap_queue *sbq) {
    return sbq->used < sbq->sb.depth ? (int)sbq->used++ : -1;
}

void sbitmap_queue_clear(struct sbitmap_queue *sbq, unsigned int nr, unsigned int cpu) {
    sbq->used--;
    if (!list_empty(&sbq->ws.wait.head)) {
        struct wait_queue_entry *entry = list_first_entry(&sbq->ws.wait.head, struct wait_queue_entry, entry);
        entry->func(entry, 0, 0, NULL);
    }
}

void sbitmap_add_wait_queue(struct sbitmap_queue *sbq, struct sbq_wait_state *ws, struct sbq_wait *wait) {
    if (!wait->sbq) {
        wait->sbq = sbq;
        list_add_tail(&wait->wait.entry, &ws->wait.head);
    }
}

void sbitmap_del_wait_queue(struct sbq_wait *wait) {
    list_del_init(&wait->wait.entry);
    wait->sbq = NULL;
}

/* The elevator's helpers: requests in a tree by their first sector, equal ones in order of insertion. */
void elv_rb_add(struct rb_root *root, struct request *rq) {
    struct rb_node **place = &root->rb_node, *parent = NULL;
    while (*place) {
        parent = *place;
        place = blk_rq_pos(rq) < blk_rq_pos(rb_entry_rq(parent)) ? &parent->rb_left : &parent->rb_right;
    }
    rb_link_node(&rq->rb_node, parent, place);
    rb_insert_color(&rq->rb_node, root);
}

void elv_rb_del(struct rb_root *root, struct request *rq) {
    BUG_ON(RB_EMPTY_NODE(&rq->rb_node));
    rb_erase(&rq->rb_node, root);
    RB_CLEAR_NODE(&rq->rb_node);
}

struct request *elv_rb_find(struct rb_root *root, sector_t sector) {
    struct rb_node *node = root->rb_node;
    while (node) {
        struct request *rq = rb_entry_rq(node);
        if (sector == blk_rq_pos(rq))
            return rq;
        node = sector < blk_rq_pos(rq) ? node->rb_left : node->rb_right;
    }
    return NULL;
}

struct request *elv_rb_former_request(struct request_queue *q, struct request *rq) {
    struct rb_node *node = rb_prev(&rq->rb_node);
    return node ? rb_entry_rq(node) : NULL;
}

struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq) {
    struct rb_node *node = rb_next(&rq->rb_node);
    return node ? rb_entry_rq(node) : NULL;
}

/* The owner of the scheduler finds requests by their ends. */
void elv_rqhash_add(struct request_queue *q, struct request *rq) {
    rq->rq_flags |= RQF_HASHED;
}

void elv_rqhash_del(struct request_queue *q, struct request *rq) {
    rq->rq_flags &= ~RQF_HASHED;
}

void elv_rqhash_reposition(struct request_queue *q, struct request *rq) {}

bool elv_bio_merge_ok(struct request *rq, struct bio *bio) {
    const struct elevator_mq_ops *ops = &rq->q->elevator->type->ops;
    return rq == rq->q->iocast_candidate && (!ops->allow_merge || ops->allow_merge(rq->q, rq, bio));
}

bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int segments, struct request **freed) {
    struct request *rq = q->iocast_candidate, *found = NULL;
    if (blk_rq_pos(rq) + blk_rq_sectors(rq) == bio->bi_iter.bi_sector)
        q->iocast_may_merge = rq->rq_flags & RQF_HASHED && elv_bio_merge_ok(rq, bio);
    else if (q->elevator->type->ops.request_merge)
        q->iocast_may_merge = q->elevator->type->ops.request_merge(q, &found, bio) == ELEVATOR_FRONT_MERGE && found == rq;
    return q->iocast_may_merge;
}

/* Only the last eight requests of a list are looked at (block/blk-merge.c). */
bool blk_bio_list_merge(struct request_queue *q, struct list_head *list, struct bio *bio, unsigned int segments) {
    struct request *rq;
    int left = 8;
    list_for_each_entry_reverse(rq, list, queuelist) {
        if (!left--)
            break;
        if (rq == q->iocast_candidate)
            return q->iocast_may_merge = true;
    }
    return false;
}

struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type) {
    struct elevator_queue *queue = iocast_alloc(sizeof(*queue));
    if (queue)
        queue->type = type;
    return queue;
}

static struct elevator_type *registered;

int elv_register(struct elevator_type *type) {
    registered = type;
    return 0;
}

void elv_unregister(struct elevator_type *type) {}

struct elevator_type *iocast_elevator(void) {
    return registered;
}
