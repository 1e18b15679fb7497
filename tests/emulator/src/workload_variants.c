/* Each of the less usual calls a prime number of times, some of which fail, and a report of what was called. */
#include "workload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, BLOCKS = 3, BLOCK_THREADS = 32, MOST_NAMES = 64, NODES = 5 };

typedef unsigned long long address;

#define BOTH(name, suffix, prototype) int name prototype; int name##suffix prototype;
int cuDeviceGetDefaultMemPool(void **pool, int device);
int cuGraphCreate(void **graph, unsigned flags);
int cuGraphAddKernelNode_v2(void **node, void *graph, const void **after, size_t count, const void *parameters);
int cuGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags);
int cuGraphExecDestroy(void *instance);
int cuGraphDestroy(void *graph);
int cuMemAllocPitch_v2(address *block, size_t *pitch, size_t width, size_t height, unsigned element);
int cuMemCreate(address *handle, size_t bytes, const void *properties, unsigned long long flags);
int cuMemRelease(address handle);
int cuMemAllocHost_v2(void **block, size_t bytes);
int cuMemHostAlloc(void **block, size_t bytes, unsigned flags);
int cuMemFreeHost(void *block);
BOTH(cuGraphLaunch, _ptsz, (void *instance, void *stream))
BOTH(cuMemAllocFromPoolAsync, _ptsz, (address * block, size_t bytes, void *pool, void *stream))
BOTH(cuMemcpy, _ptds, (address to, address from, size_t bytes))
BOTH(cuMemcpyAsync, _ptsz, (address to, address from, size_t bytes, void *stream))
BOTH(cuMemcpyPeer, _ptds, (address to, void *there, address from, void *here, size_t bytes))
BOTH(cuMemcpyPeerAsync, _ptsz, (address to, void *there, address from, void *here, size_t bytes, void *stream))
BOTH(cuMemsetD8_v2, _ptds, (address to, unsigned char value, size_t count))
BOTH(cuMemsetD16_v2, _ptds, (address to, unsigned short value, size_t count))
BOTH(cuMemsetD32_v2, _ptds, (address to, unsigned value, size_t count))
BOTH(cuMemsetD8Async, _ptsz, (address to, unsigned char value, size_t count, void *stream))
BOTH(cuMemsetD16Async, _ptsz, (address to, unsigned short value, size_t count, void *stream))
BOTH(cuMemsetD32Async, _ptsz, (address to, unsigned value, size_t count, void *stream))
BOTH(cuMemcpy2D_v2, _ptds, (const void *region))
BOTH(cuMemcpy2DAsync_v2, _ptsz, (const void *region, void *stream))
BOTH(cuMemcpy3D_v2, _ptds, (const void *region))
BOTH(cuMemcpy3DAsync_v2, _ptsz, (const void *region, void *stream))
BOTH(cuMemcpyBatchAsync, _ptsz, (address * to, address *from, size_t *sizes, size_t count, void *attributes,
                                 size_t *indices, size_t attribute_count, size_t *failed, void *stream))
BOTH(cuStreamWaitEvent, _ptsz, (void *stream, void *event, unsigned flags))
BOTH(cuEventRecordWithFlags, _ptsz, (void *event, void *stream, unsigned flags))
int cuStreamQuery_ptsz(void *stream);

static struct count {
    const char *name;
    uint64_t ok, failed, bytes_ok, bytes_failed;
} counts[MOST_NAMES];
static unsigned wrong;

static void note(const char *name, int result, int expected, uint64_t bytes)
{
    struct count *count = counts;
    while (count->name && strcmp(count->name, name))
        count++;
    count->name = name;
    if (result != expected) {
        fprintf(stderr, "workload: %s returned %d, not %d\n", name, result, expected);
        wrong++;
    }
    if (result)
        count->failed++, count->bytes_failed += bytes;
    else
        count->ok++, count->bytes_ok += bytes;
}

#define TIMES(n, name, expected, bytes, ...)                                                                         \
    for (int i = 0; i < (n); i++)                                                                                    \
    note(#name, name(__VA_ARGS__), expected, bytes)
#define TWINS(n, m, name, suffix, bytes, ...)                                                                        \
    TIMES(n, name, 0, bytes, __VA_ARGS__);                                                                           \
    TIMES(m, name##suffix, 0, bytes, __VA_ARGS__)

static void memory(int device)
{
    address blocks[13];
    size_t pitch;
    void *pool, *host[7];
    int properties[8] = {1, 0, 1, device};
    check(cuDeviceGetDefaultMemPool(&pool, device), "cuDeviceGetDefaultMemPool");
    TIMES(7, cuMemAllocPitch_v2, 0, 512 * 2 * 101, &blocks[i], &pitch, 1009, 101, 4);
    TIMES(2, cuMemAllocPitch_v2, INVALID_VALUE, 0, &blocks[0], &pitch, 1009, 101, 5);
    TIMES(7, cuMemFree_v2, 0, 0, blocks[i]);
    TIMES(11, cuMemAllocFromPoolAsync, 0, 300007, &blocks[i], 300007, pool, NULL);
    TIMES(3, cuMemAllocFromPoolAsync, INVALID_VALUE, 300007, &blocks[12], 300007, NULL, NULL);
    TIMES(11, cuMemFreeAsync, 0, 0, blocks[i], NULL);
    TIMES(5, cuMemAllocFromPoolAsync_ptsz, 0, 300007, &blocks[i], 300007, pool, NULL);
    TIMES(5, cuMemFreeAsync_ptsz, 0, 0, blocks[i], NULL);
    TIMES(13, cuMemCreate, 0, 2 << 20, &blocks[i], 2 << 20, properties, 0);
    TIMES(2, cuMemCreate, INVALID_VALUE, 2 << 20, &blocks[0], 2 << 20, NULL, 0);
    TIMES(13, cuMemRelease, 0, 0, blocks[i]);
    TIMES(3, cuMemRelease, INVALID_VALUE, 0, 0);
    TIMES(7, cuMemAllocHost_v2, 0, 4099, &host[i], 4099);
    TIMES(7, cuMemFreeHost, 0, 0, host[i]);
    TIMES(5, cuMemHostAlloc, 0, 8209, &host[i], 8209, 0);
    TIMES(5, cuMemFreeHost, 0, 0, host[i]);
    TIMES(2, cuMemFreeHost, INVALID_VALUE, 0, NULL);
}

static void copies(void *context, void *stream, address block)
{
    size_t sizes[] = {101, 103, 107}, none = 0;
    address places[] = {block, block, block};
    size_t flat[16] = {[2] = 4, [9] = 4, [14] = 101, [15] = 7}, deep[25] = {[4] = 4, [15] = 4, [22] = 101, [23] = 7, [24] = 3};
    TWINS(17, 5, cuMemcpy, _ptds, 4099, block, block, 4099);
    TIMES(3, cuMemcpy, INVALID_VALUE, 4099, 0, block, 4099);
    TWINS(13, 3, cuMemcpyAsync, _ptsz, 2053, block, block, 2053, stream);
    TWINS(7, 2, cuMemcpyPeer, _ptds, 1031, block, context, block, context, 1031);
    TWINS(11, 3, cuMemcpyPeerAsync, _ptsz, 1033, block, context, block, context, 1033, stream);
    TWINS(5, 3, cuMemsetD8_v2, _ptds, 1009, block, 0, 1009);
    TWINS(7, 2, cuMemsetD16_v2, _ptds, 2 * 1009, block, 0, 1009);
    TWINS(11, 5, cuMemsetD32_v2, _ptds, 4 * 1009, block, 0, 1009);
    TIMES(2, cuMemsetD32_v2, INVALID_VALUE, 4 * 1009, 12345, 0, 1009);
    TWINS(5, 2, cuMemsetD8Async, _ptsz, 1013, block, 0, 1013, stream);
    TWINS(3, 2, cuMemsetD16Async, _ptsz, 2 * 1013, block, 0, 1013, stream);
    TWINS(13, 3, cuMemsetD32Async, _ptsz, 4 * 1013, block, 0, 1013, stream);
    TWINS(7, 3, cuMemcpy2D_v2, _ptds, 101 * 7, flat);
    TIMES(2, cuMemcpy2D_v2, INVALID_VALUE, 0, NULL);
    TWINS(5, 2, cuMemcpy2DAsync_v2, _ptsz, 101 * 7, flat, stream);
    TWINS(11, 3, cuMemcpy3D_v2, _ptds, 101 * 7 * 3, deep);
    TWINS(3, 2, cuMemcpy3DAsync_v2, _ptsz, 101 * 7 * 3, deep, stream);
    TWINS(7, 5, cuMemcpyBatchAsync, _ptsz, 101 + 103 + 107, places, places, sizes, 3, NULL, &none, 1, &none, stream);
}

static void waiting_and_graphs(const struct options *options, void *stream, void *event)
{
    struct kernel kernel = kernel_of(options, 20.0);
    void *parameters[] = {&kernel}, *graph, *instance, *node;
    struct {
        void *function;
        unsigned grid[3], block[3], shared;
        void **parameters;
    } shape = {(void *)0x100, {BLOCKS, 1, 1}, {BLOCK_THREADS, 1, 1}, 0, parameters};
    check(cuGraphCreate(&graph, 0), "cuGraphCreate");
    for (int i = 0; i < NODES; i++)
        check(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &shape), "cuGraphAddKernelNode_v2");
    check(cuGraphInstantiateWithFlags(&instance, graph, 0), "cuGraphInstantiateWithFlags");
    TWINS(17, 7, cuGraphLaunch, _ptsz, 0, instance, stream);
    TIMES(3, cuGraphLaunch, INVALID_HANDLE, 0, NULL, stream);
    TWINS(5, 3, cuEventRecordWithFlags, _ptsz, 0, event, stream, 0);
    TWINS(7, 2, cuStreamWaitEvent, _ptsz, 0, stream, event, 0);
    TIMES(2, cuStreamWaitEvent, INVALID_HANDLE, 0, stream, NULL, 0);
    TIMES(3, cuStreamSynchronize, 0, 0, stream);
    TIMES(5, cuStreamQuery_ptsz, 0, 0, stream);
    check(cuGraphExecDestroy(instance), "cuGraphExecDestroy");
    check(cuGraphDestroy(graph), "cuGraphDestroy");
}

int run_variants(const struct options *options)
{
    int device;
    void *context, *stream, *event;
    address block;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, options->device), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, 0), "cuStreamCreate");
    check(cuEventCreate(&event, 0), "cuEventCreate");
    TIMES(1, cuMemAlloc_v2, 0, 65537, &block, 65537);
    for (unsigned round = 0; round < options->rounds; round++) {
        memory(device);
        copies(context, stream, block);
        waiting_and_graphs(options, stream, event);
    }
    printf("{\"pid\": %d, \"calls\": {", getpid());
    for (const char *const *name = (const char *const[]){"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", NULL};
         *name; name++)
        note(*name, 0, 0, 0);
    for (const struct count *count = counts; count->name; count++)
        printf("%s\"%s\": {\"calls\": %lu, \"ok\": %lu, \"failed\": %lu, \"bytes_ok\": %lu, \"bytes_failed\": %lu, "
               "\"threads_launched\": 0}",
               count == counts ? "" : ", ", count->name, count->ok + count->failed, count->ok, count->failed,
               count->bytes_ok, count->bytes_failed);
    puts("}}");
    return wrong ? 4 : 0;
}
