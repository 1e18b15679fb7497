/* An exact sequence of calls with prime counts, some of which fail, and a report of what was called. */
#include "workload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* name in the report, calls of one round on one thread, of which fail, bytes asked for in all calls of it */
#define MORE_THAN_ANY_DEVICE (1ull << 50)
#define BLOCKS 4u
#define BLOCK_THREADS 64u
#define LAUNCH_US 20.0

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, BASE_VERSION = 12040 };

/* Sizes are odd on purpose: a sum of them tells which calls were seen. */
enum { ALLOC_BYTES = 1000003, MANAGED_BYTES = 500009, ASYNC_BYTES = 300007, H2D_BYTES = 4099, D2H_BYTES = 8209,
       D2D_BYTES = 16411, H2D_ASYNC_BYTES = 2053, D2H_ASYNC_BYTES = 1031, BUFFER_BYTES = 65536 };

#define CALLS(X)                                                                                                     \
    X(cuCtxSetCurrent) X(cuMemAlloc_v2) X(cuMemAllocManaged) X(cuMemAllocAsync) X(cuMemFree_v2) X(cuMemFreeAsync)    \
    X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2)         \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize)             \
    X(cuCtxSynchronize) X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventDestroy_v2)

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

static void count_memory(struct job *job, unsigned long long buffer)
{
    static __thread char host[BUFFER_BYTES];
    unsigned long long address[11];
    for (int i = 0; i < 7; i++)
        CALL(cuMemAlloc_v2, 0, ALLOC_BYTES, &address[i], ALLOC_BYTES);
    for (int i = 0; i < 3; i++)
        CALL(cuMemAlloc_v2, OUT_OF_MEMORY, MORE_THAN_ANY_DEVICE, &address[10], MORE_THAN_ANY_DEVICE);
    CALL(cuMemAlloc_v2, INVALID_VALUE, 0, &address[10], 0);
    for (int i = 0; i < 7; i++)
        CALL(cuMemFree_v2, 0, 0, address[i]);
    for (int i = 0; i < 3; i++)
        CALL(cuMemAllocManaged, 0, MANAGED_BYTES, &address[i], MANAGED_BYTES, 1);
    for (int i = 0; i < 3; i++)
        CALL(cuMemFree_v2, 0, 0, address[i]);
    CALL(cuMemFree_v2, INVALID_VALUE, 0, 12345);
    for (int i = 0; i < 5; i++)
        CALL(cuMemAllocAsync, 0, ASYNC_BYTES, &address[i], ASYNC_BYTES, NULL);
    for (int i = 0; i < 5; i++)
        CALL(cuMemFreeAsync, 0, 0, address[i], NULL);
    for (int i = 0; i < 13; i++)
        CALL(cuMemcpyHtoD_v2, 0, H2D_BYTES, buffer, host, H2D_BYTES);
    for (int i = 0; i < 2; i++)
        CALL(cuMemcpyHtoD_v2, INVALID_VALUE, H2D_BYTES, 12345, host, H2D_BYTES);
    for (int i = 0; i < 11; i++)
        CALL(cuMemcpyDtoH_v2, 0, D2H_BYTES, host, buffer, D2H_BYTES);
    for (int i = 0; i < 5; i++)
        CALL(cuMemcpyDtoD_v2, 0, D2D_BYTES, buffer, buffer, D2D_BYTES);
    for (int i = 0; i < 17; i++)
        CALL(cuMemcpyHtoDAsync_v2, 0, H2D_ASYNC_BYTES, buffer, host, H2D_ASYNC_BYTES, NULL);
    for (int i = 0; i < 19; i++)
        CALL(cuMemcpyDtoHAsync_v2, 0, D2H_ASYNC_BYTES, host, buffer, D2H_ASYNC_BYTES, NULL);
}

static void count_work(struct job *job)
{
    struct kernel kernel = kernel_of(job->options, LAUNCH_US);
    void *parameters[] = {&kernel}, *function = (void *)0x100, *stream = NULL, *event = NULL;
    struct {
        unsigned grid[3], block[3], shared;
        void *stream, *attributes;
        unsigned attribute_count;
    } config = {{BLOCKS, 1, 1}, {BLOCK_THREADS, 1, 1}, 0, NULL, NULL, 0};
    CALL(cuStreamCreate, 0, 0, &stream, 0);
    CALL(cuEventCreate, 0, 0, &event, 0);
    for (int i = 0; i < 23; i++)
        CALL(cuLaunchKernel, 0, 0, function, BLOCKS, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL);
    for (int i = 0; i < 2; i++)
        CALL(cuLaunchKernel, INVALID_VALUE, 0, function, 0, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL);
    for (int i = 0; i < 11; i++)
        CALL(cuLaunchKernelEx, 0, 0, &config, function, parameters, NULL);
    job->counts[INDEX_cuLaunchKernel].threads_launched += 23 * BLOCKS * BLOCK_THREADS;
    job->counts[INDEX_cuLaunchKernelEx].threads_launched += 11 * BLOCKS * BLOCK_THREADS;
    for (int i = 0; i < 3; i++)
        CALL(cuEventRecord, 0, 0, event, stream);
    for (int i = 0; i < 2; i++)
        CALL(cuEventSynchronize, 0, 0, event);
    for (int i = 0; i < 5; i++)
        CALL(cuStreamSynchronize, 0, 0, stream);
    for (int i = 0; i < 3; i++)
        CALL(cuCtxSynchronize, 0, 0, );
    CALL(cuEventDestroy_v2, 0, 0, event);
    CALL(cuEventDestroy_v2, INVALID_HANDLE, 0, event);
    CALL(cuStreamDestroy_v2, 0, 0, stream);
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

/* cuGetProcAddress takes names without the version of the ABI. */
static void *resolved(const char *name, unsigned *lookups)
{
    char base[64];
    int length = snprintf(base, sizeof base, "%s", name);
    if (length > 3 && base[length - 3] == '_' && base[length - 2] == 'v')
        base[length - 3] = 0;
    void *function = NULL;
    int status;
    check(cuGetProcAddress_v2(base, &function, BASE_VERSION, 0, &status), base);
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
