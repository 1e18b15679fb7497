/* The C ABI of libcuda.so.1: start, devices, contexts. */
#include "cuda_abi.h"

#include <stdio.h>
#include <string.h>

#define DRIVER_VERSION 12040

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

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal)
{
    return context_release_primary(ordinal);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    return context_reset_primary(ordinal);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice ordinal)
{
    return context_reset_primary(ordinal);
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

EXPORT CUresult cuCtxSynchronize_v2(void *context)
{
    int result = context_check(context);
    return result ? result : wait_all();
}
