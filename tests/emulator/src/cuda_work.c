/* Launches and copies, and waiting for them. */
#include "cuda_work.h"
#include "kernel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define SPIN_NS 90000ull             /* the tail of a wait is spun: a sleep would end too late by about this */
#define WAKE_EARLY_NS 60000ull       /* how much earlier a sleep is set to end */
#define LONGEST_SLEEP_NS 5000000ull  /* another process may die and give its turn away */
#define COPY_OVERHEAD_NS 5000ull

enum { MAX_WARPS_PER_SM = 64, WARP_THREADS = 32 };

static uint64_t copies_end_ns; /* when the copy engine has finished what was asked of it */

uint64_t copies_done_ns(void)
{
    return __atomic_load_n(&copies_end_ns, __ATOMIC_ACQUIRE);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sharpen_timer(void)
{
    static __thread bool sharp;
    if (!sharp)
        prctl(PR_SET_TIMERSLACK, 1);
    sharp = true;
}

static void pause_until(uint64_t until_ns)
{
    for (uint64_t now_ns = monotonic_ns(); now_ns < until_ns; now_ns = monotonic_ns()) {
        if (until_ns - now_ns > SPIN_NS)
            sleep_ns(until_ns - now_ns - WAKE_EARLY_NS);
        else
            relax();
    }
}

/* Holds the device's lock on success. */
static int enter(struct context *context)
{
    int result = context_check(context);
    if (result)
        return result;
    device_lock(context->device);
    if (context->client->serial == context->client_serial && context->client->state == CLIENT_OPEN)
        return CUDA_SUCCESS;
    device_unlock(context->device);
    return CUDA_ERROR_UNKNOWN;
}

int wait_for_launch(struct context *context, uint64_t target)
{
    sharpen_timer();
    for (;;) {
        int result = enter(context);
        if (result)
            return result;
        bool done = context->client->head >= target;
        uint64_t least_ns = client_least_wait_ns(context->device, context->client, target);
        device_unlock(context->device);
        if (done)
            return CUDA_SUCCESS;
        if (least_ns > LONGEST_SLEEP_NS)
            sleep_ns(LONGEST_SLEEP_NS - WAKE_EARLY_NS);
        else
            pause_until(monotonic_ns() + least_ns);
    }
}

int last_launch(struct context *context, uint64_t *number)
{
    int result = enter(context);
    if (result)
        return result;
    *number = context->client->tail;
    device_unlock(context->device);
    return CUDA_SUCCESS;
}

int launch_ready(struct context *context, uint64_t number)
{
    int result = enter(context);
    if (result)
        return result;
    bool done = context->client->head >= number;
    device_unlock(context->device);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

int wait_for_copies(uint64_t done_ns)
{
    sharpen_timer();
    pause_until(done_ns);
    return CUDA_SUCCESS;
}

static uint32_t occupancy_ppm(uint64_t blocks, uint64_t block_threads, uint32_t sms)
{
    uint64_t warps = (block_threads + WARP_THREADS - 1) / WARP_THREADS;
    uint64_t resident = blocks * warps * PPM / ((uint64_t)sms * MAX_WARPS_PER_SM);
    return resident > PPM ? (uint32_t)PPM : (uint32_t)resident;
}

static struct work work_of(const struct device *device, uint64_t blocks, uint64_t block_threads, void **parameters)
{
    struct kernel asked = {.duration_ns = KERNEL_DEFAULT_NS};
    uint32_t magic = 0;
    if (parameters && parameters[0])
        memcpy(&magic, parameters[0], sizeof magic);
    if (magic == KERNEL_MAGIC)
        memcpy(&asked, parameters[0], sizeof asked);
    uint32_t all = device->spec.sms;
    uint32_t sms = asked.sms ? asked.sms : (blocks < all ? (uint32_t)blocks : all);
    if (sms > all)
        sms = all;
    uint32_t occupancy = asked.occupancy_ppm ? asked.occupancy_ppm : occupancy_ppm(blocks, block_threads, sms);
    return (struct work){asked.duration_ns, sms, occupancy, asked.tensor_ppm, asked.dram_ppm};
}

int launch(const void *function, uint64_t blocks, uint64_t block_threads, void *stream_handle, void **parameters)
{
    struct context *context = context_current();
    struct stream *stream;
    int result = context_check(context);
    if (!result)
        result = stream_find(stream_handle, &stream);
    if (result)
        return result;
    if (!blocks || !block_threads || block_threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (graph_of(stream))
        return graph_add_launch(graph_of(stream), function, blocks, block_threads, parameters);
    struct work work = work_of(context->device, blocks, block_threads, parameters);
    for (;;) {
        if ((result = enter(context)))
            return result;
        bool accepted = client_submit(context->client, &work, monotonic_ns());
        uint64_t tail = context->client->tail;
        device_unlock(context->device);
        if (accepted) {
            if (stream)
                stream->last_launch = tail;
            return CUDA_SUCCESS;
        }
        if ((result = wait_for_launch(context, tail - QUEUE_CAPACITY + 1)))
            return result;
    }
}

int copy_start(uint64_t bytes, uint64_t bytes_per_s, void *handle)
{
    struct stream *stream;
    int result = context_check(context_current());
    if (!result)
        result = stream_find(handle, &stream);
    if (result)
        return result;
    if (graph_of(stream))
        return graph_add_copy(graph_of(stream), bytes, bytes_per_s);
    uint64_t span_ns = COPY_OVERHEAD_NS + (uint64_t)((double)bytes * NS_PER_S / (double)bytes_per_s);
    uint64_t now_ns = monotonic_ns(), end_ns = copies_done_ns(), next_ns;
    do
        next_ns = (end_ns > now_ns ? end_ns : now_ns) + span_ns;
    while (!__atomic_compare_exchange_n(&copies_end_ns, &end_ns, next_ns, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
    if (stream)
        stream->copies_done_ns = next_ns;
    return CUDA_SUCCESS;
}

int copy_wait(uint64_t bytes, bool wait_for_launches)
{
    int result = wait_for_launches ? wait_all() : CUDA_SUCCESS;
    if (!result)
        result = copy_start(bytes, PCIE_BYTES_PER_S, NULL);
    return result ? result : wait_for_copies(copies_done_ns());
}

int wait_all(void)
{
    struct context *context = context_current();
    uint64_t target;
    int result = last_launch(context, &target);
    if (!result)
        result = wait_for_launch(context, target);
    return result ? result : wait_for_copies(copies_done_ns());
}
