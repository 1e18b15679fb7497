/* The C ABI of libcuda.so.1: begin and end of captures. Modes, dependencies and what a graphics interface would do with
 * it are not looked at. */
#include "cuda_abi.h"

static int begin_new(void *stream)
{
    return capture_begin(stream, graph_new());
}

static int end_somewhere(void *stream, void **graph)
{
    return graph ? capture_end(stream, (struct graph **)graph) : CUDA_ERROR_INVALID_VALUE;
}

TWIN(cuStreamBeginCapture, _ptsz, (void *stream), begin_new(stream))
TWIN(cuStreamBeginCapture_v2, _ptsz, (void *stream, int mode), ((void)mode, begin_new(stream)))
TWIN(cuStreamBeginCaptureToGraph, _ptsz,
     (void *stream, void *graph, const void *after, const void *edges, size_t count, int mode),
     ((void)after, (void)edges, (void)count, (void)mode, capture_begin(stream, graph)))
TWIN(cuStreamEndCapture, _ptsz, (void *stream, void **graph), end_somewhere(stream, graph))

EXPORT CUresult cuStreamBeginCaptureToCig(void *stream, void *parameters)
{
    return parameters ? begin_new(stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuStreamEndCaptureToCig(void *stream)
{
    return capture_end(stream, NULL);
}

EXPORT CUresult cuStreamBeginRecaptureToGraph(void *stream, int mode, void *graph, void *function, void *data)
{
    (void)mode, (void)function, (void)data;
    return capture_begin(stream, graph);
}
