/* The C ABI of libcudart.so.12, as far as --runtime counts it: each function does its work through libcuda.so.1,
 * which is loaded in the first call and whose functions are found by name, as the real one does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default"), noinline, noclone, used))

enum { SUCCESS = 0, INITIALIZATION_ERROR = 3, INVALID_DIRECTION = 21 };
enum kind { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE };

struct dim3 {
    unsigned x, y, z;
};

#define DRIVER(X)                                                                                                    \
    X(cuInit, (unsigned flags))                                                                                      \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                        \
    X(cuCtxSetCurrent, (void *context))                                                                              \
    X(cuCtxSynchronize, (void))                                                                                      \
    X(cuMemAlloc_v2, (unsigned long long *address, size_t bytes))                                                    \
    X(cuMemAllocAsync, (unsigned long long *address, size_t bytes, void *stream))                                    \
    X(cuMemFree_v2, (unsigned long long address))                                                                    \
    X(cuMemFreeAsync, (unsigned long long address, void *stream))                                                    \
    X(cuMemcpyHtoD_v2, (unsigned long long to, const void *from, size_t bytes))                                      \
    X(cuMemcpyDtoH_v2, (void *to, unsigned long long from, size_t bytes))                                            \
    X(cuMemcpyDtoD_v2, (unsigned long long to, unsigned long long from, size_t bytes))                               \
    X(cuMemcpyHtoDAsync_v2, (unsigned long long to, const void *from, size_t bytes, void *stream))                   \
    X(cuStreamSynchronize, (void *stream))                                                                           \
    X(cuLaunchKernel,                                                                                                \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,                 \
       unsigned shared, void *stream, void **parameters, void **extra))                                              \
    X(cuLaunchKernel_ptsz,                                                                                           \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,                 \
       unsigned shared, void *stream, void **parameters, void **extra))

#define POINTER(name, prototype) int(*name) prototype;
static struct { DRIVER(POINTER) } driver;

static __thread int ready; /* a thread has a context from its first call on */

static int load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!library)
        return INITIALIZATION_ERROR;
#define FIND(name, prototype)                                                                                        \
    if (!(driver.name = (__typeof__(driver.name))dlsym(library, #name)))                                             \
        return INITIALIZATION_ERROR;
    DRIVER(FIND)
    if (driver.cuInit(0) || driver.cuDevicePrimaryCtxRetain(&context, 0) || driver.cuCtxSetCurrent(context))
        return INITIALIZATION_ERROR;
    ready = 1;
    return SUCCESS;
}

#define DO(call) (!ready && load() ? INITIALIZATION_ERROR : driver.call)

EXPORT int cudaMalloc(void **address, size_t bytes)
{
    return DO(cuMemAlloc_v2((unsigned long long *)address, bytes));
}

EXPORT int cudaMallocAsync(void **address, size_t bytes, void *stream)
{
    return DO(cuMemAllocAsync((unsigned long long *)address, bytes, stream));
}

EXPORT int cudaFree(void *address)
{
    return DO(cuMemFree_v2((unsigned long long)address));
}

EXPORT int cudaFreeAsync(void *address, void *stream)
{
    return DO(cuMemFreeAsync((unsigned long long)address, stream));
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, enum kind kind)
{
    if (kind == HOST_TO_DEVICE)
        return DO(cuMemcpyHtoD_v2((unsigned long long)to, from, bytes));
    if (kind == DEVICE_TO_HOST)
        return DO(cuMemcpyDtoH_v2(to, (unsigned long long)from, bytes));
    if (kind == DEVICE_TO_DEVICE)
        return DO(cuMemcpyDtoD_v2((unsigned long long)to, (unsigned long long)from, bytes));
    return INVALID_DIRECTION;
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum kind kind, void *stream)
{
    if (kind != HOST_TO_DEVICE)
        return INVALID_DIRECTION;
    return DO(cuMemcpyHtoDAsync_v2((unsigned long long)to, from, bytes, stream));
}

EXPORT int cudaLaunchKernel(void *function, struct dim3 grid, struct dim3 block, void **parameters, size_t shared,
                            void *stream)
{
    return DO(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
                             parameters, NULL));
}

EXPORT int cudaLaunchKernel_ptsz(void *function, struct dim3 grid, struct dim3 block, void **parameters,
                                 size_t shared, void *stream)
{
    return DO(cuLaunchKernel_ptsz(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared,
                                  stream, parameters, NULL));
}

EXPORT int cudaStreamSynchronize(void *stream)
{
    return DO(cuStreamSynchronize(stream));
}

EXPORT int cudaDeviceSynchronize(void)
{
    return DO(cuCtxSynchronize());
}
