/* Every read and write moves half of the data that it is asked for, but at least a byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>

static size_t half(size_t count) { return count - count / 2; }

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

ssize_t read(int file, void *data, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = NEXT(ssize_t (*)(int, void *, size_t), "read");
    return next(file, data, half(count));
}

ssize_t write(int file, const void *data, size_t count) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = NEXT(ssize_t (*)(int, const void *, size_t), "write");
    /* A counter of the kernel takes eight bytes or none. */
    return next(file, data, count == 8 ? count : half(count));
}

ssize_t pread64(int file, void *data, size_t count, off_t at) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next) next = NEXT(ssize_t (*)(int, void *, size_t, off_t), "pread64");
    return next(file, data, half(count), at);
}

ssize_t pwrite64(int file, const void *data, size_t count, off_t at) {
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next) next = NEXT(ssize_t (*)(int, const void *, size_t, off_t), "pwrite64");
    return next(file, data, half(count), at);
}
