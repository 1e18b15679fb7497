/* MIG: an instance is a device of the model of its own, with the GPU that it lies on as its parent. */
#include "nvml.h"

#define MAX_INSTANCES 7 /* of the boards that are emulated; an A30 has 4 */

struct attributes { /* nvmlDeviceAttributes_t */
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, optical_flows;
    unsigned gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

static uint32_t number_of(const struct device *device)
{
    return (uint32_t)(device - nvml_model()->devices) + 1;
}

static struct device *instance_at(const struct device *gpu, unsigned index)
{
    struct model *model = nvml_model();
    for (uint32_t i = 0; i < model->device_count; i++)
        if (model->devices[i].spec.mig_parent == number_of(gpu) && index-- == 0)
            return &model->devices[i];
    return NULL;
}

bool nvml_has_instances(const struct device *device)
{
    return instance_at(device, 0) != NULL;
}

EXPORT int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
    NVML_DEVICE(device, handle);
    if (device->spec.compute_major < 8 || device->spec.mig_parent)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = nvml_has_instances(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count)
{
    NVML_DEVICE(device, handle);
    *count = device->spec.compute_major < 8 ? 0 : MAX_INSTANCES;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *is_mig)
{
    NVML_DEVICE(device, handle);
    *is_mig = device->spec.mig_parent != 0;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **mig)
{
    NVML_DEVICE(device, handle);
    *mig = instance_at(device, index);
    return *mig ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *handle, void **gpu)
{
    NVML_DEVICE(device, handle);
    if (!device->spec.mig_parent)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &nvml_model()->devices[device->spec.mig_parent - 1];
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id)
{
    NVML_DEVICE(device, handle);
    *id = device->spec.gpu_instance;
    return device->spec.mig_parent ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id)
{
    NVML_DEVICE(device, handle);
    *id = device->spec.compute_instance;
    return device->spec.mig_parent ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetAttributes_v2(void *handle, struct attributes *attributes)
{
    NVML_DEVICE(device, handle);
    if (!device->spec.mig_parent)
        return NVML_ERROR_NOT_SUPPORTED;
    *attributes = (struct attributes){.multiprocessors = device->spec.sms,
                                      .gpu_slices = device->spec.slices,
                                      .compute_slices = device->spec.slices,
                                      .memory_mib = device->spec.memory_bytes >> 20};
    return NVML_SUCCESS;
}
