/* A first in, first out scheduler that does what no scheduler may do, as its tunable says. */
#include <stdint.h>
#include <stdlib.h>

#include "iocast_scheduler.h"

enum fault { NONE, TWICE, UNKNOWN, PAST, KIND, RULE, NO_ROOM, CREATE, NEVER, LATER, CRASH, ABORT, ENDLESS, WAITS, FAR };

struct faulty {
    uint64_t fault, sent;
    uint32_t ids[65536], first, behind, last;
};

static void *create(const uint64_t *values)
{
    struct faulty *mine = values[0] == CREATE ? NULL : calloc(1, sizeof *mine);
    if (mine)
        mine->fault = values[0];
    return mine;
}

static void insert(void *scheduler, uint64_t now_ns, uint32_t id, const struct iocast_request *request)
{
    struct faulty *mine = scheduler;
    (void)now_ns, (void)request;
    mine->ids[mine->behind++ % 65536] = id;
}

static void dispatch(void *scheduler, uint64_t now_ns, struct iocast_capacity capacity, const struct iocast_cost *cost,
                     struct iocast_dispatch *answer)
{
    struct faulty *mine = scheduler;
    uint64_t fault = mine->sent > 20 ? mine->fault : NONE;
    (void)cost;
    if (fault == LATER && mine->first != mine->behind) {
        answer->kind = IOCAST_WAIT_UNTIL;
        answer->until_ns = now_ns + 1000000;
        mine->fault = NONE;
        return;
    }
    if (mine->first == mine->behind || fault == NEVER || (fault != NO_ROOM && (!capacity.reads || !capacity.others)))
        return;
    answer->kind = IOCAST_SEND;
    answer->id = mine->ids[mine->first % 65536];
    switch (fault) {
    case TWICE: answer->id = mine->last; break;
    case UNKNOWN: answer->id = 4000000000; break;
    case PAST: answer->kind = IOCAST_WAIT_UNTIL; answer->until_ns = now_ns; break;
    case KIND: answer->kind = 7; break;
    case RULE: answer->rule = 1; break;
    case CRASH: *(volatile char *)mine->sent = 1; break;
    case ABORT: abort();
    case WAITS: answer->kind = IOCAST_WAIT_UNTIL; answer->until_ns = now_ns + 1; break;
    case FAR: answer->kind = IOCAST_WAIT_UNTIL; answer->until_ns = UINT64_MAX; break;
    case ENDLESS: for (;;) __asm__ volatile("");
    default: mine->first++;
    }
    mine->last = answer->id;
    mine->sent++;
}

static void merged(void *scheduler, uint64_t now_ns, uint32_t into, const struct iocast_request *request)
{
    (void)scheduler, (void)now_ns, (void)into, (void)request;
}

static void remove_waiting(void *scheduler, uint32_t id)
{
    struct faulty *mine = scheduler;
    uint32_t place = mine->first;
    while (mine->ids[place % 65536] != id)
        place++;
    for (mine->behind--; place != mine->behind; place++)
        mine->ids[place % 65536] = mine->ids[(place + 1) % 65536];
}

static int may_merge(const void *scheduler, uint32_t into, const struct iocast_request *request)
{
    (void)scheduler, (void)into, (void)request;
    return 0;
}

static const struct iocast_tunable tunables[] = {
    {.name = TUNABLE, .summary = "what it does wrong", .normal = NORMAL, .min = 0, .max = 14, .unit = IOCAST_COUNT},
};

static const struct iocast_rule rules[] = {{"only", "the oldest"}};

static const struct iocast_scheduler faulty = {
    .abi = ABI,
    .tunables = tunables,
    .tunables_count = 1,
    .rules = rules,
    .rules_count = 1,
    .summary = SUMMARY,
    .create = create,
    .destroy = DESTROY,
    .insert = insert,
    .dispatch = dispatch,
    .merged = merged,
    .remove = remove_waiting,
    .may_merge = may_merge,
};

const struct iocast_scheduler *SYMBOL(void)
{
    return &faulty;
}
