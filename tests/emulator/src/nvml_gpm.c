/* GPM: two snapshots of the device's integrals, and what lies between them. */
#include "nvml.h"

#include <math.h>
#include <stdlib.h>

enum metric {
    METRIC_GRAPHICS_UTIL = 1, /* engine active */
    METRIC_SM_UTIL = 2,
    METRIC_SM_OCCUPANCY = 3,
    METRIC_ANY_TENSOR_UTIL = 5,
    METRIC_DRAM_BW_UTIL = 10,
    METRIC_MAX = 477, /* size of the array in the caller's struct; only the first numMetrics are touched */
};

struct gpm_sample {
    const struct device *device; /* NULL until it was taken; compared, never followed */
    uint32_t sms;
    uint64_t at_ns;
    struct integrals total;
};

struct gpm_metric { /* nvmlGpmMetric_t */
    unsigned id;
    int result;
    double value;
    const char *short_name, *long_name, *unit;
};

struct gpm_request { /* nvmlGpmMetricsGet_t */
    unsigned version, count;
    struct gpm_sample *older, *newer;
    struct gpm_metric metrics[];
};

struct gpm_support { /* nvmlGpmSupport_t */
    unsigned version, supported;
};

EXPORT int nvmlGpmQueryDeviceSupport(void *handle, struct gpm_support *support)
{
    NVML_DEVICE(device, handle);
    if (support->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->supported = device->spec.gpm;
    return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(struct gpm_sample **sample)
{
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

EXPORT int nvmlGpmSampleFree(struct gpm_sample *sample)
{
    free(sample);
    return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleGet(void *handle, struct gpm_sample *sample)
{
    NVML_DEVICE(device, handle);
    if (!device->spec.gpm)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    device_lock(device);
    *sample = (struct gpm_sample){device, device->spec.sms, device->now_ns, device->total};
    device_unlock(device);
    return NVML_SUCCESS;
}

EXPORT int nvmlGpmMigSampleGet(void *handle, unsigned gpu_instance, struct gpm_sample *sample)
{
    NVML_DEVICE(device, handle);
    struct model *model = nvml_model();
    for (uint32_t i = 0; i < model->device_count; i++) {
        struct device *instance = &model->devices[i];
        if (instance->spec.mig_parent == device - model->devices + 1 && instance->spec.gpu_instance == gpu_instance)
            return nvmlGpmSampleGet(instance, sample);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static double percent(uint64_t newer, uint64_t older, double whole)
{
    double value = 100 * ((double)newer - (double)older) / whole;
    return value > 100 ? 100 : value;
}

/* As real hardware defines them: warps and tensor pipes are averaged over all multiprocessors and all time. */
static int fill(struct gpm_metric *metric, const struct gpm_sample *older, const struct gpm_sample *newer)
{
    double span_ns = (double)(newer->at_ns - older->at_ns);
    double sm_span_ns = span_ns * newer->sms;
    metric->unit = "%";
    switch (metric->id) {
    case METRIC_GRAPHICS_UTIL:
        metric->short_name = metric->long_name = "graphics_util";
        metric->value = percent(newer->total.busy_ns, older->total.busy_ns, span_ns);
        return NVML_SUCCESS;
    case METRIC_SM_UTIL:
        metric->short_name = metric->long_name = "sm_util";
        metric->value = percent(newer->total.sm_ns, older->total.sm_ns, sm_span_ns);
        return NVML_SUCCESS;
    case METRIC_SM_OCCUPANCY:
        metric->short_name = metric->long_name = "sm_occupancy";
        metric->value = percent(newer->total.warp_sm_ns, older->total.warp_sm_ns, sm_span_ns);
        return NVML_SUCCESS;
    case METRIC_ANY_TENSOR_UTIL:
        metric->short_name = metric->long_name = "any_tensor_util";
        metric->value = percent(newer->total.tensor_sm_ns, older->total.tensor_sm_ns, sm_span_ns);
        return NVML_SUCCESS;
    case METRIC_DRAM_BW_UTIL:
        metric->short_name = metric->long_name = "dram_bw_util";
        metric->value = percent(newer->total.dram_ns, older->total.dram_ns, span_ns);
        return NVML_SUCCESS;
    default:
        metric->value = NAN;
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

EXPORT int nvmlGpmMetricsGet(struct gpm_request *request)
{
    if (!request || request->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct gpm_sample *older = request->older, *newer = request->newer;
    if (!older || !newer || !older->device || older->device != newer->device || older->at_ns >= newer->at_ns ||
        request->count > METRIC_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < request->count; i++)
        request->metrics[i].result = fill(&request->metrics[i], older, newer);
    return NVML_SUCCESS;
}
