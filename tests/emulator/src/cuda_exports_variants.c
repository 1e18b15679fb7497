/* The C ABI of libcuda.so.1: the less usual ways to have memory, to copy and to wait. */
#include "cuda_abi.h"

#include <stdlib.h>

#define DEVICE_BYTES_PER_S 1000000000000ull /* inside a device */
#define PITCH_BYTES 512u
#define LOCATION_DEVICE 1 /* CU_MEM_LOCATION_TYPE_DEVICE */

struct allocation_properties { /* the beginning of CUmemAllocationProp */
    int type, handle_types, location_type, location_id;
};

struct region_2d { /* CUDA_MEMCPY2D */
    size_t from[7], to[7], width_bytes, height;
};

struct region_3d { /* CUDA_MEMCPY3D */
    size_t from[11], to[11], width_bytes, height, depth;
};

/* --- memory --- */
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row_bytes = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
    int result = memory_allocate(MEMORY_DEVICE, row_bytes * height, (uint64_t *)address);
    if (!result)
        *pitch = row_bytes;
    return result;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(void **pool, CUdevice ordinal)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result)
        *pool = device;
    return result;
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, void *pool, void *stream)
{
    return pool ? memory_allocate_on(stream, bytes, (uint64_t *)address) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, void *pool, void *stream)
{
    return pool ? memory_allocate_on(stream, bytes, (uint64_t *)address) : CUDA_ERROR_INVALID_VALUE;
}

/* Of the current context's device only. */
EXPORT CUresult cuMemCreate(unsigned long long *handle, size_t bytes, const void *given, unsigned long long flags)
{
    const struct allocation_properties *properties = given;
    struct context *context = context_current();
    int result = context_check(context);
    if (result)
        return result;
    if (flags || !properties || properties->location_type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location_id != context->ordinal)
        return CUDA_ERROR_NOT_SUPPORTED;
    return memory_allocate(MEMORY_DEVICE, bytes, (uint64_t *)handle);
}

/* The address of a block is its handle. */
EXPORT CUresult cuMemRetainAllocationHandle(unsigned long long *handle, void *address)
{
    int result = handle ? memory_retain((uint64_t)address) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *handle = (uint64_t)address;
    return result;
}

EXPORT CUresult cuMemRelease(unsigned long long handle)
{
    return handle ? memory_free(handle, false) : CUDA_ERROR_INVALID_VALUE;
}

static int host_memory(void **address, size_t bytes)
{
    int result = context_check(context_current());
    if (result)
        return result;
    *address = bytes ? malloc(bytes) : NULL;
    return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
    return host_memory(address, bytes);
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return host_memory(address, bytes);
}

EXPORT CUresult cuMemFreeHost(void *address)
{
    int result = address ? context_check(context_current()) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        free(address);
    return result;
}

/* --- copies and fills: at the speed of the device's own memory, whichever way they go --- */
static int move(uint64_t bytes, void *stream)
{
    return copy_start(bytes, DEVICE_BYTES_PER_S, stream);
}

TWIN(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t n), to &&from ? move(n, NULL) : CUDA_ERROR_INVALID_VALUE)
TWIN(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t n, void *stream),
     to &&from ? move(n, stream) : CUDA_ERROR_INVALID_VALUE)
TWIN(cuMemcpyPeer, _ptds, (CUdeviceptr to, void *there, CUdeviceptr from, void *here, size_t n),
     to &&there &&from &&here ? move(n, NULL) : CUDA_ERROR_INVALID_VALUE)
TWIN(cuMemcpyPeerAsync, _ptsz, (CUdeviceptr to, void *there, CUdeviceptr from, void *here, size_t n, void *stream),
     to &&there &&from &&here ? move(n, stream) : CUDA_ERROR_INVALID_VALUE)

#define FILLS(bits, type)                                                                                            \
    TWIN(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t n), ((void)value, fill(to, n * sizeof(type), NULL))) \
    TWIN(cuMemsetD##bits##Async, _ptsz, (CUdeviceptr to, type value, size_t n, void *stream),                        \
         ((void)value, fill(to, n * sizeof(type), stream)))

static int fill(CUdeviceptr to, uint64_t bytes, void *stream)
{
    int result = memory_check(to, bytes);
    return result ? result : move(bytes, stream);
}

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

static int move_2d(const struct region_2d *region, void *stream)
{
    return region ? move((uint64_t)region->width_bytes * region->height, stream) : CUDA_ERROR_INVALID_VALUE;
}

static int move_3d(const struct region_3d *region, void *stream)
{
    if (!region)
        return CUDA_ERROR_INVALID_VALUE;
    return move((uint64_t)region->width_bytes * region->height * region->depth, stream);
}

TWIN(cuMemcpy2D_v2, _ptds, (const void *region), move_2d(region, NULL))
TWIN(cuMemcpy2DAsync_v2, _ptsz, (const void *region, void *stream), move_2d(region, stream))
TWIN(cuMemcpy3D_v2, _ptds, (const void *region), move_3d(region, NULL))
TWIN(cuMemcpy3DAsync_v2, _ptsz, (const void *region, void *stream), move_3d(region, stream))

static int move_all(const size_t *sizes, size_t count, void *stream)
{
    uint64_t bytes = 0;
    if (!sizes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        bytes += sizes[i];
    return move(bytes, stream);
}

TWIN(cuMemcpyBatchAsync, _ptsz,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *indices,
      size_t attribute_count, size_t *failed, void *stream),
     ((void)to, (void)from, (void)attributes, (void)indices, (void)attribute_count, (void)failed,
      move_all(sizes, count, stream)))

/* --- twins for the per-thread default stream, and waiting --- */
TWIN(cuStreamWaitEvent, _ptsz, (void *stream, void *event, unsigned flags),
     ((void)flags, stream_wait_event(stream, event)))

TWIN(cuEventRecordWithFlags, _ptsz, (void *event, void *stream, unsigned flags),
     ((void)flags, event_record(event, stream)))

EXPORT CUresult cuStreamQuery_ptsz(void *stream)
{
    return stream_query(stream);
}
