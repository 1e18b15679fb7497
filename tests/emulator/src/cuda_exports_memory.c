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
    (void)stream;
    return memory_allocate(MEMORY_DEVICE, bytes, (uint64_t *)address);
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, void *stream)
{
    (void)stream;
    return memory_allocate(MEMORY_DEVICE, bytes, (uint64_t *)address);
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

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    int result = from ? checked(to, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_wait(bytes, bytes > STAGED_BYTES);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    int result = to ? checked(from, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_wait(bytes, true);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    int result = checked(to, bytes);
    if (!result)
        result = checked(from, bytes);
    return result ? result : copy_start(bytes, DEVICE_COPY_BYTES_PER_S, NULL);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream)
{
    int result = from ? checked(to, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream)
{
    int result = to ? checked(from, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S, stream);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream)
{
    int result = checked(to, bytes);
    if (!result)
        result = checked(from, bytes);
    return result ? result : copy_start(bytes, DEVICE_COPY_BYTES_PER_S, stream);
}
