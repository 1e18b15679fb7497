/* The C ABI of libcuda.so.1: launches, streams, events. */
#include "cuda_abi.h"

struct launch_config { /* CUlaunchConfig */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

static uint64_t volume(unsigned x, unsigned y, unsigned z)
{
    return (uint64_t)x * y * z;
}

EXPORT CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)shared, (void)extra;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

EXPORT CUresult cuLaunchKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                    unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)shared, (void)extra;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

EXPORT CUresult cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                          unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters)
{
    (void)shared;
    return launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters);
}

static int launch_configured(const struct launch_config *config, void *function, void **parameters)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, volume(config->grid_x, config->grid_y, config->grid_z),
                  volume(config->block_x, config->block_y, config->block_z), config->stream, parameters);
}

EXPORT CUresult cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra)
{
    (void)extra;
    return launch_configured(config, function, parameters);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const void *config, void *function, void **parameters, void **extra)
{
    (void)extra;
    return launch_configured(config, function, parameters);
}

/* --- streams and events --- */
EXPORT CUresult cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    return stream_create(stream);
}

EXPORT CUresult cuStreamDestroy_v2(void *stream)
{
    return stream_destroy(stream);
}

EXPORT CUresult cuStreamSynchronize(void *stream)
{
    return stream_wait(stream);
}

EXPORT CUresult cuStreamSynchronize_ptsz(void *stream)
{
    return stream_wait(stream);
}

EXPORT CUresult cuStreamQuery(void *stream)
{
    return stream_query(stream);
}

EXPORT CUresult cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    return event_create(event);
}

EXPORT CUresult cuEventRecord(void *event, void *stream)
{
    return event_record(event, stream);
}

EXPORT CUresult cuEventRecord_ptsz(void *event, void *stream)
{
    return event_record(event, stream);
}

EXPORT CUresult cuEventSynchronize(void *event)
{
    return event_wait(event);
}

EXPORT CUresult cuEventQuery(void *event)
{
    return event_query(event);
}

EXPORT CUresult cuEventDestroy_v2(void *event)
{
    return event_destroy(event);
}
