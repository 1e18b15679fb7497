/* Calls every probed function a prime number of times and prints what each call was, in order:
 * name[:operation] bytes stream function threads ordinal result. One in each row fails. */
#include "api.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 23, FAILED = 700, HOME = 3, PHYSICAL_DEVICE = 2, NOWHERE = -1, NOT_READY = 600 };

#define STREAM ((han)0x51)
#define FUNCTION ((han)0xf1)
#define VALUE(handle) ((unsigned long long)(uintptr_t)(handle))

/* set where the arguments of a call, not its name, say what it is: ":COPY_..." */
static const char *direction = "";

static void print(const char *name, unsigned long long bytes, han stream, han function, unsigned long long threads,
                  int ordinal, int result)
{
    printf("%s%s %llu %llu %llu %llu %d %d\n", name, direction, result ? 0 : bytes, VALUE(stream), VALUE(function),
           result ? 0 : threads, ordinal, result);
}

#define CALL(name, bytes, stream, function, threads, ordinal, ...)                                                   \
    print(#name, bytes, stream, function, threads, ordinal, name(__VA_ARGS__))

/* ROUNDS calls, the last of which fails; `round` may be used in the arguments */
#define ROW(name, bytes, stream, function, threads, ...)                                                             \
    for (unsigned round = 0; round < ROUNDS; round++) {                                                              \
        answer_with(round == ROUNDS - 1 ? FAILED : 0);                                                               \
        CALL(name, bytes, stream, function, threads, HOME, __VA_ARGS__);                                             \
        answer_with(0);                                                                                              \
    }
#define BOTH(name, suffix, bytes, stream, function, threads, ...)                                                    \
    ROW(name, bytes, stream, function, threads, __VA_ARGS__)                                                         \
    ROW(name##suffix, bytes, stream, function, threads, __VA_ARGS__)

struct config {
    u32 grid[3], block[3], shared;
    han stream;
    void *attributes;
    u32 count;
};

struct launched { /* CUDA_LAUNCH_PARAMS */
    han function;
    u32 grid[3], block[3], shared;
    han stream;
    void **parameters;
};

static void launches(void)
{
    struct launched list[] = {{FUNCTION, {2, 3, 5}, {7, 11, 1}, 0, STREAM, NULL},
                              {FUNCTION, {13, 1, 1}, {17, 1, 1}, 0, STREAM, NULL},
                              {FUNCTION, {19, 1, 1}, {23, 1, 1}, 0, STREAM, NULL}};
    struct config config = {{65535, 3, 2}, {32, 5, 1}, 9, STREAM, NULL, 0};
    unsigned long long many = 2147483647ull * 3 * 5 * 7 * 2 * 11;
    BOTH(cuLaunchKernel, _ptsz, 0, STREAM, FUNCTION, many, FUNCTION, 2147483647, 3, 5, 7, 2, 11, 4096, STREAM, NULL,
         NULL)
    BOTH(cuLaunchKernelEx, _ptsz, 0, STREAM, FUNCTION, 65535ull * 3 * 2 * 32 * 5, &config, FUNCTION, NULL, NULL)
    BOTH(cuLaunchCooperativeKernel, _ptsz, 0, STREAM, FUNCTION, 2ull * 3 * 5 * 7 * 11 * 13, FUNCTION, 2, 3, 5, 7, 11,
         13, 4096, STREAM, NULL)
    ROW(cuLaunchCooperativeKernelMultiDevice, 0, STREAM, FUNCTION, 2 * 3 * 5 * 7 * 11 + 13 * 17 + 19 * 23, list, 3, 0)
    ROW(cuLaunch, 0, NULL, FUNCTION, 0, FUNCTION)
    ROW(cuLaunchGrid, 0, NULL, FUNCTION, 0, FUNCTION, 7, 11)
    ROW(cuLaunchGridAsync, 0, STREAM, FUNCTION, 0, FUNCTION, 7, 11, STREAM)
    BOTH(cuGraphLaunch, _ptsz, 0, STREAM, FUNCTION, 0, FUNCTION, STREAM)
    BOTH(cuLaunchHostFunc, _ptsz, 0, STREAM, FUNCTION, 0, STREAM, (void (*)(void *))FUNCTION, NULL)
}

static void copies(void)
{
    size_t n = 1000003;
    BOTH(cuMemcpyHtoD_v2, _ptds, n + round, NULL, NULL, 0, 1, NULL, n + round)
    BOTH(cuMemcpyDtoH_v2, _ptds, n + round, NULL, NULL, 0, NULL, 1, n + round)
    BOTH(cuMemcpyDtoD_v2, _ptds, n + round, NULL, NULL, 0, 1, 2, n + round)
    BOTH(cuMemcpy, _ptds, n + round, NULL, NULL, 0, 1, 2, n + round)
    BOTH(cuMemcpyHtoDAsync_v2, _ptsz, n + round, STREAM, NULL, 0, 1, NULL, n + round, STREAM)
    BOTH(cuMemcpyDtoHAsync_v2, _ptsz, n + round, STREAM, NULL, 0, NULL, 1, n + round, STREAM)
    BOTH(cuMemcpyDtoDAsync_v2, _ptsz, n + round, STREAM, NULL, 0, 1, 2, n + round, STREAM)
    BOTH(cuMemcpyAsync, _ptsz, n + round, STREAM, NULL, 0, 1, 2, n + round, STREAM)
    BOTH(cuMemcpyPeer, _ptds, n + round, NULL, NULL, 0, 1, NULL, 2, NULL, n + round)
    BOTH(cuMemcpyPeerAsync, _ptsz, n + round, STREAM, NULL, 0, 1, NULL, 2, NULL, n + round, STREAM)
    BOTH(cuMemsetD8_v2, _ptds, n + round, NULL, NULL, 0, 1, 7, n + round)
    BOTH(cuMemsetD16_v2, _ptds, 2 * (n + round), NULL, NULL, 0, 1, 7, n + round)
    BOTH(cuMemsetD32_v2, _ptds, 4 * (n + round), NULL, NULL, 0, 1, 7, n + round)
    BOTH(cuMemsetD8Async, _ptsz, n + round, STREAM, NULL, 0, 1, 7, n + round, STREAM)
    BOTH(cuMemsetD16Async, _ptsz, 2 * (n + round), STREAM, NULL, 0, 1, 7, n + round, STREAM)
    BOTH(cuMemsetD32Async, _ptsz, 4 * (n + round), STREAM, NULL, 0, 1, 7, n + round, STREAM)
}

static void more_copies(void)
{
    size_t n = 1000003, w = 1009;
    struct location device = {1, 0};
    BOTH(cuMemsetD2D8_v2, _ptds, w * (13 + round), NULL, NULL, 0, 1, 4096, 7, w, 13 + round)
    BOTH(cuMemsetD2D16_v2, _ptds, 2 * w * (13 + round), NULL, NULL, 0, 1, 4096, 7, w, 13 + round)
    BOTH(cuMemsetD2D32_v2, _ptds, 4 * w * (13 + round), NULL, NULL, 0, 1, 4096, 7, w, 13 + round)
    BOTH(cuMemsetD2D8Async, _ptsz, w * (13 + round), STREAM, NULL, 0, 1, 4096, 7, w, 13 + round, STREAM)
    BOTH(cuMemsetD2D16Async, _ptsz, 2 * w * (13 + round), STREAM, NULL, 0, 1, 4096, 7, w, 13 + round, STREAM)
    BOTH(cuMemsetD2D32Async, _ptsz, 4 * w * (13 + round), STREAM, NULL, 0, 1, 4096, 7, w, 13 + round, STREAM)
    BOTH(cuMemPrefetchAsync, _ptsz, n + round, STREAM, NULL, 0, 1, n + round, 0, STREAM)
    BOTH(cuMemPrefetchAsync_v2, _ptsz, n + round, STREAM, NULL, 0, 1, n + round, device, 0, STREAM)
    BOTH(cuMemcpyHtoA_v2, _ptds, n + round, NULL, NULL, 0, NULL, 3, NULL, n + round)
    BOTH(cuMemcpyAtoH_v2, _ptds, n + round, NULL, NULL, 0, NULL, NULL, 3, n + round)
    BOTH(cuMemcpyDtoA_v2, _ptds, n + round, NULL, NULL, 0, NULL, 3, 1, n + round)
    BOTH(cuMemcpyAtoD_v2, _ptds, n + round, NULL, NULL, 0, 1, NULL, 3, n + round)
    BOTH(cuMemcpyAtoA_v2, _ptds, n + round, NULL, NULL, 0, NULL, 3, NULL, 5, n + round)
    BOTH(cuMemcpyHtoAAsync_v2, _ptsz, n + round, STREAM, NULL, 0, NULL, 3, NULL, n + round, STREAM)
    BOTH(cuMemcpyAtoHAsync_v2, _ptsz, n + round, STREAM, NULL, 0, NULL, NULL, 3, n + round, STREAM)
}

/* CUDA_MEMCPY2D and CUDA_MEMCPY3D, by their offsets in 64-bit words */
static const void *region(int dimensions, u32 from, u32 to, size_t rows)
{
    static size_t words[25];
    memset(words, 0xee, sizeof words);
    memcpy(&words[dimensions == 2 ? 2 : 4], &from, sizeof from);
    memcpy(&words[dimensions == 2 ? 9 : 15], &to, sizeof to);
    size_t *extent = &words[dimensions == 2 ? 14 : 22];
    extent[0] = 1009, extent[1] = rows;
    if (dimensions == 3)
        extent[2] = 3;
    return words;
}

enum { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 }; /* CUmemorytype */

/* PAIRS(ending of the operation, name, suffix, dimensions, stream, more arguments): one row for each pair of kinds
 * of memory */
#define PAIRS(ending, ...)                                                                                           \
    REGION_ROW(":COPY_HOST_TO_DEVICE" ending, HOST, DEVICE, __VA_ARGS__)                                             \
    REGION_ROW(":COPY_DEVICE_TO_HOST" ending, ARRAY, HOST, __VA_ARGS__)                                              \
    REGION_ROW(":COPY_DEVICE_TO_DEVICE" ending, DEVICE, ARRAY, __VA_ARGS__)                                          \
    REGION_ROW(":COPY_UNKNOWN" ending, UNIFIED, DEVICE, __VA_ARGS__)
#define REGION_ROW(operation, from, to, name, suffix, dimensions, stream, ...)                                       \
    direction = operation;                                                                                           \
    BOTH(name, suffix, 1009ull * (7 + round) * (dimensions == 2 ? 1 : 3), stream, NULL, 0,                           \
         region(dimensions, from, to, 7 + round) __VA_OPT__(, ) __VA_ARGS__)                                         \
    direction = "";

static void regions(void)
{
    size_t sizes[1031];
    ptr places[1031] = {0};
    size_t none[1] = {0};
    unsigned long long sum = 0;
    for (size_t i = 0; i < 1024; i++)
        sum += sizes[i] = 4099 + i;
    memset(&sizes[1024], 0xff, 7 * sizeof sizes[0]);
    PAIRS("", cuMemcpy2D_v2, _ptds, 2, NULL)
    PAIRS("", cuMemcpy2DUnaligned_v2, _ptds, 2, NULL)
    PAIRS("", cuMemcpy3D_v2, _ptds, 3, NULL)
    REGION_ROW("", DEVICE, DEVICE, cuMemcpy3DPeer, _ptds, 3, NULL)
    PAIRS("_ASYNC", cuMemcpy2DAsync_v2, _ptsz, 2, STREAM, STREAM)
    PAIRS("_ASYNC", cuMemcpy3DAsync_v2, _ptsz, 3, STREAM, STREAM)
    REGION_ROW("", DEVICE, DEVICE, cuMemcpy3DPeerAsync, _ptsz, 3, STREAM, STREAM)
    BOTH(cuMemcpyBatchAsync, _ptsz, 4099 + 4100 + 4101, STREAM, NULL, 0, places, places, sizes, 3, NULL, none, 1, none,
         STREAM)
    BOTH(cuMemcpyBatchAsync_v2, _ptsz, 4099 + 4100 + 4101, STREAM, NULL, 0, places, places, sizes, 3, NULL, none, 1,
         STREAM)
    ROW(cuMemcpyBatchAsync, sum, STREAM, NULL, 0, places, places, sizes, 1031, NULL, none, 1, none, STREAM)
}

#include "queued.h"
#include "captured.h"

static void waits(void)
{
    BOTH(cuStreamSynchronize, _ptsz, 0, STREAM, NULL, 0, STREAM)
    ROW(cuCtxSynchronize, 0, NULL, NULL, 0)
    ROW(cuCtxSynchronize_v2, 0, NULL, NULL, 0, (han)(uintptr_t)(0x1000 + HOME))
    ROW(cuEventSynchronize, 0, NULL, NULL, 0, STREAM)
    BOTH(cuStreamQuery, _ptsz, 0, STREAM, NULL, 0, STREAM)
    ROW(cuEventQuery, 0, NULL, NULL, 0, STREAM)
    BOTH(cuEventRecord, _ptsz, 0, STREAM, NULL, 0, FUNCTION, STREAM)
    BOTH(cuEventRecordWithFlags, _ptsz, 0, STREAM, NULL, 0, FUNCTION, STREAM, 0)
    BOTH(cuStreamWaitEvent, _ptsz, 0, STREAM, NULL, 0, STREAM, FUNCTION, 0)
    answer_with(NOT_READY); /* polling: counted, no records */
    for (int i = 0; i < ROUNDS; i++)
        (void)(cuStreamQuery(STREAM) + cuStreamQuery_ptsz(STREAM) + cuEventQuery(STREAM));
    answer_with(0);
}

/* ROUNDS - 1 blocks taken and given back; then one that is refused, and one whose first free is refused */
#define ALLOCATE_AND_FREE(type, allocate, taken, given, ordinal, free, stream, ALLOCATE, FREE)                       \
    for (unsigned round = 0; round < ROUNDS; round++) {                                                              \
        type block = 0;                                                                                              \
        size_t n = 300007 + round;                                                                                   \
        if (round == ROUNDS - 1) {                                                                                   \
            answer_with(FAILED);                                                                                     \
            CALL(allocate, taken, stream, NULL, 0, ordinal, ALLOCATE);                                               \
            answer_with(0);                                                                                          \
        }                                                                                                            \
        CALL(allocate, taken, stream, NULL, 0, ordinal, ALLOCATE);                                                   \
        if (round == ROUNDS - 1) {                                                                                   \
            answer_with(FAILED);                                                                                     \
            CALL(free, given, stream, NULL, 0, ordinal, FREE);                                                       \
            answer_with(0);                                                                                          \
        }                                                                                                            \
        CALL(free, given, stream, NULL, 0, ordinal, FREE);                                                           \
    }
#define LIST(...) __VA_ARGS__

#include "mapped.h"

static void memory(void)
{
    size_t pitch = 0;
    int properties[8] = {1, 0, 1, PHYSICAL_DEVICE};
    han pool = (han)0x77;
    ALLOCATE_AND_FREE(ptr, cuMemAlloc_v2, n, n, HOME, cuMemFree_v2, NULL, LIST(&block, n), LIST(block))
    ALLOCATE_AND_FREE(ptr, cuMemAllocPitch_v2, 1024 * n, 1024 * n, HOME, cuMemFree_v2, NULL,
                      LIST(&block, &pitch, 1000, n, 4), LIST(block))
    ALLOCATE_AND_FREE(ptr, cuMemAllocManaged, n, 0, HOME, cuMemFree_v2, NULL, LIST(&block, n, 1), LIST(block))
    ALLOCATE_AND_FREE(ptr, cuMemAllocAsync, n, n, HOME, cuMemFreeAsync, STREAM, LIST(&block, n, STREAM),
                      LIST(block, STREAM))
    ALLOCATE_AND_FREE(ptr, cuMemAllocAsync_ptsz, n, n, HOME, cuMemFreeAsync_ptsz, STREAM, LIST(&block, n, STREAM),
                      LIST(block, STREAM))
    ALLOCATE_AND_FREE(ptr, cuMemAllocFromPoolAsync, n, n, HOME, cuMemFreeAsync, STREAM,
                      LIST(&block, n, pool, STREAM), LIST(block, STREAM))
    ALLOCATE_AND_FREE(ptr, cuMemAllocFromPoolAsync_ptsz, n, n, HOME, cuMemFreeAsync_ptsz, STREAM,
                      LIST(&block, n, pool, STREAM), LIST(block, STREAM))
    ALLOCATE_AND_FREE(ptr, cuMemCreate, n, n, PHYSICAL_DEVICE, cuMemRelease, NULL, LIST(&block, n, properties, 0),
                      LIST(block))
    for (unsigned round = 0; round < ROUNDS; round++) { /* of two handles to one block, the last gives it back */
        ptr block, again;
        CALL(cuMemCreate, 300007, NULL, NULL, 0, PHYSICAL_DEVICE, &block, 300007, properties, 0);
        cuMemRetainAllocationHandle(&again, (void *)block);
        answer_with(FAILED);
        cuMemRetainAllocationHandle(&again, (void *)block);
        CALL(cuMemRelease, 0, NULL, NULL, 0, PHYSICAL_DEVICE, again);
        answer_with(0);
        CALL(cuMemRelease, 0, NULL, NULL, 0, PHYSICAL_DEVICE, again);
        CALL(cuMemRelease, 300007, NULL, NULL, 0, PHYSICAL_DEVICE, block);
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        mappings(properties);
    ALLOCATE_AND_FREE(void *, cuMemAllocHost_v2, n, n, HOME, cuMemFreeHost, NULL, LIST(&block, n), LIST(block))
    ALLOCATE_AND_FREE(void *, cuMemHostAlloc, n, n, HOME, cuMemFreeHost, NULL, LIST(&block, n, 0), LIST(block))
}

#include "contexts.h"

int main(int count, char **arguments)
{
    han home = NULL;
    if (count > 1 && !strcmp(arguments[1], "wait")) {
        puts("waiting");
        fflush(stdout);
        getchar();
    }
    CALL(cuInit, 0, NULL, NULL, 0, NOWHERE, 0);
    CALL(cuDevicePrimaryCtxRetain, 0, NULL, NULL, 0, HOME, &home, HOME);
    CALL(cuStreamSynchronize, 0, STREAM, NULL, 0, HOME, STREAM); /* its only context is taken for the current one */
    CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, HOME, home);
    launches();
    copies();
    more_copies();
    regions();
    queued();
    captures();
    waits();
    memory();
    contexts();
    green_contexts();
    unsigned char uuid[16];
    cuDeviceGetUuid(uuid, 5);
    cuDeviceGetUuid_v2(uuid, HOME);
    if (count > 2) {
        puts("told");
        fflush(stdout);
        getchar();
    }
    ptr left;
    CALL(cuMemAlloc_v2, 4099, NULL, NULL, 0, HOME, &left, 4099);
    CALL(cuDevicePrimaryCtxReset, 4099, NULL, NULL, 0, HOME, HOME);
    CALL(cuMemAlloc_v2, 2053, NULL, NULL, 0, HOME, &left, 2053);
    CALL(cuDevicePrimaryCtxReset_v2, 2053, NULL, NULL, 0, HOME, HOME);
    CALL(cuMemAlloc_v2, 1031, NULL, NULL, 0, HOME, &left, 1031);
    CALL(cuDevicePrimaryCtxRelease, 1031, NULL, NULL, 0, HOME, HOME);
    CALL(cuDevicePrimaryCtxRelease_v2, 0, NULL, NULL, 0, HOME, HOME);
    return 0;
}
