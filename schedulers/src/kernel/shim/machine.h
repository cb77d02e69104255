/*
 * An elevator with its queue, its processes and its requests.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_MACHINE_H
#define IOCAST_MACHINE_H

#include <iocast/block.h>
#include "elevator.h"
#include <iocast/runtime.h>
#include <iocast/iocast_scheduler.h>

/* Where a request is. */
enum place { ABSENT, WAITING, HELD, SENT, CANCELLED };

#define DEPTH 256
#define CPUS 64
#define HCTXS_MAX 64

struct process {
    u64 key;
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

/* What an elevator may ask of its device. */
struct device_properties { bool is_rotational; u32 hw_queues; };

static inline const struct elevator_mq_ops *ops(const struct machine *machine) {
    return &machine->queue.elevator->type->ops;
}

/* The machine behind a state, with its clock at this time. */
static inline struct machine *entered(void *state, u64 now_ns) {
    struct machine *machine = state;
    iocast_world = &machine->world;
    iocast_pass_time(now_ns);
    return machine;
}

/* machine.c: a machine with the elevator started, NULL if that fails; and its end. */
struct machine *iocast_machine_create(struct device_properties device);
void iocast_machine_destroy(void *state);
/* machine.c: the process of a request, which is created if it is new. */
struct process *iocast_process_of(struct machine *machine, const struct iocast_request *from);
/* calls.c: the functions of a scheduler that concern requests. */
void iocast_describe_calls(struct iocast_scheduler *description);

#endif
