/*
 * The kernel's clocks and timers on the clock of the replay. Included by kernel.h.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_TIME_H
#define IOCAST_TIME_H

/* The clock of the replay, and the process whose request arrives. A thread runs one scheduler at a time. */
struct timer_list;
struct hrtimer;
struct task_struct;
struct iocast_world {
    u64 now_ns;            /* on the clock of the replay; the kernel's began earlier */
    unsigned long ticks;   /* of the kernel's clock: its jiffies */
    struct task_struct *task;
    struct timer_list *timers;   /* those that are armed, in no order */
    struct hrtimer *hrtimers;
    struct iocast_block *blocks;   /* all memory of this scheduler */
    bool run;              /* the scheduler has asked for a run of the queue since the last one */
};
extern __thread struct iocast_world *iocast_world __attribute__((tls_model("initial-exec")));

#ifndef HZ
#define HZ 250
#endif
#define TICK_NSEC (1000000000ULL / HZ)
#define NSEC_PER_SEC 1000000000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_USEC 1000L
#define USEC_PER_SEC 1000000L
#define USEC_PER_MSEC 1000L
#define MSEC_PER_SEC 1000L
/* The age of the kernel when a replay begins: no kernel sees I/O at its own zero. A whole number of seconds. */
#define IOCAST_BOOTED_NS (4096 * (u64)NSEC_PER_SEC)
#define jiffies (iocast_world->ticks)
#define jiffies_64 ((u64)iocast_world->ticks)
#define get_jiffies_64() jiffies_64
#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define time_after64(a, b) ((s64)((b) - (a)) < 0)
#define time_before64(a, b) time_after64(b, a)
#define time_in_range(a, b, c) (time_after_eq(a, b) && time_before_eq(a, c))
#define time_is_before_jiffies(a) time_after(jiffies, a)
#define time_is_after_jiffies(a) time_before(jiffies, a)
#define time_is_before_eq_jiffies(a) time_after_eq(jiffies, a)
#define time_is_after_eq_jiffies(a) time_before_eq(jiffies, a)
/* As kernel/time/time.c: whole ticks, rounded up; a negative or too large time is for ever. */
static inline unsigned long msecs_to_jiffies(unsigned int ms) {
    return (int)ms < 0 ? MAX_JIFFY_OFFSET : DIV_ROUND_UP((u64)ms * HZ, MSEC_PER_SEC);
}
static inline unsigned long usecs_to_jiffies(unsigned int us) { return DIV_ROUND_UP((u64)us * HZ, USEC_PER_SEC); }
static inline unsigned long nsecs_to_jiffies(u64 ns) { return ns / TICK_NSEC; }
static inline u64 nsecs_to_jiffies64(u64 ns) { return ns / TICK_NSEC; }
static inline unsigned int jiffies_to_msecs(unsigned long j) { return (u64)j * MSEC_PER_SEC / HZ; }
static inline unsigned int jiffies_to_usecs(unsigned long j) { return (u64)j * USEC_PER_SEC / HZ; }
static inline u64 jiffies_to_nsecs(unsigned long j) { return (u64)j * TICK_NSEC; }

typedef s64 ktime_t;
static inline u64 ktime_get_ns(void) { return IOCAST_BOOTED_NS + iocast_world->now_ns; }
static inline ktime_t ktime_get(void) { return ktime_get_ns(); }
#define ktime_get_real_ns ktime_get_ns
#define ktime_get_boottime_ns ktime_get_ns
#define blk_time_get_ns ktime_get_ns
#define blk_time_get ktime_get
#define sched_clock ktime_get_ns
static inline ktime_t ns_to_ktime(u64 ns) { return ns; }
static inline ktime_t ms_to_ktime(u64 ms) { return ms * NSEC_PER_MSEC; }
static inline u64 ktime_to_ns(ktime_t t) { return t; }
static inline s64 ktime_to_us(ktime_t t) { return t / NSEC_PER_USEC; }
static inline s64 ktime_to_ms(ktime_t t) { return t / NSEC_PER_MSEC; }
static inline ktime_t ktime_add(ktime_t a, ktime_t b) { return a + b; }
static inline ktime_t ktime_add_ns(ktime_t a, u64 b) { return a + b; }
static inline ktime_t ktime_add_us(ktime_t a, u64 b) { return a + b * NSEC_PER_USEC; }
static inline ktime_t ktime_sub(ktime_t a, ktime_t b) { return a - b; }
static inline s64 ktime_us_delta(ktime_t a, ktime_t b) { return ktime_to_us(a - b); }
static inline s64 ktime_ms_delta(ktime_t a, ktime_t b) { return ktime_to_ms(a - b); }
static inline bool ktime_after(ktime_t a, ktime_t b) { return a > b; }
static inline bool ktime_before(ktime_t a, ktime_t b) { return a < b; }
static inline int ktime_compare(ktime_t a, ktime_t b) { return a < b ? -1 : a > b; }

/* Timers of jiffies: a timer runs one tick after its time, as those of kernel/time/timer.c. */
struct timer_list {
    struct timer_list *next_armed;
    bool armed;
    unsigned long expires;
    void (*function)(struct timer_list *);
    u32 flags;
};
#define from_timer(var, callback_timer, member) container_of(callback_timer, __typeof__(*(var)), member)
#define timer_container_of from_timer
static inline void timer_setup(struct timer_list *timer, void (*function)(struct timer_list *), unsigned int flags) {
    *timer = (struct timer_list){.function = function, .flags = flags};
}
int mod_timer(struct timer_list *timer, unsigned long expires);
int timer_reduce(struct timer_list *timer, unsigned long expires);
int timer_delete(struct timer_list *timer);
static inline void add_timer(struct timer_list *timer) { mod_timer(timer, timer->expires); }
static inline bool timer_pending(const struct timer_list *timer) { return timer->armed; }
#define del_timer timer_delete
#define del_timer_sync timer_delete
#define timer_delete_sync timer_delete
#define timer_shutdown timer_delete
#define timer_shutdown_sync timer_delete

/* Timers of nanoseconds. */
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_ABS, HRTIMER_MODE_REL, HRTIMER_MODE_REL_SOFT, HRTIMER_MODE_REL_HARD };
enum { CLOCK_REALTIME, CLOCK_MONOTONIC };
struct hrtimer {
    struct hrtimer *next_armed;
    bool armed;
    ktime_t expires;
    enum hrtimer_restart (*function)(struct hrtimer *);
};
void hrtimer_start(struct hrtimer *timer, ktime_t time, enum hrtimer_mode mode);
int hrtimer_try_to_cancel(struct hrtimer *timer);
#define hrtimer_cancel hrtimer_try_to_cancel
static inline void hrtimer_init(struct hrtimer *timer, int clock, enum hrtimer_mode mode) { *timer = (struct hrtimer){0}; }
static inline void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *), int clock,
                                 enum hrtimer_mode mode) {
    *timer = (struct hrtimer){.function = function};
}
static inline bool hrtimer_active(const struct hrtimer *timer) { return timer->armed; }
#define hrtimer_is_queued hrtimer_active
static inline ktime_t hrtimer_get_expires(const struct hrtimer *timer) { return timer->expires; }
static inline ktime_t hrtimer_get_remaining(const struct hrtimer *timer) { return timer->expires - ktime_get(); }
static inline u64 hrtimer_forward_now(struct hrtimer *timer, ktime_t interval) {
    u64 passed = timer->expires > ktime_get() ? 0 : (ktime_get() - timer->expires) / interval + 1;
    timer->expires += passed * interval;
    return passed;
}

#endif
