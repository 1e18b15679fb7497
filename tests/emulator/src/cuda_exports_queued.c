/* The C ABI of libcuda.so.1: what is queued to a stream and is neither a launch nor a plain copy. A value that a stream
 * waits for is there already. */
#include "cuda_abi.h"

#define DEVICE_BYTES_PER_S 1000000000000ull /* inside a device */
#define OPERAND_ADDRESS 1                    /* CU_MEMCPY_OPERAND_TYPE_POINTER */
#define BYTES_OF_AN_ELEMENT 4                /* of an array, which holds anything */

typedef unsigned long long flags64;

struct operand { /* CUmemcpy3DOperand */
    int type;
    size_t rest[4];
};

struct operation { /* CUDA_MEMCPY3D_BATCH_OP */
    struct operand from, to;
    size_t extent[3];
    unsigned order, flags;
};

struct decompressed { /* CUmemDecompressParams */
    size_t from_bytes, to_bytes;
    void *places[3];
    unsigned algorithm;
    unsigned char padding[20];
};

static int known(void *stream)
{
    int result = stream_is_captured(stream) ? CUDA_SUCCESS : stream_query(stream);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static int at_address(void *stream, CUdeviceptr address)
{
    int result = known(stream);
    return result ? result : memory_check(address, 1);
}

static int listed(const void *list, size_t count, void *stream)
{
    return list && count ? known(stream) : CUDA_ERROR_INVALID_VALUE;
}

/* --- copies --- */
static int move_operations(const struct operation *list, size_t count, void *stream)
{
    uint64_t bytes = 0;
    if (!list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        int addresses = list[i].from.type == OPERAND_ADDRESS && list[i].to.type == OPERAND_ADDRESS;
        bytes += list[i].extent[0] * list[i].extent[1] * list[i].extent[2] * (addresses ? 1 : BYTES_OF_AN_ELEMENT);
    }
    return copy_start(bytes, DEVICE_BYTES_PER_S, stream);
}

static int move_sizes(const size_t *sizes, size_t count, uint64_t bytes_per_s, void *stream)
{
    uint64_t bytes = 0;
    if (!sizes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        bytes += sizes[i];
    return copy_start(bytes, bytes_per_s, stream);
}

static int decompress(const struct decompressed *list, size_t count, void *stream)
{
    uint64_t bytes = 0;
    if (!list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        bytes += list[i].to_bytes;
    return copy_start(bytes, DEVICE_BYTES_PER_S, stream);
}

TWIN(cuMemcpy3DBatchAsync, _ptsz, (size_t n, void *list, size_t *failed, flags64 flags, void *stream),
     ((void)failed, (void)flags, move_operations(list, n, stream)))
TWIN(cuMemcpy3DBatchAsync_v2, _ptsz, (size_t n, void *list, flags64 flags, void *stream),
     ((void)flags, move_operations(list, n, stream)))
TWIN(cuMemcpy3DWithAttributesAsync, _ptsz, (void *one, flags64 flags, void *stream),
     ((void)flags, move_operations(one, 1, stream)))
TWIN(cuMemcpyWithAttributesAsync, _ptsz,
     (CUdeviceptr to, CUdeviceptr from, size_t n, void *attributes, void *stream),
     ((void)attributes, to &&from ? copy_start(n, DEVICE_BYTES_PER_S, stream) : CUDA_ERROR_INVALID_VALUE))

#define PREFETCHES                                                                                                   \
    (CUdeviceptr * addresses, size_t *sizes, size_t count, void *places, size_t *indices, size_t place_count,        \
     flags64 flags, void *stream)
#define PREFETCH                                                                                                     \
    ((void)addresses, (void)places, (void)indices, (void)place_count, (void)flags,                                   \
     move_sizes(sizes, count, PCIE_BYTES_PER_S, stream))

TWIN(cuMemPrefetchBatchAsync, _ptsz, PREFETCHES, PREFETCH)
TWIN(cuMemDiscardAndPrefetchBatchAsync, _ptsz, PREFETCHES, PREFETCH)
TWIN(cuMemDiscardBatchAsync, _ptsz,
     (CUdeviceptr * addresses, size_t *sizes, size_t count, flags64 flags, void *stream),
     ((void)addresses, (void)flags, sizes ? listed(sizes, count, stream) : CUDA_ERROR_INVALID_VALUE))
TWIN(cuMemBatchDecompressAsync, _ptsz, (void *list, size_t n, unsigned flags, size_t *failed, void *stream),
     ((void)flags, (void)failed, decompress(list, n, stream)))
TWIN(cuFabricCpyBatchAsync, _ptsz, (size_t n, void *list, flags64 flags, void *stream),
     ((void)flags, listed(list, n, stream)))
TWIN(cuMemMapArrayAsync, _ptsz, (void *list, unsigned n, void *stream), listed(list, n, stream))

/* --- graphs and functions of the host --- */
typedef void host_function(void *);

static int call(void *stream, host_function *function, void *data)
{
    int result = function ? stream_wait(stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        function(data);
    return result;
}

TWIN(cuGraphUpload, _ptsz, (void *instance, void *stream), instance ? known(stream) : CUDA_ERROR_INVALID_VALUE)
TWIN(cuLaunchHostFunc_v2, _ptsz, (void *stream, host_function *function, void *data, unsigned mode),
     ((void)mode, call(stream, function, data)))

typedef void callback(void *stream, CUresult status, void *data);

static int call_back(void *stream, callback *function, void *data)
{
    int result = function ? stream_wait(stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        function(stream, CUDA_SUCCESS, data);
    return result;
}

TWIN(cuStreamAddCallback, _ptsz, (void *stream, callback *function, void *data, unsigned flags),
     ((void)flags, call_back(stream, function, data)))

/* --- values and semaphores --- */
TWIN(cuStreamBatchMemOp, _ptsz, (void *stream, unsigned n, void *list, unsigned flags),
     ((void)flags, listed(list, n, stream)))
TWIN(cuStreamBatchMemOp_v2, _ptsz, (void *stream, unsigned n, void *list, unsigned flags),
     ((void)flags, listed(list, n, stream)))
TWIN(cuStreamWriteValue32, _ptsz, (void *stream, CUdeviceptr address, uint32_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWriteValue32_v2, _ptsz, (void *stream, CUdeviceptr address, uint32_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWriteValue64, _ptsz, (void *stream, CUdeviceptr address, uint64_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWriteValue64_v2, _ptsz, (void *stream, CUdeviceptr address, uint64_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWaitValue32, _ptsz, (void *stream, CUdeviceptr address, uint32_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWaitValue32_v2, _ptsz, (void *stream, CUdeviceptr address, uint32_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWaitValue64, _ptsz, (void *stream, CUdeviceptr address, uint64_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuStreamWaitValue64_v2, _ptsz, (void *stream, CUdeviceptr address, uint64_t value, unsigned flags),
     ((void)value, (void)flags, at_address(stream, address)))
TWIN(cuSignalExternalSemaphoresAsync, _ptsz,
     (void *const *semaphores, const void *parameters, unsigned n, void *stream),
     ((void)parameters, listed(semaphores, n, stream)))
TWIN(cuWaitExternalSemaphoresAsync, _ptsz,
     (void *const *semaphores, const void *parameters, unsigned n, void *stream),
     ((void)parameters, listed(semaphores, n, stream)))

/* --- events of whole contexts --- */
static int with_event(void *context, void *event)
{
    int result = context ? event_query(event) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

#define OF_CONTEXT(name)                                                                                             \
    EXPORT CUresult name(void *context, void *event)                                                                 \
    {                                                                                                                \
        return with_event(context, event);                                                                           \
    }

OF_CONTEXT(cuCtxRecordEvent)
OF_CONTEXT(cuCtxWaitEvent)
OF_CONTEXT(cuGreenCtxRecordEvent)
OF_CONTEXT(cuGreenCtxWaitEvent)
