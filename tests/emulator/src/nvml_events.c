/* Events: XID errors since a device was registered, told once each (the last code where several came). */
#include "nvml.h"

#include <stdlib.h>

#define EVENT_XID 0x8ull
#define NO_INSTANCE 0xffffffffu

struct event_set {
    struct {
        struct device *device;
        uint64_t told;
    } entries[MAX_DEVICES];
    unsigned count;
};

struct event { /* nvmlEventData_t */
    struct device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

EXPORT int nvmlEventSetCreate(struct event_set **set)
{
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

EXPORT int nvmlEventSetFree(struct event_set *set)
{
    free(set);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, struct event_set *set)
{
    NVML_DEVICE(device, handle);
    if (device->spec.mig_parent || !(types & EVENT_XID) || set->count == MAX_DEVICES)
        return NVML_ERROR_NOT_SUPPORTED;
    set->entries[set->count].device = device;
    set->entries[set->count++].told = device->xid_count;
    return NVML_SUCCESS;
}

/* Waits never: the callers here ask with a timeout of 0. */
EXPORT int nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms)
{
    (void)timeout_ms;
    if (!nvml_model() || !model_alive(nvml_model()))
        return nvml_refusal();
    for (unsigned i = 0; i < set->count; i++) {
        struct device *device = set->entries[i].device;
        device_lock(device);
        bool fresh = device->xid_count != set->entries[i].told;
        set->entries[i].told = device->xid_count;
        *event = (struct event){device, EVENT_XID, device->xid, NO_INSTANCE, NO_INSTANCE};
        device_unlock(device);
        if (fresh)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_TIMEOUT;
}
