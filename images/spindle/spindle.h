/* One emulated disk: an arm that serves one request at a time, a file, and a volatile cache in front of the file. */

#ifndef SPINDLE_H
#define SPINDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_SOCKET "/run/spindle/control"
#define LINE_BYTES 1024

/* What may be changed while the disk is in use. Costs are in microseconds a request, sizes in bytes. */
struct settings {
    int64_t read_us, write_us, flush_us;
    int64_t bandwidth; /* bytes a second; 0: unlimited */
    int64_t follow_us; /* a request that comes this soon after an answer counts as having waited */
    int64_t write_cache; /* 0 or 1 */
    int64_t cache_bytes;
};

struct counters {
    int64_t reads, writes, flushes, errors, read_bytes, written_bytes, busy_ns;
};

enum kind { READ, WRITE, WRITE_THROUGH, FLUSH };

/* The state of the one disk of this process. Whoever touches it holds the lock, and never waits for the arm with it. */
extern pthread_mutex_t disk_lock;
extern struct settings settings;
extern struct counters counters;
extern bool failed;

/* settings.c: 0, or -1 with the reason as a sentence in `error`. */
int settings_set(struct settings *into, const char *name, const char *value, char *error, size_t room);
void settings_print(const struct settings *from, char *line, size_t room);
const char *settings_names(void);

/* arm.c: take the arm for one request; wait, without the lock, until it is done; answer. Times are nanoseconds. */
int64_t arm_take(enum kind kind, uint32_t bytes);
void arm_wait(int64_t done);
void arm_answer(void);
int64_t arm_now(void);

/* store.c: 0, or -1 with errno. */
int store_open(const char *path, int64_t asked_size, char *error, size_t room);
int64_t store_size(void);
int store_read(void *to, uint32_t count, uint64_t offset);
int store_write(const void *from, uint32_t count, uint64_t offset, bool through);
int store_flush(void);
int store_corrupt(uint64_t offset);
int store_shrink_cache(void);
int64_t store_dirty_bytes(void);

/* control.c: listen on the socket; then answer there in a thread of its own. 0, or -1 with errno. */
int control_listen(void);
int control_start(void);

#endif
