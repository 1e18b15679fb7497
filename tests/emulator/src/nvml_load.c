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
    if (device->spec.mig_parent || nvml_has_instances(device))
        return NVML_ERROR_NOT_SUPPORTED;
    device_lock(device);
    *rates = (struct utilization){device->gpu_util_percent, device->memory_util_percent};
    device_unlock(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(void *handle, unsigned *power_mw)
{
    NVML_DEVICE(device, handle);
    if (device->spec.mig_parent)
        return NVML_ERROR_NOT_SUPPORTED;
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
    if (device->spec.mig_parent)
        return NVML_ERROR_NOT_SUPPORTED;
    device_lock(device);
    double span_s = (double)(device->now_ns - device->started_ns) / NS_PER_S;
    double active_s = (double)device->total.sm_ns / device->spec.sms / NS_PER_S;
    device_unlock(device);
    double range_mw = (double)(device->spec.max_power_mw - device->spec.idle_power_mw);
    *energy_mj = (unsigned long long)((double)device->spec.idle_power_mw * span_s + range_mw * active_s);
    return NVML_SUCCESS;
}

enum { IDLE_CELSIUS = 30, BUSY_CELSIUS = 80, SM_CLOCK_MHZ = 1410, CLOCK_SM = 1, SENSOR_GPU = 0 };

EXPORT int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius)
{
    NVML_DEVICE(device, handle);
    if (device->spec.mig_parent || sensor != SENSOR_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    device_lock(device);
    uint64_t idle_mw = device->spec.idle_power_mw;
    uint64_t above_mw = device->power_mw > idle_mw ? device->power_mw - idle_mw : 0;
    device_unlock(device);
    uint64_t range_mw = device->spec.max_power_mw - device->spec.idle_power_mw;
    *celsius = IDLE_CELSIUS + (unsigned)(range_mw ? above_mw * (BUSY_CELSIUS - IDLE_CELSIUS) / range_mw : 0);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetClockInfo(void *handle, unsigned clock, unsigned *mhz)
{
    NVML_DEVICE(device, handle);
    if (device->spec.mig_parent || clock != CLOCK_SM)
        return NVML_ERROR_NOT_SUPPORTED;
    *mhz = SM_CLOCK_MHZ;
    return NVML_SUCCESS;
}
