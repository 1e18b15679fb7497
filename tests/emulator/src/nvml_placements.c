/* MIG: where on a GPU an instance lies, and where one of one slice may begin: as an H100 has it. */
#include "nvml.h"

#include <stdio.h>

#define ONE_SLICE 0       /* NVML_GPU_INSTANCE_PROFILE_1_SLICE */
#define ONE_SLICE_ID 19   /* the profile's id as nvidia-smi mig -lgip has it */
#define ONE_SLICE_PLACES 7 /* at 0 to 6 of eight slots, nvidia-smi mig -lgipp */

struct placement { /* nvmlGpuInstancePlacement_t */
    unsigned start, size;
};

struct instance_info { /* nvmlGpuInstanceInfo_t */
    void *device;
    unsigned id, profile;
    struct placement placement;
};

struct profile_info { /* nvmlGpuInstanceProfileInfo_v2_t */
    unsigned version, id, peer_to_peer, slices, instances, multiprocessors;
    unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
    unsigned long long memory_mib;
    char name[96];
};

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(void *handle, unsigned profile, struct profile_info *info)
{
    NVML_DEVICE(device, handle);
    if (device->spec.compute_major < 8 || profile != ONE_SLICE)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (struct profile_info){.version = info->version, .id = ONE_SLICE_ID, .slices = 1,
                                  .instances = ONE_SLICE_PLACES};
    snprintf(info->name, sizeof info->name, "MIG 1g.10gb");
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *handle, unsigned profile, struct placement *places,
                                                         unsigned *count)
{
    NVML_DEVICE(device, handle);
    if (device->spec.compute_major < 8 || profile != ONE_SLICE_ID)
        return NVML_ERROR_NOT_SUPPORTED;
    if (places && *count < ONE_SLICE_PLACES)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    *count = ONE_SLICE_PLACES;
    for (unsigned i = 0; places && i < ONE_SLICE_PLACES; i++)
        places[i] = (struct placement){i, 1};
    return NVML_SUCCESS;
}

/* An instance whose placement was not stated is one that the caller may not look at. */
EXPORT int nvmlDeviceGetGpuInstanceById(void *handle, unsigned id, void **instance)
{
    NVML_DEVICE(gpu, handle);
    struct model *model = nvml_model();
    for (uint32_t i = 0; i < model->device_count; i++) {
        struct device_spec *spec = &model->devices[i].spec;
        if (spec->mig_parent == gpu->spec.index + 1 && spec->gpu_instance == id) {
            *instance = &model->devices[i];
            return spec->placement_size ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT int nvmlGpuInstanceGetInfo(void *instance, struct instance_info *info)
{
    NVML_DEVICE(device, instance);
    struct device_spec *spec = &device->spec;
    *info = (struct instance_info){.id = spec->gpu_instance,
                                   .placement = {spec->placement_start, spec->placement_size}};
    return NVML_SUCCESS;
}
