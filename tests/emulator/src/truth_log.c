#include "gpud.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_RECORDS = 1024 };

static struct truth_record buffer[BUFFER_RECORDS];
static size_t buffered;
static int file;

void truth_open(const char *path)
{
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        fail(path, strerror(errno));
}

void truth_flush(void)
{
    const char *at = (const char *)buffer;
    size_t left = buffered * sizeof buffer[0];
    while (left) {
        ssize_t written = write(file, at, left);
        if (written < 0 && errno != EINTR)
            fail("cannot write the truth", strerror(errno));
        if (written > 0) {
            at += written;
            left -= (size_t)written;
        }
    }
    buffered = 0;
}

void truth_add(uint32_t device, int32_t pid, uint64_t serial, uint32_t event, uint64_t at_ns,
                      const struct integrals *total, uint64_t memory_bytes)
{
    if (buffered == BUFFER_RECORDS)
        truth_flush();
    buffer[buffered++] = (struct truth_record){at_ns,        at_ns + boot_minus_monotonic_ns,
                                               serial,       total->busy_ns,
                                               total->sm_ns, memory_bytes,
                                               device,       pid,
                                               event,        0};
}

