/* The C ABI of libcuda.so.1: the rarest ways to copy and to fill. An array is any handle, and holds anything. */
#include "cuda_abi.h"

#define DEVICE_BYTES_PER_S 1000000000000ull /* inside a device */

struct location { /* CUmemLocation */
    int type, id;
};

struct region_3d { /* CUDA_MEMCPY3D_PEER */
    size_t from[11], to[11], width_bytes, height, depth;
};

static int move(uint64_t bytes, void *stream)
{
    return copy_start(bytes, DEVICE_BYTES_PER_S, stream);
}

/* --- fills of rows --- */
static int fill_rows(CUdeviceptr to, size_t pitch, uint64_t width_bytes, size_t rows, void *stream)
{
    int result = rows ? memory_check(to, (rows - 1) * pitch + width_bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : move(width_bytes * rows, stream);
}

#define FILLS(bits, type)                                                                                            \
    TWIN(cuMemsetD2D##bits##_v2, _ptds, (CUdeviceptr to, size_t pitch, type value, size_t width, size_t rows),       \
         ((void)value, fill_rows(to, pitch, width * sizeof(type), rows, NULL)))                                      \
    TWIN(cuMemsetD2D##bits##Async, _ptsz,                                                                            \
         (CUdeviceptr to, size_t pitch, type value, size_t width, size_t rows, void *stream),                        \
         ((void)value, fill_rows(to, pitch, width * sizeof(type), rows, stream)))

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

/* --- prefetches --- */
static int prefetch(CUdeviceptr address, size_t bytes, void *stream)
{
    int result = memory_check(address, bytes);
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S, stream);
}

TWIN(cuMemPrefetchAsync, _ptsz, (CUdeviceptr address, size_t n, CUdevice to, void *stream),
     ((void)to, prefetch(address, n, stream)))
TWIN(cuMemPrefetchAsync_v2, _ptsz,
     (CUdeviceptr address, size_t n, struct location to, unsigned flags, void *stream),
     ((void)to, flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, n, stream)))

/* --- arrays --- */
static int move_array(const void *one, const void *other, uint64_t bytes, void *stream)
{
    return one && other ? move(bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

static int move_linear(const void *array, CUdeviceptr address, uint64_t bytes)
{
    int result = array ? memory_check(address, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : move(bytes, NULL);
}

TWIN(cuMemcpyHtoA_v2, _ptds, (void *array, size_t at, const void *from, size_t n),
     ((void)at, move_array(array, from, n, NULL)))
TWIN(cuMemcpyAtoH_v2, _ptds, (void *to, void *array, size_t at, size_t n),
     ((void)at, move_array(array, to, n, NULL)))
TWIN(cuMemcpyDtoA_v2, _ptds, (void *array, size_t at, CUdeviceptr from, size_t n),
     ((void)at, move_linear(array, from, n)))
TWIN(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, void *array, size_t at, size_t n),
     ((void)at, move_linear(array, to, n)))
TWIN(cuMemcpyAtoA_v2, _ptds, (void *to, size_t to_at, void *from, size_t from_at, size_t n),
     ((void)to_at, (void)from_at, move_array(to, from, n, NULL)))
TWIN(cuMemcpyHtoAAsync_v2, _ptsz, (void *array, size_t at, const void *from, size_t n, void *stream),
     ((void)at, move_array(array, from, n, stream)))
TWIN(cuMemcpyAtoHAsync_v2, _ptsz, (void *to, void *array, size_t at, size_t n, void *stream),
     ((void)at, move_array(array, to, n, stream)))

/* --- regions and batches --- */
static int move_rows(const size_t *flat, void *stream) /* CUDA_MEMCPY2D, whose last two words are its extent */
{
    return flat ? move((uint64_t)flat[14] * flat[15], stream) : CUDA_ERROR_INVALID_VALUE;
}

static int move_peer(const struct region_3d *region, void *stream)
{
    if (!region)
        return CUDA_ERROR_INVALID_VALUE;
    return move((uint64_t)region->width_bytes * region->height * region->depth, stream);
}

TWIN(cuMemcpy2DUnaligned_v2, _ptds, (const void *region), move_rows(region, NULL))
TWIN(cuMemcpy3DPeer, _ptds, (const void *region), move_peer(region, NULL))
TWIN(cuMemcpy3DPeerAsync, _ptsz, (const void *region, void *stream), move_peer(region, stream))

static int move_listed(const size_t *sizes, size_t count, void *stream)
{
    uint64_t bytes = 0;
    if (!sizes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        bytes += sizes[i];
    return move(bytes, stream);
}

TWIN(cuMemcpyBatchAsync_v2, _ptsz,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *indices,
      size_t attribute_count, void *stream),
     ((void)to, (void)from, (void)attributes, (void)indices, (void)attribute_count,
      move_listed(sizes, count, stream)))
