/* Calls every probed function a prime number of times and prints what each call was, in order:
 * name bytes stream function threads ordinal result. One in each row fails. */
#include "api.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 23, FAILED = 700, HOME = 3, PHYSICAL_DEVICE = 2, NOWHERE = -1 };

#define STREAM ((han)0x51)
#define FUNCTION ((han)0xf1)
#define VALUE(handle) ((unsigned long long)(uintptr_t)(handle))

static void print(const char *name, unsigned long long bytes, han stream, han function, unsigned long long threads,
                  int ordinal, int result)
{
    printf("%s %llu %llu %llu %llu %d %d\n", name, result ? 0 : bytes, VALUE(stream), VALUE(function),
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

static void launches(void)
{
    struct config config = {{65535, 3, 2}, {32, 5, 1}, 9, STREAM, NULL, 0};
    unsigned long long many = 2147483647ull * 3 * 5 * 7 * 2 * 11;
    BOTH(cuLaunchKernel, _ptsz, 0, STREAM, FUNCTION, many, FUNCTION, 2147483647, 3, 5, 7, 2, 11, 4096, STREAM, NULL,
         NULL)
    BOTH(cuLaunchKernelEx, _ptsz, 0, STREAM, FUNCTION, 65535ull * 3 * 2 * 32 * 5, &config, FUNCTION, NULL, NULL)
    BOTH(cuLaunchCooperativeKernel, _ptsz, 0, STREAM, FUNCTION, 2ull * 3 * 5 * 7 * 11 * 13, FUNCTION, 2, 3, 5, 7, 11,
         13, 4096, STREAM, NULL)
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

static void waits(void)
{
    BOTH(cuStreamSynchronize, _ptsz, 0, STREAM, NULL, 0, STREAM)
    ROW(cuCtxSynchronize, 0, NULL, NULL, 0)
    ROW(cuCtxSynchronize_v2, 0, NULL, NULL, 0, (han)(uintptr_t)(0x1000 + HOME))
    ROW(cuEventSynchronize, 0, NULL, NULL, 0, STREAM)
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
    ALLOCATE_AND_FREE(void *, cuMemAllocHost_v2, n, n, HOME, cuMemFreeHost, NULL, LIST(&block, n), LIST(block))
    ALLOCATE_AND_FREE(void *, cuMemHostAlloc, n, n, HOME, cuMemFreeHost, NULL, LIST(&block, n, 0), LIST(block))
}

/* What is current decides which device a call goes to; a free goes to the device of its allocation. */
static void contexts(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        han two, three, four, other = NULL;
        ptr block;
        CALL(cuCtxCreate_v2, 0, NULL, NULL, 0, 12, &two, 0, 12);
        CALL(cuCtxCreate_v3, 0, NULL, NULL, 0, 13, &three, NULL, 0, 0, 13);
        CALL(cuCtxCreate_v4, 0, NULL, NULL, 0, 14, &four, NULL, 0, 14);
        CALL(cuMemAlloc_v2, 4099, NULL, NULL, 0, 14, &block, 4099);
        CALL(cuCtxDestroy_v2, 0, NULL, NULL, 0, 14, four);
        CALL(cuMemFree_v2, 4099, NULL, NULL, 0, 14, block);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 13);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 13, &other);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxPushCurrent_v2, 0, NULL, NULL, 0, 13, three);
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, 12, two);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 12, &other);
        answer_with(FAILED); /* changes nothing */
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, 12, three);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, 12, &other);
        CALL(cuCtxCreate_v2, 0, NULL, NULL, 0, 15, &other, 0, 15);
        answer_with(0);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, 12);
        CALL(cuCtxDestroy_v2, 0, NULL, NULL, 0, 13, three); /* not the current one */
        CALL(cuCtxSetCurrent, 0, NULL, NULL, 0, NOWHERE, (han)0x9999); /* a context nobody saw being made */
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, NOWHERE);
        CALL(cuCtxPopCurrent_v2, 0, NULL, NULL, 0, NOWHERE, &other);
        CALL(cuCtxSynchronize, 0, NULL, NULL, 0, HOME);
        CALL(cuCtxDestroy_v2, 0, NULL, NULL, 0, 12, two);
    }
}

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
    waits();
    memory();
    contexts();
    CALL(cuDevicePrimaryCtxRelease_v2, 0, NULL, NULL, 0, HOME, HOME);
    return 0;
}
