#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void sleep_ns(uint64_t duration_ns)
{
    struct timespec t = {(time_t)(duration_ns / NS_PER_S), (long)(duration_ns % NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static struct model *map_file(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    struct stat status;
    void *map = MAP_FAILED;
    if ((!(flags & O_CREAT) || ftruncate(fd, sizeof(struct model)) == 0) && fstat(fd, &status) == 0 &&
        status.st_size >= (off_t)sizeof(struct model))
        map = mmap(NULL, sizeof(struct model), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* Always a file of its own: who still has the model of a daemon that ended must neither find it cut short (SIGBUS)
 * nor take the new one for it. */
struct model *model_create(const char *path)
{
    unlink(path);
    return map_file(path, O_CREAT | O_EXCL);
}

bool model_alive(const struct model *model)
{
    return !__atomic_load_n(&model->stopped, __ATOMIC_ACQUIRE) &&
           monotonic_ns() < __atomic_load_n(&model->heartbeat_ns, __ATOMIC_ACQUIRE) + DAEMON_LOST_NS;
}

struct model *model_open(void)
{
    const char *path = getenv(MODEL_SHM_VARIABLE);
    struct model *model = path ? map_file(path, 0) : NULL;
    if (model && (__atomic_load_n(&model->magic, __ATOMIC_ACQUIRE) != MODEL_MAGIC || !model_alive(model))) {
        munmap(model, sizeof *model);
        return NULL;
    }
    return model;
}

void model_close(struct model *model)
{
    munmap(model, sizeof *model);
}

void device_init(struct device *device, const struct device_spec *spec)
{
    device->spec = *spec; /* the file is new and so all zero: only devices that are used take memory */
    device->current = -1;
    device->now_ns = device->started_ns = device->sampled_at_ns = monotonic_ns();
    device->power_mw = spec->idle_power_mw;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&device->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* A process was killed inside the lock: what can be derived is derived again. */
static void repair(struct device *device)
{
    device->memory_used_bytes = 0;
    for (uint32_t i = 0; i < device->clients_used; i++) {
        struct client *client = &device->clients[i];
        if (client->state == CLIENT_OPEN)
            device->memory_used_bytes += client->memory_bytes;
        if (client->tail > client->head)
            client->queued_ns = client->queue[(client->tail - 1) % QUEUE_CAPACITY].end_work_ns;
        else
            client->queued_ns = client->done_ns;
    }
}

void device_lock(struct device *device)
{
    if (pthread_mutex_lock(&device->lock) == EOWNERDEAD) {
        repair(device);
        pthread_mutex_consistent(&device->lock);
    }
    device_advance(device, monotonic_ns());
}

void device_unlock(struct device *device)
{
    pthread_mutex_unlock(&device->lock);
}

static bool has_work(const struct client *client)
{
    return client->state == CLIENT_OPEN && client->head < client->tail;
}

struct launch *client_first_launch(struct client *client)
{
    return &client->queue[client->head % QUEUE_CAPACITY];
}

bool client_runnable(struct client *client, uint64_t at_ns)
{
    return has_work(client) && client_first_launch(client)->submitted_ns <= at_ns;
}

uint64_t device_next_arrival(struct device *device, uint64_t at_ns, uint64_t limit_ns)
{
    for (uint32_t i = 0; i < device->clients_used; i++) {
        struct client *client = &device->clients[i];
        if (!has_work(client))
            continue;
        uint64_t arrival_ns = client_first_launch(client)->submitted_ns;
        if (arrival_ns > at_ns && arrival_ns < limit_ns)
            limit_ns = arrival_ns;
    }
    return limit_ns;
}

static void integrate(struct integrals *total, const struct work *work, uint64_t sm_parts, uint64_t span_ns)
{
    uint64_t sm_ns = span_ns * sm_parts / SM_PARTS;
    total->busy_ns += span_ns;
    total->sm_ns += sm_ns;
    total->warp_sm_ns += sm_ns * work->occupancy_ppm / PPM;
    total->tensor_sm_ns += sm_ns * work->tensor_ppm / PPM;
    total->dram_ns += span_ns * work->dram_ppm / PPM;
}

/* The first launch runs for `span_ns` on `sm_parts`, and `done_ns` of its work are done. The device's busy time is
 * not counted here: under MPS several processes share the same span. */
void client_run(struct device *device, struct client *client, uint64_t span_ns, uint64_t sm_parts, uint64_t done_ns)
{
    struct launch *launch = client_first_launch(client);
    uint64_t end_work_ns = launch->end_work_ns, busy_ns = device->total.busy_ns;
    integrate(&device->total, &launch->work, sm_parts, span_ns);
    device->total.busy_ns = busy_ns;
    integrate(&client->total, &launch->work, sm_parts, span_ns);
    client->done_ns += done_ns;
    if (client->done_ns >= end_work_ns) {
        client->done_ns = end_work_ns;
        client->done_rest = 0;
        client->head++;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void device_advance(struct device *device, uint64_t until_ns)
{
    while (device->now_ns < until_ns) {
        uint64_t at_ns = device->now_ns, left_ns = until_ns - at_ns;
        uint64_t span_ns =
            device->spec.scheduling == SCHED_MPS ? mps_step(device, left_ns) : slice_step(device, left_ns);
        device->now_ns = span_ns ? at_ns + span_ns : device_next_arrival(device, at_ns, until_ns);
    }
}

bool device_exclusive_taken(const struct device *device)
{
    if (device->spec.scheduling != SCHED_EXCLUSIVE)
        return false;
    for (uint32_t i = 0; i < device->clients_used; i++)
        if (device->clients[i].state == CLIENT_OPEN)
            return true;
    return false;
}

struct client *client_open(struct model *model, struct device *device, pid_t pid, uint64_t now_ns)
{
    uint32_t i = 0;
    while (i < device->clients_used && device->clients[i].state != CLIENT_FREE)
        i++;
    if (i == MAX_CLIENTS || device->memory_used_bytes + device->spec.context_bytes > device->spec.memory_bytes)
        return NULL;
    struct client *client = &device->clients[i];
    memset(client, 0, sizeof *client);
    client->pid = pid;
    client->serial = __atomic_add_fetch(&model->next_serial, 1, __ATOMIC_RELAXED);
    client->opened_ns = now_ns;
    client->memory_bytes = device->spec.context_bytes;
    client->thread_percentage = 100;
    if (i == device->clients_used)
        device->clients_used++;
    /* Last of all, so that a slot whose maker is killed here is either free or found by gpud. */
    __atomic_store_n(&client->state, CLIENT_OPEN, __ATOMIC_RELEASE);
    device->memory_used_bytes += client->memory_bytes;
    return client;
}

void client_close(struct device *device, struct client *client, uint64_t now_ns)
{
    if (client->state != CLIENT_OPEN)
        return;
    device->memory_used_bytes -= client->memory_bytes;
    client->memory_bytes = 0;
    client->head = client->tail;
    client->queued_ns = client->done_ns;
    client->closed_ns = now_ns;
    client->state = CLIENT_CLOSED;
}

bool client_reserve(struct device *device, struct client *client, uint64_t bytes)
{
    if (bytes > device->spec.memory_bytes - device->memory_used_bytes)
        return false;
    device->memory_used_bytes += bytes;
    client->memory_bytes += bytes;
    return true;
}

void client_release(struct device *device, struct client *client, uint64_t bytes)
{
    device->memory_used_bytes -= bytes;
    client->memory_bytes -= bytes;
}

bool client_submit(struct client *client, const struct work *work, uint64_t now_ns)
{
    if (client->tail - client->head >= QUEUE_CAPACITY)
        return false;
    client->queued_ns += work->duration_ns ? work->duration_ns : 1;
    client->queue[client->tail % QUEUE_CAPACITY] = (struct launch){now_ns, client->queued_ns, *work};
    client->tail++;
    return true;
}

/* The shortest time in which launch number `target` (counted from 1) can be finished: its own work that is
 * left, and what is left of the slice of the process that runs now. Others may make it longer, never shorter. */
uint64_t client_least_wait_ns(const struct device *device, const struct client *client, uint64_t target)
{
    if (target <= client->head)
        return 0;
    uint64_t wait_ns = client->queue[(target - 1) % QUEUE_CAPACITY].end_work_ns - client->done_ns;
    bool sliced = device->spec.scheduling != SCHED_MPS && device->current >= 0;
    if (sliced && &device->clients[device->current] != client) {
        const struct client *other = &device->clients[device->current];
        if (has_work(other))
            wait_ns += least(device->slice_left_ns, other->queued_ns - other->done_ns);
    }
    return wait_ns;
}

uint64_t device_power_mw(const struct device *device, uint64_t sm_ns, uint64_t span_ns)
{
    uint64_t range_mw = device->spec.max_power_mw - device->spec.idle_power_mw;
    if (!span_ns)
        return device->spec.idle_power_mw;
    double active = (double)sm_ns / ((double)span_ns * device->spec.sms);
    return device->spec.idle_power_mw + (uint64_t)((double)range_mw * (active > 1 ? 1 : active));
}
