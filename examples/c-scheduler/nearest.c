/*
 * A scheduler in C: of the waiting requests the one nearest to the head goes next, reads before writes. A read that has
 * waited for longer than max_wait goes before all others.
 *
 *     cc -shared -fPIC -O2 -I schedulers/include -o libnearest.so examples/c-scheduler/nearest.c
 *     iocast compare traces/samples/mail.parquet --schedulers fifo,sstf,plugin:./libnearest.so:max_wait=200ms
 */
#include <stdint.h>
#include <stdlib.h>

#include "iocast_scheduler.h"

struct waiting {
    uint64_t arrived_ns;
    uint64_t lba;
    uint32_t id;
    uint8_t operation;
};

struct nearest {
    uint64_t max_wait_ns;
    struct waiting *all; /* in order of arrival */
    uint32_t count, room;
};

static void *create(const uint64_t *values)
{
    struct nearest *mine = calloc(1, sizeof *mine);
    if (mine)
        mine->max_wait_ns = values[0];
    return mine;
}

static void destroy(void *scheduler)
{
    struct nearest *mine = scheduler;
    free(mine->all);
    free(mine);
}

static void insert(void *scheduler, uint64_t now_ns, uint32_t id, const struct iocast_request *request)
{
    struct nearest *mine = scheduler;
    if (mine->count == mine->room) {
        mine->room = mine->room ? 2 * mine->room : 64;
        mine->all = realloc(mine->all, mine->room * sizeof *mine->all);
        if (!mine->all)
            abort();
    }
    mine->all[mine->count++] = (struct waiting){now_ns, request->lba, id, request->operation};
}

static void take_out(struct nearest *mine, uint32_t place)
{
    for (mine->count--; place < mine->count; place++)
        mine->all[place] = mine->all[place + 1];
}

static uint32_t place_of(const struct nearest *mine, uint32_t id)
{
    uint32_t place = 0;
    while (mine->all[place].id != id)
        place++;
    return place;
}

static void remove_waiting(void *scheduler, uint32_t id)
{
    struct nearest *mine = scheduler;
    take_out(mine, place_of(mine, id));
}

static void merged(void *scheduler, uint64_t now_ns, uint32_t into, const struct iocast_request *request)
{
    struct nearest *mine = scheduler;
    (void)now_ns;
    mine->all[place_of(mine, into)].lba = request->lba;
}

enum rule { LATE, READ, OTHER };

static void dispatch(void *scheduler, uint64_t now_ns, struct iocast_capacity capacity, const struct iocast_cost *cost,
                     struct iocast_dispatch *answer)
{
    struct nearest *mine = scheduler;
    uint64_t head = cost->position(cost->context), best_distance = UINT64_MAX;
    uint32_t best = mine->count;

    answer->kind = IOCAST_IDLE;
    for (uint32_t place = 0; place < mine->count; place++) {
        const struct waiting *one = &mine->all[place];
        int is_read = one->operation == IOCAST_READ;
        if (!(is_read ? capacity.reads : capacity.others))
            continue;
        if (is_read && now_ns - one->arrived_ns > mine->max_wait_ns) {
            answer->rule = LATE;
            best = place;
            break;
        }
        uint64_t distance = one->lba > head ? one->lba - head : head - one->lba;
        if (answer->rule == READ && best < mine->count && !is_read)
            continue;
        if (best == mine->count || (is_read && answer->rule == OTHER) || distance < best_distance) {
            answer->rule = is_read ? READ : OTHER;
            best = place;
            best_distance = distance;
        }
    }
    if (best < mine->count) {
        answer->kind = IOCAST_SEND;
        answer->id = mine->all[best].id;
        take_out(mine, best);
    }
}

static const struct iocast_tunable tunables[] = {
    {.name = "max_wait", .summary = "a read that has waited for longer goes first", .normal = 500000000,
     .min = 0, .max = 3600000000000, .unit = IOCAST_TIME},
};

static const struct iocast_rule rules[] = {
    [LATE] = {"late", "reads that have waited for longer than max_wait"},
    [READ] = {"read", "the nearest read"},
    [OTHER] = {"other", "the nearest write or discard, while no read waits"},
};

static const struct iocast_scheduler nearest = {
    .abi = IOCAST_SCHEDULER_ABI,
    .tunables = tunables,
    .tunables_count = sizeof tunables / sizeof *tunables,
    .rules = rules,
    .rules_count = sizeof rules / sizeof *rules,
    .summary = "nearest request first, reads before writes, late reads before all",
    .create = create,
    .destroy = destroy,
    .insert = insert,
    .dispatch = dispatch,
    .merged = merged,
    .remove = remove_waiting,
};

const struct iocast_scheduler *iocast_scheduler(void)
{
    return &nearest;
}
