/* NVML's view of processes: who has a context, with how much memory, and who used the device of late. */
#include "nvml.h"

#define NO_INSTANCE 0xffffffffu

struct process_info { /* nvmlProcessInfo_v2_t, also the type of the _v3 calls */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct process_utilization { /* nvmlProcessUtilizationSample_t, percent */
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

struct process_utilization_info { /* nvmlProcessUtilizationInfo_v1_t */
    unsigned long long time_us;
    unsigned pid, sm, memory, encoder, decoder, jpeg, optical_flow;
};

struct processes_utilization { /* nvmlProcessesUtilizationInfo_v1_t */
    unsigned version, count;
    unsigned long long last_seen_us;
    struct process_utilization_info *samples;
};

static int list_processes(void *handle, unsigned *count, struct process_info *processes)
{
    NVML_DEVICE(device, handle);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = processes ? *count : 0, found = 0;
    device_lock(device);
    for (uint32_t i = 0; i < device->clients_used; i++) {
        const struct client *client = &device->clients[i];
        if (client->state != CLIENT_OPEN)
            continue;
        if (found < room)
            processes[found] = (struct process_info){
                (unsigned)client->pid, client->memory_bytes,
                device->spec.mig_parent ? device->spec.gpu_instance : NO_INSTANCE,
                device->spec.mig_parent ? device->spec.compute_instance : NO_INSTANCE};
        found++;
    }
    device_unlock(device);
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process_info *processes)
{
    return list_processes(handle, count, processes);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process_info *processes)
{
    return list_processes(handle, count, processes);
}

static int no_processes(void *handle, unsigned *count)
{
    NVML_DEVICE(device, handle);
    (void)device;
    *count = 0;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, struct process_info *processes)
{
    (void)processes;
    return no_processes(handle, count);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned *count, struct process_info *processes)
{
    (void)processes;
    return no_processes(handle, count);
}

/* Processes that did work in the last sample, if it is newer than the caller has seen; `found` counts them all,
 * `room` of them are written. */
static unsigned recent_samples(struct device *device, unsigned long long last_seen_us, unsigned room,
                               struct process_utilization *samples)
{
    unsigned found = 0;
    device_lock(device);
    for (uint32_t i = 0; i < device->clients_used; i++) {
        const struct client *client = &device->clients[i];
        if (client->state != CLIENT_OPEN || !client->sm_util_percent ||
            client->sample_realtime_us <= last_seen_us)
            continue;
        if (found < room)
            samples[found] = (struct process_utilization){(unsigned)client->pid, client->sample_realtime_us,
                                                          client->sm_util_percent, client->memory_util_percent,
                                                          0, 0};
        found++;
    }
    device_unlock(device);
    return found;
}

static int outcome(unsigned found, unsigned room)
{
    if (!found)
        return NVML_ERROR_NOT_FOUND;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetProcessUtilization(void *handle, struct process_utilization *samples, unsigned *count,
                                           unsigned long long last_seen_us)
{
    NVML_DEVICE(device, handle);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->spec.mig_parent || nvml_has_instances(device))
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned room = samples ? *count : 0;
    *count = recent_samples(device, last_seen_us, room, samples);
    return outcome(*count, room);
}

EXPORT int nvmlDeviceGetProcessesUtilizationInfo(void *handle, struct processes_utilization *info)
{
    NVML_DEVICE(device, handle);
    if (!info || info->version != (sizeof *info | 1u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct process_utilization samples[MAX_CLIENTS];
    unsigned room = info->samples ? info->count : 0;
    info->count = recent_samples(device, info->last_seen_us, MAX_CLIENTS, samples);
    for (unsigned i = 0; i < info->count && i < room; i++)
        info->samples[i] = (struct process_utilization_info){
            samples[i].time_us, samples[i].pid, samples[i].sm, samples[i].memory, 0, 0, 0, 0};
    return outcome(info->count, room);
}
