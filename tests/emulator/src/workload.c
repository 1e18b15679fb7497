#include "workload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_stop;
static bool has_worked;
static double end_us;
static pid_t parent;

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

bool stopped(void)
{
    return told_to_stop || (has_worked && end_us > 0 && now_us() >= end_us) || getppid() != parent;
}

void worked(void)
{
    has_worked = true;
}

void check(int result, const char *call)
{
    if (!result)
        return;
    fprintf(stderr, "workload: %s returned %d\n", call, result);
    exit(3);
}

static void wait_for_line(void)
{
    puts("waiting");
    fflush(stdout);
    char line[16];
    if (!fgets(line, sizeof line, stdin))
        exit(0); /* whoever would have started it has gone */
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    parent = getppid();
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (options.wait)
        wait_for_line();
    if (!strcmp(options.mode, "count"))
        return run_count(&options);
    if (!strcmp(options.mode, "variants"))
        return run_variants(&options);

    int device;
    void *context;
    unsigned long long memory = 0;
    struct tally tally = {0};
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, options.device), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    if (options.memory_bytes)
        check(cuMemAlloc_v2(&memory, options.memory_bytes), "cuMemAlloc_v2");
    puts("ready");
    fflush(stdout);
    if (options.seconds > 0)
        end_us = now_us() + options.seconds * 1e6;
    run_mode(&options, memory, &tally);
    bool drained = !told_to_stop; /* told to stop it leaves its queue, as a program that exits does */
    if (drained) {
        check(cuCtxSynchronize(), "cuCtxSynchronize");
        if (memory)
            check(cuMemFree_v2(memory), "cuMemFree_v2");
    }
    check(cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease_v2");
    printf("{\"pid\": %d, \"mode\": \"%s\", \"launches\": %lu, \"work_ns\": %lu, \"synchronisations\": %lu, "
           "\"bytes_h2d\": %lu, \"bytes_d2h\": %lu, \"drained\": %s}\n",
           getpid(), options.mode, tally.launches, tally.work_ns, tally.synchronisations, tally.bytes_h2d,
           tally.bytes_d2h, drained ? "true" : "false");
    return 0;
}
