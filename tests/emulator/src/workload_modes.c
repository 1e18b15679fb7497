#include "workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUEST_BYTES 4096
#define REPLY_BYTES 65536
#define BLOCK_THREADS 256u
#define FIRST_FUNCTION 0x100u /* function handles are numbers that stand for code */
#define LONGEST_PAUSE_US 100000.0 /* so that a stop is noticed */

static uint64_t random_state;

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* splitmix64, in (0, 1) */
static double uniform(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static void pause_until(double until_us)
{
    for (double left_us; (left_us = until_us - now_us()) > 0 && !stopped();) {
        double part_us = fmin(left_us, LONGEST_PAUSE_US);
        struct timespec t = {0, (long)(part_us * 1e3)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
}

struct kernel kernel_of(const struct options *options, double duration_us)
{
    return (struct kernel){.magic = KERNEL_MAGIC,
                           .sms = options->sms,
                           .duration_ns = (uint64_t)(duration_us * 1e3),
                           .occupancy_ppm = (uint32_t)(options->occupancy * 1e6),
                           .tensor_ppm = (uint32_t)(options->tensor * 1e6),
                           .dram_ppm = (uint32_t)(options->dram * 1e6)};
}

/* The mean of the durations is --duration-us whatever the jitter. */
static void launch(const struct options *options, struct tally *tally)
{
    double jitter = options->jitter;
    struct kernel kernel = kernel_of(options, options->duration_us * exp(jitter * normal() - jitter * jitter / 2));
    void *parameters[] = {&kernel};
    uintptr_t function = FIRST_FUNCTION + tally->launches % options->functions;
    unsigned blocks = (options->launch_threads + BLOCK_THREADS - 1) / BLOCK_THREADS;
    check(cuLaunchKernel((void *)function, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0,
                         next_stream(options), parameters, NULL),
          "cuLaunchKernel");
    tally->launches++;
    tally->work_ns += kernel.duration_ns;
}

static void burst(const struct options *options, struct tally *tally)
{
    if (options->graph) {
        launch_graph(options, tally);
        return;
    }
    for (unsigned i = 0; i < options->burst && !stopped(); i++)
        launch(options, tally);
}

static void copy_out(unsigned long long memory, struct tally *tally)
{
    static char reply[REPLY_BYTES];
    check(cuMemcpyDtoH_v2(reply, memory, sizeof reply), "cuMemcpyDtoH_v2");
    tally->bytes_d2h += sizeof reply;
}

static void copy_in(unsigned long long memory, struct tally *tally)
{
    static const char request[REQUEST_BYTES];
    check(cuMemcpyHtoD_v2(memory, request, sizeof request), "cuMemcpyHtoD_v2");
    tally->bytes_h2d += sizeof request;
}

static void train(const struct options *options, struct tally *tally)
{
    while (!stopped()) {
        burst(options, tally);
        synchronise(options, tally);
        worked();
        pause_until(now_us() + options->gap_us * (0.8 + 0.4 * uniform()));
    }
}

static void infer(const struct options *options, unsigned long long memory, struct tally *tally)
{
    double next_us = now_us();
    while (!stopped()) {
        next_us += -log(uniform()) * 1e6 / options->rate;
        pause_until(next_us);
        if (stopped())
            break;
        copy_in(memory, tally);
        burst(options, tally);
        copy_out(memory, tally);
        worked();
    }
}

static void hog(const struct options *options, unsigned long long memory, struct tally *tally)
{
    while (!stopped()) {
        launch(options, tally);
        if (options->sync_every && tally->launches % options->sync_every == 0)
            copy_out(memory, tally);
        if (!options->sync_every || tally->bytes_d2h)
            worked();
    }
}

static void tiny(const struct options *options, struct tally *tally)
{
    double next_us = now_us();
    for (uint64_t i = 1; !stopped(); i++) {
        next_us += 1e6 / options->rate;
        pause_until(next_us);
        burst(options, tally);
        if (options->sync_every && i % options->sync_every == 0)
            synchronise(options, tally);
        worked();
    }
}

static void nosync(const struct options *options, struct tally *tally)
{
    double next_us = now_us();
    while (!stopped()) {
        next_us += options->gap_us;
        pause_until(next_us);
        burst(options, tally);
        worked();
    }
}

static void late(const struct options *options, struct tally *tally)
{
    while (!stopped()) {
        burst(options, tally);
        worked();
        pause_until(now_us() + options->gap_us);
        synchronise(options, tally);
    }
}

bool known_mode(const char *mode)
{
    static const char *const modes[] = {"train", "infer", "idle", "hog", "tiny", "nosync", "late", "count",
                                        "variants"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(modes[i], mode))
            return true;
    return false;
}

void run_mode(const struct options *options, unsigned long long memory, struct tally *tally)
{
    random_state = options->seed;
    if (!strcmp(options->mode, "train"))
        train(options, tally);
    else if (!strcmp(options->mode, "infer"))
        infer(options, memory, tally);
    else if (!strcmp(options->mode, "hog"))
        hog(options, memory, tally);
    else if (!strcmp(options->mode, "tiny"))
        tiny(options, tally);
    else if (!strcmp(options->mode, "nosync"))
        nosync(options, tally);
    else if (!strcmp(options->mode, "late"))
        late(options, tally);
    else
        for (worked(); !stopped();)
            pause_until(now_us() + LONGEST_PAUSE_US);
}
