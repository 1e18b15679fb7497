/* The C ABI of libcuda.so.1. Each function has a body and an address of its own and calls no other exported
 * one, so a probe on a symbol fires exactly once a call. */
#include "cuda_state.h"

#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"), noinline, noclone, used))
#define DRIVER_VERSION 12040
#define DEVICE_COPY_BYTES_PER_S 1000000000000ull /* inside a device */
#define PCIE_BYTES_PER_S 12000000000ull
#define STAGED_BYTES 65536 /* a smaller copy to the device is staged and returns at once */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

struct launch_config { /* CUlaunchConfig */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

static uint64_t volume(unsigned x, unsigned y, unsigned z)
{
    return (uint64_t)x * y * z;
}

/* --- start and devices --- */
EXPORT CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : state_init();
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    return state_device_count(count);
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    struct device *found;
    int result = state_device(ordinal, &found);
    if (!result)
        *device = ordinal;
    return result;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result)
        snprintf(name, (size_t)length, "%s", device->spec.name);
    return result;
}

static int device_uuid(void *uuid, CUdevice ordinal)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result)
        memcpy(uuid, device->spec.uuid, UUID_BYTES);
    return result;
}

EXPORT CUresult cuDeviceGetUuid(void *uuid, CUdevice ordinal)
{
    return device_uuid(uuid, ordinal);
}

EXPORT CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice ordinal)
{
    return device_uuid(uuid, ordinal);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (!result)
        *bytes = device->spec.memory_bytes;
    return result;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice ordinal)
{
    struct device *device;
    int result = state_device(ordinal, &device);
    if (result)
        return result;
    switch (attribute) {
    case 1: *value = 1024; break; /* MAX_THREADS_PER_BLOCK */
    case 10: *value = 32; break;  /* WARP_SIZE */
    case 16: *value = (int)device->spec.sms; break;
    case 20: *value = device->spec.scheduling == SCHED_EXCLUSIVE ? 3 : 0; break; /* COMPUTE_MODE */
    case 33: *value = 0x10 + (int)device->spec.index; break;                     /* PCI_BUS_ID */
    case 34: *value = 0; break;                                                  /* PCI_DEVICE_ID */
    case 39: *value = 2048; break; /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 41: *value = 1; break;    /* UNIFIED_ADDRESSING */
    case 50: *value = 0; break;    /* PCI_DOMAIN_ID */
    case 75: *value = (int)device->spec.compute_major; break;
    case 76: *value = (int)device->spec.compute_minor; break;
    case 83: *value = 1; break;  /* MANAGED_MEMORY */
    case 95: *value = 1; break;  /* COOPERATIVE_LAUNCH */
    case 115: *value = 1; break; /* MEMORY_POOLS_SUPPORTED */
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* --- contexts --- */
EXPORT CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice ordinal)
{
    return context_retain_primary(ordinal, (struct context **)context);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    return context_release_primary(ordinal);
}

EXPORT CUresult cuCtxCreate_v2(void **context, unsigned flags, CUdevice ordinal)
{
    (void)flags;
    return context_create(ordinal, (struct context **)context);
}

EXPORT CUresult cuCtxCreate_v3(void **context, void *affinity, int count, unsigned flags, CUdevice ordinal)
{
    (void)affinity, (void)flags;
    return count ? CUDA_ERROR_NOT_SUPPORTED : context_create(ordinal, (struct context **)context);
}

EXPORT CUresult cuCtxCreate_v4(void **context, void *parameters, unsigned flags, CUdevice ordinal)
{
    (void)flags;
    return parameters ? CUDA_ERROR_NOT_SUPPORTED : context_create(ordinal, (struct context **)context);
}

EXPORT CUresult cuCtxDestroy_v2(void *context)
{
    return context_destroy(context);
}

EXPORT CUresult cuCtxSetCurrent(void *context)
{
    return context_set_current(context);
}

EXPORT CUresult cuCtxGetCurrent(void **context)
{
    int count, result = state_device_count(&count);
    if (!result)
        *context = context_current();
    return result;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *ordinal)
{
    struct context *context = context_current();
    int result = context_check(context);
    if (!result)
        *ordinal = context->ordinal;
    return result;
}

EXPORT CUresult cuCtxPushCurrent_v2(void *context)
{
    return context_push(context);
}

EXPORT CUresult cuCtxPopCurrent_v2(void **context)
{
    return context_pop((struct context **)context);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    return wait_all();
}

/* --- memory --- */
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
    return result ? result : copy_start(bytes, DEVICE_COPY_BYTES_PER_S);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    int result = from ? checked(to, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream)
{
    (void)stream;
    int result = to ? checked(from, bytes) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : copy_start(bytes, PCIE_BYTES_PER_S);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream)
{
    (void)stream;
    int result = checked(to, bytes);
    if (!result)
        result = checked(from, bytes);
    return result ? result : copy_start(bytes, DEVICE_COPY_BYTES_PER_S);
}

/* --- launches --- */
EXPORT CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)shared, (void)extra;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

EXPORT CUresult cuLaunchKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                    unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)shared, (void)extra;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

EXPORT CUresult cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                          unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters)
{
    (void)shared;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

static int launch_configured(const struct launch_config *config, void *function, void **parameters)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, volume(config->grid_x, config->grid_y, config->grid_z),
                  volume(config->block_x, config->block_y, config->block_z), config->stream, parameters);
}

EXPORT CUresult cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra)
{
    (void)extra;
    return launch_configured(config, function, parameters);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const void *config, void *function, void **parameters, void **extra)
{
    (void)extra;
    return launch_configured(config, function, parameters);
}

/* --- streams and events --- */
EXPORT CUresult cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    return stream_create(stream);
}

EXPORT CUresult cuStreamDestroy_v2(void *stream)
{
    return stream_destroy(stream);
}

EXPORT CUresult cuStreamSynchronize(void *stream)
{
    return stream_wait(stream);
}

EXPORT CUresult cuStreamSynchronize_ptsz(void *stream)
{
    return stream_wait(stream);
}

EXPORT CUresult cuStreamQuery(void *stream)
{
    return stream_query(stream);
}

EXPORT CUresult cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    return event_create(event);
}

EXPORT CUresult cuEventRecord(void *event, void *stream)
{
    return event_record(event, stream);
}

EXPORT CUresult cuEventRecord_ptsz(void *event, void *stream)
{
    return event_record(event, stream);
}

EXPORT CUresult cuEventSynchronize(void *event)
{
    return event_wait(event);
}

EXPORT CUresult cuEventQuery(void *event)
{
    return event_query(event);
}

EXPORT CUresult cuEventDestroy_v2(void *event)
{
    return event_destroy(event);
}
