/* The plugin: nbdkit's callbacks. Requests come in parallel, wait for the arm in their order, then touch the store. */

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "spindle.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
struct settings settings = {.follow_us = 1000, .cache_bytes = 32 << 20};
struct counters counters;
bool failed;

static const char *path;
static int64_t asked_size;

static void spindle_load(void)
{
    /* Threads inherit it: a wait may end 50 us late otherwise. */
    prctl(PR_SET_TIMERSLACK, 1);
}

static int read_size(const char *value)
{
    asked_size = nbdkit_parse_size(value);
    if (asked_size > 0)
        return 0;
    nbdkit_error("size=%s; expected a number of bytes, more than 0: size=1G", value);
    return -1;
}

static int spindle_config(const char *key, const char *value)
{
    char error[LINE_BYTES];
    if (strcmp(key, "file") == 0) {
        path = value;
        return 0;
    }
    if (strcmp(key, "size") == 0)
        return read_size(value);
    if (settings_set(&settings, key, value, error, sizeof error) == 0)
        return 0;
    nbdkit_error("%s", error);
    return -1;
}

static int spindle_config_complete(void)
{
    if (path)
        return 0;
    nbdkit_error("no image is named; expected file=/disk/image");
    return -1;
}

static int spindle_get_ready(void)
{
    char error[LINE_BYTES];
    if (store_open(path, asked_size, error, sizeof error) < 0) {
        nbdkit_error("%s", error);
        return -1;
    }
    if (control_listen() < 0) {
        nbdkit_error(CONTROL_SOCKET " cannot be made: %m; expected a folder that this user may write to");
        return -1;
    }
    return 0;
}

static int spindle_after_fork(void)
{
    return control_start();
}

/* An orderly end, as a machine that is switched off gives its disks: the cache reaches the file. */
static void spindle_unload(void)
{
    pthread_mutex_lock(&disk_lock);
    if (store_flush() < 0)
        nbdkit_error("%lld bytes of the cache were not written back: %m", (long long)store_dirty_bytes());
    pthread_mutex_unlock(&disk_lock);
}

static void *spindle_open(int readonly)
{
    (void)readonly;
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t spindle_get_size(void *handle)
{
    (void)handle;
    return store_size();
}

/* All connections see one cache, and a flush on one flushes what was written on the others. */
static int spindle_can_multi_conn(void *handle)
{
    (void)handle;
    return 1;
}

static int spindle_can_fua(void *handle)
{
    (void)handle;
    return NBDKIT_FUA_NATIVE;
}

/* Wait for the arm. Returns with the lock held, to be finished; -1 if the disk has failed before or meanwhile. */
static int begin(enum kind kind, uint32_t bytes)
{
    pthread_mutex_lock(&disk_lock);
    int64_t done = arm_take(kind, bytes);
    pthread_mutex_unlock(&disk_lock);
    arm_wait(done);
    pthread_mutex_lock(&disk_lock);
    errno = EIO;
    return failed ? -1 : 0;
}

/* Unlocks. A request that failed is counted, and answered with errno. */
static int finish(int result)
{
    if (result < 0) {
        nbdkit_set_error(errno);
        counters.errors++;
    }
    arm_answer();
    pthread_mutex_unlock(&disk_lock);
    return result;
}

static int spindle_pread(void *handle, void *to, uint32_t count, uint64_t offset, uint32_t flags)
{
    (void)handle, (void)flags;
    if (begin(READ, count) < 0 || store_read(to, count, offset) < 0)
        return finish(-1);
    counters.reads++;
    counters.read_bytes += count;
    return finish(0);
}

static int spindle_pwrite(void *handle, const void *from, uint32_t count, uint64_t offset, uint32_t flags)
{
    bool through = flags & NBDKIT_FLAG_FUA;
    (void)handle;
    if (begin(through ? WRITE_THROUGH : WRITE, count) < 0 || store_write(from, count, offset, through) < 0)
        return finish(-1);
    counters.writes++;
    counters.written_bytes += count;
    return finish(0);
}

static int spindle_flush(void *handle, uint32_t flags)
{
    (void)handle, (void)flags;
    if (begin(FLUSH, 0) < 0 || store_flush() < 0)
        return finish(-1);
    counters.flushes++;
    return finish(0);
}

static struct nbdkit_plugin plugin = {
    .name = "spindle",
    .longname = "an emulated disk with set costs",
    .description = "Serves a file as one disk: one arm for all connections, costs of reads, writes and flushes,\n"
                   "a volatile write cache, changes and faults through a control socket.",
    .config_help = "file=PATH  the image; made, sparse, where there is none\n"
                   "size=SIZE  its size: 512M, 1G\n"
                   "read_us, write_us, flush_us, bandwidth, follow_us, write_cache, cache_bytes\n",
    .load = spindle_load,
    .config = spindle_config,
    .config_complete = spindle_config_complete,
    .get_ready = spindle_get_ready,
    .after_fork = spindle_after_fork,
    .unload = spindle_unload,
    .open = spindle_open,
    .get_size = spindle_get_size,
    .can_multi_conn = spindle_can_multi_conn,
    .can_fua = spindle_can_fua,
    .pread = spindle_pread,
    .pwrite = spindle_pwrite,
    .flush = spindle_flush,
    .errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
