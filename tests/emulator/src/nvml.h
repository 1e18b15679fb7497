/* What the parts of libnvidia-ml share. */
#ifndef GPUEMU_NVML_H
#define GPUEMU_NVML_H
#include "model.h"

#define EXPORT __attribute__((visibility("default"), noinline, noclone, used))

#define XID_OFF_THE_BUS 79 /* a device that had it is lost */

enum nvml_result {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

struct device *nvml_device(void *handle); /* NULL: no such device, not started, or lost */
int nvml_refusal_of(void *handle);        /* why it was NULL */
int nvml_refusal(void);                   /* why there are no devices */
struct model *nvml_model(void);           /* NULL before nvmlInit */
bool nvml_has_instances(const struct device *device); /* a whole GPU in MIG mode */

#define NVML_DEVICE(name, handle)                                                                                    \
    struct device *name = nvml_device(handle);                                                                       \
    if (!name)                                                                                                       \
    return nvml_refusal_of(handle)

#endif
