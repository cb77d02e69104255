/*
 * What a blk-mq elevator takes from the kernel outside the block layer, for user space on a simulated clock: integers,
 * bits, time, timers, memory, locks. Every header that a source includes is this one and block.h, but for a few of the
 * tree's own (lists, red-black trees, elevator.h). Names are the kernel's; what stands behind them is not.
 *
 * One thread runs a scheduler at a time, so locks do nothing and atomic operations are plain ones.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOCAST_KERNEL_H
#define IOCAST_KERNEL_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The C library, without its headers: they define names that the kernel defines otherwise. */
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);
void abort(void) __attribute__((noreturn));
void *memset(void *, int, size_t);
void *memcpy(void *, const void *, size_t);
int strcmp(const char *, const char *);
int snprintf(char *, size_t, const char *, ...) __attribute__((format(printf, 3, 4)));
int sprintf(char *, const char *, ...) __attribute__((format(printf, 2, 3)));
unsigned long long strtoull(const char *, char **, int);
long long strtoll(const char *, char **, int);

/* Types. */
typedef uint8_t u8, __u8;
typedef uint16_t u16, __u16;
typedef uint32_t u32, __u32;
typedef unsigned long long u64, __u64;
typedef int8_t s8, __s8;
typedef int16_t s16, __s16;
typedef int32_t s32, __s32;
typedef long long s64, __s64;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef u64 sector_t;
typedef u32 dev_t;
typedef long ssize_t;
typedef long long loff_t;
typedef int pid_t;
typedef unsigned int gfp_t;
typedef unsigned short umode_t;

/* Words of the compiler. */
#define __user
#define __percpu
#define __rcu
#define __init
#define __exit
#define __read_mostly
#define __must_check
#define __acquires(x)
#define __releases(x)
#define __must_hold(x)
#define __maybe_unused __attribute__((unused))
#define __always_unused __attribute__((unused))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __cold __attribute__((cold))
#define noinline __attribute__((noinline))
#define __packed __attribute__((packed))
#define __aligned(n) __attribute__((aligned(n)))
#define ____cacheline_aligned
#define ____cacheline_aligned_in_smp
#define ____cacheline_internodealigned_in_smp
#define fallthrough __attribute__((fallthrough))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ volatile("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define data_race(x) (x)
#define smp_mb() barrier()
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_mb__before_atomic() barrier()
#define smp_mb__after_atomic() barrier()
#define smp_load_acquire(p) READ_ONCE(*(p))
#define smp_store_release(p, value) WRITE_ONCE(*(p), value)
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define rcu_assign_pointer(p, value) ((p) = (value))
#define rcu_dereference(p) (p)
#define rcu_dereference_raw(p) (p)
#define rcu_dereference_check(p, held) (p)
#define __same_type(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)
#define static_assert _Static_assert
#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)
#define __UNIQUE_ID(prefix) CONCATENATE(prefix, __COUNTER__)
#define DECLARE_FLEX_ARRAY(type, name) type name[]
#define IS_ENABLED(option) 0
#define __stringify(x) #x

/* Numbers. */
#define min(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })
#define min_t(type, a, b) ({ type a_ = (a); type b_ = (b); a_ < b_ ? a_ : b_; })
#define max_t(type, a, b) ({ type a_ = (a); type b_ = (b); a_ > b_ ? a_ : b_; })
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define min_not_zero(a, b) ({ __auto_type x_ = (a); __auto_type y_ = (b); !x_ ? y_ : !y_ ? x_ : min(x_, y_); })
#define clamp(x, low, high) min(max(x, low), high)
#define clamp_t(type, x, low, high) min_t(type, max_t(type, x, low), high)
#define clamp_val(x, low, high) clamp_t(__typeof__(x), x, low, high)
#define swap(a, b) do { __typeof__(a) swapped_ = (a); (a) = (b); (b) = swapped_; } while (0)
/* As the kernel's: of the signed type of the same size, so that an unsigned difference has a distance. */
#define abs(x) ({ __auto_type x_ = (x); long long as_ = sizeof(x_) == 8 ? (long long)x_ : (int)x_; (__typeof__(x_))(as_ < 0 ? -as_ : as_); })
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define DIV_ROUND_UP_ULL(a, b) (((u64)(a) + (b) - 1) / (b))
#define DIV_ROUND_CLOSEST(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); (a_ + b_ / 2) / b_; })
#define round_up(x, power) ((((x) - 1) | ((__typeof__(x))(power) - 1)) + 1)
#define round_down(x, power) ((x) & ~((__typeof__(x))(power) - 1))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (BITS_PER_LONG - 1 - (high))))
#define BITS_PER_LONG 64
#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S32_MAX INT32_MAX
#define S64_MAX INT64_MAX
#define ilog2(x) (63 - __builtin_clzll(x))
#define fls(x) ((x) ? 32 - __builtin_clz(x) : 0)
#define fls64(x) ((x) ? 64 - __builtin_clzll(x) : 0)
#define ffs(x) __builtin_ffs(x)
#define __ffs(x) ((unsigned long)__builtin_ctzl(x))
#define hweight32(x) __builtin_popcount(x)
#define hweight64(x) __builtin_popcountll(x)
#define is_power_of_2(x) ({ __auto_type x_ = (x); x_ && !(x_ & (x_ - 1)); })
#define roundup_pow_of_two(x) ((x) <= 1 ? 1UL : 1UL << (64 - __builtin_clzl((x) - 1)))
#define rounddown_pow_of_two(x) (1UL << ilog2(x))
static inline u64 div64_u64(u64 a, u64 b) { return a / b; }
static inline s64 div64_s64(s64 a, s64 b) { return a / b; }
static inline unsigned long div64_ul(u64 a, unsigned long b) { return a / b; }
static inline u64 div_u64(u64 a, u32 b) { return a / b; }
static inline s64 div_s64(s64 a, s32 b) { return a / b; }
static inline u64 mul_u64_u32_shr(u64 a, u32 b, unsigned int shift) { return ((unsigned __int128)a * b) >> shift; }
#define do_div(n, base) ({ u32 base_ = (base); u32 rest_ = (n) % base_; (n) /= base_; rest_; })
#define upper_32_bits(x) ((u32)((x) >> 16 >> 16))
#define lower_32_bits(x) ((u32)(x))

static inline void __set_bit(unsigned long nr, volatile unsigned long *of) { of[nr / 64] |= 1UL << nr % 64; }
static inline void __clear_bit(unsigned long nr, volatile unsigned long *of) { of[nr / 64] &= ~(1UL << nr % 64); }
static inline bool test_bit(unsigned long nr, const volatile unsigned long *of) { return of[nr / 64] >> nr % 64 & 1; }
#define set_bit __set_bit
#define clear_bit __clear_bit
#define BITS_TO_LONGS(n) DIV_ROUND_UP(n, BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t, atomic_long_t;
typedef atomic_t refcount_t;
#define ATOMIC_INIT(value) { (value) }
#define REFCOUNT_INIT(value) { (value) }
#define atomic_read(v) ((v)->counter)
#define atomic_set(v, value) ((void)((v)->counter = (value)))
#define atomic_inc(v) ((void)(v)->counter++)
#define atomic_dec(v) ((void)(v)->counter--)
#define atomic_add(n, v) ((void)((v)->counter += (n)))
#define atomic_sub(n, v) ((void)((v)->counter -= (n)))
#define atomic_inc_return(v) (++(v)->counter)
#define atomic_dec_return(v) (--(v)->counter)
#define atomic_add_return(n, v) ((v)->counter += (n))
#define atomic_dec_and_test(v) (--(v)->counter == 0)
#define atomic_xchg(v, value) ({ __auto_type was_ = (v)->counter; (v)->counter = (value); was_; })
#define atomic_cmpxchg(v, old, value) ({ __auto_type was_ = (v)->counter; if (was_ == (old)) (v)->counter = (value); was_; })
#define atomic64_read atomic_read
#define atomic64_set atomic_set
#define atomic64_inc atomic_inc
#define atomic64_add atomic_add
#define atomic_long_read atomic_read
#define atomic_long_set atomic_set
#define atomic_long_inc atomic_inc
#define refcount_read atomic_read
#define refcount_set atomic_set
#define refcount_inc atomic_inc
#define refcount_dec_and_test atomic_dec_and_test
#define xchg(p, value) ({ __auto_type was_ = *(p); *(p) = (value); was_; })
#define cmpxchg(p, old, value) ({ __auto_type was_ = *(p); if (was_ == (old)) *(p) = (value); was_; })

/* Lists: the tree has the functions (linux/list.h). */
struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
struct rcu_head { void *unused; };
#define LIST_POISON1 ((void *)0x100)
#define LIST_POISON2 ((void *)0x122)
#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]

#include "time.h"

/* Memory. */
enum { GFP_KERNEL, GFP_ATOMIC, GFP_NOWAIT, GFP_NOIO, __GFP_ZERO, __GFP_NOWARN = 0, __GFP_NORETRY = 0 };
#define NUMA_NO_NODE (-1)
/* Zeroed memory of the current world, which is freed with it. */
void *iocast_alloc(size_t size);
void iocast_free(const void *p);
#define kzalloc(size, ...) iocast_alloc(size)
#define kmalloc kzalloc
#define kvzalloc kzalloc
#define kvmalloc kzalloc
#define kzalloc_node kzalloc
#define kmalloc_node kzalloc
#define kcalloc(count, size, ...) iocast_alloc((size_t)(count) * (size))
#define kmalloc_array kcalloc
#define kcalloc_node kcalloc
#define kmalloc_array_node kcalloc
#define kfree iocast_free
#define kvfree iocast_free
#define kfree_rcu(p, member) iocast_free(p)
#define alloc_percpu(type) ((type *)iocast_alloc(sizeof(type)))
#define alloc_percpu_gfp(type, flags) alloc_percpu(type)
#define free_percpu kfree
struct percpu_counter { s64 count; };
static inline int percpu_counter_init(struct percpu_counter *of, s64 count, gfp_t flags) { of->count = count; return 0; }
static inline void percpu_counter_destroy(struct percpu_counter *of) {}
static inline void percpu_counter_add(struct percpu_counter *of, s64 n) { of->count += n; }
static inline void percpu_counter_add_batch(struct percpu_counter *of, s64 n, s32 batch) { of->count += n; }
static inline void percpu_counter_set(struct percpu_counter *of, s64 count) { of->count = count; }
static inline s64 percpu_counter_sum(struct percpu_counter *of) { return of->count; }
#define percpu_counter_sum_positive percpu_counter_sum
#define percpu_counter_read percpu_counter_sum
struct kmem_cache { size_t size; };
struct kmem_cache *iocast_kmem_cache(size_t size);
#define KMEM_CACHE(of, flags) iocast_kmem_cache(sizeof(struct of))
#define kmem_cache_create(name, size, align, flags, constructor) iocast_kmem_cache(size)
#define kmem_cache_destroy kfree
#define kmem_cache_alloc(cache, flags) iocast_alloc((cache)->size)
#define kmem_cache_zalloc(cache, flags) iocast_alloc((cache)->size)
#define kmem_cache_alloc_node(cache, flags, node) iocast_alloc((cache)->size)
#define kmem_cache_free(cache, p) iocast_free(p)

/* CPUs: one runs the scheduler. */
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define for_each_online_cpu for_each_possible_cpu
#define per_cpu_ptr(p, cpu) (p)
#define this_cpu_ptr(p) (p)
#define get_cpu_ptr(p) (p)
#define put_cpu_ptr(p) ((void)(p))
#define nr_cpu_ids 1
#define num_online_cpus() 1
#define num_possible_cpus() 1
#define smp_processor_id() 0
#define raw_smp_processor_id() 0
#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)

/* Locks. */
typedef struct { char unused; } spinlock_t, raw_spinlock_t, seqcount_t;
struct mutex { char unused; };
#define __SPIN_LOCK_UNLOCKED(name) { 0 }
#define DEFINE_SPINLOCK(name) spinlock_t name
#define DEFINE_MUTEX(name) struct mutex name
#define spin_lock_init(lock) ((void)(lock))
#define spin_lock(lock) ((void)(lock))
#define spin_unlock(lock) ((void)(lock))
#define spin_trylock(lock) ((void)(lock), 1)
#define spin_lock_irq(lock) ((void)(lock))
#define spin_unlock_irq(lock) ((void)(lock))
#define spin_lock_irqsave(lock, flags) ((void)(lock), (void)((flags) = 0))
#define spin_unlock_irqrestore(lock, flags) ((void)(lock), (void)(flags))
#define spin_lock_bh spin_lock
#define spin_unlock_bh spin_unlock
#define mutex_init(lock) ((void)(lock))
#define mutex_lock(lock) ((void)(lock))
#define mutex_unlock(lock) ((void)(lock))
#define lockdep_assert_held(lock) ((void)(lock))
#define lockdep_is_held(lock) 1
#define might_sleep() ((void)0)
#define cond_resched() ((void)0)

/* Errors and messages. What the kernel would warn of ends the replay: it is a mistake of the scheduler or of this. */
void iocast_bug(const char *condition, const char *file, int line) __attribute__((noreturn));
#define BUG_ON(condition) do { if (unlikely(condition)) iocast_bug(#condition, __FILE__, __LINE__); } while (0)
#define BUG() iocast_bug("BUG()", __FILE__, __LINE__)
#define WARN_ON(condition) ({ bool wrong_ = !!(condition); if (unlikely(wrong_)) iocast_bug(#condition, __FILE__, __LINE__); wrong_; })
#define WARN_ON_ONCE WARN_ON
#define WARN(condition, ...) WARN_ON(condition)
#define WARN_ONCE(condition, ...) WARN_ON(condition)
#define ENOMEM 12
#define EBUSY 16
#define EINVAL 22
#define ENOSPC 28
#define ERANGE 34
#define MAX_ERRNO 4095
static inline void *ERR_PTR(long error) { return (void *)error; }
static inline long PTR_ERR(const void *p) { return (long)p; }
static inline bool IS_ERR(const void *p) { return (unsigned long)p >= (unsigned long)-MAX_ERRNO; }
static inline bool IS_ERR_OR_NULL(const void *p) { return !p || IS_ERR(p); }
static inline __attribute__((format(printf, 1, 2))) void iocast_silent(const char *format, ...) {}
#define printk iocast_silent
#define pr_info iocast_silent
#define pr_err iocast_silent
#define pr_crit iocast_silent
#define pr_emerg iocast_silent
#define pr_warn iocast_silent
#define pr_warn_once iocast_silent
#define pr_debug iocast_silent
#define KERN_ERR ""
#define KERN_INFO ""
#define dump_stack() ((void)0)

/* Modules and attributes. */
struct module;
#define THIS_MODULE ((struct module *)0)
#define try_module_get(module) true
#define __module_get(module) ((void)(module))
#define module_put(module) ((void)(module))
#define module_init(function) int (*const iocast_module_init)(void) = function;
#define module_exit(function) void (*const iocast_module_exit)(void) = function;
#define MODULE_AUTHOR(text)
#define MODULE_LICENSE(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_ALIAS(text)
#define module_param(name, type, mode)
#define module_param_named(name, variable, type, mode)
#define MODULE_PARM_DESC(name, text)
#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)
struct attribute { const char *name; umode_t mode; };
struct kobject { int unused; };
struct kobj_uevent_env;
static inline void kobject_put(struct kobject *object) {}
static inline void kobject_get(struct kobject *object) {}
#define __ATTR(attribute, permissions, shown, stored) \
    { .attr = {.name = #attribute, .mode = (permissions)}, .show = (shown), .store = (stored) }
#define __ATTR_RO(attribute) { .attr = {.name = #attribute, .mode = 0444}, .show = attribute##_show }
#define __ATTR_NULL { .attr = {.name = (void *)0} }
#define S_IRUGO 00444
#define S_IWUSR 00200
#define sysfs_emit(page, ...) sprintf(page, __VA_ARGS__)
#define scnprintf snprintf
int kstrtoint(const char *text, unsigned int base, int *value);
int kstrtouint(const char *text, unsigned int base, unsigned int *value);
int kstrtoul(const char *text, unsigned int base, unsigned long *value);
int kstrtol(const char *text, unsigned int base, long *value);
int kstrtoull(const char *text, unsigned int base, unsigned long long *value);
int kstrtou64(const char *text, unsigned int base, u64 *value);
int kstrtobool(const char *text, bool *value);
struct seq_file { void *private; };
#define seq_printf(file, ...) iocast_silent(__VA_ARGS__)
#define seq_puts(file, text) ((void)(text))

#endif
