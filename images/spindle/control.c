/* The control socket: one line asked, one line answered, "ok …" or "error …", a connection each. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "spindle.h"

#define PATIENCE_S 1

static int listening = -1;

static void say_settings(char *answer, size_t room)
{
    size_t used = snprintf(answer, room, "ok ");
    settings_print(&settings, answer + used, room - used);
}

/* All or nothing: a mistake in the last setting leaves the first as it was. */
static void change_settings(char *words, char *answer, size_t room)
{
    struct settings asked = settings;
    char *rest = words, error[LINE_BYTES / 2];
    for (char *name; (name = strtok_r(rest, " ", &rest));) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = 0;
        if (settings_set(&asked, name, value ? value : "", error, sizeof error) < 0) {
            snprintf(answer, room, "error %s", error);
            return;
        }
    }
    settings = asked;
    if (store_shrink_cache() < 0)
        snprintf(answer, room, "error the cache could not be written back: %s", strerror(errno));
    else
        say_settings(answer, room);
}

static void say_stats(char *answer, size_t room)
{
    snprintf(answer, room,
             "ok reads=%" PRId64 " writes=%" PRId64 " flushes=%" PRId64 " errors=%" PRId64 " read_bytes=%" PRId64
             " written_bytes=%" PRId64 " dirty_bytes=%" PRId64 " busy_us=%" PRId64 " clock_us=%" PRId64 " failed=%d",
             counters.reads, counters.writes, counters.flushes, counters.errors, counters.read_bytes,
             counters.written_bytes, store_dirty_bytes(), counters.busy_ns / 1000, arm_now() / 1000, failed);
}

static void corrupt(const char *where, char *answer, size_t room)
{
    char *end;
    errno = 0;
    int64_t offset = strtoll(where, &end, 10);
    if (errno || end == where || *end || offset < 0 || offset >= store_size())
        snprintf(answer, room, "error corrupt %s; expected an offset from 0 to %" PRId64, where, store_size() - 1);
    else if (store_corrupt(offset) < 0)
        snprintf(answer, room, "error the sector could not be changed: %s", strerror(errno));
    else
        snprintf(answer, room, "ok");
}

/* The process ends here, lock in hand: nothing more reaches the file, nobody is answered, the cache is gone. */
static void cut_power(int connection)
{
    dprintf(connection, "ok lost_bytes=%" PRId64 "\n", store_dirty_bytes());
    fprintf(stderr, "spindle: power cut, %" PRId64 " bytes of unflushed blocks lost\n", store_dirty_bytes());
    _exit(0);
}

/* Who asked, if the line begins with it: by=NAME. What is left is the command. */
static const char *take_sender(char **line)
{
    if (strncmp(*line, "by=", 3) != 0)
        return "another program";
    const char *sender = *line + 3;
    strsep(line, " ");
    if (!*line)
        *line = "";
    return sender;
}

/* The log of a container only grows: after a measurement it shows which changes were requested, and by whom. */
static void log_change(const char *sender, const char *command)
{
    if (strcmp(command, "settings") != 0 && strcmp(command, "stats") != 0)
        fprintf(stderr, "spindle: %s asked for %s\n", sender, command);
}

static void carry_out(char *line, int connection, char *answer, size_t room)
{
    const char *sender = take_sender(&line);
    log_change(sender, line);
    char *words = line, *command = strtok_r(line, " ", &words);
    snprintf(answer, room, "ok");
    if (!command)
        snprintf(answer, room, "error nothing asked; expected settings, set, stats, fail, heal, corrupt or power-cut");
    else if (strcmp(command, "settings") == 0)
        say_settings(answer, room);
    else if (strcmp(command, "set") == 0)
        change_settings(words, answer, room);
    else if (strcmp(command, "stats") == 0)
        say_stats(answer, room);
    else if (strcmp(command, "fail") == 0)
        failed = true;
    else if (strcmp(command, "heal") == 0)
        failed = false;
    else if (strcmp(command, "corrupt") == 0)
        corrupt(words, answer, room);
    else if (strcmp(command, "power-cut") == 0)
        cut_power(connection);
    else
        snprintf(answer, room, "error unknown command %s; expected settings, set, stats, fail, heal, corrupt or power-cut",
                 command);
}

/* A whole line without its end, or nothing if the client hangs up, says too much or takes too long. */
static bool read_line(int connection, char *line, size_t room)
{
    size_t used = 0;
    while (used < room) {
        ssize_t got = read(connection, line + used, room - used);
        if (got <= 0)
            return false;
        used += got;
        char *end = memchr(line, '\n', used);
        if (end) {
            *end = 0;
            return true;
        }
    }
    return false;
}

static void answer_one(int connection)
{
    char line[LINE_BYTES], answer[LINE_BYTES];
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!read_line(connection, line, sizeof line))
        return;
    pthread_mutex_lock(&disk_lock);
    carry_out(line, connection, answer, sizeof answer);
    pthread_mutex_unlock(&disk_lock);
    dprintf(connection, "%s\n", answer);
}

static void *answer_all(void *unused)
{
    (void)unused;
    for (;;) {
        int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        answer_one(connection);
        close(connection);
    }
    return NULL;
}

int control_listen(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = CONTROL_SOCKET};
    /* A container that starts again finds the socket of its earlier life. */
    unlink(CONTROL_SOCKET);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return listen(listening, 16);
}

int control_start(void)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, answer_all, NULL);
    return errno ? -1 : pthread_detach(thread);
}
