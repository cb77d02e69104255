/*
 * What plugin.c takes from runtime.c.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_RUNTIME_H
#define IOCAST_RUNTIME_H

#include "kernel.h"

/* Sets the clock of the current world without running a timer. */
void iocast_set_clock(u64 now_ns);
/* Sets the clock after the timers due by then have run, each at its own time. */
void iocast_pass_time(u64 now_ns);
/* The time of the replay at which the next timer runs; the latest time if none is armed. */
u64 iocast_next_timer(void);
/* Frees all memory of the current world. */
void iocast_free_all(void);
/* The elevator that the source has registered; NULL if it has none. */
struct elevator_type *iocast_elevator(void);

#endif
