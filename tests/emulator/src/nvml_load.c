/* NVML's view of a device: memory, utilisation, power, energy. */
#include "nvml.h"

struct memory_info { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct memory_info_v2 { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(void *handle, struct memory_info *memory)
{
    NVML_DEVICE(device, handle);
    device_lock(device);
    memory->total = device->spec.memory_bytes;
    memory->used = device->memory_used_bytes;
    device_unlock(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_info_v2 *memory)
{
    NVML_DEVICE(device, handle);
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    device_lock(device);
    memory->total = device->spec.memory_bytes;
    memory->used = device->memory_used_bytes;
    device_unlock(device);
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

struct utilization { /* nvmlUtilization_t, percent */
    unsigned gpu, memory;
};

EXPORT int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates)
{
    NVML_DEVICE(device, handle);
    device_lock(device);
    *rates = (struct utilization){device->gpu_util_percent, device->memory_util_percent};
    device_unlock(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(void *handle, unsigned *power_mw)
{
    NVML_DEVICE(device, handle);
    device_lock(device);
    *power_mw = (unsigned)device->power_mw;
    device_unlock(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *power_mw)
{
    NVML_DEVICE(device, handle);
    *power_mw = (unsigned)device->spec.max_power_mw;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *energy_mj)
{
    NVML_DEVICE(device, handle);
    device_lock(device);
    double span_s = (double)(device->now_ns - device->started_ns) / NS_PER_S;
    double active_s = (double)device->total.sm_ns / device->spec.sms / NS_PER_S;
    device_unlock(device);
    double range_mw = (double)(device->spec.max_power_mw - device->spec.idle_power_mw);
    *energy_mj = (unsigned long long)((double)device->spec.idle_power_mw * span_s + range_mw * active_s);
    return NVML_SUCCESS;
}
