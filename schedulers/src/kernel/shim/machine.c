/*
 * A machine: its processes, its CPUs and hardware queues, the start and end of its elevator.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <iocast/machine.h>

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

struct process *iocast_process_of(struct machine *machine, const struct iocast_request *from) {
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

/* The elevator. */

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
void iocast_machine_destroy(void *state) {
    struct machine *machine = state;
    iocast_world = &machine->world;
    iocast_free_all();
    free(machine->requests);
    free(machine);
}

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

struct machine *iocast_machine_create(struct device_properties device) {
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
        iocast_machine_destroy(machine);
        return NULL;
    }
    return machine;
}
