/* Where the bytes are: the file, and before it the volatile cache, which holds what was written but not flushed. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spindle.h"

#define BLOCK 4096
#define SECTOR 512

/* A block of the disk with unflushed bytes; the rest of it is as in the file. */
struct block {
    struct block *next;
    uint64_t number;
    uint8_t bytes[BLOCK];
};

static int file = -1;
static int64_t size;
/* By number; NULL for a block that is in the file alone. The list has the oldest first. */
static struct block **cached;
static struct block *oldest, **newest = &oldest;
static int64_t cached_blocks;

static int refuse(char *error, size_t room, const char *path, int64_t found, const char *expected)
{
    snprintf(error, room, "%s has %lld bytes; expected %s", path, (long long)found, expected);
    return -1;
}

/* Open the image, or make it, sparse. An asked size of 0 takes the image as it is. */
int store_open(const char *path, int64_t asked_size, char *error, size_t room)
{
    struct stat found;
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || fstat(file, &found) < 0) {
        snprintf(error, room, "%s cannot be opened: %s; expected a file that may be written", path, strerror(errno));
        return -1;
    }
    size = found.st_size ? found.st_size : asked_size;
    if (asked_size && asked_size != size)
        return refuse(error, room, path, size, "as many as size= says, or no image there yet");
    if (size <= 0 || size % BLOCK)
        return refuse(error, room, path, size, "a multiple of 4096, more than 0: size=1G");
    cached = calloc(size / BLOCK, sizeof *cached);
    if (!cached || ftruncate(file, size) < 0) {
        snprintf(error, room, "%s cannot be made %lld bytes long: %s", path, (long long)size, strerror(errno));
        return -1;
    }
    return 0;
}

int64_t store_size(void)
{
    return size;
}

int64_t store_dirty_bytes(void)
{
    return cached_blocks * BLOCK;
}

static int read_file(void *to, size_t count, uint64_t offset)
{
    while (count) {
        ssize_t got = pread(file, to, count, offset);
        if (got <= 0) {
            errno = got ? errno : EIO;
            return -1;
        }
        to = (uint8_t *)to + got, offset += got, count -= got;
    }
    return 0;
}

static int write_file(const void *from, size_t count, uint64_t offset)
{
    while (count) {
        ssize_t put = pwrite(file, from, count, offset);
        if (put < 0)
            return -1;
        from = (const uint8_t *)from + put, offset += put, count -= put;
    }
    return 0;
}

/* One block's part of a range. */
struct part {
    uint64_t number;
    size_t within, at, count; /* offset in the block, offset in the range's buffer, bytes */
};

static bool next_part(struct part *part, uint32_t count, uint64_t offset)
{
    part->at += part->count;
    if (part->at >= count)
        return false;
    part->number = (offset + part->at) / BLOCK;
    part->within = (offset + part->at) % BLOCK;
    part->count = BLOCK - part->within;
    if (part->count > count - part->at)
        part->count = count - part->at;
    return true;
}

static int write_back_oldest(void)
{
    struct block *block = oldest;
    if (write_file(block->bytes, BLOCK, block->number * BLOCK) < 0)
        return -1;
    oldest = block->next;
    if (!oldest)
        newest = &oldest;
    cached[block->number] = NULL;
    cached_blocks--;
    free(block);
    return 0;
}

static int write_back_until(int64_t blocks)
{
    while (cached_blocks > blocks)
        if (write_back_oldest() < 0)
            return -1;
    return 0;
}

static struct block *take_in(uint64_t number)
{
    if (write_back_until(settings.cache_bytes / BLOCK - 1) < 0)
        return NULL;
    struct block *block = malloc(sizeof *block);
    if (!block || read_file(block->bytes, BLOCK, number * BLOCK) < 0) {
        free(block);
        return NULL;
    }
    block->next = NULL;
    block->number = number;
    *newest = block;
    newest = &block->next;
    cached[number] = block;
    cached_blocks++;
    return block;
}

int store_read(void *to, uint32_t count, uint64_t offset)
{
    struct part part = {0};
    if (read_file(to, count, offset) < 0)
        return -1;
    while (next_part(&part, count, offset))
        if (cached[part.number])
            memcpy((uint8_t *)to + part.at, cached[part.number]->bytes + part.within, part.count);
    return 0;
}

int store_write(const void *from, uint32_t count, uint64_t offset, bool through)
{
    struct part part = {0};
    bool to_file = through || !settings.write_cache;
    if (to_file && write_file(from, count, offset) < 0)
        return -1;
    while (next_part(&part, count, offset)) {
        struct block *block = cached[part.number];
        if (!block && to_file)
            continue;
        if (!block && !(block = take_in(part.number)))
            return -1;
        memcpy(block->bytes + part.within, (const uint8_t *)from + part.at, part.count);
    }
    return 0;
}

/* To the host's page cache: a power cut is that of the emulated disk, and the host's own disk must not be measured. */
int store_flush(void)
{
    return write_back_until(0);
}

/* After a change of settings: what no longer fits in the cache is written back. */
int store_shrink_cache(void)
{
    return write_back_until(settings.write_cache ? settings.cache_bytes / BLOCK : 0);
}

/* Invert every bit of the sector around an offset, in the file and in the cache. */
int store_corrupt(uint64_t offset)
{
    uint8_t sector[SECTOR];
    offset -= offset % SECTOR;
    if (offset >= (uint64_t)size) {
        errno = ENXIO;
        return -1;
    }
    if (store_read(sector, SECTOR, offset) < 0)
        return -1;
    for (size_t i = 0; i < SECTOR; i++)
        sector[i] = ~sector[i];
    return store_write(sector, SECTOR, offset, true);
}
