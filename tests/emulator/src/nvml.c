/* The C ABI of libnvidia-ml.so.1, as far as a monitor needs it. What is missing here is missing for the caller
 * too: pynvml then raises NVMLError_FunctionNotFound. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DRIVER_VERSION "550.54.15"
#define CUDA_VERSION 12040

static struct model *model;
static unsigned starts; /* nvmlInit calls that no nvmlShutdown has answered */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static struct device *known(void *handle)
{
    if (!model || !model_alive(model))
        return NULL;
    struct device *device = handle;
    for (uint32_t i = 0; i < model->device_count; i++)
        if (device == &model->devices[i])
            return device;
    return NULL;
}

struct device *nvml_device(void *handle)
{
    struct device *device = known(handle);
    return device && device->xid == XID_OFF_THE_BUS ? NULL : device;
}

int nvml_refusal_of(void *handle)
{
    return known(handle) ? NVML_ERROR_GPU_IS_LOST : nvml_refusal();
}

struct model *nvml_model(void)
{
    return model;
}

int nvml_refusal(void)
{
    if (!model)
        return NVML_ERROR_UNINITIALIZED;
    return model_alive(model) ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_GPU_IS_LOST;
}

static int start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!model)
        model = model_open();
    bool started = model != NULL;
    starts += started;
    pthread_mutex_unlock(&start_lock);
    return started ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

static int write_text(char *buffer, unsigned length, const char *text)
{
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return start();
}

EXPORT int nvmlInit_v2(void)
{
    return start();
}

EXPORT int nvmlShutdown(void)
{
    pthread_mutex_lock(&start_lock);
    bool started = starts > 0;
    if (started && --starts == 0) {
        model_close(model);
        model = NULL;
    }
    pthread_mutex_unlock(&start_lock);
    return started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

EXPORT const char *nvmlErrorString(int code)
{
    switch (code) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *buffer, unsigned length)
{
    return model ? write_text(buffer, length, DRIVER_VERSION) : NVML_ERROR_UNINITIALIZED;
}

EXPORT int nvmlSystemGetNVMLVersion(char *buffer, unsigned length)
{
    return model ? write_text(buffer, length, "12." DRIVER_VERSION) : NVML_ERROR_UNINITIALIZED;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version)
{
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!model)
        return NVML_ERROR_UNINITIALIZED;
    *count = 0;
    for (uint32_t i = 0; i < model->device_count; i++)
        *count += !model->devices[i].spec.mig_parent;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    if (!model || !model_alive(model))
        return nvml_refusal();
    for (uint32_t i = 0; i < model->device_count; i++)
        if (!model->devices[i].spec.mig_parent && index-- == 0) {
            *handle = &model->devices[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static void uuid_text(const struct device *device, char text[41])
{
    int at = sprintf(text, "%s-", device->spec.mig_parent ? "MIG" : "GPU");
    for (int i = 0; i < UUID_BYTES; i++)
        at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", device->spec.uuid[i]);
}

static void bus_text(const struct device *device, char text[32])
{
    snprintf(text, 32, "%08X:%02X:00.0", 0u, 0x10u + device->spec.index);
}

static int find_device(const char *wanted, void (*name)(const struct device *, char *), void **handle)
{
    if (!model || !wanted || !model_alive(model))
        return nvml_refusal();
    for (uint32_t i = 0; i < model->device_count; i++) {
        char text[64];
        name(&model->devices[i], text);
        if (!strcasecmp(text, wanted)) {
            *handle = &model->devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
    return find_device(uuid, uuid_text, handle);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle)
{
    return find_device(bus, bus_text, handle);
}

EXPORT int nvmlDeviceGetIndex(void *handle, unsigned *index)
{
    NVML_DEVICE(device, handle);
    *index = device->spec.index;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
    NVML_DEVICE(device, handle);
    *minor = device->spec.minor ? device->spec.minor - 1 : device->spec.index;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetName(void *handle, char *buffer, unsigned length)
{
    NVML_DEVICE(device, handle);
    char text[NAME_BYTES + PROFILE_BYTES + 8];
    bool instance = device->spec.mig_parent;
    snprintf(text, sizeof text, "%s%s%s", device->spec.name, instance ? " MIG " : "", device->spec.profile);
    return write_text(buffer, length, text);
}

EXPORT int nvmlDeviceGetUUID(void *handle, char *buffer, unsigned length)
{
    NVML_DEVICE(device, handle);
    char text[41];
    uuid_text(device, text);
    return write_text(buffer, length, text);
}

struct pci_info { /* nvmlPciInfo_t */
    char legacy_bus[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *handle, struct pci_info *pci)
{
    NVML_DEVICE(device, handle);
    *pci = (struct pci_info){.bus = 0x10 + device->spec.index, .id = 0x233010de};
    bus_text(device, pci->bus_id);
    snprintf(pci->legacy_bus, sizeof pci->legacy_bus, "0000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor)
{
    NVML_DEVICE(device, handle);
    *major = (int)device->spec.compute_major;
    *minor = (int)device->spec.compute_minor;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(void *handle, unsigned *mode)
{
    NVML_DEVICE(device, handle);
    *mode = device->spec.scheduling == SCHED_EXCLUSIVE ? 3 : 0; /* EXCLUSIVE_PROCESS, DEFAULT */
    return NVML_SUCCESS;
}
