/*
 * The description of an elevator as a scheduler of iocast: its tunables are the elevator's attributes in sysfs.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <iocast/machine.h>

extern int (*const iocast_module_init)(void);

#define TUNABLES_MAX 64
static const struct device_properties NORMAL = {false, 1};

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
    struct machine *machine = iocast_machine_create(device);
    for (u32 tunable = properties_count; machine && tunable < tunables_count; tunable++) {
        char page[32];
        int length = snprintf(page, sizeof(page), "%llu\n", (unsigned long long)values[tunable]);
        if (values[tunable] == tunables[tunable].normal)
            continue;
        if (attributes[tunable]->store(machine->queue.elevator, page, length) < 0) {
            iocast_machine_destroy(machine);
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
    .destroy = iocast_machine_destroy,
};

__attribute__((visibility("default"))) const struct iocast_scheduler *iocast_scheduler(void) {
    struct machine *machine;
    if (!iocast_elevator() && iocast_module_init())
        return NULL;
    if (!iocast_elevator() || !(machine = iocast_machine_create(NORMAL)))
        return NULL;
    if (!tunables_count)
        find_tunables(machine);
    iocast_describe_calls(&description);
    description.tunables_count = tunables_count;
    description.no_joins = !iocast_elevator()->ops.next_request;
    iocast_machine_destroy(machine);
    return &description;
}
