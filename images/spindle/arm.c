/* The arm, on a time of its own: each request is given the moment at which it will be done, one after another. */

#include <errno.h>
#include <time.h>

#include "spindle.h"

#define NS_PER_US 1000LL
#define NS_PER_S 1000000000LL

/* How late the machine may have been for the arm to catch up with its own time. */
#define MADE_UP_NS (100 * 1000 * NS_PER_US)

static int64_t free_at, answered_at;
static int in_hand;
/* nbdkit serves a request, from its start to its answer, in one thread. */
static _Thread_local int64_t lasts_ns;

int64_t arm_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A rate of requests and a rate of bytes, whichever takes longer: what QEMU's and the kernel's limits mean as well. */
static int64_t transfer(int64_t request_us, uint32_t bytes)
{
    int64_t bytes_ns = settings.bandwidth ? bytes * NS_PER_S / settings.bandwidth : 0;
    return larger(request_us * NS_PER_US, bytes_ns);
}

static int64_t cost(enum kind kind, uint32_t bytes)
{
    switch (kind) {
    case READ:
        return transfer(settings.read_us, bytes);
    case WRITE:
        return transfer(settings.write_us, bytes);
    case WRITE_THROUGH:
        return transfer(settings.write_us, bytes) + settings.flush_us * NS_PER_US;
    case FLUSH:
        return settings.flush_us * NS_PER_US;
    }
    return 0;
}

/*
 * A client that waits for each answer comes back a little after it: network and scheduler are the emulation's, not the
 * disk's. Its request is served as if it had been waiting. Never by more than its own cost: an idle disk takes its time.
 */
static bool follows(int64_t now, int64_t lasts)
{
    return in_hand || now - answered_at <= smaller(settings.follow_us * NS_PER_US, lasts);
}

int64_t arm_take(enum kind kind, uint32_t bytes)
{
    int64_t now = arm_now();
    lasts_ns = failed ? 0 : cost(kind, bytes);
    /* A wait that ended late is made up for by the next ones, so that errors do not add up. */
    free_at = (follows(now, lasts_ns) ? larger(free_at, now - MADE_UP_NS) : now) + lasts_ns;
    in_hand++;
    return free_at;
}

void arm_answer(void)
{
    in_hand--;
    /* With the answer, when the request is counted as well: two readings of the counters never disagree about it. */
    counters.busy_ns += lasts_ns;
    answered_at = arm_now();
}

void arm_wait(int64_t done)
{
    struct timespec moment = {.tv_sec = done / NS_PER_S, .tv_nsec = done % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR)
        ;
}
