/* gpud: keeps the model. It takes NVML's samples, reaps processes that died and writes the truth.
 *
 *   gpud --shm FILE --truth FILE [--stop-on-eof] --device "uuid=HEX;name=...;sms=132;..." [--device ...]
 *
 * It prints "ready" when the model can be opened, and ends on SIGTERM, SIGINT or (asked for) end of stdin.
 * A line "xid INDEX CODE" on stdin is an error of that device. */
#include "gpud.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 10000000ull           /* resolution of the truth, and longest life of a dead process */
#define SAMPLE_PERIOD_NS 166666667ull /* NVML's utilisation counters refresh six times a second */
#define SUSPENDED_NS 1000000ull       /* the clocks part only in a suspend; less is the time between two readings */

enum { MAX_POLLED = MAX_DEVICES * MAX_CLIENTS + 1 };

struct follower { /* what gpud knows of one client slot */
    uint64_t serial;
    int pidfd;
    uint64_t tick_ns;
    struct integrals tick; /* as of the last tick */
    uint64_t tick_memory_bytes;
    bool tick_written;
};

static struct model *model;
static struct follower followers[MAX_DEVICES][MAX_CLIENTS];
uint64_t boot_minus_monotonic_ns;
static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void fail(const char *what, const char *detail)
{
    fprintf(stderr, "gpud: %s: %s\n", what, detail);
    exit(2);
}

static void follow(uint32_t d, struct client *client, struct follower *follower)
{
    static const struct integrals nothing;
    *follower = (struct follower){.serial = client->serial, .pidfd = -1, .tick_ns = client->opened_ns};
    follower->tick_memory_bytes = client->memory_bytes;
    follower->tick_written = true;
    truth_add(d, client->pid, client->serial, TRUTH_OPENED, client->opened_ns, &nothing, client->memory_bytes);
    if (client->state == CLIENT_OPEN)
        follower->pidfd = (int)syscall(SYS_pidfd_open, client->pid, 0);
    if (client->state == CLIENT_OPEN && follower->pidfd < 0 && errno != ESRCH)
        fail("cannot watch a process", strerror(errno));
}

/* Unchanged values are left out; the last unchanged one is added when a change follows, so that a straight
 * line between records is right. */
static void record_tick(uint32_t d, struct device *device, struct client *client, struct follower *follower)
{
    bool changed = client->total.busy_ns != follower->tick.busy_ns ||
                   client->memory_bytes != follower->tick_memory_bytes;
    if (changed && !follower->tick_written)
        truth_add(d, client->pid, client->serial, TRUTH_TICK, follower->tick_ns, &follower->tick,
                  follower->tick_memory_bytes);
    if (changed)
        truth_add(d, client->pid, client->serial, TRUTH_TICK, device->now_ns, &client->total,
                  client->memory_bytes);
    follower->tick_written = changed;
    follower->tick = client->total;
    follower->tick_memory_bytes = client->memory_bytes;
    follower->tick_ns = device->now_ns;
}

static bool has_died(const struct follower *follower)
{
    if (follower->pidfd < 0)
        return true; /* it was gone before it could be opened */
    struct pollfd poll_one = {follower->pidfd, POLLIN, 0};
    return poll(&poll_one, 1, 0) == 1;
}

static void visit_client(uint32_t d, struct device *device, uint32_t i)
{
    struct client *client = &device->clients[i];
    struct follower *follower = &followers[d][i];
    if (client->state == CLIENT_FREE)
        return;
    if (follower->serial != client->serial)
        follow(d, client, follower);
    if (client->state == CLIENT_OPEN && has_died(follower))
        client_close(device, client, device->now_ns);
    if (client->state == CLIENT_OPEN) {
        record_tick(d, device, client, follower);
        return;
    }
    if (!follower->tick_written)
        truth_add(d, client->pid, client->serial, TRUTH_TICK, follower->tick_ns, &follower->tick,
                  follower->tick_memory_bytes);
    truth_add(d, client->pid, client->serial, TRUTH_CLOSED, client->closed_ns, &client->total, 0);
    if (follower->pidfd >= 0)
        close(follower->pidfd);
    *follower = (struct follower){.pidfd = -1};
    client->state = CLIENT_FREE;
}

static uint32_t percent(uint64_t part_ns, uint64_t whole_ns)
{
    uint64_t value = (part_ns * 100 + whole_ns / 2) / whole_ns;
    return value > 100 ? 100 : (uint32_t)value;
}

static void take_sample(struct device *device, uint64_t realtime_us)
{
    uint64_t span_ns = device->now_ns - device->sampled_at_ns;
    for (uint32_t i = 0; i < device->clients_used; i++) {
        struct client *client = &device->clients[i];
        if (client->state != CLIENT_OPEN)
            continue;
        client->sm_util_percent = percent(client->total.busy_ns - client->sampled_busy_ns, span_ns);
        client->memory_util_percent = percent(client->total.dram_ns - client->sampled_dram_ns, span_ns);
        client->sampled_busy_ns = client->total.busy_ns;
        client->sampled_dram_ns = client->total.dram_ns;
        client->sample_realtime_us = realtime_us;
    }
    device->gpu_util_percent = percent(device->total.busy_ns - device->sampled.busy_ns, span_ns);
    device->memory_util_percent = percent(device->total.dram_ns - device->sampled.dram_ns, span_ns);
    device->power_mw = device_power_mw(device, device->total.sm_ns - device->sampled.sm_ns, span_ns);
    device->sampled = device->total;
    device->sampled_at_ns = device->now_ns;
}

static void tick(void)
{
    uint64_t difference_ns = clock_read_ns(CLOCK_BOOTTIME) - monotonic_ns();
    if (difference_ns - boot_minus_monotonic_ns > SUSPENDED_NS)
        boot_minus_monotonic_ns = difference_ns;
    for (uint32_t d = 0; d < model->device_count; d++) {
        struct device *device = &model->devices[d];
        device_lock(device);
        for (uint32_t i = 0; i < device->clients_used; i++)
            visit_client(d, device, i);
        if (device->now_ns - device->sampled_at_ns >= SAMPLE_PERIOD_NS)
            take_sample(device, clock_read_ns(CLOCK_REALTIME) / 1000);
        truth_add(d, 0, 0, TRUTH_TICK, device->now_ns, &device->total, device->memory_used_bytes);
        device_unlock(device);
    }
    truth_flush();
    __atomic_store_n(&model->heartbeat_ns, monotonic_ns(), __ATOMIC_RELEASE);
}

static void obey(const char *line)
{
    unsigned index, code;
    if (sscanf(line, "xid %u %u", &index, &code) != 2 || index >= model->device_count)
        fail("not a command", line);
    struct device *device = &model->devices[index];
    device_lock(device);
    device->xid = code;
    device->xid_count++;
    device_unlock(device);
}

/* A line is written at once by the emulator's owner, but several may be there by the time they are read. */
static void obey_lines(void)
{
    static char text[4096]; /* begins with the part of a line that was read before */
    static size_t filled;
    ssize_t length = read(STDIN_FILENO, text + filled, sizeof text - 1 - filled);
    if (length <= 0) {
        stopping = 1;
        return;
    }
    filled += (size_t)length;
    text[filled] = 0;
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        obey(line);
    }
    filled -= (size_t)(line - text);
    memmove(text, line, filled);
}

/* Sleeps until the next tick, the death of a client, or the end of stdin. */
static void wait_for_event(bool stop_on_eof, uint64_t longest_ns)
{
    static struct pollfd polled[MAX_POLLED];
    nfds_t count = 0;
    if (stop_on_eof)
        polled[count++] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    for (uint32_t d = 0; d < model->device_count; d++)
        for (uint32_t i = 0; i < MAX_CLIENTS; i++)
            if (followers[d][i].serial && followers[d][i].pidfd >= 0)
                polled[count++] = (struct pollfd){followers[d][i].pidfd, POLLIN, 0};
    struct timespec timeout = {0, (long)longest_ns};
    if (ppoll(polled, count, &timeout, NULL) > 0 && stop_on_eof && polled[0].revents)
        obey_lines();
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"shm", required_argument, NULL, 's'},
                                            {"truth", required_argument, NULL, 't'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"stop-on-eof", no_argument, NULL, 'e'},
                                            {NULL, 0, NULL, 0}};
    const char *truth_path = NULL;
    bool stop_on_eof = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 's' && !(model = model_create(optarg)))
            fail(optarg, strerror(errno));
        else if (option == 't')
            truth_path = optarg;
        else if (option == 'e')
            stop_on_eof = true;
        else if (option == 'd' && !model)
            fail("--shm comes first", optarg);
        else if (option == 'd')
            add_device(model, optarg);
        else if (option == '?')
            return 2;
    }
    if (!model || !truth_path || !model->device_count)
        fail("usage", "gpud --shm FILE --truth FILE --device SPEC ...");
    truth_open(truth_path);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    boot_minus_monotonic_ns = clock_read_ns(CLOCK_BOOTTIME) - monotonic_ns();
    tick();
    __atomic_store_n(&model->magic, MODEL_MAGIC, __ATOMIC_RELEASE);
    puts("ready");
    fflush(stdout);
    while (!stopping) {
        wait_for_event(stop_on_eof, TICK_NS);
        tick();
    }
    for (uint32_t d = 0; d < model->device_count; d++) {
        struct device *device = &model->devices[d];
        device_lock(device);
        for (uint32_t i = 0; i < device->clients_used; i++)
            client_close(device, &device->clients[i], device->now_ns);
        device_unlock(device);
    }
    __atomic_store_n(&model->stopped, 1, __ATOMIC_RELEASE);
    tick();
    return 0;
}
