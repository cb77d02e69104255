/*
 * A blk-mq elevator as a scheduler of iocast: requests, processes and the order of calls as block/blk-mq.c has them.
 *
 * The owner finds what a request adjoins and asks may_merge(); all else is the elevator's own. A request that the
 * elevator has chosen and for which there is no capacity is held here and goes first, as on the dispatch list of blk-mq.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <iocast/block.h>
#include "elevator.h"
#include <iocast/runtime.h>
#include <iocast/iocast_scheduler.h>

extern int (*const iocast_module_init)(void);

/* Where a request is. */
enum place { ABSENT, WAITING, HELD, SENT, CANCELLED };

#define TUNABLES_MAX 64
#define DEPTH 256
#define CPUS 64
#define HCTXS_MAX 64

struct process {
    u64 key;
    bool used;
    struct task_struct task;
    struct io_context context;
};

struct machine {
    struct iocast_world world;
    struct request_queue queue;
    struct gendisk disk;
    struct backing_dev_info bdi;
    struct device device;
    struct block_device part;
    /* The hardware queues, and the one that runs next. CPU c sends to queue c % hctxs_count. */
    struct blk_mq_hw_ctx hctxs[HCTXS_MAX];
    u32 hctxs_count, running;
    struct blk_mq_tags tags;
    struct blk_mq_ctx cpus[CPUS];
    struct blk_mq_ctx *ctxs[HCTXS_MAX][CPUS];
    struct blk_mq_ctx *arriving_on;
    /* By id. A request keeps its address while it waits or is sent. */
    struct request **requests;
    u32 requests_count;
    struct request *held;
    u32 waiting;
    /* The processes: open addressing, at most half full. */
    struct process **processes;
    u32 processes_count, processes_size;
};

static const struct elevator_mq_ops *ops(const struct machine *machine) {
    return &machine->queue.elevator->type->ops;
}

static struct machine *entered(void *state, u64 now_ns) {
    struct machine *machine = state;
    iocast_world = &machine->world;
    iocast_pass_time(now_ns);
    return machine;
}

/* Processes. */

static struct process **process_slot(struct process **table, u32 size, u64 key) {
    u32 slot = (u32)(key * 0x9e3779b97f4a7c15ULL >> 32) & (size - 1);
    while (table[slot] && table[slot]->key != key)
        slot = (slot + 1) & (size - 1);
    return &table[slot];
}

static void grow_processes(struct machine *machine) {
    u32 size = machine->processes_size ? machine->processes_size * 2 : 16;
    struct process **table = iocast_alloc(size * sizeof(*table));
    for (u32 slot = 0; slot < machine->processes_size; slot++)
        if (machine->processes[slot])
            *process_slot(table, size, machine->processes[slot]->key) = machine->processes[slot];
    iocast_free(machine->processes);
    machine->processes = table;
    machine->processes_size = size;
}

static struct process *process_of(struct machine *machine, const struct iocast_request *from) {
    u64 key = (u64)from->vm << 32 | from->stream;
    struct process **slot = process_slot(machine->processes, machine->processes_size, key);
    if (!*slot) {
        struct process *process = iocast_alloc(sizeof(*process));
        *slot = process;
        process->key = key;
        process->task.io_context = &process->context;
        atomic_set(&process->context.active_ref, 1);
        process->task.pid = process->task.tgid = ++machine->processes_count;
        if (machine->processes_count * 2 > machine->processes_size)
            grow_processes(machine);
        return process;
    }
    return *slot;
}

struct io_cq *iocast_find_icq(struct request_queue *q, bool create) {
    struct io_context *context = current->io_context;
    struct elevator_type *type = q->elevator->type;
    if (!context->icq && create && type->icq_size) {
        context->icq = iocast_alloc(type->icq_size);
        context->icq->q = q;
        context->icq->ioc = context;
        if (type->ops.init_icq)
            type->ops.init_icq(context->icq);
    }
    return context->icq;
}

struct blk_mq_ctx *blk_mq_get_ctx(struct request_queue *q) {
    return container_of(q, struct machine, queue)->arriving_on;
}

struct blk_mq_hw_ctx *blk_mq_map_queue(struct request_queue *q, blk_opf_t opf, struct blk_mq_ctx *ctx) {
    struct machine *machine = container_of(q, struct machine, queue);
    return &machine->hctxs[ctx->cpu % machine->hctxs_count];
}

/* Requests. */

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
    struct process *process = process_of(machine, from);
    process->context.ioprio = ioprio_of(from);
    machine->world.task = &process->task;
    machine->arriving_on = &machine->cpus[from->cpu % CPUS];
}

static void fill_bio(struct machine *machine, struct bio *bio, const struct iocast_request *from) {
    *bio = (struct bio){
        .bi_bdev = &machine->part,
        .bi_opf = flags_of(from),
        .bi_ioprio = ioprio_of(from),
        .bi_iter = {.bi_sector = from->lba, .bi_size = from->sectors << SECTOR_SHIFT},
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
    rq->__data_len = from->sectors << SECTOR_SHIFT;
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
    iocast_world = &machine->world;
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
    rq->__data_len = grown->sectors << SECTOR_SHIFT;
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
    rq->__data_len = grown->sectors << SECTOR_SHIFT;
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

/* The elevator and its attributes. */

/* init_sched() takes the type of the elevator up to 6.17, and the elevator's queue since. */
#define INIT_WITH_TYPE(function) __builtin_types_compatible_p(__typeof__(function), \
    int (*)(struct request_queue *, struct elevator_type *))
static bool start(struct machine *machine, struct elevator_type *type) {
    int (*init)() = (int (*)())type->ops.init_sched;
    void *with = type;
    if (!INIT_WITH_TYPE(type->ops.init_sched)) {
        machine->queue.elevator = elevator_alloc(&machine->queue, type);
        with = machine->queue.elevator;
    }
    if (init(&machine->queue, with) || !machine->queue.elevator)
        return false;
    for (u32 nr = 0; type->ops.init_hctx && nr < machine->hctxs_count; nr++)
        if (type->ops.init_hctx(&machine->hctxs[nr], nr))
            return false;
    return true;
}

/* What waits or is sent is not finished, so the elevator's own end would complain. The replay is over. */
static void destroy(void *state) {
    struct machine *machine = state;
    iocast_world = &machine->world;
    iocast_free_all();
    free(machine->requests);
    free(machine);
}

/* What an elevator may ask of its device. */
struct device_properties { bool is_rotational; u32 hw_queues; };
static const struct device_properties NORMAL = {false, 1};

static void map_cpus(struct machine *machine) {
    for (u32 nr = 0; nr < machine->hctxs_count; nr++)
        machine->hctxs[nr] = (struct blk_mq_hw_ctx){
            .queue = &machine->queue, .queue_num = nr, .ctxs = machine->ctxs[nr],
            .tags = &machine->tags, .sched_tags = &machine->tags,
        };
    for (u32 cpu = 0; cpu < CPUS; cpu++) {
        struct blk_mq_hw_ctx *hctx = &machine->hctxs[cpu % machine->hctxs_count];
        u16 index = hctx->nr_ctx++;
        machine->cpus[cpu] = (struct blk_mq_ctx){.cpu = cpu, .index_hw = {index, index, index}, .queue = &machine->queue};
        hctx->ctxs[index] = &machine->cpus[cpu];
    }
}

static struct machine *create_untuned(struct device_properties device) {
    struct machine *machine = calloc(1, sizeof(*machine));
    if (!machine)
        return NULL;
    iocast_world = &machine->world;
    iocast_set_clock(0);
    machine->device = (struct device){0};
    machine->bdi.dev = &machine->device;
    machine->disk = (struct gendisk){.queue = &machine->queue, .bdi = &machine->bdi};
    machine->part.bd_disk = &machine->disk;
    machine->queue.disk = &machine->disk;
    machine->queue.nr_requests = DEPTH;
    machine->queue.nr_hw_queues = machine->hctxs_count = device.hw_queues;
    machine->queue.queue_flags = device.is_rotational ? 0 : BIT(QUEUE_FLAG_NONROT);
    machine->queue.limits.max_sectors = 2560;
    INIT_LIST_HEAD(&machine->queue.icq_list);
    machine->tags.nr_tags = DEPTH;
    machine->tags.bitmap_tags.sb.depth = DEPTH;
    map_cpus(machine);
    machine->arriving_on = &machine->cpus[0];
    grow_processes(machine);
    if (!start(machine, iocast_elevator())) {
        destroy(machine);
        return NULL;
    }
    return machine;
}

/* The elevator's attributes, behind the properties of the device that it asks for. */
static struct iocast_tunable tunables[TUNABLES_MAX];
static const struct elv_fs_entry *attributes[TUNABLES_MAX];
static u32 tunables_count, properties_count;

/* One queue holds the requests of all hardware queues of an elevator with this flag. */
static bool has_many_queues(const struct machine *machine) {
    return !blk_queue_sq_sched(&machine->queue);
}

static bool shown(struct machine *machine, const struct elv_fs_entry *attribute, u64 *value) {
    char page[4096], *end;
    memset(page, 0, sizeof(page));
    attribute->show(machine->queue.elevator, page);
    *value = strtoull(page, &end, 10);
    return end != page && page[0] != '-';
}

static void find_tunables(struct machine *machine) {
    const struct elv_fs_entry *attribute = iocast_elevator()->elevator_attrs;
    if (IOCAST_ASKS_ROTATIONAL)
        tunables[tunables_count++] = (struct iocast_tunable){
            .name = "rotational",
            .summary = "the device's property queue/rotational",
            .unit = IOCAST_SWITCH,
        };
    if (has_many_queues(machine))
        tunables[tunables_count++] = (struct iocast_tunable){
            .name = "hw_queues",
            .summary = "hardware queues of the device; CPUs are spread over them",
            .normal = 1,
            .min = 1,
            .max = HCTXS_MAX,
            .unit = IOCAST_COUNT,
        };
    properties_count = tunables_count;
    for (; attribute && attribute->attr.name && tunables_count < TUNABLES_MAX; attribute++) {
        u64 value;
        if (!attribute->show || !attribute->store || !shown(machine, attribute, &value))
            continue;
        attributes[tunables_count] = attribute;
        tunables[tunables_count++] = (struct iocast_tunable){
            .name = attribute->attr.name,
            .summary = "as the kernel's attribute of this name, in its unit",
            .normal = value,
            .max = value > INT_MAX ? ~0ULL >> 1 : INT_MAX,
            .unit = IOCAST_COUNT,
        };
    }
}

/* Only what differs from what the attribute shows is written: some attributes are two views of one value. */
static void *create(const uint64_t *values) {
    struct device_properties device = NORMAL;
    if (IOCAST_ASKS_ROTATIONAL)
        device.is_rotational = values[0];
    if (properties_count > IOCAST_ASKS_ROTATIONAL)
        device.hw_queues = values[IOCAST_ASKS_ROTATIONAL];
    struct machine *machine = create_untuned(device);
    for (u32 tunable = properties_count; machine && tunable < tunables_count; tunable++) {
        char page[32];
        int length = snprintf(page, sizeof(page), "%llu\n", (unsigned long long)values[tunable]);
        if (values[tunable] == tunables[tunable].normal)
            continue;
        if (attributes[tunable]->store(machine->queue.elevator, page, length) < 0) {
            destroy(machine);
            return NULL;
        }
    }
    return machine;
}

static struct iocast_scheduler description = {
    .abi = IOCAST_SCHEDULER_ABI,
    .tunables = tunables,
    .summary = IOCAST_SUMMARY,
    .origin = IOCAST_ORIGIN,
    .create = create,
    .destroy = destroy,
    .insert = insert,
    .dispatch = dispatch,
    .merged = merged,
    .remove = remove_waiting,
    .issued = issued,
    .completed = completed,
    .requeue = requeue,
    .may_merge = may_merge,
    .merged_requests = merged_requests,
    .calls_for_dispatch = calls_for_dispatch,
};

__attribute__((visibility("default"))) const struct iocast_scheduler *iocast_scheduler(void) {
    struct machine *machine;
    if (!iocast_elevator() && iocast_module_init())
        return NULL;
    if (!iocast_elevator() || !(machine = create_untuned(NORMAL)))
        return NULL;
    if (!tunables_count)
        find_tunables(machine);
    description.tunables_count = tunables_count;
    description.no_joins = !iocast_elevator()->ops.next_request;
    destroy(machine);
    return &description;
}
