/* The settings by name, for the command line and the control socket alike. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spindle.h"

struct entry {
    const char *name, *unit;
    size_t offset;
    int64_t least, most;
};

#define LONGEST_US 10000000
#define SWITCH "on or off"
#define ENTRY(name, unit, least, most) {#name, unit, offsetof(struct settings, name), least, most}

static const struct entry entries[] = {
    ENTRY(read_us, "microseconds", 0, LONGEST_US),
    ENTRY(write_us, "microseconds", 0, LONGEST_US),
    ENTRY(flush_us, "microseconds", 0, LONGEST_US),
    ENTRY(bandwidth, "bytes a second, 0 for no limit,", 0, INT64_MAX / 2),
    ENTRY(follow_us, "microseconds", 0, LONGEST_US),
    ENTRY(write_cache, SWITCH, 0, 1),
    ENTRY(cache_bytes, "bytes", 4096, INT64_C(1) << 30),
};
#define ENTRIES (sizeof entries / sizeof entries[0])

const char *settings_names(void)
{
    static char names[LINE_BYTES];
    if (!names[0])
        for (size_t i = 0; i < ENTRIES; i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", entries[i].name);
    return names;
}

static const struct entry *find(const char *name)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

static int64_t *field(const struct settings *of, const struct entry *entry)
{
    return (int64_t *)((char *)of + entry->offset);
}

static bool is_switch(const struct entry *entry)
{
    return strcmp(entry->unit, SWITCH) == 0;
}

static bool read_switch(const char *value, int64_t *number)
{
    *number = strcmp(value, "on") == 0;
    return *number || strcmp(value, "off") == 0;
}

static bool read_number(const char *value, const struct entry *entry, int64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoll(value, &end, 10);
    return !errno && end != value && !*end && *number >= entry->least && *number <= entry->most;
}

int settings_set(struct settings *into, const char *name, const char *value, char *error, size_t room)
{
    const struct entry *entry = find(name);
    int64_t number;
    if (!entry) {
        snprintf(error, room, "unknown setting %s; expected one of %s", name, settings_names());
        return -1;
    }
    if (is_switch(entry) ? !read_switch(value, &number) : !read_number(value, entry, &number)) {
        if (is_switch(entry))
            snprintf(error, room, "%s=%s; expected " SWITCH, name, value);
        else
            snprintf(error, room, "%s=%s; expected a whole number of %s from %" PRId64 " to %" PRId64, name, value,
                     entry->unit, entry->least, entry->most);
        return -1;
    }
    *field(into, entry) = number;
    return 0;
}

void settings_print(const struct settings *from, char *line, size_t room)
{
    *line = 0;
    for (size_t i = 0; i < ENTRIES; i++) {
        size_t used = strlen(line);
        int64_t number = *field(from, &entries[i]);
        const char *blank = i ? " " : "";
        if (is_switch(&entries[i]))
            snprintf(line + used, room - used, "%s%s=%s", blank, entries[i].name, number ? "on" : "off");
        else
            snprintf(line + used, room - used, "%s%s=%" PRId64, blank, entries[i].name, number);
    }
}
