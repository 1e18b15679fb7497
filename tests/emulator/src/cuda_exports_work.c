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

TWIN(cuLaunchKernel, _ptsz,
     (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
      void *stream, void **parameters, void **extra),
     ((void)shared, (void)extra, launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters)))

TWIN(cuLaunchCooperativeKernel, _ptsz,
     (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
      void *stream, void **parameters),
     ((void)shared, launch(function, volume(gx, gy, gz), volume(bx, by, bz), stream, parameters)))

static int launch_configured(const struct launch_config *config, void *function, void **parameters)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, volume(config->grid_x, config->grid_y, config->grid_z),
                  volume(config->block_x, config->block_y, config->block_z), config->stream, parameters);
}

TWIN(cuLaunchKernelEx, _ptsz, (const void *config, void *function, void **parameters, void **extra),
     ((void)extra, launch_configured(config, function, parameters)))

struct listed_launch { /* CUDA_LAUNCH_PARAMS */
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void *stream, **parameters;
};

/* All on the current context's device: the emulator knows no link between devices. */
EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(const struct listed_launch *list, unsigned count, unsigned flags)
{
    int result = list && count && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; !result && i < count; i++) {
        const unsigned *grid = list[i].grid, *block = list[i].block;
        result = launch(list[i].function, volume(grid[0], grid[1], grid[2]), volume(block[0], block[1], block[2]),
                        list[i].stream, list[i].parameters);
    }
    return result;
}

/* The first CUDA versions set a block's shape elsewhere: here it is one warp. */
static int launch_legacy(void *function, int width, int height, void *stream)
{
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, (uint64_t)width * (uint64_t)height, 32, stream, NULL);
}

EXPORT CUresult cuLaunch(void *function)
{
    return launch_legacy(function, 1, 1, NULL);
}

EXPORT CUresult cuLaunchGrid(void *function, int width, int height)
{
    return launch_legacy(function, width, height, NULL);
}

EXPORT CUresult cuLaunchGridAsync(void *function, int width, int height, void *stream)
{
    return launch_legacy(function, width, height, stream);
}

/* Called at once, not after what is queued before it. */
static int call_host(void *stream, void (*function)(void *), void *data)
{
    if (function && stream_is_captured(stream))
        return CUDA_SUCCESS; /* a graph has kernels and copies here, and no functions */
    int result = function ? stream_query(stream) : CUDA_ERROR_INVALID_VALUE;
    if (result && result != CUDA_ERROR_NOT_READY)
        return result;
    function(data);
    return CUDA_SUCCESS;
}

TWIN(cuLaunchHostFunc, _ptsz, (void *stream, void (*function)(void *), void *data),
     call_host(stream, function, data))

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
