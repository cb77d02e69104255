/*
 * A scheduler in a shared library, for iocast.
 *
 * The library exports one function, iocast_scheduler(), which returns the description of its scheduler. iocast calls
 * create() once for each replay, then the other functions with the state that create() returned, always from one
 * thread at a time. Times are nanoseconds on the clock of the replay, and never decrease. Addresses and lengths count
 * sectors of 512 bytes. The scheduler must not read a clock or use randomness without a fixed seed: the same calls
 * have to give the same answers.
 *
 *     cc -shared -fPIC -O2 -o libmine.so mine.c
 *     iocast compare trace.parquet --schedulers fifo,plugin:./libmine.so
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_SCHEDULER_H
#define IOCAST_SCHEDULER_H

#include <stdint.h>

/* The version of this interface. It changes whenever a library that was built before would misbehave. */
#define IOCAST_SCHEDULER_ABI 2

#ifdef __cplusplus
extern "C" {
#endif

enum iocast_operation {
    IOCAST_READ = 0,
    IOCAST_WRITE = 1,
    IOCAST_DISCARD = 3,
};

enum iocast_flag {
    IOCAST_SYNC = 1 << 0,     /* somebody waits for it; reads are synchronous with or without it */
    IOCAST_FUA = 1 << 1,      /* durable when it completes */
    IOCAST_PREFLUSH = 1 << 2, /* the cache of the device is flushed first */
    IOCAST_META = 1 << 3,     /* metadata of a file system */
    IOCAST_AHEAD = 1 << 4,    /* read-ahead */
};

struct iocast_request {
    uint64_t arrival_ns;
    uint64_t lba;
    uint32_t sectors;
    uint32_t stream;    /* the process or cgroup that it comes from */
    uint16_t vm;        /* the VM, from 0 */
    uint8_t operation;  /* enum iocast_operation */
    uint8_t flags;      /* of enum iocast_flag */
    uint8_t priority;   /* class << 3 | level, as in Linux ioprio.h; 0 for none */
    uint8_t reserved;
    uint16_t cpu;       /* that submitted it */
};

/* How many more requests the level below takes. */
struct iocast_capacity {
    uint32_t reads;
    uint32_t others; /* writes and discards */
};

/* What the drive says of costs. Each function takes `context` first. Asking changes nothing. */
struct iocast_cost {
    const void *context;
    /* The sector behind the last one of the requests sent so far. */
    uint64_t (*position)(const void *context);
    /* The size of the drive in sectors. */
    uint64_t (*capacity)(const void *context);
    /* The expected service time in ns of `sectors` at `to` with the head at `from`; to position it, for 0 sectors. */
    uint64_t (*between)(const void *context, uint64_t from, uint64_t to, uint64_t sectors);
    /* The service time in ns of a request that starts now, as exactly as the drive can tell. */
    uint64_t (*access)(const void *context, uint64_t now_ns, const struct iocast_request *request);
};

enum iocast_kind {
    IOCAST_IDLE = 0,       /* nothing goes now, or before one of the requests that were sent completes */
    IOCAST_SEND = 1,       /* send `id`, which waits and for which there is capacity */
    IOCAST_WAIT_UNTIL = 2, /* nothing goes before `until_ns`, which lies in the future */
};

struct iocast_dispatch {
    uint32_t kind; /* enum iocast_kind */
    uint32_t id;
    uint64_t until_ns;
    uint32_t rule; /* the number of the rule that chose the request; counted if the scheduler has rules */
    uint32_t reserved;
};

enum iocast_unit {
    IOCAST_TIME = 0,    /* ns; written as 500us, 7ms or 1.5s */
    IOCAST_COUNT = 1,   /* a whole number */
    IOCAST_DECIMAL = 2, /* thousandths; written as 0.2 */
    IOCAST_BYTES = 3,   /* written as 64k */
    IOCAST_SWITCH = 4,  /* 0 or 1; written as off or on */
};

struct iocast_tunable {
    const char *name;    /* lower-case letters, digits and _ */
    const char *summary; /* one line */
    uint64_t normal;     /* the value that it has unless another is given */
    uint64_t min;
    uint64_t max;
    uint32_t unit;       /* enum iocast_unit */
    uint32_t reserved;
};

/* A rule by which the scheduler chooses a request. */
struct iocast_rule {
    const char *name;
    const char *summary;
};

struct iocast_scheduler {
    uint32_t abi; /* IOCAST_SCHEDULER_ABI */
    uint32_t tunables_count;
    const struct iocast_tunable *tunables;
    const struct iocast_rule *rules; /* in the order in which they are tried */
    uint32_t rules_count;            /* 0 if there is only one */
    uint32_t no_front_merges;        /* 1 if no request may be put in front of a waiting one */
    uint32_t no_joins;               /* 1 if two waiting requests are not joined once one has grown up to the other */
    uint32_t reserved;
    const char *summary; /* its rule in one line */
    const char *origin;  /* the paper, or kernel file and version, that it follows; may be NULL */

    /* A new scheduler. `values` has the value of each tunable in its unit. NULL is an error. */
    void *(*create)(const uint64_t *values);
    void (*destroy)(void *scheduler);

    /* A request arrives and waits. Ids are small, unique among waiting and sent requests, and used again. Flushes do
     * not come here. */
    void (*insert)(void *scheduler, uint64_t now_ns, uint32_t id, const struct iocast_request *request);
    /* May one request go? Asked again until the answer is not IOCAST_SEND. */
    void (*dispatch)(void *scheduler, uint64_t now_ns, struct iocast_capacity capacity, const struct iocast_cost *cost,
                     struct iocast_dispatch *answer);
    /* The waiting request `into` has grown by a merge and is `request` now. */
    void (*merged)(void *scheduler, uint64_t now_ns, uint32_t into, const struct iocast_request *request);
    /* Forget a waiting request. */
    void (*remove)(void *scheduler, uint32_t id);

    /* Those that follow may be NULL. */

    /* A request that was sent goes to the device now. */
    void (*issued)(void *scheduler, uint64_t now_ns, uint32_t id);
    /* A request that was sent has completed. */
    void (*completed)(void *scheduler, uint64_t now_ns, uint32_t id, const struct iocast_request *request);
    /* A request that was sent comes back unserved and waits again; insert() is called if this is NULL. */
    void (*requeue)(void *scheduler, uint64_t now_ns, uint32_t id, const struct iocast_request *request);
    /* May `request`, which is adjacent, be merged into the waiting `into`? Yes if this is NULL. */
    int (*may_merge)(const void *scheduler, uint32_t into, const struct iocast_request *request);
    /* The waiting `from` was joined behind the waiting `into`, which is `request` now; remove(from) and merged(into)
     * are called if this is NULL. */
    void (*merged_requests)(void *scheduler, uint64_t now_ns, uint32_t into, uint32_t from,
                            const struct iocast_request *request);
    /* Does the scheduler want a call of dispatch() after the last completion? Linux asks this, and calls it otherwise only
     * after an arrival or when a request has waited for capacity. Replays always call it. Yes if this is NULL. */
    int (*calls_for_dispatch)(const void *scheduler);
};

/* The only function that the library exports. What it returns stays valid. */
const struct iocast_scheduler *iocast_scheduler(void);

#ifdef __cplusplus
}
#endif
#endif
