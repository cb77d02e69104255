/*
 * A blk-mq elevator as a scheduler of iocast: requests, and the order of calls as block/blk-mq.c has it.
 *
 * The owner finds what a request adjoins and asks may_merge(); all else is the elevator's own. A request that the
 * elevator has chosen and for which there is no capacity is held here and goes first, as on the dispatch list of blk-mq.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <iocast/machine.h>

static unsigned short ioprio_of(const struct iocast_request *from) {
    return IOPRIO_PRIO_VALUE(from->priority >> 3, from->priority & 7);
}

static blk_opf_t flags_of(const struct iocast_request *from) {
    blk_opf_t opf = from->operation == IOCAST_DISCARD ? REQ_OP_DISCARD : from->operation;
    if (from->flags & IOCAST_SYNC)
        opf |= REQ_SYNC;
    if (from->flags & IOCAST_FUA)
        opf |= REQ_FUA;
    if (from->flags & IOCAST_PREFLUSH)
        opf |= REQ_PREFLUSH;
    if (from->flags & IOCAST_META)
        opf |= REQ_META;
    if (from->flags & IOCAST_AHEAD)
        opf |= REQ_RAHEAD;
    return opf;
}

static void arrives_from(struct machine *machine, const struct iocast_request *from) {
    struct process *process = iocast_process_of(machine, from);
    process->context.ioprio = ioprio_of(from);
    machine->world.task = &process->task;
    machine->arriving_on = &machine->cpus[from->cpu % CPUS];
}

/* A kernel's request has fewer than 4 GiB. */
static u32 bytes_of(const struct iocast_request *from) {
    return min(from->sectors, UINT_MAX >> SECTOR_SHIFT) << SECTOR_SHIFT;
}

static void fill_bio(struct machine *machine, struct bio *bio, const struct iocast_request *from) {
    *bio = (struct bio){
        .bi_bdev = &machine->part,
        .bi_opf = flags_of(from),
        .bi_ioprio = ioprio_of(from),
        .bi_iter = {.bi_sector = from->lba, .bi_size = bytes_of(from)},
    };
}

static struct request *request_of(struct machine *machine, u32 id) {
    if (id >= machine->requests_count) {
        u32 count = id * 2 + 64;
        machine->requests = realloc(machine->requests, count * sizeof(*machine->requests));
        memset(machine->requests + machine->requests_count, 0,
               (count - machine->requests_count) * sizeof(*machine->requests));
        machine->requests_count = count;
    }
    if (!machine->requests[id])
        machine->requests[id] = iocast_alloc(sizeof(struct request));
    return machine->requests[id];
}

static void reset_request(struct machine *machine, struct request *rq, u32 id) {
    rq->q = &machine->queue;
    rq->mq_ctx = machine->arriving_on;
    rq->mq_hctx = blk_mq_map_queue(rq->q, rq->cmd_flags, rq->mq_ctx);
    rq->rq_flags = RQF_ELV | RQF_ELVPRIV;
    rq->tag = -1;
    rq->internal_tag = id;
    rq->part = &machine->part;
    rq->bio = rq->biotail = &rq->iocast_bio;
    rq->elv.icq = NULL;
    rq->elv.priv[0] = rq->elv.priv[1] = NULL;
    rq->fifo_time = 0;
    rq->io_start_time_ns = 0;
    rq->alloc_time_ns = rq->start_time_ns = ktime_get_ns();
    rq->iocast_id = id;
    INIT_LIST_HEAD(&rq->queuelist);
    RB_CLEAR_NODE(&rq->rb_node);
}

/* blk_mq_insert_request(): the types of an elevator's functions depend on the version, so they choose the call. */
#define INSERT_WITH_BOOL(function) __builtin_types_compatible_p(__typeof__(function), \
    void (*)(struct blk_mq_hw_ctx *, struct list_head *, bool))
static void insert_into(struct machine *machine, struct request *rq, bool at_head) {
    LIST_HEAD(list);
    list_add(&rq->queuelist, &list);
    ops(machine)->insert_requests(rq->mq_hctx, &list,
        INSERT_WITH_BOOL(ops(machine)->insert_requests) ? at_head : at_head * BLK_MQ_INSERT_AT_HEAD);
    rq->iocast_place = WAITING;
    machine->waiting++;
}

static void insert(void *state, uint64_t now_ns, uint32_t id, const struct iocast_request *from) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = request_of(machine, id);
    arrives_from(machine, from);
    fill_bio(machine, &rq->iocast_bio, from);
    reset_request(machine, rq, id);
    rq->cmd_flags = rq->iocast_bio.bi_opf;
    rq->ioprio = rq->iocast_bio.bi_ioprio;
    rq->__sector = from->lba;
    rq->__data_len = bytes_of(from);
    if (ops(machine)->prepare_request)
        ops(machine)->prepare_request(rq);
    insert_into(machine, rq, false);
}

static void finish(struct machine *machine, struct request *rq) {
    rq->iocast_place = ABSENT;
    if (ops(machine)->finish_request)
        ops(machine)->finish_request(rq);
}

/* The next request of the elevator. A queue runs until it gives none, then the next one does. */
static struct request *of_next_queue(struct machine *machine) {
    for (u32 tried = 0; tried < machine->hctxs_count; tried++) {
        struct blk_mq_hw_ctx *hctx = &machine->hctxs[machine->running];
        struct request *rq = NULL;
        if (!ops(machine)->has_work || ops(machine)->has_work(hctx))
            rq = ops(machine)->dispatch_request(hctx);
        if (rq)
            return rq;
        machine->running = (machine->running + 1) % machine->hctxs_count;
    }
    return NULL;
}

/* The same, where those that were cancelled meanwhile are passed over. */
static struct request *chosen(struct machine *machine) {
    struct request *rq = machine->held;
    while (!rq) {
        rq = of_next_queue(machine);
        if (!rq)
            return NULL;
        if (rq->iocast_place == CANCELLED) {
            finish(machine, rq);
            iocast_free(rq);
            rq = NULL;
        }
    }
    return rq;
}

/* blk_mq_do_dispatch_sched() runs the queue again after 3 ms if the elevator has work and gives nothing. */
static u64 next_run(struct machine *machine) {
    unsigned long expires = jiffies + msecs_to_jiffies(3);
    u64 again = (expires + 1) * TICK_NSEC - IOCAST_BOOTED_NS;
    return min(iocast_next_timer(), again);
}

static void dispatch(void *state, uint64_t now_ns, struct iocast_capacity capacity, const struct iocast_cost *cost,
                     struct iocast_dispatch *answer) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = chosen(machine);
    machine->world.run = false;
    answer->kind = IOCAST_IDLE;
    if (rq && (req_op(rq) == REQ_OP_READ ? capacity.reads : capacity.others) == 0) {
        rq->iocast_place = HELD;
        machine->held = rq;
    } else if (rq) {
        rq->iocast_place = SENT;
        machine->held = NULL;
        machine->waiting--;
        answer->kind = IOCAST_SEND;
        answer->id = rq->iocast_id;
    } else if (machine->waiting) {
        answer->kind = IOCAST_WAIT_UNTIL;
        answer->until_ns = next_run(machine);
    }
}

static void issued(void *state, uint64_t now_ns, uint32_t id) {
    struct machine *machine = entered(state, now_ns);
    request_of(machine, id)->io_start_time_ns = ktime_get_ns();
}

static void completed(void *state, uint64_t now_ns, uint32_t id, const struct iocast_request *from) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = request_of(machine, id);
    if (ops(machine)->completed_request)
        ops(machine)->completed_request(rq, ktime_get_ns());
    finish(machine, rq);
}

static int calls_for_dispatch(const void *state) {
    const struct machine *machine = state;
    return machine->world.run;
}

/* __blk_mq_requeue_request(), then blk_mq_requeue_work(). */
static void requeue(void *state, uint64_t now_ns, uint32_t id, const struct iocast_request *from) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = request_of(machine, id);
    arrives_from(machine, from);
    if (ops(machine)->requeue_request)
        ops(machine)->requeue_request(rq);
    insert_into(machine, rq, true);
}

/* Merging. */

static int may_merge(const void *state, uint32_t into, const struct iocast_request *from) {
    struct machine *machine = (struct machine *)state;
    struct request *rq = machine->requests[into];
    struct bio bio;
    /* What is asked for has arrived now, unless it came from a level above. */
    entered(machine, max(machine->world.now_ns, (u64)from->arrival_ns));
    if (rq->iocast_place != WAITING || !ops(machine)->bio_merge)
        return 0;
    arrives_from(machine, from);
    fill_bio(machine, &bio, from);
    machine->queue.iocast_candidate = rq;
    machine->queue.iocast_may_merge = false;
    ops(machine)->bio_merge(&machine->queue, &bio, 1);
    return machine->queue.iocast_may_merge;
}

static void merged(void *state, uint64_t now_ns, uint32_t into, const struct iocast_request *grown) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = request_of(machine, into);
    bool is_front = grown->lba != rq->__sector;
    rq->__sector = grown->lba;
    rq->__data_len = bytes_of(grown);
    if (rq->iocast_place == WAITING && ops(machine)->request_merged)
        ops(machine)->request_merged(&machine->queue, rq, is_front ? ELEVATOR_FRONT_MERGE : ELEVATOR_BACK_MERGE);
}

/* An elevator cannot forget a request, so one that is cancelled stays, and is passed over when it is chosen. Its id is
 * free from now on. */
static void cancel(struct machine *machine, struct request *rq) {
    machine->waiting--;
    machine->requests[rq->iocast_id] = NULL;
    if (rq == machine->held) {
        machine->held = NULL;
        finish(machine, rq);
        iocast_free(rq);
    } else {
        rq->iocast_place = CANCELLED;
    }
}

static void merged_requests(void *state, uint64_t now_ns, uint32_t into, uint32_t from,
                            const struct iocast_request *grown) {
    struct machine *machine = entered(state, now_ns);
    struct request *rq = request_of(machine, into), *next = request_of(machine, from);
    rq->start_time_ns = min(rq->start_time_ns, next->start_time_ns);
    rq->__data_len = bytes_of(grown);
    if (next->iocast_place != WAITING || !ops(machine)->requests_merged)
        return cancel(machine, next);
    ops(machine)->requests_merged(&machine->queue, rq, next);
    finish(machine, next);
    machine->waiting--;
}

static void remove_waiting(void *state, uint32_t id) {
    struct machine *machine = state;
    iocast_world = &machine->world;
    cancel(machine, request_of(machine, id));
}

void iocast_describe_calls(struct iocast_scheduler *description) {
    description->insert = insert;
    description->dispatch = dispatch;
    description->merged = merged;
    description->remove = remove_waiting;
    description->issued = issued;
    description->completed = completed;
    description->requeue = requeue;
    description->may_merge = may_merge;
    description->merged_requests = merged_requests;
    description->calls_for_dispatch = calls_for_dispatch;
}
