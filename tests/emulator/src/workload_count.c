/* An exact sequence of calls with prime counts, some of which fail, and a report of what was called. */
#include "workload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MORE_THAN_ANY_DEVICE (1ull << 50)
#define NO_ADDRESS 12345ull
#define BLOCKS 4u
#define BLOCK_THREADS 64u
#define LAUNCH_US 20.0

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, DRIVER_VERSION = 12040, PER_THREAD_STREAM_FLAG = 2 };

/* Sizes are odd on purpose: a sum of them tells which calls were seen. */
enum { ALLOC_BYTES = 1000003, MANAGED_BYTES = 500009, ASYNC_BYTES = 300007, H2D_BYTES = 4099, D2H_BYTES = 8209,
       D2D_BYTES = 16411, H2D_ASYNC_BYTES = 2053, D2H_ASYNC_BYTES = 1031, D2D_ASYNC_BYTES = 32771,
       BUFFER_BYTES = 65537 };

#define CALLS(X)                                                                                                     \
    X(cuCtxSetCurrent) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuMemAlloc_v2) X(cuMemAllocManaged)            \
    X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) X(cuMemFree_v2) X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz)              \
    X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2)         \
    X(cuMemcpyDtoDAsync_v2) X(cuLaunchKernel) X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz)    \
    X(cuLaunchCooperativeKernel) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamQuery)     \
    X(cuCtxSynchronize) X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventQuery) X(cuEventDestroy_v2)

#define INDEX(name) INDEX_##name,
enum call { CALLS(INDEX) CALL_COUNT };

#define NAME(name) #name,
static const char *const names[] = {CALLS(NAME)};

#define POINTER(name) __typeof__(name) *name;
static struct { CALLS(POINTER) } api;

struct count {
    uint64_t ok, failed, bytes_ok, bytes_failed, threads_launched;
};

struct job {
    const struct options *options;
    void *context;
    struct count counts[CALL_COUNT];
    unsigned wrong;
};

static void note(struct job *job, enum call call, int result, int expected, uint64_t bytes)
{
    struct count *count = &job->counts[call];
    if (result != expected) {
        fprintf(stderr, "workload: %s returned %d, not %d\n", names[call], result, expected);
        job->wrong++;
    }
    if (result)
        count->failed++, count->bytes_failed += bytes;
    else
        count->ok++, count->bytes_ok += bytes;
}

#define CALL(name, expected, bytes, ...) note(job, INDEX_##name, api.name(__VA_ARGS__), expected, bytes)
#define TIMES(n, ...)                                                                                                \
    for (int i = 0; i < (n); i++)                                                                                    \
    CALL(__VA_ARGS__)

static void count_memory(struct job *job, unsigned long long buffer)
{
    static __thread char host[BUFFER_BYTES];
    unsigned long long address[8];
    TIMES(6, cuMemAlloc_v2, 0, ALLOC_BYTES, &address[i], ALLOC_BYTES);
    TIMES(3, cuMemAlloc_v2, OUT_OF_MEMORY, MORE_THAN_ANY_DEVICE, &address[7], MORE_THAN_ANY_DEVICE);
    TIMES(1, cuMemAlloc_v2, INVALID_VALUE, 0, &address[7], 0);
    TIMES(6, cuMemFree_v2, 0, 0, address[i]);
    TIMES(3, cuMemAllocManaged, 0, MANAGED_BYTES, &address[i], MANAGED_BYTES, 1);
    TIMES(3, cuMemFree_v2, 0, 0, address[i]);
    TIMES(1, cuMemFree_v2, INVALID_VALUE, 0, NO_ADDRESS);
    TIMES(5, cuMemAllocAsync, 0, ASYNC_BYTES, &address[i], ASYNC_BYTES, NULL);
    TIMES(5, cuMemFreeAsync, 0, 0, address[i], NULL);
    TIMES(2, cuMemAllocAsync_ptsz, 0, ASYNC_BYTES, &address[i], ASYNC_BYTES, NULL);
    TIMES(2, cuMemFreeAsync_ptsz, 0, 0, address[i], NULL);
    TIMES(13, cuMemcpyHtoD_v2, 0, H2D_BYTES, buffer, host, H2D_BYTES);
    TIMES(4, cuMemcpyHtoD_v2, INVALID_VALUE, H2D_BYTES, NO_ADDRESS, host, H2D_BYTES);
    TIMES(11, cuMemcpyDtoH_v2, 0, D2H_BYTES, host, buffer, D2H_BYTES);
    TIMES(5, cuMemcpyDtoD_v2, 0, D2D_BYTES, buffer, buffer, D2D_BYTES);
    TIMES(17, cuMemcpyHtoDAsync_v2, 0, H2D_ASYNC_BYTES, buffer, host, H2D_ASYNC_BYTES, NULL);
    TIMES(19, cuMemcpyDtoHAsync_v2, 0, D2H_ASYNC_BYTES, host, buffer, D2H_ASYNC_BYTES, NULL);
    TIMES(7, cuMemcpyDtoDAsync_v2, 0, D2D_ASYNC_BYTES, buffer, buffer, D2D_ASYNC_BYTES, NULL);
}

/* All launches of one symbol have the same size; a failed one asks for no blocks. */
static void count_launches(struct job *job, void *stream)
{
    struct kernel kernel = kernel_of(job->options, LAUNCH_US);
    void *parameters[] = {&kernel}, *function = (void *)0x100;
    struct {
        unsigned grid[3], block[3], shared;
        void *stream, *attributes;
        unsigned attribute_count;
    } config = {{BLOCKS, 1, 1}, {BLOCK_THREADS, 1, 1}, 0, stream, NULL, 0};
    TIMES(23, cuLaunchKernel, 0, 0, function, BLOCKS, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL);
    TIMES(6, cuLaunchKernel, INVALID_VALUE, 0, function, 0, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL);
    TIMES(7, cuLaunchKernel_ptsz, 0, 0, function, BLOCKS, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL);
    TIMES(13, cuLaunchKernelEx, 0, 0, &config, function, parameters, NULL);
    TIMES(3, cuLaunchKernelEx_ptsz, 0, 0, &config, function, parameters, NULL);
    TIMES(5, cuLaunchCooperativeKernel, 0, 0, function, BLOCKS, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters);
    static const enum call launching[] = {INDEX_cuLaunchKernel, INDEX_cuLaunchKernel_ptsz, INDEX_cuLaunchKernelEx,
                                          INDEX_cuLaunchKernelEx_ptsz, INDEX_cuLaunchCooperativeKernel};
    for (size_t i = 0; i < sizeof launching / sizeof launching[0]; i++) {
        struct count *count = &job->counts[launching[i]];
        count->threads_launched = count->ok * BLOCKS * BLOCK_THREADS;
    }
}

static void count_work(struct job *job)
{
    void *streams[2], *events[2], *popped;
    TIMES(2, cuStreamCreate, 0, 0, &streams[i], 0);
    TIMES(2, cuEventCreate, 0, 0, &events[i], 0);
    count_launches(job, streams[0]);
    TIMES(3, cuEventRecord, 0, 0, events[0], streams[0]);
    TIMES(2, cuEventSynchronize, 0, 0, events[0]);
    TIMES(5, cuStreamSynchronize, 0, 0, streams[0]);
    TIMES(3, cuCtxSynchronize, 0, 0, );
    TIMES(7, cuStreamQuery, 0, 0, streams[1]); /* nothing was launched on it */
    TIMES(5, cuEventQuery, 0, 0, events[0]);   /* it was waited for */
    TIMES(2, cuEventDestroy_v2, 0, 0, events[i]);
    TIMES(1, cuEventDestroy_v2, INVALID_HANDLE, 0, events[0]);
    TIMES(2, cuStreamDestroy_v2, 0, 0, streams[i]);
    TIMES(2, cuCtxPushCurrent_v2, 0, 0, job->context);
    TIMES(2, cuCtxPopCurrent_v2, 0, 0, &popped);
}

static void *count_thread(void *argument)
{
    struct job *job = argument;
    unsigned long long buffer = 0;
    CALL(cuCtxSetCurrent, 0, 0, job->context);
    CALL(cuMemAlloc_v2, 0, BUFFER_BYTES, &buffer, BUFFER_BYTES);
    for (unsigned round = 0; round < job->options->rounds; round++) {
        count_memory(job, buffer);
        count_work(job);
    }
    CALL(cuMemFree_v2, 0, 0, buffer);
    return NULL;
}

/* cuGetProcAddress takes names without the version of the ABI, and a flag for per-thread streams. */
static void *resolved(const char *name, unsigned *lookups)
{
    char base[64];
    snprintf(base, sizeof base, "%s", name);
    char *suffix = strrchr(base, '_');
    uint64_t flags = suffix && !strcmp(suffix, "_ptsz") ? PER_THREAD_STREAM_FLAG : 0;
    if (suffix)
        *suffix = 0;
    void *function = NULL;
    int status;
    check(cuGetProcAddress_v2(base, &function, DRIVER_VERSION, flags, &status), base);
    ++*lookups;
    return function;
}

static unsigned fill_api(bool via_proc_address)
{
    unsigned lookups = 0;
#define FILL(name) api.name = via_proc_address ? (__typeof__(name) *)resolved(#name, &lookups) : name;
    CALLS(FILL)
    return lookups;
}

static void print_count(const char *name, const struct count *count, const char *separator)
{
    printf("%s\"%s\": {\"calls\": %lu, \"ok\": %lu, \"failed\": %lu, \"bytes_ok\": %lu, \"bytes_failed\": %lu, "
           "\"threads_launched\": %lu}",
           separator, name, count->ok + count->failed, count->ok, count->failed, count->bytes_ok,
           count->bytes_failed, count->threads_launched);
}

int run_count(const struct options *options)
{
    int device;
    void *context;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, options->device), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    unsigned lookups = fill_api(options->via_proc_address);
    struct job *jobs = calloc(options->host_threads, sizeof *jobs);
    pthread_t *threads = calloc(options->host_threads, sizeof *threads);
    for (unsigned i = 0; i < options->host_threads; i++) {
        jobs[i] = (struct job){.options = options, .context = context};
        check(pthread_create(&threads[i], NULL, count_thread, &jobs[i]), "pthread_create");
    }
    struct count total[CALL_COUNT] = {0};
    unsigned wrong = 0;
    for (unsigned i = 0; i < options->host_threads; i++) {
        pthread_join(threads[i], NULL);
        wrong += jobs[i].wrong;
        for (int c = 0; c < CALL_COUNT; c++) {
            const struct count *part = &jobs[i].counts[c];
            total[c].ok += part->ok;
            total[c].failed += part->failed;
            total[c].bytes_ok += part->bytes_ok;
            total[c].bytes_failed += part->bytes_failed;
            total[c].threads_launched += part->threads_launched;
        }
    }
    check(cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease_v2");
    printf("{\"pid\": %d, \"rounds\": %u, \"host_threads\": %u, \"calls\": {", getpid(), options->rounds,
           options->host_threads);
    static const char *const once[] = {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
                                       "cuDevicePrimaryCtxRelease_v2"};
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        print_count(once[i], &(struct count){.ok = 1}, i ? ", " : "");
    if (lookups)
        print_count("cuGetProcAddress_v2", &(struct count){.ok = lookups}, ", ");
    for (int c = 0; c < CALL_COUNT; c++)
        print_count(names[c], &total[c], ", ");
    puts("}}");
    return wrong ? 4 : 0;
}
