/* The C ABI of libcuda.so.1: memory and copies. */
#include "cuda_abi.h"

#define DEVICE_COPY_BYTES_PER_S 1000000000000ull /* inside a device */
#define STAGED_BYTES 65536 /* a smaller copy to the device is staged and returns at once */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    return memory_allocate(MEMORY_DEVICE, bytes, (uint64_t *)address);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    if (flags != 1 && flags != 2) /* GLOBAL, HOST */
        return CUDA_ERROR_INVALID_VALUE;
    return memory_allocate(MEMORY_MANAGED, bytes, (uint64_t *)address);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, void *stream)
{
    return memory_allocate_on(stream, bytes, (uint64_t *)address);
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, void *stream)
{
    return memory_allocate_on(stream, bytes, (uint64_t *)address);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    return memory_free(address, true);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, void *stream)
{
    (void)stream;
    return memory_free(address, false);
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, void *stream)
{
    (void)stream;
    return memory_free(address, false);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t available = 0, total = 0;
    int result = memory_info(&available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return result;
}

/* --- copies: they take the copy engine's time, never a multiprocessor's, and move no bytes --- */
static int checked(CUdeviceptr address, size_t bytes)
{
    int result = context_check(context_current());
    return result ? result : memory_check(address, bytes);
}

static int to_device(CUdeviceptr to, const void *from, size_t bytes)
{
    int result = from ? checked(to, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_wait(bytes, bytes > STAGED_BYTES);
}

static int to_host(void *to, CUdeviceptr from, size_t bytes)
{
    int result = to ? checked(from, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_wait(bytes, true);
}

static int queue_with_host(const void *host, CUdeviceptr address, size_t bytes, void *stream)
{
    int result = host ? checked(address, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S, stream);
}

static int inside(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream)
{
    int result = checked(to, bytes);
    if (!result)
        result = checked(from, bytes);
    return result ? result : copy_start(bytes, DEVICE_COPY_BYTES_PER_S, stream);
}

TWIN(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t n), to_device(to, from, n))
TWIN(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t n), to_host(to, from, n))
TWIN(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t n), inside(to, from, n, NULL))
TWIN(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t n, void *stream),
     queue_with_host(from, to, n, stream))
TWIN(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t n, void *stream),
     queue_with_host(to, from, n, stream))
TWIN(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t n, void *stream),
     inside(to, from, n, stream))
